package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/control"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// statusTimeout is how long a host may take to say how it is. It waits for nothing.
const statusTimeout = 10 * time.Second

func newStatus(g *globals) *cobra.Command {
	return g.addressesHost(g.wantsJSON(&cobra.Command{
		Use:   "status [PROVIDER]",
		Short: "Say how the running host and its providers are",
		Long: `Prints the host's providers with their state, restarts and processes, and why those
that are not there are not. With a provider's name it prints how its last
instances ended, too.

Exit codes: 0 the host answered, 1 no host did, or it has no such provider.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			host, err := g.running(cmd.Context())
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), statusTimeout)
			defer cancel()
			s, err := host.Status(ctx)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if s.Providers = only(s.Providers, args[0]); len(s.Providers) == 0 {
					return fmt.Errorf("%w %q in %s", control.ErrNoProvider, args[0], host.Info().Config)
				}
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), s)
			}
			if err := writeStatus(cmd.OutOrStdout(), host.Info(), s, time.Now()); err != nil || len(args) == 0 {
				return err
			}
			return writeExits(cmd.OutOrStdout(), s.Providers[0])
		},
	}))
}

func only(all []control.ProviderStatus, name string) []control.ProviderStatus {
	for _, p := range all {
		if p.Name == name {
			return []control.ProviderStatus{p}
		}
	}
	return nil
}

// writeStatus prints the table, and below it what does not fit into one.
func writeStatus(w io.Writer, info control.Info, s control.Status, now time.Time) error {
	where := "on stdio"
	if info.URL != "" {
		where = "at " + info.URL
	}
	fmt.Fprintf(w, "host %s %s, pid %d, version %s, up %s, containment %s\n",
		s.Host.ID, where, s.Host.PID, s.Host.Version, age(now.Sub(s.Host.Started)), s.Host.Containment)
	if info.WhyNotMore != "" {
		fmt.Fprintf(w, "no better containment: %s\n", info.WhyNotMore)
	}
	fmt.Fprintf(w, "configuration %s, state %s\n\n", info.Config, info.StateDir)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROVIDER\tSTATE\tFOR\tRESTARTS\tNOISE\tPLUGIN\tCALLS\tLAST EXIT")
	for _, p := range s.Providers {
		plugin, calls := "-", "-"
		for _, i := range p.Instances {
			plugin, calls = fmt.Sprint(i.PluginPID), fmt.Sprint(i.CallsInFlight)
		}
		last := "-"
		if n := len(p.Exits); n > 0 {
			last = how(p.Exits[n-1]) + ", " + age(now.Sub(p.Exits[n-1].Time)) + " ago"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n",
			p.Name, p.State, age(now.Sub(p.Since)), p.Restarts, p.Noise, plugin, calls, last)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, p := range s.Providers {
		if notes := notes(p, now); notes != "" {
			fmt.Fprintf(w, "\n%s: %s\n", p.Name, notes)
		}
	}
	return nil
}

// notes say why a provider is not there, and what comes next.
func notes(p control.ProviderStatus, now time.Time) string {
	var parts []string
	if p.Reason != "" {
		parts = append(parts, p.Reason)
	}
	switch {
	case p.State == string(supervise.Backoff) && p.NextStart != nil:
		parts = append(parts, fmt.Sprintf("next start %s, in %s", p.NextStart.Local().Format(time.TimeOnly), age(p.NextStart.Sub(now))))
	case p.State == string(supervise.Failed) && p.NextStart != nil:
		parts = append(parts, fmt.Sprintf("started again by `drawbridge restart %s`, or by a call after %s",
			p.Name, p.NextStart.Local().Format(time.TimeOnly)))
	case p.State == string(supervise.Failed):
		parts = append(parts, "mend the configuration and start the host again")
	}
	return strings.Join(parts, "; ")
}

// writeExits prints how a provider's last instances ended, the latest last.
func writeExits(w io.Writer, p control.ProviderStatus) error {
	if len(p.Exits) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ENDED\tINSTANCE\tHOW\tASKED\tLAST LINE")
	for _, e := range p.Exits {
		asked := "no"
		if e.Asked {
			asked = "yes"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n",
			e.Time.Local().Format(time.DateTime), e.Instance, how(e), asked, supervise.LastLine(e.Stderr))
	}
	return table.Flush()
}

func how(e control.ExitStatus) string {
	if e.Signal != 0 {
		return fmt.Sprintf("signal %d (%v)", e.Signal, syscall.Signal(e.Signal))
	}
	return fmt.Sprintf("code %d", e.Code)
}

// age is a duration in its largest unit: 3s, 5m, 2h, 4d.
func age(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
