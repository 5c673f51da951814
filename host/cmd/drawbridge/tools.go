package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/catalog"
)

// listedTool is a tool in `tools --json`.
type listedTool struct {
	Name       string          `json:"name"`
	Provider   string          `json:"provider"`
	Tool       string          `json:"tool"`
	Digest     string          `json:"digest"`
	Effectful  bool            `json:"effectful"`
	Definition json.RawMessage `json:"definition"`
}

// listedProvider is a provider in `tools --json`; Reason says why it is not ready.
type listedProvider struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	Tools  int    `json:"tools"`
}

func newTools(g *globals) *cobra.Command {
	return g.wantsJSON(&cobra.Command{
		Use:   "tools",
		Short: "List the tools that clients see, and the providers that have none",
		Long: `Starts a fresh server for each provider, lists what clients would see, and ends them.

Exit codes: 0 every provider answered, 1 one did not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, done, err := g.fresh(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			providers := h.startAll(cmd.Context())
			tools := h.catalog.Snapshot().Tools()
			if g.json {
				err = writeToolsJSON(cmd.OutOrStdout(), tools, providers)
			} else {
				err = writeTools(cmd.OutOrStdout(), tools, providers)
			}
			if err != nil {
				return err
			}
			for _, p := range providers {
				if p.Reason != "" {
					return exit(exitError)
				}
			}
			return nil
		},
	})
}

// fresh starts a host for one command. Its servers end with the command.
func (g *globals) fresh(ctx context.Context) (*host, func(), error) {
	cfg, err := g.readable()
	if err != nil {
		return nil, nil, err
	}
	h, err := g.newHost(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	done := func() { h.close(g.std.hurry) }
	if err := g.begin(ctx, h); err != nil {
		done()
		return nil, nil, err
	}
	fmt.Fprintln(g.std.err, "drawbridge: fresh servers were started for this command; their state ends with it")
	return h, done, nil
}

// startAll starts every enabled provider and returns how each stands once all
// are ready or have failed.
func (h *host) startAll(ctx context.Context) []listedProvider {
	out := make([]listedProvider, len(h.specs))
	var all sync.WaitGroup
	for i, spec := range h.specs {
		all.Go(func() {
			out[i].Name = spec.Provider
			if _, err := h.sessions.Get(ctx, spec.Provider); err != nil {
				out[i].Reason = err.Error()
			}
			if state, ok := h.sessions.State(spec.Provider); ok {
				out[i].State = state.Name
			}
		})
	}
	all.Wait()
	for i := range out {
		for _, t := range h.catalog.Snapshot().Tools() {
			if t.Provider == out[i].Name {
				out[i].Tools++
			}
		}
	}
	return out
}

func writeToolsJSON(w io.Writer, tools []*catalog.Tool, providers []listedProvider) error {
	list := struct {
		Tools     []listedTool     `json:"tools"`
		Providers []listedProvider `json:"providers"`
	}{make([]listedTool, 0, len(tools)), providers}
	for _, t := range tools {
		list.Tools = append(list.Tools, listedTool{t.Exposed, t.Provider, t.Name, t.Digest, t.Effectful, t.Listed})
	}
	return writeJSON(w, list)
}

// writeJSON prints a value for programs.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func writeTools(w io.Writer, tools []*catalog.Tool, providers []listedProvider) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tPROVIDER\tEFFECT\tDESCRIPTION")
	for _, t := range tools {
		effect := "read-only"
		if t.Effectful {
			effect = "effectful"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", t.Exposed, t.Provider, effect, firstLine(t.Raw))
	}
	for _, p := range providers {
		if p.Reason != "" {
			fmt.Fprintf(table, "-\t%s\t%s\t%s\n", p.Name, p.State, p.Reason)
		}
	}
	return table.Flush()
}

// firstLine is the first line of a definition's description, cut for a table.
func firstLine(definition json.RawMessage) string {
	var d struct {
		Description string `json:"description"`
	}
	if json.Unmarshal(definition, &d) != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(d.Description), "\n")
	const most = 72
	if runes := []rune(line); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return line
}
