package main

import (
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/internal/identity"
	"github.com/drawbridge-mcp/drawbridge/host/session"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// catalogFolder is where lists are kept in the state dir.
const catalogFolder = "catalog"

// materialOf is what decides the process of p.
func (pl plugins) materialOf(p *config.Provider, about provider.Description, d config.Decoded) identity.Material {
	exec := pl.exec(p)
	code := about.Version
	if !exec.Builtin {
		// The checksum of a script is over its files alone.
		code = strings.Join(append([]string{exec.SHA256, exec.Command}, exec.Args...), "\x00")
	}
	return identity.Material{
		Slug: p.Slug, Plugin: p.Plugin, Code: code,
		BaseDir: d.Config.BaseDir, Config: d.Config.JSON, Masked: d.Masked,
		Env: provider.BaseEnv(pl.launcher.Env),
	}
}

// identify tells the catalog which servers the providers stand for, and the
// sessions what is remembered of them. An error among the diagnostics is of the
// state dir, and nothing may start then: without its key a server could pass for
// another.
func (h *host) identify(all []prepared) hcl.Diagnostics {
	key, err := identity.LoadOrCreateKey(h.cfg.Host.StateDir)
	if err != nil {
		return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "State directory cannot be used", Detail: err.Error() + "."}}
	}
	known := map[string]catalog.Provider{}
	for _, p := range all {
		if p.material.Config == nil {
			continue // it cannot start, so that it has no identity
		}
		slug := p.spec.Provider
		generation, err := identity.Generation(h.cfg.Host.StateDir, slug, key.Fingerprint(p.material))
		if err != nil { // it is for people; what protects is the identity
			h.log.Warn("the generation of a provider is not known", "provider", slug, "why", err)
		}
		known[slug] = catalog.Provider{Identity: key.Identity(p.material), Generation: generation}
	}
	providers := catalogued(h.cfg)
	for i, p := range providers {
		providers[i].Identity, providers[i].Generation = known[p.Slug].Identity, known[p.Slug].Generation
	}
	h.catalog.Apply(providers)
	for i := range h.specs {
		h.specs[i].Known = h.remembered(h.specs[i].Provider)
	}
	return nil
}

// remembered is what a provider's server was when it was listed last, nil if that
// is not known.
func (h *host) remembered(slug string) *session.Server {
	s, ok := h.catalog.Server(slug)
	if !ok {
		return nil
	}
	for _, era := range []session.Era{session.Legacy, session.Modern} {
		if s.Era == era.String() {
			return &session.Server{Era: era, Version: s.Version, Capabilities: s.Capabilities}
		}
	}
	return nil // of another version of the host
}

// catalogued are the providers as the catalog knows them before they are identified.
func catalogued(cfg *config.Config) []catalog.Provider {
	var out []catalog.Provider
	for _, p := range cfg.Providers {
		if p.Enabled {
			out = append(out, catalog.Provider{Slug: p.Slug, Tools: p.Tools, Except: p.Except})
		}
	}
	return out
}

// generation is the ordinal of what a provider's process is made of, 0 where it is
// not known.
func (h *host) generation(slug string) int {
	p, _ := h.catalog.Provider(slug)
	return p.Generation
}
