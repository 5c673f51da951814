package config

import (
	"encoding/json"
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
// holds what fails this provider and no other: an env(), file() or secret() that
// is not there, a secret store that cannot be used, or a schema that makes no
// sense. With an error in either there is no Config, nor where Load reported one
// in the block; Secrets still holds what env() and secret() gave. A warning among
// diags is for a spelling that looks like another. lookup answers secret(); nil
// for none, which makes each an error.
func DecodeBody(p *Provider, schema provider.Schema, lookup Lookup) (d Decoded, diags, missing hcl.Diagnostics) {
	missing = slices.Clone(p.Missing)
	spec, err := specOf(schema)
	if err != nil {
		return d, nil, append(missing, problem(p.ConfigRange, "Bad schema of a plugin",
			fmt.Sprintf("The plugin %q describes its config block in a way that makes no sense: %s. This is a fault of the plugin.", p.Plugin, err)))
	}
	scope := newScope(place{base: p.BaseDir, home: home()})
	scope.lookup, scope.within = lookup, "config"
	value, found := hcldec.Decode(p.Body, spec, scope.ctx)
	diags, absent := scope.sift(found)
	missing = append(missing, absent...)
	d.Secrets, d.FromSecret = unique(scope.secrets()), unique(scope.kept)
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
	e := encoder{p: p, root: schema}
	e.block(schema, value, nil)
	if e.diags.HasErrors() {
		return d, append(diags, e.diags...), missing
	}
	if e.incomplete {
		return d, diags, missing
	}
	d.Config = provider.Config{JSON: e.json, BaseDir: p.BaseDir}
	d.Secrets = unique(append(d.Secrets, e.sensitive...))
	d.Masked = masked(p, schema, spec)
	return d, diags, missing
}

// masked is the config without what may be rotated: decoded once more with env()
// and secret() blind, so that what stands beside them in a text still counts, and
// with what is sensitive masked. What only the real values make whole (a number, a
// file's name) is masked too.
func masked(p *Provider, schema provider.Schema, spec hcldec.Spec) json.RawMessage {
	scope := newScope(place{base: p.BaseDir, home: home()})
	scope.blind = true
	value, _ := hcldec.Decode(p.Body, spec, scope.ctx)
	e := encoder{p: p, root: schema, masking: true}
	e.block(schema, value, nil)
	return e.json
}

// commandOf is the base name of the attribute `command`, without what some write
// after it. A command that is itself a secret has none.
func commandOf(schema provider.Schema, value cty.Value) string {
	i := slices.IndexFunc(schema.Attributes, func(a provider.Attribute) bool { return a.Name == "command" })
	if i < 0 || schema.Attributes[i].Sensitive {
		return ""
	}
	command := value.GetAttr("command")
	if hides(command) || command.IsNull() || command.Type() != cty.String {
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
