package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/lock"
	"github.com/drawbridge-mcp/drawbridge/host/plan"
	"github.com/drawbridge-mcp/drawbridge/shared/checksum"
)

// definitionsFolder is where approved definitions are kept in the state dir.
const definitionsFolder = "definitions"

func newPlan(g *globals) *cobra.Command {
	var refresh, offline bool
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Say what would start, who would see what, and what is not as locked",
		Long: `Checks the configuration and says what it comes to: what would start, which tools
each principal of each project would see, which names clash, which providers are
shared and with whom, and what differs from the lock file, field by field.

What a provider lists is taken from the last complete list on disk. One that has
none is started for it and ended again; --refresh starts all of them, --offline none.

Exit codes: 0 nothing differs from the lock file, 2 something does, 1 errors, or
something could not be compared.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, done, err := g.survey(cmd.Context(), func(_ string, known bool) bool { return refresh || !known && !offline })
			if err != nil {
				return err
			}
			defer done()
			report := plan.Make(s.input)
			if g.json {
				err = writeJSON(cmd.OutOrStdout(), report)
			} else {
				err = report.Write(cmd.OutOrStdout())
			}
			switch {
			case err != nil:
				return err
			case s.failed || len(report.Errors()) > 0 || slices.ContainsFunc(report.Lock.Unknown, s.listable):
				return exit(exitError)
			case report.Lock.Differs() || len(s.unlisted) > 0:
				return exit(exitChanges)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&refresh, "refresh", false, "start every provider and list its tools anew")
	cmd.Flags().BoolVar(&offline, "offline", false, "start none, also where nothing is known of its tools")
	cmd.MarkFlagsMutuallyExclusive("refresh", "offline")
	return g.wantsJSON(cmd)
}

func newLock(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "lock [PROVIDER…]",
		Short: "Approve the plugins and the tools' definitions that are there now",
		Long: `Starts every provider, or those named, lists their tools, and writes the checksums
of plugins and the digests of definitions into the lock file beside the configuration:
providers.lock.hcl for providers.hcl. What changes in it is printed; review it as you
would review code, and keep the file in version control.

With locked = true in the host block, tools that are not in it are neither listed nor
called. A plugin found in plugin_dir runs only if its checksum is in it: this command
approves a new one without running it; run it again to approve what it lists.

Exit codes: 0 written, or nothing to write, 1 a provider could not be listed, and
nothing was written.`,
		RunE: func(cmd *cobra.Command, only []string) error { return g.lock(cmd, only) },
	}
}

func (g *globals) lock(cmd *cobra.Command, only []string) error {
	s, done, err := g.survey(cmd.Context(), func(slug string, _ bool) bool { return len(only) == 0 || slices.Contains(only, slug) })
	if err != nil {
		return err
	}
	defer done()
	for _, name := range only {
		if !slices.ContainsFunc(s.input.Config.Providers, func(p *config.Provider) bool { return p.Slug == name && p.Enabled }) {
			return fmt.Errorf("there is no provider %q, or it is not enabled; the names are those of drawbridge status", name)
		}
	}
	if s.failed {
		return fmt.Errorf("nothing was written: what cannot be listed cannot be approved; mend it, or name the providers to lock")
	}
	after := plan.Lock(s.input, only)
	report := plan.Make(s.input)
	out := cmd.OutOrStdout()
	if s.input.Lock != nil {
		if err := report.WriteLock(out); err != nil {
			return err
		}
		if string(after.Bytes()) == string(s.input.Lock.Bytes()) {
			return nil
		}
	}
	if err := after.Write(s.input.LockPath); err != nil {
		return err
	}
	for _, t := range s.input.Catalog.Tools() {
		// Only what the next report shows of what changed depends on it.
		if err := s.definitions.Put(t); err != nil {
			fmt.Fprintf(g.std.err, "drawbridge: %v\n", err)
		}
	}
	s.definitions.Prune(after)
	fmt.Fprintf(out, "drawbridge: wrote %s\n", s.input.LockPath)
	for _, slug := range s.unlisted {
		if len(only) > 0 && !slices.Contains(only, slug) {
			continue
		}
		fmt.Fprintf(out, "drawbridge: the plugin of %s is approved now and was not run; run drawbridge lock again to approve its tools\n", slug)
	}
	return nil
}

// survey is a configuration with what its providers list.
type survey struct {
	input       plan.Input
	definitions plan.Definitions
	// failed says that a provider which was to be asked did not answer; unlisted
	// are those whose plugin is not approved yet.
	failed   bool
	unlisted []string
}

// listable says whether a provider could be asked for its tools.
func (s *survey) listable(slug string) bool { return !slices.Contains(s.unlisted, slug) }

// survey sets up a host, asks the providers that ask names for their tools, and
// gathers what is known. known says whether the disk has a list. The function
// returned ends the host.
func (g *globals) survey(ctx context.Context, ask func(slug string, known bool) bool) (*survey, func(), error) {
	cfg, err := g.readable()
	if err != nil {
		return nil, nil, err
	}
	h, done, err := g.begun(ctx, cfg, false)
	if err != nil {
		return nil, nil, err
	}
	s := &survey{definitions: plan.Definitions{Dir: filepath.Join(cfg.Host.StateDir, definitionsFolder)}}
	started := h.ask(ctx, ask)
	file, err := readLock(cfg)
	if err != nil {
		done()
		return nil, nil, err
	}
	s.input = plan.Input{
		Config: cfg, Policy: h.gate.Policy(), Catalog: h.catalog.Snapshot(), Started: started,
		Lock: file, LockPath: lock.PathFor(cfg.Path),
		// What was no secret when it was approved may be one now.
		Old: func(digest string) json.RawMessage { return h.redactor.Definition(s.definitions.Get(digest)) },
	}
	for _, p := range foreignPlugins(cfg) {
		s.input.Plugins = append(s.input.Plugins, onDisk(p))
	}
	for slug, start := range started {
		if p := providerOf(cfg, slug); cfg.Plugins[p.Plugin] != nil && cfg.Plugins[p.Plugin].Found && cfg.Plugins[p.Plugin].SHA256 == "" {
			s.unlisted = append(s.unlisted, slug)
		} else if start.Failure != "" && !start.NotYet && ask(slug, h.catalog.Snapshot().Known(slug)) {
			s.failed = true
		}
	}
	slices.Sort(s.unlisted)
	return s, done, nil
}

// ask starts the providers that are meant, side by side, and waits for their lists.
func (h *host) ask(ctx context.Context, meant func(slug string, known bool) bool) map[string]plan.Start {
	started := make(map[string]plan.Start, len(h.specs))
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, spec := range h.specs {
		slug, known := spec.Provider, h.catalog.Snapshot().Known(spec.Provider)
		notYet, checked := runsNothingYet(providerOf(h.cfg, slug).Plugin)
		all.Go(func() {
			start := plan.Start{Command: spec.Command, Source: plan.None}
			if known {
				start.Source = plan.Remembered
			}
			if spec.Fault != nil {
				start.Failure = spec.Fault.Cause
				start.NotYet = checked && start.Failure == notYet
			} else if meant(slug, known) {
				if _, err := h.sessions.Get(ctx, slug); err != nil {
					start.Failure = err.Error()
				} else {
					start.Source = plan.Live
				}
			}
			mu.Lock()
			defer mu.Unlock()
			started[slug] = start
		})
	}
	all.Wait()
	return started
}

// onDisk is a third-party plugin with the checksum of what is there now.
func onDisk(p *config.Plugin) plan.Plugin {
	out := plan.Plugin{Name: p.Name, Path: p.Path, Found: p.Found}
	var err error
	if p.Path != "" {
		out.SHA256, err = checksum.File(p.Path)
	} else {
		out.Path = p.Command
		out.SHA256, err = checksum.Files(p.Files)
	}
	if err != nil {
		out.SHA256 = ""
	}
	return out
}

func providerOf(cfg *config.Config, slug string) *config.Provider {
	for _, p := range cfg.Providers {
		if p.Slug == slug {
			return p
		}
	}
	return new(config.Provider)
}
