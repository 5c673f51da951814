package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/control"
	"github.com/drawbridge-mcp/drawbridge/host/doctor"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

func newDoctor(g *globals) *cobra.Command {
	var offline bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong, and say what to do about it",
		Long: `Looks at what a person would look at, in that order: the configuration, how processes
are held and why not better, the state folder, plugins and the lock file, commands and
the PATH that has them, secrets, other hosts and the port, what dead hosts left, how
each provider starts, names that are too long for clients, and what the definitions
cost of a model's context (an estimate). Each line has a verdict, and a remedy unless it
is ok.

Providers are started for it, side by side, and ended again; where a host of this
configuration runs, its providers are asked for instead and none is started. With
--offline none is started, and what they list is taken from the disk. Third-party
plugins are asked for their schema either way. Nothing is repaired: not even a process
that a dead host left is ended.

Exit codes: 0 all is fine, 2 there are warnings, 1 there are problems.`,
		Example: `  drawbridge doctor
  drawbridge doctor --offline --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			x := &examination{g: g, offline: offline, log: io.Discard, faults: map[string][]string{}}
			if cmd.Flags().Changed("log-level") {
				x.log = g.std.err
			}
			x.examine(cmd.Context())
			report := x.report()
			var err error
			if g.json {
				err = writeJSON(cmd.OutOrStdout(), report)
			} else {
				err = report.Write(cmd.OutOrStdout())
			}
			switch {
			case err != nil:
				return err
			case report.Verdict == doctor.Problem:
				return exit(exitError)
			case report.Verdict == doctor.Warning:
				return exit(exitWarnings)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&offline, "offline", false, "start no provider")
	return g.wantsJSON(cmd)
}

// examination gathers the facts that the doctor judges.
type examination struct {
	g       *globals
	offline bool
	// log gets the log of the host that starts providers for it.
	log   io.Writer
	facts doctor.Facts
	cfg   *config.Config
	// faults are what keeps providers from starting, by their slugs.
	faults map[string][]string
	// used are the secrets that providers name.
	used secretUse
}

// report judges what was found, without the values of secrets: a finding may hold
// what a server or the system said.
func (x *examination) report() doctor.Report {
	r := doctor.NewReport(x.facts)
	clean := x.g.std.redactor.Text
	for i, f := range r.Findings {
		r.Findings[i].Subject, r.Findings[i].Says, r.Findings[i].Remedy = clean(f.Subject), clean(f.Says), clean(f.Remedy)
	}
	return r
}

// examine gathers everything, in the order in which it depends on each other.
func (x *examination) examine(ctx context.Context) {
	if wrong := checkTemp(); wrong != nil {
		x.facts.Temp = wrong.Detail
	}
	running := x.hosts(ctx, x.readConfig())
	required := ""
	if x.cfg != nil {
		required = x.cfg.Host.ContainmentRequire
	}
	x.contain(required)
	if x.cfg == nil {
		return
	}
	x.plugins()
	if x.cfg.Host.StateDir != "" {
		x.state()
		x.leftovers(ctx)
	}
	x.listen(ctx)
	valid := x.askBuiltin(ctx)
	if valid && x.facts.Temp == "" {
		x.providers(ctx, running)
	}
	x.secrets(valid)
}

// readConfig finds and reads the configuration, and returns its path as hosts have
// it, "" where there is none.
func (x *examination) readConfig() string {
	path, err := x.g.configPath()
	if err != nil {
		what, _, _ := strings.Cut(err.Error(), "; ") // the remedy is the doctor's
		x.facts.Config = &doctor.Config{Missing: what}
		return ""
	}
	cfg, diags := config.Load(path)
	x.g.std.redactor.Add(cfg.Secrets...)
	x.cfg = cfg
	c := &doctor.Config{Path: cfg.Path, Providers: len(cfg.Providers)}
	for _, p := range cfg.Providers {
		if !p.Enabled {
			c.Disabled++
		}
	}
	x.facts.Config = c
	x.mistakes(append(slices.Clone(diags), cfg.Notices...))
	return canonical(cfg.Path)
}

// mistakes adds diagnostics that are not there yet: plugins may be asked twice.
func (x *examination) mistakes(diags hcl.Diagnostics) {
	for _, f := range config.Findings(x.cfg, diags) {
		m := doctor.Mistake{Warning: f.Severity == "warning", Summary: f.Summary, Detail: f.Detail}
		if f.File != "" {
			m.Where = fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		if !slices.Contains(x.facts.Config.Mistakes, m) {
			x.facts.Config.Mistakes = append(x.facts.Config.Mistakes, m)
		}
	}
}

// hosts finds the running hosts, and of them the one of this configuration.
func (x *examination) hosts(ctx context.Context, path string) *control.Client {
	all, err := control.Hosts(ctx, supervise.RunBases(), nil)
	if err != nil {
		return nil
	}
	var same []*control.Client
	for _, c := range all {
		i := c.Info()
		h := doctor.Host{
			ID: i.ID, PID: i.PID, URL: i.URL, Config: i.Config, Version: i.Version,
			Same: path != "" && i.Config == path, Current: i.Version == version,
		}
		x.facts.Hosts = append(x.facts.Hosts, h)
		if h.Same {
			same = append(same, c)
		}
	}
	if running, err := pick(same, ""); err == nil {
		return running
	}
	if len(same) > 0 {
		return same[0]
	}
	return nil
}

// newHost makes a host that leaves alone what dead ones have left.
func (x *examination) newHost(ctx context.Context) (*host, error) {
	level := slog.LevelInfo
	_ = level.UnmarshalText([]byte(x.g.logLevel)) // as good as any for a look
	return newHost(ctx, x.cfg, hostOptions{level: level, leave: true, log: x.log, redactor: x.g.std.redactor})
}
