package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

func newCall(g *globals) *cobra.Command {
	return g.wantsJSON(&cobra.Command{
		Use:   "call PROVIDER TOOL [JSON]",
		Short: "Call one tool, through the broker, and print its result",
		Long: `Calls a tool by its provider's name and its own, with arguments as a JSON object.

Exit codes: 0 the tool answered, 3 it answered with isError, 1 anything else.`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments := "{}"
			if len(args) == 3 {
				arguments = args[2]
			}
			h, done, err := g.fresh(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			reply, err := h.callTool(cmd.Context(), args[0], args[1], arguments)
			if err != nil {
				return err
			}
			return g.printReply(cmd.OutOrStdout(), reply)
		},
	})
}

// callTool calls a provider's tool under the name that clients know it by.
func (h *host) callTool(ctx context.Context, provider, tool, arguments string) (broker.Reply, error) {
	if _, ok := h.sessions.State(provider); !ok {
		return broker.Reply{}, fmt.Errorf("no provider %q in %s", provider, h.cfg.Path)
	}
	if _, err := h.sessions.Get(ctx, provider); err != nil {
		return broker.Reply{}, err
	}
	t := find(h.catalog.Snapshot().Tools(), provider, tool)
	if t == nil {
		return broker.Reply{}, fmt.Errorf("provider %q has no tool %q that it exposes; see `drawbridge tools`", provider, tool)
	}
	params := fmt.Sprintf(`{"name":%s,"arguments":%s}`, rpc.Quote(t.Exposed), arguments)
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}`, params)
	request, err := rpc.Parse(rpc.FromClient, []byte(text))
	if err != nil {
		return broker.Reply{}, fmt.Errorf("the arguments are no JSON object: %w", err)
	}
	return h.broker.Call(ctx, broker.Call{
		Caller:  broker.Caller{Principal: access.Local},
		Request: request,
		Notify:  func(*rpc.Message) error { return nil },
	}), nil
}

func find(tools []*catalog.Tool, provider, name string) *catalog.Tool {
	for _, t := range tools {
		if t.Provider == provider && t.Name == name {
			return t
		}
	}
	return nil
}

func (g *globals) printReply(w io.Writer, reply broker.Reply) error {
	if reply.Err != nil {
		return reply.Err
	}
	if reply.Outcome == broker.RPCError {
		return fmt.Errorf("the server answered with an error: %s", reply.Message.Get("error"))
	}
	result := reply.Message.Get("result")
	if g.json {
		fmt.Fprintf(w, "%s\n", result)
	} else {
		printContent(w, result)
	}
	if reply.Outcome == broker.ToolError {
		return exit(exitTool)
	}
	return nil
}

// printContent prints the text of a result, and names what is not text.
func printContent(w io.Writer, result json.RawMessage) {
	var r struct {
		Content []struct {
			Type, Text, MimeType, URI string
		} `json:"content"`
		StructuredContent json.RawMessage `json:"structuredContent"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		fmt.Fprintf(w, "%s\n", result) // no shape we know: as it came
		return
	}
	for _, c := range r.Content {
		switch {
		case c.Type == "text":
			fmt.Fprintln(w, c.Text)
		case c.URI != "":
			fmt.Fprintf(w, "[%s %s]\n", c.Type, c.URI)
		default:
			fmt.Fprintf(w, "[%s %s; --json prints it]\n", c.Type, c.MimeType)
		}
	}
	if len(r.Content) == 0 && r.StructuredContent != nil {
		fmt.Fprintf(w, "%s\n", r.StructuredContent)
	}
}
