package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// minSensitive is the length from which a string of a sensitive attribute counts
// as a secret. It is below minSecret, for here the plugin has said so, and above
// "true", "debug" and the number of a port, which stand among a server's
// environment too.
const minSensitive = 6

// DecodeBody decodes the config block of p against its plugin's schema. missing
// holds what fails this provider and no other: an env() or file() that is not
// there, or a schema that makes no sense. With an error in either there is no Config, nor where Load reported one
// in the block; Secrets still holds what env() gave. A warning among diags is for
// a spelling that looks like another.
func DecodeBody(p *Provider, schema provider.Schema) (d Decoded, diags, missing hcl.Diagnostics) {
	missing = slices.Clone(p.Missing)
	spec, err := specOf(schema)
	if err != nil {
		return d, nil, append(missing, problem(p.ConfigRange, "Bad schema of a plugin",
			fmt.Sprintf("The plugin %q describes its config block in a way that makes no sense: %s. This is a fault of the plugin.", p.Plugin, err)))
	}
	scope := newScope(place{base: p.BaseDir, home: home()})
	value, found := hcldec.Decode(p.Body, spec, scope.ctx)
	diags, absent := scope.sift(found)
	missing = append(missing, absent...)
	d.Secrets = unique(scope.secrets())
	if body, ok := p.Body.(*hclsyntax.Body); ok {
		diags = slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool { return slices.Contains(toldByShape, d.Summary) })
		shape := &decoder{inBroken: p.broken}
		shape.shape(body, p.ConfigRange, "config", tableOf(schema))
		diags = append(diags, shape.diags...)
		diags = append(diags, warnDecomposed(body, sensitiveIn(schema))...)
	}
	SortDiagnostics(diags)
	SortDiagnostics(missing)
	if diags.HasErrors() || missing.HasErrors() || p.broken {
		return d, diags, missing
	}
	d.Command = commandOf(schema, value)
	masked := encoder{p: p, root: schema, masking: true}
	masked.block(schema, value, nil)
	value, _ = value.UnmarkDeep()
	e := encoder{p: p, root: schema}
	e.block(schema, value, nil)
	if e.diags.HasErrors() {
		return d, append(diags, e.diags...), missing
	}
	if e.incomplete {
		return d, diags, missing
	}
	d.Config = provider.Config{JSON: e.json, BaseDir: p.BaseDir}
	d.Masked = masked.json
	d.Secrets = unique(append(d.Secrets, e.sensitive...))
	return d, diags, missing
}

// commandOf is the base name of the attribute `command`, without what some write
// after it. A command that is itself a secret has none.
func commandOf(schema provider.Schema, value cty.Value) string {
	i := slices.IndexFunc(schema.Attributes, func(a provider.Attribute) bool { return a.Name == "command" })
	if i < 0 || schema.Attributes[i].Sensitive {
		return ""
	}
	command := value.GetAttr("command")
	if command.HasMark(fromEnv{}) || command.IsNull() || command.Type() != cty.String {
		return ""
	}
	command, _ = command.Unmark() // a default is no secret
	words := strings.Fields(restore(command.AsString()))
	if len(words) == 0 {
		return ""
	}
	return filepath.Base(words[0])
}

// sensitiveIn says of names whether a sensitive attribute of the schema, or of a
// block in it, has them.
func sensitiveIn(schema provider.Schema) func(string) bool {
	names := map[string]bool{}
	var collect func(provider.Schema)
	collect = func(s provider.Schema) {
		for _, a := range s.Attributes {
			names[a.Name] = names[a.Name] || a.Sensitive
		}
		for _, b := range s.Blocks {
			collect(b.Schema)
		}
	}
	collect(schema)
	return func(name string) bool { return names[name] }
}

func unique(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// longEnough says whether a string of a sensitive attribute counts as a secret.
func longEnough(s string) bool { return utf8.RuneCountInString(s) >= minSensitive }
