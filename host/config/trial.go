package config

import (
	"encoding/json"
	"maps"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// LoadWith reads as Load does what path would be if the file of it that is named held
// another text, or were there at all. For a path that is a file, name is that path.
func LoadWith(path, name string, text []byte) (*Config, hcl.Diagnostics) {
	sources, diags := read(path)
	if len(sources) == 0 {
		diags = nil // there is nothing yet, or nothing but what is to be replaced
	}
	with := maps.Clone(sources)
	if with == nil {
		with = map[string][]byte{}
	}
	with[name] = text
	return loadAt(path, with, diags)
}

// Stand answers env(), secret() and file() in a Trial: with a text that stands for the
// value, so that nothing is read. fallback is nil where a variable has no default.
type Stand struct {
	Env    func(name string, fallback *string) string
	Secret func(name string) string
	File   func(path string) string
	// Home is path.home.
	Home string
}

// Trial decodes the config block of p as DecodeBody does, with answers that stand for
// what a start would find. It is how one who writes a block learns whether it reads as
// it was meant.
func Trial(p *Provider, schema provider.Schema, stand Stand) (json.RawMessage, hcl.Diagnostics) {
	spec, err := specOf(schema)
	if err != nil {
		return nil, hcl.Diagnostics{problem(p.ConfigRange, "Bad schema of a plugin", err.Error())}
	}
	scope := newScope(place{base: p.BaseDir, home: stand.Home})
	scope.ctx.Functions = map[string]function.Function{
		"env": stringFunction(func(args []string) string {
			if len(args) > 1 {
				return stand.Env(args[0], &args[1])
			}
			return stand.Env(args[0], nil)
		}),
		"secret": stringFunction(func(args []string) string { return stand.Secret(args[0]) }),
		"file":   stringFunction(func(args []string) string { return stand.File(args[0]) }),
	}
	value, found := hcldec.Decode(p.Body, spec, scope.ctx)
	if diags := plain(found); diags.HasErrors() {
		return nil, diags
	}
	e := encoder{p: p, root: schema}
	e.block(schema, value, nil)
	return e.json, e.diags
}

// stringFunction is a function of one text or more.
func stringFunction(answer func(args []string) string) function.Function {
	return function.New(&function.Spec{
		Params:   []function.Parameter{{Name: "name", Type: cty.String}},
		VarParam: &function.Parameter{Name: "default", Type: cty.String},
		Type:     function.StaticReturnType(cty.String),
		Impl: func(values []cty.Value, _ cty.Type) (cty.Value, error) {
			args := make([]string, len(values))
			for i, v := range values {
				args[i] = restore(v.AsString())
			}
			return stringVal(answer(args)), nil
		},
	})
}
