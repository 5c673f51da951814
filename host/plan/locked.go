package plan

import (
	"encoding/json"
	"maps"
	"runtime"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/lock"
)

// What has become of something since it was locked.
const (
	Added   = "added"
	Changed = "changed"
	Gone    = "gone"
)

// LockReport is how what is there differs from the lock file.
type LockReport struct {
	Path string `json:"path"`
	// Missing says that there is none. Then nothing counts as different.
	Missing bool `json:"missing"`
	// Enforced says that the configuration has locked = true.
	Enforced bool           `json:"enforced"`
	Plugins  []PluginChange `json:"plugins"`
	Tools    []ToolChange   `json:"tools"`
	// Unknown are providers whose tools could not be compared: they have no list.
	Unknown []string `json:"unknown"`
}

// PluginChange is a plugin whose checksum is not the locked one, or that no provider
// names any more.
type PluginChange struct {
	Name   string `json:"name"`
	Change string `json:"change"`
	// Locked is one of the checksums that are in the file, "" where there is none.
	Locked string `json:"locked,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// ToolChange is a tool whose definition is not the locked one.
type ToolChange struct {
	Provider string `json:"provider"`
	Tool     string `json:"tool"`
	Change   string `json:"change"`
	Locked   string `json:"locked,omitempty"`
	Digest   string `json:"digest,omitempty"`
	// Fields are where the definitions differ. Without the old definition at hand
	// they are its top-level members, and only the new values are known.
	Fields []FieldChange `json:"fields,omitempty"`
	// Whole says that the old definition was at hand.
	Whole bool `json:"whole,omitempty"`
}

// FieldChange is one place in which two definitions differ; see catalog.Change.
type FieldChange struct {
	Path string          `json:"path"`
	Old  json.RawMessage `json:"old,omitempty"`
	New  json.RawMessage `json:"new,omitempty"`
}

// Differs says whether something is not as the lock file has it.
func (l LockReport) Differs() bool { return len(l.Plugins)+len(l.Tools) > 0 }

// Platform names the platform of this binary in a lock file.
func Platform() string { return runtime.GOOS + "_" + runtime.GOARCH }

func (in Input) lockReport(whole *catalog.View) LockReport {
	r := LockReport{Path: in.LockPath, Missing: in.Lock == nil, Enforced: in.Config.Host.Locked}
	if in.Lock == nil {
		return r
	}
	for _, p := range in.Plugins {
		if in.Lock.ApprovesPlugin(p.Name, p.SHA256) {
			continue
		}
		c := PluginChange{Name: p.Name, Change: Added, SHA256: p.SHA256, Locked: in.Lock.Plugins[p.Name][Platform()]}
		if c.Locked != "" {
			c.Change = Changed
		}
		r.Plugins = append(r.Plugins, c)
	}
	for _, name := range in.unused() {
		sums := in.Lock.Plugins[name]
		locked := sums[Platform()]
		for _, platform := range slices.Sorted(maps.Keys(sums)) {
			if locked == "" {
				locked = sums[platform]
			}
		}
		r.Plugins = append(r.Plugins, PluginChange{Name: name, Change: Gone, Locked: locked})
	}
	declared := map[string]bool{}
	for _, p := range in.Config.Providers {
		declared[p.Slug] = true
		if !p.Enabled || in.Started[p.Slug].NotYet {
			continue // what is approved of it stays, for the day on which it starts
		}
		if !whole.Known(p.Slug) {
			r.Unknown = append(r.Unknown, p.Slug)
			continue
		}
		r.Tools = append(r.Tools, in.compare(p.Slug, whole)...)
	}
	for _, slug := range slices.Sorted(maps.Keys(in.Lock.Providers)) {
		if declared[slug] {
			continue
		}
		for _, tool := range slices.Sorted(maps.Keys(in.Lock.Providers[slug])) {
			r.Tools = append(r.Tools, ToolChange{Provider: slug, Tool: tool, Change: Gone, Locked: in.Lock.Providers[slug][tool].Digest})
		}
	}
	return r
}

// unused are the plugins in the lock file that no provider names, enabled or not.
func (in Input) unused() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(in.Lock.Plugins)) {
		if !slices.ContainsFunc(in.Config.Providers, func(p *config.Provider) bool { return p.Plugin == name }) {
			out = append(out, name)
		}
	}
	return out
}

// compare says what of a provider's tools is not as locked, by name.
func (in Input) compare(slug string, whole *catalog.View) []ToolChange {
	locked := in.Lock.Providers[slug]
	names := slices.Collect(maps.Keys(locked))
	there := map[string]*catalog.Tool{}
	for _, t := range whole.Tools() {
		if t.Provider != slug {
			continue
		}
		there[t.Name] = t
		if _, ok := locked[t.Name]; !ok {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	var out []ToolChange
	for _, name := range names {
		t, old := there[name], locked[name]
		c := ToolChange{Provider: slug, Tool: name, Locked: old.Digest}
		switch {
		case t == nil:
			c.Change = Gone
		case old.Digest == "":
			c.Change, c.Digest = Added, t.Digest
		case old.Digest == t.Digest:
			continue
		default:
			c.Change, c.Digest = Changed, t.Digest
			c.Fields, c.Whole = in.fields(old, t)
		}
		out = append(out, c)
	}
	return out
}

// fields says where a definition differs from the locked one: exactly if that is
// at hand, else by the digests of its members.
func (in Input) fields(old lock.Tool, t *catalog.Tool) (fields []FieldChange, whole bool) {
	if in.Old != nil {
		if raw := in.Old(old.Digest); raw != nil {
			for _, c := range catalog.Compare(raw, t.Raw) {
				fields = append(fields, FieldChange{c.Path, c.Old, c.New})
			}
			return fields, true
		}
	}
	// Compare with nothing gives each member of the new one with its value.
	now := map[string]json.RawMessage{}
	for _, c := range catalog.Compare(json.RawMessage("{}"), t.Raw) {
		now[c.Path] = c.New
	}
	digests := catalog.FieldDigests(t.Raw)
	names := slices.Collect(maps.Keys(old.Fields))
	for name := range digests {
		if _, ok := old.Fields[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if old.Fields[name] != digests[name] {
			path := catalog.Pointer(name)
			fields = append(fields, FieldChange{Path: path, New: now[path]})
		}
	}
	return fields, false
}

// Lock is the lock file for what is there: the plugins and the tools of the
// providers in only, or if that is empty of all whose plugin is known and that have a
// list. What it does not concern stays as the old file has it; what belongs to
// providers that are not declared any more does not.
func Lock(in Input, only []string) *lock.File {
	f := lock.New()
	if in.Lock != nil {
		for name, sums := range in.Lock.Plugins {
			f.Plugins[name] = maps.Clone(sums)
		}
		for _, name := range in.unused() {
			delete(f.Plugins, name)
		}
	}
	concerns := func(p *config.Provider) bool { return len(only) == 0 || slices.Contains(only, p.Slug) }
	for _, p := range in.Plugins {
		named := func(by *config.Provider) bool { return by.Enabled && by.Plugin == p.Name && concerns(by) }
		if p.SHA256 != "" && slices.ContainsFunc(in.Config.Providers, named) {
			f.ApprovePlugin(p.Name, Platform(), p.SHA256)
		}
	}
	whole := in.all()
	for _, p := range in.Config.Providers {
		if !whole.Known(p.Slug) || !concerns(p) {
			if in.Lock != nil && in.Lock.Providers[p.Slug] != nil {
				f.Providers[p.Slug] = in.Lock.Providers[p.Slug]
			}
			continue
		}
		f.Providers[p.Slug] = map[string]lock.Tool{}
		for _, t := range whole.Tools() {
			if t.Provider == p.Slug {
				f.Approve(p.Slug, t.Name, lock.Tool{Digest: t.Digest, Fields: catalog.FieldDigests(t.Raw)})
			}
		}
	}
	return f
}
