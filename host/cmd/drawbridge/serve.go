package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/control"
	"github.com/drawbridge-mcp/drawbridge/host/front"
)

func newServe(g *globals) *cobra.Command {
	var stdio bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the host: over streamable HTTP, or with --stdio for one client",
		Long: `Runs the host until it is told to stop (Ctrl-C, SIGTERM, or with --stdio the end of
its input). SIGHUP makes it read its files again: new principals, projects and grants
are in force from then on; files that change anything else, or have a mistake, change
nothing. Over HTTP it prints, when ready, one line with its URL and one with
where the token is. Logs go to stderr; with --stdio nothing but MCP is on stdout.

Exit codes: 0 stopped as asked, 1 it could not run.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := g.lockedReadable()
			if err != nil {
				return err
			}
			if err := g.settleProject(cfg, stdio); err != nil {
				return err
			}
			h, err := g.newHost(cmd.Context(), cfg, false)
			if err != nil {
				return err
			}
			h.logTier()
			ctx, fail := context.WithCancelCause(cmd.Context())
			defer fail(nil)
			if err = g.begin(ctx, h); err == nil {
				done := g.reloadOnHangup(h, fail)
				h.warm(ctx)
				h.requireAll(ctx, fail)
				if stdio {
					err = h.serveStdio(ctx, g.std)
				} else {
					err = h.serveHTTP(ctx, g.std)
				}
				done()
			}
			h.close(g.std.hurry)
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
				return cause
			}
			return err
		},
	}
	g.inProject(cmd)
	cmd.Flags().BoolVar(&stdio, "stdio", false, "serve one client on stdin and stdout")
	// For diagnosis, and for the tests of the tiers that this machine would not choose.
	cmd.Flags().StringVar(&g.tier, "containment-tier", "", "hold processes by `TIER` though a better one works here: pidns, subreaper")
	_ = cmd.Flags().MarkHidden("containment-tier") // the flag is there
	return cmd
}

// settleProject finds the project that the client on stdio works in.
func (g *globals) settleProject(cfg *config.Config, stdio bool) error {
	if !stdio {
		if g.project != "" {
			return errors.New("--project is for --stdio; over HTTP the project is part of the URL: /mcp/PROJECT")
		}
		return nil
	}
	policy := access.New(access.From(cfg))
	project, ok := policy.Project(access.Local, g.project)
	if !ok {
		return control.NoProject(policy, g.project)
	}
	g.project = project
	return nil
}

// begin starts a host and shows what is wrong with its configuration.
func (g *globals) begin(ctx context.Context, h *host) error {
	diags := h.start(ctx)
	if err := config.WriteDiagnostics(g.std.err, h.cfg, append(diags, h.cfg.Notices...), false); err != nil {
		return err
	}
	if diags.HasErrors() {
		return exit(exitError)
	}
	return nil
}

// unreadGrace is how long the end of a stdio client may take after its requests were
// waited for and cancelled.
const unreadGrace = time.Second

// serveStdio serves one client until its input ends, or ctx does. In the latter
// case the calls in flight may still end.
func (h *host) serveStdio(ctx context.Context, p process) error {
	if err := h.takeCommands(ctx, ""); err != nil {
		return err
	}
	in := p.in
	if file, ok := in.(*os.File); ok {
		in = pollable(file) // this command alone owns its input, for as long as there is a client
	}
	served := make(chan error, 1)
	go func() { served <- h.front.ServeStdio(context.WithoutCancel(ctx), in, p.out) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	h.closeFace(p.hurry) //nolint:contextcheck // hurry ends the waits of a stop, ctx began it
	select {
	case err := <-served:
		return err
	case <-time.After(unreadGrace):
		// A write to the client hangs, for up to write_timeout. Only the process's end cuts it.
		return fmt.Errorf("%w, and the host stops: what it has not read is lost", front.ErrStalled)
	}
}

// checkTemp says what is wrong with TMPDIR: every server would trip over it, and
// says so less clearly.
func checkTemp() *hcl.Diagnostic {
	dir := os.TempDir()
	wrong := func(why string) *hcl.Diagnostic {
		return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Unusable TMPDIR",
			Detail: fmt.Sprintf("TMPDIR is %q, which %s. Create it, or unset TMPDIR.", dir, why)}
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return wrong("does not exist")
	case !info.IsDir():
		return wrong("is not a folder")
	}
	probe, err := os.CreateTemp(dir, "drawbridge-probe-*")
	if err != nil {
		return wrong("is not writable")
	}
	_ = probe.Close()
	if err := os.Remove(filepath.Clean(probe.Name())); err != nil {
		return wrong("keeps files from being removed")
	}
	return nil
}
