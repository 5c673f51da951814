package plan

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/lock"
)

// Where a provider's list came from.
const (
	Live       = "live"       // its server was asked
	Remembered = "remembered" // the disk has the last complete one
	None       = "none"       // there is none
)

// Input is what a report is made of.
type Input struct {
	Config  *config.Config
	Policy  *access.Policy
	Catalog *catalog.Snapshot
	// Started says what is known of each enabled provider, by slug.
	Started map[string]Start
	// Plugins are the third-party plugins that providers name, with what is on disk.
	Plugins []Plugin
	// Lock is nil where there is no lock file; LockPath is where it stands or would.
	Lock     *lock.File
	LockPath string
	// Old finds a definition by its digest; nil where it is not at hand.
	Old func(digest string) json.RawMessage
}

// Start is how a provider would start.
type Start struct {
	// Command is the base name of what it runs, "" where its plugin has none.
	Command string
	// Source is Live, Remembered or None.
	Source string
	// Failure is why it cannot start, or did not; "" if neither.
	Failure string
	// NotYet says that its plugin runs no servers yet. That is no mistake of the file,
	// and there is nothing to compare.
	NotYet bool
}

// Plugin is a third-party plugin as it stands on the disk.
type Plugin struct {
	Name string `json:"name"`
	Path string `json:"path"`
	// SHA256 is that of what is there now, "" where it cannot be read.
	SHA256 string `json:"sha256"`
	// Found says that no block declares it: it was found by its name.
	Found bool `json:"found"`
}

// Report is what a configuration comes to.
type Report struct {
	Providers []Provider `json:"providers"`
	Projects  []Project  `json:"projects"`
	Shared    []Shared   `json:"shared"`
	Clashes   []Clash    `json:"clashes"`
	Hidden    []Hidden   `json:"hidden"`
	Plugins   []Plugin   `json:"plugins"`
	Lock      LockReport `json:"lock"`
}

// Provider is what would become of a provider.
type Provider struct {
	Name    string `json:"name"`
	Label   string `json:"label"`
	Plugin  string `json:"plugin"`
	Command string `json:"command,omitempty"`
	// Start is "lazy", "eager", or "disabled".
	Start  string `json:"start"`
	Source string `json:"source"`
	Tools  int    `json:"tools"`
	// Failure is why it cannot start.
	Failure string `json:"failure,omitempty"`
}

// Project is who would see what in a project; its name is "" where none is declared.
type Project struct {
	Name       string      `json:"name"`
	Principals []Principal `json:"principals"`
}

// Principal is what one principal would see: names as clients get them.
type Principal struct {
	Name  string   `json:"name"`
	Tools []string `json:"tools"`
	// Quarantined are those that the lock file keeps from it.
	Quarantined []string `json:"quarantined"`
}

// Shared is a provider whose server more than one caller reaches.
type Shared struct {
	Provider string `json:"provider"`
	// With are principals, each with its project: laptop in site.
	With []string `json:"with"`
}

// Clash is one name that several tools would have, so that none of them is seen.
type Clash struct {
	Name    string   `json:"name"`
	Tools   []string `json:"tools"`
	Project string   `json:"project"`
}

// Hidden is a definition that is of no use.
type Hidden struct {
	Provider string `json:"provider"`
	Tool     string `json:"tool"`
	Reason   string `json:"reason"`
}

// Make makes the report.
func Make(in Input) Report {
	r := Report{Plugins: slices.Clone(in.Plugins)}
	whole := in.all()
	for _, p := range in.Config.Providers {
		r.Providers = append(r.Providers, in.provider(p, whole))
		if p.Session.Scope == "shared" {
			r.Shared = append(r.Shared, Shared{Provider: p.Slug, With: in.callersOf(p.Slug)})
		}
	}
	seen := map[string]bool{}
	for _, name := range in.projects() {
		project := Project{Name: name}
		for _, who := range in.principals(name) {
			view, quarantined := in.view(who, name)
			project.Principals = append(project.Principals, Principal{Name: who, Tools: exposed(view.Tools()), Quarantined: quarantined})
			for _, c := range view.Clashes() {
				if clash := asClash(c, name); !seen[name+"\x00"+clash.Name] {
					seen[name+"\x00"+clash.Name] = true
					r.Clashes = append(r.Clashes, clash)
				}
			}
		}
		r.Projects = append(r.Projects, project)
	}
	for _, h := range in.Catalog.Hidden() {
		r.Hidden = append(r.Hidden, Hidden{h.Provider, h.Name, h.Reason})
	}
	r.Lock = in.lockReport(whole)
	return r
}

// all is everything that providers expose, under names that never clash.
func (in Input) all() *catalog.View {
	return in.Catalog.View(catalog.Naming{Names: catalog.NamesPrefixed}, func(*catalog.Tool) bool { return true })
}

func (in Input) provider(p *config.Provider, whole *catalog.View) Provider {
	out := Provider{Name: p.Slug, Label: p.Label, Plugin: p.Plugin, Start: p.Start, Source: None}
	if !p.Enabled {
		out.Start = "disabled"
		return out
	}
	s := in.Started[p.Slug]
	out.Command, out.Failure = s.Command, s.Failure
	if s.Source != "" {
		out.Source = s.Source
	}
	for _, t := range whole.Tools() {
		if t.Provider == p.Slug {
			out.Tools++
		}
	}
	return out
}

// projects are the names of all projects; "" where none is declared.
func (in Input) projects() []string {
	if in.Policy.Open() {
		return []string{""}
	}
	var names []string
	for _, p := range in.Config.Projects {
		names = append(names, p.Name)
	}
	return names
}

// principals are those that have something in a project.
func (in Input) principals(project string) []string {
	if project == "" {
		return []string{config.Local}
	}
	var names []string
	for _, who := range in.Policy.Principals() {
		if slices.Contains(in.Policy.Projects(who), project) {
			names = append(names, who)
		}
	}
	return names
}

// view is what a caller would see, and which names the lock file keeps from it.
func (in Input) view(principal, project string) (*catalog.View, []string) {
	names, most := in.Policy.Naming(project)
	naming := catalog.Naming{Names: names, NameMax: most}
	granted := func(t *catalog.Tool) bool {
		return in.Policy.Decide(principal, project, access.Item{Kind: access.KindTool, Provider: t.Provider, Name: t.Name}).Allowed
	}
	if !in.Config.Host.Locked {
		return in.Catalog.View(naming, granted), nil
	}
	seen := in.Catalog.View(naming, func(t *catalog.Tool) bool { return granted(t) && in.approved(t) })
	kept := in.Catalog.View(naming, func(t *catalog.Tool) bool { return granted(t) && !in.approved(t) })
	return seen, exposed(kept.Tools())
}

func (in Input) approved(t *catalog.Tool) bool {
	return in.Lock != nil && in.Lock.Approves(t.Provider, t.Name, t.Digest)
}

// callersOf are those who reach a provider, each with its project.
func (in Input) callersOf(slug string) []string {
	var out []string
	for _, project := range in.projects() {
		for _, who := range in.principals(project) {
			if !in.Policy.Sees(who, project, slug) {
				continue
			}
			if project != "" {
				who += " in " + project
			}
			out = append(out, who)
		}
	}
	return out
}

func exposed(tools []*catalog.Tool) []string {
	var out []string
	for _, t := range tools {
		out = append(out, t.Exposed)
	}
	return out
}

func asClash(c catalog.Clash, project string) Clash {
	out := Clash{Name: c.Exposed, Project: project}
	for _, t := range c.Tools {
		out.Tools = append(out.Tools, t.Provider+"/"+t.Name)
	}
	return out
}

// Errors are what a person has to mend before the configuration is of use: names
// that clash, and a lock file that is needed and not there.
func (r Report) Errors() []string {
	var out []string
	for _, c := range r.Clashes {
		where := ""
		if c.Project != "" {
			where = " in project " + c.Project
		}
		out = append(out, "tools "+strings.Join(c.Tools, " and ")+" would both be called "+c.Name+where+
			": none of them is shown; except one of them, or set names = \"prefixed\"")
	}
	if r.Lock.Missing && r.Lock.Enforced {
		out = append(out, "locked = true and there is no lock file at "+r.Lock.Path+": nothing is shown; make one with drawbridge lock, and review it")
	}
	return out
}
