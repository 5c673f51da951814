package main

import "github.com/drawbridge-mcp/drawbridge/host/config"

// owner is who has a provider whose instance is one caller's: a principal in a
// project, "local" in none while nothing is declared.
type owner struct{ principal, project string }

// ownersOf are the owners of all providers that are not shared and that anyone is
// granted. Loading has made sure that each has one.
func ownersOf(cfg *config.Config) map[string]owner {
	out := map[string]owner{}
	for _, p := range cfg.Providers {
		if len(cfg.Principals)+len(cfg.Projects) == 0 && p.Session.Scope != "shared" {
			out[p.Slug] = owner{principal: config.Local}
		}
	}
	for _, project := range cfg.Projects {
		for _, g := range project.Grants {
			for _, principal := range g.Principals {
				out[g.Provider] = owner{principal, project.Name}
			}
		}
	}
	for _, p := range cfg.Providers {
		if p.Session.Scope == "shared" {
			delete(out, p.Slug)
		}
	}
	return out
}
