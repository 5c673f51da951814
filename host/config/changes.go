package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// A running host takes over new principals, projects and grants, and nothing else.
// So that it can tell what else two configurations differ in, and where, each keeps
// what its blocks say by the path that diagnostics use.

// setting is the value of an attribute, from a file or by default.
type setting struct {
	value any
	// at is where it stands, or the block that it is absent from; block is that block.
	at, block hcl.Range
}

// accessBlocks are what a running host takes over.
var accessBlocks = []string{"principal", "project"}

// record keeps what a block says, src being nil for one that is absent.
func (d *decoder) record(src *hclsyntax.Block, trail string, b body) {
	top, _, _ := strings.Cut(trail, ".")
	top, _, _ = strings.Cut(top, "[")
	if slices.Contains(accessBlocks, top) {
		return
	}
	for _, a := range b.attributes {
		s := setting{value: a.value()}
		if src != nil {
			s.block = src.DefRange()
			s.at = rangeIn(src, a.name)
		}
		d.settings[join(trail, a.name)] = s
	}
}

// Changes says what in next is other than in c, principals and projects aside: an
// error for each attribute, and for each block that is new or gone, with its place in
// next. What stands in `config` blocks is not compared: that takes the plugin's
// schema. No value is shown.
func (c *Config) Changes(next *Config) hcl.Diagnostics {
	var diags hcl.Diagnostics
	const remedy = "A running host takes over principals, projects and grants alone. Start it again to have this in force, or undo the change."
	before, after := c.declared(), next.declared()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[name]; !ok {
			diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: fmt.Sprintf("%s is gone", name),
				Detail: fmt.Sprintf("It stood at %s. %s", where(before[name]), remedy)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[name]; !ok {
			diags = append(diags, problem(after[name], fmt.Sprintf("%s is new", name), remedy))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(next.settings)) {
		now := next.settings[path]
		was, ok := c.settings[path]
		if !ok || reflect.DeepEqual(was.value, now.value) {
			continue // what is new as a whole was said
		}
		changed := problem(now.at, fmt.Sprintf("%s changed", path), remedy)
		if now.at == (hcl.Range{}) { // its block is absent now
			changed.Subject = nil
			changed.Detail = fmt.Sprintf("It stood at %s. %s", where(was.at), remedy)
		}
		diags = append(diags, changed)
	}
	SortDiagnostics(diags)
	return diags
}

// declared are the blocks that have a label and are more than access, by path.
func (c *Config) declared() map[string]hcl.Range {
	out := map[string]hcl.Range{}
	for _, p := range c.Providers {
		out["provider"+keyText(p.Label)] = p.Range
	}
	for _, p := range c.Plugins {
		out["plugin"+keyText(p.Name)] = p.Range
	}
	return out
}

// ConfigSource is the text of a provider's config block, for where nothing more is
// known of it.
func (c *Config) ConfigSource(p *Provider) []byte {
	body, ok := p.Body.(*hclsyntax.Body)
	if src := c.Sources[p.ConfigRange.Filename]; ok && body.SrcRange.CanSliceBytes(src) {
		return body.SrcRange.SliceBytes(src)
	}
	return nil
}
