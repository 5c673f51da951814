package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/front"
)

func newServe(g *globals) *cobra.Command {
	var stdio bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the host: over streamable HTTP, or with --stdio for one client",
		Long: `Runs the host until it is told to stop (Ctrl-C, SIGTERM, or with --stdio the end of
its input). Over HTTP it prints, when ready, one line with its URL and one with
where the token is. Logs go to stderr; with --stdio nothing but MCP is on stdout.

Exit codes: 0 stopped as asked, 1 it could not run.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := g.readable()
			if err != nil {
				return err
			}
			h, err := g.newHost(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			h.log.Info("containment", "tier", h.held.Tier(), "why_not_more", h.held.Support().Why())
			ctx, fail := context.WithCancelCause(cmd.Context())
			defer fail(nil)
			if err = g.begin(ctx, h); err == nil {
				h.requireAll(ctx, fail)
				if stdio {
					err = h.serveStdio(ctx, g.std)
				} else {
					err = h.serveHTTP(ctx, g.std)
				}
			}
			h.close(g.std.hurry)
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
				return cause
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&stdio, "stdio", false, "serve one client on stdin and stdout")
	// For diagnosis, and for the tests of the tiers that this machine would not choose.
	cmd.Flags().StringVar(&g.tier, "containment-tier", "", "hold processes by `TIER` though a better one works here: pidns, subreaper")
	_ = cmd.Flags().MarkHidden("containment-tier") // the flag is there
	return cmd
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
	return <-served
}

// serveHTTP listens, says so, and serves until ctx is done.
func (h *host) serveHTTP(ctx context.Context, p process) error {
	token, err := access.LoadOrCreateToken(h.cfg.Host.StateDir)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", h.cfg.Host.HTTP.Listen)
	if err != nil {
		return fmt.Errorf("%w; stop what listens there, or set another address as host.http.listen", err)
	}
	server := front.HTTPServer(h.front.Handler(front.HTTPOptions{
		Listen:         listener.Addr().String(),
		AllowedHosts:   h.cfg.Host.HTTP.AllowedHosts,
		AllowedOrigins: h.cfg.Host.HTTP.AllowedOrigins,
		Gate:           tokenGate{token},
	}), h.log)
	url := fmt.Sprintf("http://%s/mcp", listener.Addr())
	if err := h.takeCommands(ctx, url); err != nil {
		_ = listener.Close()
		return err
	}
	fmt.Fprintf(p.out, "drawbridge: ready at %s\n", url)
	fmt.Fprintf(p.out, "drawbridge: the token is in %s\n", token.Path())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	h.closeFace(p.hurry)      //nolint:contextcheck // hurry ends the waits of a stop, ctx began it
	h.hangUp(p.hurry, server) //nolint:contextcheck // the same
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// tokenGate lets in who has the one token.
type tokenGate struct{ token *access.Token }

var errWrongToken = errors.New("not the token of this host")

func (g tokenGate) Authenticate(_ context.Context, bearer string) (string, error) {
	if principal, ok := g.token.Check(bearer); ok {
		return principal, nil
	}
	return "", errWrongToken
}

func (g tokenGate) Project(_, asked string) (string, bool) { return "", asked == "" }

// responseGrace is for responses that are complete to reach their clients.
const responseGrace = time.Second

// hangUp ends the connections of a face that is closed: its requests have ended, but
// the end of a response is written after its handler has returned.
func (h *host) hangUp(hurry context.Context, server *http.Server) {
	ctx, cancel := context.WithTimeout(h.stopping(hurry), responseGrace)
	defer cancel()
	_ = server.Shutdown(ctx)
	_ = server.Close() // what is open now is idle, or hangs
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
