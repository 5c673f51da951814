package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/control"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

func newCall(g *globals) *cobra.Command {
	return g.inProject(g.addressesHost(g.wantsJSON(&cobra.Command{
		Use:   "call PROVIDER TOOL [JSON]",
		Short: "Call one tool, through the broker, and print its result",
		Long: `Calls a tool by its provider's name and its own, with arguments as a JSON object: in
the running host of this configuration, where it shares the session with every
other client, as the principal "local". Where there is none, a fresh server is started for this one call.

Exit codes: 0 the tool answered, 3 it answered with isError, 1 anything else.`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments := "{}"
			if len(args) == 3 {
				arguments = args[2]
			}
			if strings.TrimSpace(arguments) == "" { // a script's empty variable is not "no arguments"
				return fmt.Errorf("%w: nothing stands there", control.ErrArguments)
			}
			host, done, err := g.anyHost(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			reply, err := host.Call(cmd.Context(), control.CallRequest{
				Provider: args[0], Tool: args[1], Project: g.project, Arguments: json.RawMessage(arguments),
			})
			if err != nil {
				return err
			}
			return g.printReply(cmd.OutOrStdout(), reply)
		},
	})))
}

func (g *globals) printReply(w io.Writer, reply control.CallReply) error {
	switch reply.Outcome {
	case broker.OK, broker.ToolError:
	case broker.RPCError:
		return fmt.Errorf("the server answered with an error: %s", reply.Error)
	default:
		var e rpc.Error
		if err := json.Unmarshal(reply.Error, &e); err != nil {
			return fmt.Errorf("the call ended as %s: %s", reply.Outcome, reply.Error)
		}
		return &e
	}
	if g.json {
		fmt.Fprintf(w, "%s\n", reply.Result)
	} else {
		printContent(w, reply.Result)
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
