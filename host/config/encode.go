package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// encoder writes a decoded config block as the JSON that a plugin gets: objects
// in the order of the schema, maps in that of their keys, strings as they are
// spelled in the file, whole numbers with all their digits. On its way it
// collects what is sensitive, or was made of what is, and finds null where a
// value is needed.
type encoder struct {
	p         *Provider
	root      provider.Schema
	json      []byte
	sensitive []string
	diags     hcl.Diagnostics
	// incomplete is set when a value is not known.
	incomplete bool
	// at is the attribute that is being written; hidden says that it is a sensitive
	// one, derived that env() or secret() had a part in the value.
	at              provider.Path
	hidden, derived bool
	// masking is set where sensitive values, and those that are not known, are not to
	// be written.
	masking bool
}

// mask is what stands for a value that is not written. No string or number is it.
const mask = `{"masked":true}`

// masked writes the mask in the place of a value that is not to be written.
func (e *encoder) masked(when bool) bool {
	if e.masking && when {
		e.json = append(e.json, mask...)
	}
	return e.masking && when
}

func (e *encoder) block(schema provider.Schema, v cty.Value, path provider.Path) {
	e.json = append(e.json, '{')
	for i, a := range schema.Attributes {
		e.key(a.Name, i > 0)
		e.attribute(a, v.GetAttr(a.Name), append(slices.Clip(path), provider.AttributeStep(a.Name)))
	}
	for i, b := range schema.Blocks {
		e.key(b.Name, i > 0 || len(schema.Attributes) > 0)
		e.blocks(b, v.GetAttr(b.Name), append(slices.Clip(path), provider.AttributeStep(b.Name)))
	}
	e.json = append(e.json, '}')
}

func (e *encoder) attribute(a provider.Attribute, v cty.Value, path provider.Path) {
	switch {
	case e.masked(!v.IsWhollyKnown()):
	case !v.IsWhollyKnown():
		e.incomplete = true // Load has said why
	case v.IsNull() && a.Required:
		e.fault(path, "Missing value", fmt.Sprintf("The attribute %q is required and must not be null.", a.Name))
	case v.IsNull() && a.Default != nil:
		e.json = append(e.json, a.Default...)
	default:
		e.hidden, e.at = a.Sensitive, path
		e.value(v)
		e.hidden = false
	}
}

func (e *encoder) blocks(b provider.Block, v cty.Value, path provider.Path) {
	v, _ = v.Unmark() // a block's attributes have marks of their own
	switch {
	case e.masked(!v.IsKnown()):
	case b.MaxItems == 1 && v.IsNull():
		e.json = append(e.json, "null"...)
	case b.MaxItems == 1:
		e.block(b.Schema, v, path)
	default:
		e.json = append(e.json, '[')
		for i, one := range v.AsValueSlice() {
			e.comma(i > 0)
			e.block(b.Schema, one, append(slices.Clip(path), provider.IndexStep(i)))
		}
		e.json = append(e.json, ']')
	}
}

func (e *encoder) value(v cty.Value) {
	if v.IsMarked() {
		defer func(outer bool) { e.derived = outer }(e.derived)
		e.derived = e.derived || hides(v)
		v, _ = v.Unmark()
	}
	ty := v.Type()
	switch {
	case e.masked(e.hidden && ty.IsPrimitiveType()):
	case v.IsNull():
		e.json = append(e.json, "null"...)
	case ty == cty.Bool:
		e.json = fmt.Append(e.json, v.True())
	case ty == cty.Number:
		e.number(v)
	case ty == cty.String:
		s := restore(v.AsString())
		e.keep(s)
		e.text(s)
	case ty.IsObjectType(), ty.IsMapType():
		members := v.AsValueMap()
		e.json = append(e.json, '{')
		for i, key := range slices.Sorted(maps.Keys(members)) {
			e.key(restore(key), i > 0)
			e.value(members[key])
		}
		e.json = append(e.json, '}')
	default: // list, set or tuple: a schema in JSON knows no other type
		e.json = append(e.json, '[')
		for i, one := range v.AsValueSlice() {
			e.comma(i > 0)
			e.value(one)
		}
		e.json = append(e.json, ']')
	}
}

// number writes all digits of a number. cty keeps 512 bits, so that what was
// written as a decimal comes out as it was.
func (e *encoder) number(v cty.Value) {
	start := len(e.json)
	f := v.AsBigFloat()
	if f.IsInf() {
		e.fault(e.at, "Number out of range", "No number is left after a division by zero.")
		return
	}
	if f.IsInt() {
		e.json = f.Append(e.json, 'f', 0)
	} else {
		e.json = f.Append(e.json, 'g', -1)
	}
	e.keep(string(e.json[start:]))
}

func (e *encoder) keep(s string) {
	if e.hidden && longEnough(s) || e.derived && utf8.RuneCountInString(s) >= minSecret {
		e.sensitive = append(e.sensitive, s)
	}
}

func (e *encoder) key(name string, more bool) {
	e.comma(more)
	e.text(name)
	e.json = append(e.json, ':')
}

func (e *encoder) comma(more bool) {
	if more {
		e.json = append(e.json, ',')
	}
}

// text writes a string. Marshalling one cannot fail; bytes that are no UTF-8
// do not get here, for neither the parser nor env() nor file() lets them pass.
func (e *encoder) text(s string) {
	quoted, err := json.Marshal(s)
	if err != nil {
		quoted = []byte(`""`)
	}
	e.json = append(e.json, quoted...)
}

func (e *encoder) fault(path provider.Path, summary, detail string) {
	e.diags = append(e.diags, problem(find(e.p, e.root, path), summary, detail))
}
