package main

import (
	"slices"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/lock"
)

// projectView is all that the principals of one project are shown together.
type projectView struct {
	project string // "" where none is declared
	nameMax int
	tools   []*catalog.Tool
	// unlisted are providers that it sees and of which it is not known what they list.
	unlisted []string
}

// projectViews are the views of every project. file is the lock file, nil where there
// is none.
func projectViews(cfg *config.Config, policy *access.Policy, snapshot *catalog.Snapshot, file *lock.File) []projectView {
	names := []string{""}
	if !policy.Open() {
		names = nil
		for _, p := range cfg.Projects {
			names = append(names, p.Name)
		}
	}
	var out []projectView
	for _, name := range names {
		who := principalsOf(policy, name)
		naming, most := policy.Naming(name)
		shown := snapshot.View(catalog.Naming{Names: naming, NameMax: most}, func(t *catalog.Tool) bool {
			if cfg.Host.Locked && (file == nil || !file.Approves(t.Provider, t.Name, t.Digest)) {
				return false
			}
			item := access.Item{Kind: access.KindTool, Provider: t.Provider, Name: t.Name}
			return slices.ContainsFunc(who, func(p string) bool { return policy.Decide(p, name, item).Allowed })
		})
		one := projectView{project: name, nameMax: most, tools: shown.Tools()}
		for _, p := range cfg.Providers {
			sees := slices.ContainsFunc(who, func(w string) bool { return policy.Sees(w, name, p.Slug) })
			if p.Enabled && sees && !snapshot.Known(p.Slug) {
				one.unlisted = append(one.unlisted, p.Slug)
			}
		}
		out = append(out, one)
	}
	return out
}

// principalsOf are those that have something in a project.
func principalsOf(policy *access.Policy, project string) []string {
	if policy.Open() {
		return []string{access.Local}
	}
	return slices.DeleteFunc(policy.Principals(), func(who string) bool { return !slices.Contains(policy.Projects(who), project) })
}
