package main

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/hcl/v2"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// reloads is what a host remembers to judge a new configuration by.
type reloads struct {
	mu sync.Mutex // held by Apply
	// configs are what the config blocks of providers came to at the start.
	configs map[string]startedWith
	// owners are who has, or last had, each provider that is one caller's.
	owners map[string]owner
}

// startedWith is a provider's config block as it was decoded at the start.
type startedWith struct {
	schema  *provider.Schema
	decoded config.Decoded
}

// same says whether a config block is the one that its server was started with. Where
// its text is, a secret that was rotated since makes no other of it.
func (s startedWith) same(d config.Decoded, sameText bool) bool {
	if sameText {
		return bytes.Equal(s.decoded.Masked, d.Masked)
	}
	return bytes.Equal(s.decoded.Config.JSON, d.Config.JSON)
}

func (r *reloads) started(p prepared) {
	if r.configs == nil {
		r.configs = map[string]startedWith{}
	}
	r.configs[p.spec.Provider] = startedWith{p.schema, p.decoded}
}

// inForce records whose the providers are. The owner of one that nobody is granted
// any more stays: what he left in its process is still his.
func (r *reloads) inForce(cfg *config.Config) {
	if r.owners == nil {
		r.owners = map[string]owner{}
	}
	for slug, o := range ownersOf(cfg) {
		r.owners[slug] = o
	}
}

// owner is who has a provider whose instance is one caller's: a principal in a
// project, "local" in none while nothing is declared.
type owner struct{ principal, project string }

func (o owner) String() string {
	if o.project == "" {
		return fmt.Sprintf("%q", o.principal)
	}
	return fmt.Sprintf("%q in project %q", o.principal, o.project)
}

// ownersOf are the owners of all providers that are not shared and that anyone is
// granted. Loading has made sure that each has one.
func ownersOf(cfg *config.Config) map[string]owner {
	out := map[string]owner{}
	open := access.New(access.From(cfg)).Open()
	for _, p := range cfg.Providers {
		if p.Session.Scope == "shared" {
			continue
		}
		if open {
			out[p.Slug] = owner{principal: config.Local}
		}
		for _, project := range cfg.Projects {
			for _, g := range project.Grants {
				if g.Provider == p.Slug && len(g.Principals) > 0 {
					out[p.Slug] = owner{g.Principals[0], project.Name}
				}
			}
		}
	}
	return out
}

// Apply puts the principals, projects and grants of a checked configuration in force,
// and touches no process: whoever asks from then on is judged by them, also in a
// session that was open before, and clients hear that what they see may have changed. The
// lock file, where one is in force, is read anew.
// A configuration that changes anything else is refused whole: the diagnostics are
// then errors that say what and where, and nothing has changed.
func (h *host) Apply(next *config.Config) hcl.Diagnostics {
	h.reloads.mu.Lock()
	defer h.reloads.mu.Unlock()
	h.redactor.Add(next.Secrets...)
	diags := h.cfg.Changes(next)
	if !diags.HasErrors() { // else a block may be missing that would be asked for
		diags = append(diags, h.changedConfigs(next)...)
		diags = append(diags, h.movedOwners(next)...)
	}
	if diags.HasErrors() {
		return diags
	}
	if missing := needsLock(h.cfg); missing != nil {
		return append(diags, missing)
	}
	file, problem := h.lockToday()
	if problem != nil {
		return append(diags, problem)
	}
	if problem := h.handOver(next); problem.HasErrors() {
		return append(diags, problem...)
	}
	h.lock.Store(file) // after the last that may be refused
	h.reloads.inForce(next)
	h.control.SetProviders(h.controlled(next))
	h.front.ToolsChanged()
	return diags
}

// changedConfigs finds the config blocks that would now come to something else.
func (h *host) changedConfigs(next *config.Config) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for i, p := range next.Providers {
		was, ok := h.reloads.configs[p.Slug]
		if !ok {
			continue // not enabled, then and now
		}
		same := bytes.Equal(h.cfg.ConfigSource(h.cfg.Providers[i]), next.ConfigSource(p))
		if was.schema != nil { // else the text is all there is
			decoded, wrong, _ := h.plugins.decode(p, *was.schema)
			if wrong.HasErrors() {
				diags = append(diags, wrong...)
				continue
			}
			same = was.same(decoded, same)
		}
		if !same {
			diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: fmt.Sprintf("The config of provider %q changed", p.Label), Subject: p.ConfigRange.Ptr(),
				Detail: "It decides what its server is, and a running host takes over principals, projects and grants alone. Start it again to have this in force, or undo the change."})
		}
	}
	return diags
}

// handedOn are the providers that would pass from one caller to another.
func (h *host) handedOn(next *config.Config) (slugs []string) {
	owners := ownersOf(next)
	for _, p := range next.Providers {
		before, had := h.reloads.owners[p.Slug]
		if after, has := owners[p.Slug]; had && has && before != after {
			slugs = append(slugs, p.Slug)
		}
	}
	return slugs
}

// movedOwners finds the providers that would pass from one caller to another while
// their process runs, with all that the first one has left in it.
func (h *host) movedOwners(next *config.Config) hcl.Diagnostics {
	return h.wouldMove(next, slices.DeleteFunc(h.handedOn(next), func(slug string) bool { return !h.runs(slug) }))
}

// wouldMove says that providers which run would change hands.
func (h *host) wouldMove(next *config.Config, running []string) hcl.Diagnostics {
	var diags hcl.Diagnostics
	owners := ownersOf(next)
	for _, p := range next.Providers {
		if !slices.Contains(running, p.Slug) {
			continue
		}
		diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: fmt.Sprintf("Provider %q would change hands", p.Label), Subject: p.Range.Ptr(),
			Detail: fmt.Sprintf("Its server process runs, and has served %s; now %s would find in it what is left of that. "+
				"Start the host again to have this in force, or undo the change.", h.reloads.owners[p.Slug], owners[p.Slug])})
	}
	return diags
}

// handOver puts the policy of a configuration in force, unless a provider that passes to
// another caller has been started since it was looked at.
func (h *host) handOver(next *config.Config) hcl.Diagnostics {
	return h.wouldMove(next, swapUnlessRunning(h.gate, access.New(access.From(next)), h.handedOn(next), h.runs))
}

// swapUnlessRunning puts a policy in force, if none of the providers that get another
// owner by it runs. They are nobody's while that is looked at: a call of the owner before
// may start one at any moment. Where one runs, everything is as before, and it is returned.
func swapUnlessRunning(gate *access.Gate, next *access.Policy, moved []string, runs func(slug string) bool) (running []string) {
	if len(moved) > 0 {
		before := gate.Policy()
		gate.Swap(before.Without(moved))
		for _, slug := range moved {
			if runs(slug) {
				running = append(running, slug)
			}
		}
		if len(running) > 0 {
			gate.Swap(before)
			return running
		}
	}
	gate.Swap(next)
	return nil
}

// runs says whether a provider has a process, or is about to.
func (h *host) runs(slug string) bool {
	s, ok := h.sessions.State(slug)
	if !ok || len(h.sessions.Instances(slug)) > 0 {
		return ok
	}
	switch s.Name {
	case string(supervise.Starting), string(supervise.Ready), string(supervise.Draining):
		return true
	}
	return false
}
