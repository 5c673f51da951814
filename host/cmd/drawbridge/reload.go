package main

import (
	"context"

	"github.com/hashicorp/hcl/v2"

	"github.com/drawbridge-mcp/drawbridge/host/config"
)

// reload reads the files at path again and applies what they say of access. What is
// wrong with them is told on stderr.
func (g *globals) reload(h *host, path string) {
	next, diags := config.Load(path)
	h.redactor.Add(next.Secrets...)
	if !diags.HasErrors() {
		diags = append(diags, h.Apply(next)...)
	}
	config.SortDiagnostics(diags)
	if err := config.WriteDiagnostics(g.std.err, next, diags, false); err != nil {
		h.log.Warn("what is wrong with the new files cannot be told", "error", err)
	}
	if diags.HasErrors() {
		h.log.Error("the new files are refused; nothing has changed", "config", path, "errors", len(diags.Errs()), "first", firstError(diags))
		return
	}
	h.log.Info("principals, projects and grants are read anew", "config", path, "policy", h.gate.Policy())
}

func firstError(diags hcl.Diagnostics) string {
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			return placed(d)
		}
	}
	return ""
}

// reloadOnHangup reloads at each SIGHUP, one after the other, until the function
// that it returns is called, which waits for a reload under way. A SIGHUP because the
// host's terminal is gone ends the host instead.
func (g *globals) reloadOnHangup(h *host, stop context.CancelCauseFunc) (done func()) {
	path, err := g.configPath()
	if err != nil { // there was one at the start: it was read
		path = h.cfg.Path
	}
	hangups := onHangup()
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-quit:
				return
			case <-hangups.got:
				if hangups.terminalGone() {
					h.log.Info("the terminal is gone")
					stop(context.Canceled)
					return
				}
				g.reload(h, path)
			}
		}
	}()
	return func() {
		hangups.forget()
		close(quit)
		<-ended
	}
}
