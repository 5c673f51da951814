package config

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// maxBlockDepth bounds the nesting of blocks in a schema, which is a plugin's
// word.
const maxBlockDepth = 16

// specOf turns a plugin's schema into what hcldec decodes by. An error is the
// plugin's fault, not the file's.
//
// A default is not part of the spec: a value that is absent, or null, gets its
// default where the JSON is written, as the bytes that the plugin gave.
func specOf(schema provider.Schema) (hcldec.ObjectSpec, error) {
	return specAt(schema, 0)
}

func specAt(schema provider.Schema, depth int) (hcldec.ObjectSpec, error) {
	if depth > maxBlockDepth {
		return nil, fmt.Errorf("blocks nest deeper than %d", maxBlockDepth)
	}
	spec := hcldec.ObjectSpec{}
	for _, a := range schema.Attributes {
		if err := checkName(spec, a.Name); err != nil {
			return nil, err
		}
		ty, err := ctyjson.UnmarshalType(a.Type)
		if err != nil {
			return nil, fmt.Errorf("attribute %q: type: %w", a.Name, err)
		}
		if a.Default != nil {
			if a.Required {
				return nil, fmt.Errorf("attribute %q is required and has a default", a.Name)
			}
			if _, err := ctyjson.Unmarshal(a.Default, ty); err != nil {
				return nil, fmt.Errorf("attribute %q: default: %w", a.Name, err)
			}
		}
		spec[a.Name] = &hcldec.AttrSpec{Name: a.Name, Type: ty, Required: a.Required}
	}
	for _, b := range schema.Blocks {
		if err := checkName(spec, b.Name); err != nil {
			return nil, err
		}
		if b.MaxItems > 0 && b.MinItems > b.MaxItems {
			return nil, fmt.Errorf("block %q: min_items is over max_items", b.Name)
		}
		inner, err := specAt(b.Schema, depth+1)
		if err != nil {
			return nil, fmt.Errorf("block %q: %w", b.Name, err)
		}
		if b.MaxItems == 1 {
			spec[b.Name] = &hcldec.BlockSpec{TypeName: b.Name, Nested: inner, Required: b.MinItems == 1}
			continue
		}
		// A tuple, not a list: blocks of one type may differ in a dynamic attribute.
		spec[b.Name] = &hcldec.BlockTupleSpec{TypeName: b.Name, Nested: inner, MinItems: int(b.MinItems), MaxItems: int(b.MaxItems)}
	}
	return spec, nil
}

// tableOf gives a schema the form of our own table, so that what is unknown or
// missing in a config block is told in the same words.
func tableOf(schema provider.Schema) body {
	var b body
	for _, a := range schema.Attributes {
		b.attributes = append(b.attributes, attribute{name: a.Name, usage: a.Description, required: a.Required})
	}
	for _, inner := range schema.Blocks {
		b.blocks = append(b.blocks, blockType{name: inner.Name, open: func() body { return tableOf(inner.Schema) }})
	}
	return b
}

// shape reports what is unknown and what is missing in a config block.
func (d *decoder) shape(src *hclsyntax.Body, at hcl.Range, path string, b body) {
	for name, attr := range src.Attributes {
		if !slices.ContainsFunc(b.attributes, func(a attribute) bool { return a.name == name }) {
			d.unknownAttribute(attr, path, b)
		}
	}
	d.requireIn(src, at, b)
	for _, block := range src.Blocks {
		if i := slices.IndexFunc(b.blocks, func(t blockType) bool { return t.name == block.Type }); i < 0 {
			d.unknownBlock(block, path, b)
		} else {
			d.shape(block.Body, block.DefRange(), join(path, block.Type), b.blocks[i].open())
		}
	}
}

// toldByShape are HCL's summaries of what shape has reported.
var toldByShape = []string{"Unsupported argument", "Unsupported block type", "Missing required argument"}

func checkName(spec hcldec.ObjectSpec, name string) error {
	if !hclsyntax.ValidIdentifier(name) || cty.NormalizeString(name) != name {
		return fmt.Errorf("%q is no name for an attribute or block", name)
	}
	if _, ok := spec[name]; ok {
		return fmt.Errorf("the name %q stands twice", name)
	}
	return nil
}
