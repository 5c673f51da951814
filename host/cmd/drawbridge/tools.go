package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/control"
)

func newTools(g *globals) *cobra.Command {
	return g.inProject(g.addressesHost(g.wantsJSON(&cobra.Command{
		Use:   "tools",
		Short: "List the tools that \"local\" sees, and the providers that have none",
		Long: `Lists what a client on stdio sees: everything, or once principals are declared what
grants name "local" for (` + "`drawbridge access`" + ` tells of any principal). Asks the running host of this configuration. Where there is none, it starts a fresh
server for each provider, lists what clients would see, and ends them.

Exit codes: 0 every provider answered, 1 one did not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			host, done, err := g.anyHost(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			list, err := host.Tools(cmd.Context(), g.project)
			if err != nil {
				return err
			}
			if g.json {
				err = writeJSON(cmd.OutOrStdout(), list)
			} else {
				err = writeTools(cmd.OutOrStdout(), list)
			}
			if err != nil {
				return err
			}
			for _, p := range list.Providers {
				if p.Reason != "" {
					return exit(exitError)
				}
			}
			return nil
		},
	})))
}

// fresh starts a host for one command. Its servers end with the command.
func (g *globals) fresh(ctx context.Context) (*host, func(), error) {
	cfg, err := g.lockedReadable()
	if err != nil {
		return nil, nil, err
	}
	h, done, err := g.begun(ctx, cfg, true)
	if err != nil {
		return nil, nil, err
	}
	fmt.Fprintln(g.std.err, "drawbridge: fresh servers were started for this command; their state ends with it")
	return h, done, nil
}

// begun is a host of a command's own, ready to start servers; see newHost for fresh.
// The function returned ends it.
func (g *globals) begun(ctx context.Context, cfg *config.Config, fresh bool) (*host, func(), error) {
	h, err := g.newHost(ctx, cfg, fresh)
	if err != nil {
		return nil, nil, err
	}
	done := func() { h.close(g.std.hurry) }
	if err := g.begin(ctx, h); err != nil {
		done()
		return nil, nil, err
	}
	return h, done, nil
}

// writeJSON prints a value for programs.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func writeTools(w io.Writer, list control.ToolList) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tPROVIDER\tEFFECT\tDESCRIPTION")
	for _, t := range list.Tools {
		effect := "read-only"
		if t.Effectful {
			effect = "effectful"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", t.Name, t.Provider, effect, firstLine(t.Definition))
	}
	for _, p := range list.Providers {
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
