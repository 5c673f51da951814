package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/control"
	"github.com/drawbridge-mcp/drawbridge/host/journal"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// outcomes are the words that --outcome takes: the closed set.
var outcomes = []string{
	string(broker.OK), string(broker.ToolError), string(broker.RPCError), string(broker.Denied),
	string(broker.Stale), string(broker.Unavailable), string(broker.Cancelled), string(broker.Unknown),
}

// callsFlags are the flags of `calls`.
type callsFlags struct {
	outcomes            []string
	provider, principal string
	since               string
	follow              bool
	last                int
}

func newCalls(g *globals) *cobra.Command {
	var f callsFlags
	cmd := g.addressesHost(g.wantsJSON(&cobra.Command{
		Use:   "calls",
		Short: "Print what was called, and how each call ended",
		Long: `Prints the calls that the journal in STATE_DIR/journal knows, the earliest first:
of all hosts that share the state dir, or with --host of one. It needs no running
host. A call in flight has no outcome yet; one that was in flight when its host died
is unknown. What the journal has lost, if anything, is said on standard error.

With --json each call is one object on one line, and all of them are printed.
With -f it goes on with the calls that end from now on.

Exit codes: 0 printed, 1 the journal cannot be read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := f.filter(g, time.Now(), cmd.Flags().Changed("lines"))
			if err != nil {
				return err
			}
			x, err := g.openIndex(cmd)
			if err != nil {
				return err
			}
			defer x.Close() //nolint:errcheck // it was only read
			return g.printCalls(cmd, x, filter, f.follow)
		},
	}))
	cmd.Flags().StringSliceVar(&f.outcomes, "outcome", nil, "only calls with this `OUTCOME`, or one of several: "+strings.Join(outcomes, ", "))
	cmd.Flags().StringVar(&f.provider, "provider", "", "only calls to this `PROVIDER`")
	cmd.Flags().StringVar(&f.principal, "principal", "", "only calls of this `PRINCIPAL`")
	cmd.Flags().StringVar(&f.since, "since", "", "only calls from this `TIME` on: a duration before now such as 90m or 7d, a date, or an RFC 3339 time")
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on with calls as they end")
	cmd.Flags().IntVarP(&f.last, "lines", "n", 100, "how many of the last `CALLS`; a negative number, or --json without this flag, for all")
	cmd.AddCommand(newSettle(g))
	return cmd
}

func (f callsFlags) filter(g *globals, now time.Time, lines bool) (journal.Filter, error) {
	for _, o := range f.outcomes {
		if !slices.Contains(outcomes, o) {
			return journal.Filter{}, fmt.Errorf("--outcome %q: it is one of %s", o, strings.Join(outcomes, ", "))
		}
	}
	out := journal.Filter{Outcomes: f.outcomes, Provider: f.provider, Principal: f.principal, Host: g.host, Last: max(0, f.last)}
	if g.json && !lines {
		out.Last = 0
	} else if f.last == 0 {
		return out, errors.New("--lines 0: it prints nothing; use a negative number for all")
	}
	if f.since == "" {
		return out, nil
	}
	var err error
	out.Since, err = parseSince(f.since, now)
	return out, err
}

// parseSince reads a time, or how long before now it is.
func parseSince(s string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, s, time.Local); err == nil {
		return t, nil
	}
	if d, err := config.ParseDuration(s); err == nil {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("--since %q: use a duration such as 90m or 7d, a date such as 2026-01-31, or an RFC 3339 time", s)
}

// openIndex opens the index of the state dir that is meant, brought to the files.
func (g *globals) openIndex(cmd *cobra.Command) (*journal.Index, error) {
	state, err := g.stateDirHere(cmd)
	if err != nil {
		return nil, err
	}
	x, err := journal.OpenIndex(cmd.Context(), journal.IndexOptions{
		Dir: filepath.Join(state, journal.Folder), Dead: deadIn(cmd.Context(), state),
		Logger: slog.New(slog.NewTextHandler(g.std.err, nil)),
	})
	if err != nil {
		return nil, err
	}
	if err := x.Update(cmd.Context()); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// stateDirHere is the state dir whose files are meant: that of the host with --host;
// else of the hosts of this configuration, or its own where none runs. Hosts of other
// configurations are meant only where there is none here.
func (g *globals) stateDirHere(cmd *cobra.Command) (string, error) {
	path, err := g.configPath()
	if g.host != "" || err != nil {
		return g.stateDir(cmd)
	}
	hosts, err := control.Hosts(cmd.Context(), supervise.RunBases(), ofConfig(path))
	if err != nil {
		return "", err
	}
	if len(hosts) > 0 {
		return g.stateDir(cmd)
	}
	cfg, err := g.readable()
	if err != nil {
		return "", err
	}
	return cfg.Host.StateDir, nil
}

// printCalls prints what the journal has, and with follow what comes.
func (g *globals) printCalls(cmd *cobra.Command, x *journal.Index, filter journal.Filter, follow bool) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	lost, err := x.Lost(ctx)
	if err != nil {
		return err
	}
	writeLost(g.std.err, lost)
	each := func(r journal.Row) error { return writeCall(out, r) }
	if g.json {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		each = func(r journal.Row) error { return enc.Encode(r) }
	} else if _, err := fmt.Fprintf(out, callColumns, "TIME", "ID", "PRINCIPAL", "PROVIDER", "TOOL", "TOOK", "RESULT", "OUTCOME"); err != nil {
		return err
	}
	if follow { // what is in flight is printed when it ends
		if err := x.Follow(ctx, filter, each); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
	for row, err := range x.Calls(ctx, filter) {
		if err != nil {
			return err
		}
		if err := each(row); err != nil {
			return err
		}
	}
	return nil
}

// callColumns are as wide as most calls need; what is wider shifts the rest of its line.
const callColumns = "%-19s  %-16s  %-10s  %-12s  %-24s  %7s  %8s  %s\n"

func writeCall(w io.Writer, r journal.Row) error {
	how := r.Outcome
	switch {
	case how == "":
		how = "in flight"
	case r.Reason != "":
		how += " (" + r.Reason + ")"
	}
	if r.Settled != nil {
		how += ", settled: " + r.Settled.As
	}
	took := "-"
	if r.Outcome != "" {
		took = (time.Duration(r.DurationMS) * time.Millisecond).String()
	}
	_, err := fmt.Fprintf(w, callColumns, r.Time.Local().Format(time.DateTime), printable(r.ID), printable(r.Principal), dash(r.Provider), dash(r.Tool),
		took, bytesText(r.ResultBytes), printable(how))
	return err
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return printable(s)
}

// printable keeps what others chose from acting on a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// bytesText is a size for people: 812B, 3.4K, 12M.
func bytesText(n int64) string {
	switch {
	case n == 0:
		return "-"
	case n < 1<<10:
		return fmt.Sprintf("%dB", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1fK", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1fM", float64(n)/(1<<20))
}

// writeLost says what a journal has lost.
func writeLost(w io.Writer, lost []journal.Lost) {
	for _, l := range lost {
		switch {
		case l.Refusals > 0:
			fmt.Fprintf(w, "drawbridge: %s: %d refusals could not be written, and are missing here\n", l.File, l.Refusals)
		case l.Places == 1:
			fmt.Fprintf(w, "drawbridge: %s: the %d bytes at byte %d are lost: %s\n", l.File, l.Size, l.At, l.Why)
		default:
			fmt.Fprintf(w, "drawbridge: %s: %d bytes in %d places are lost, the first at byte %d: %s\n", l.File, l.Size, l.Places, l.At, l.Why)
		}
	}
}

func newSettle(g *globals) *cobra.Command {
	var note string
	cmd := g.addressesHost(&cobra.Command{
		Use:   "settle ID ok|not-run --note TEXT",
		Short: "Write down what became of a call whose outcome is unknown",
		Long: `Writes into the journal, for good, what you found out about a call whose outcome
is unknown: that it ran (ok), or that it did not (not-run). The call stays
unknown, with this beside it; who repeats its call_id is told so, and nothing runs.
It needs no running host.

Exit codes: 0 it is settled, 1 it cannot be.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			x, err := g.openIndex(cmd)
			if err != nil {
				return err
			}
			defer x.Close() //nolint:errcheck // what is settled is in a file of its own
			ids := journal.NewCallIDs(journal.CallIDOptions{Path: filepath.Join(filepath.Dir(x.Dir()), journal.CallIDFile)})
			defer ids.Close() //nolint:errcheck // each change is on the disk when it is made
			note = withoutKept(filepath.Dir(x.Dir()), note)
			row, again, err := x.Settle(cmd.Context(), journal.Settlement{ID: args[0], As: args[1], Note: note, By: whoAmI(), Time: time.Now()}, ids)
			if err != nil {
				return err
			}
			was := ""
			if again {
				was = ", as it was"
			}
			fmt.Fprintf(cmd.OutOrStdout(), "the call %s of %s (%s) is settled: %s%s\n", row.ID, dash(row.Tool), dash(row.Provider), row.Settled.As, was)
			return nil
		},
	})
	cmd.Flags().StringVar(&note, "note", "", "how you know, as `TEXT`")
	_ = cmd.MarkFlagRequired("note") // the flag is there
	return cmd
}

// whoAmI is who runs this command, as the system knows them.
func whoAmI() string {
	u, err := user.Current()
	if err != nil {
		return "unknown"
	}
	return u.Username
}
