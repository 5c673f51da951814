package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/control"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// newControl makes what answers commands out of a host's parts.
func newControl(h *host, launcher *supervise.Launcher) *control.Control {
	return control.New(control.Options{
		Info: h.info(),
		Dir:  h.run.Base, LogDir: launcher.LogDir, Containment: launcher.Tier(),
		Policy: h.gate.Policy, Sessions: h.sessions, Broker: h.broker, Catalog: h.catalog, Attach: h.front.Attach,
		MaxRequest: h.cfg.Host.MaxRequest, Redact: h.redactor.Text, Logger: h.log,
	})
}

// controlled are the providers that commands can name. There is one instance of
// each, whose owner is who has a grant of it; while nothing is declared, "local".
func (h *host) controlled(cfg *config.Config) []control.Provider {
	owners := ownersOf(cfg)
	var out []control.Provider
	for _, p := range cfg.Providers {
		if p.Enabled {
			one := control.Provider{Slug: p.Slug, Scope: p.Session.Scope, Generation: h.generation(p.Slug)}
			if one.Scope != "shared" {
				one.Owner = owners[p.Slug].principal
			}
			out = append(out, one)
		}
	}
	return out
}

// info says to commands which host this is.
func (h *host) info() control.Info {
	return control.Info{
		ID: h.life.ID(), Version: version, Config: canonical(h.cfg.Path), StateDir: h.cfg.Host.StateDir, WhyNotMore: h.whyNotMore(),
	}
}

// takeCommands opens the command socket of a host that serves at url, "" on stdio.
func (h *host) takeCommands(ctx context.Context, url string) error {
	for _, path := range h.info().Paths(h.run.Base) {
		if err := h.life.Own(path); err != nil {
			return err
		}
	}
	err := h.control.Serve(ctx, url)
	if errors.Is(err, control.ErrUnsupported) {
		h.log.Warn("this host takes no commands", "why", err)
		return nil
	}
	return err
}

// canonical is one path for all ways to name a file, as far as it exists.
func canonical(path string) string {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if resolved, err := filepath.EvalSymlinks(absolute); err == nil {
		return resolved
	}
	return absolute
}
