package shape

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fault is what surely keeps a text from being a schema.
type Fault struct {
	// At is where, as a JSON pointer into the schema. It follows references.
	At string
	// Problem is a clause for people. It holds no value of the schema.
	Problem string
}

// types are what a value can be.
var types = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// spot is a schema within a schema, and the way to it.
type spot struct {
	schema *node
	up     *spot
	steps  []string
}

func (p *spot) fault(keyword, problem string, more ...any) *Fault {
	way := []string{keyword}
	if keyword == "" {
		way = nil
	}
	for ; p != nil; p = p.up {
		way = append(slices.Clone(p.steps), way...)
	}
	return &Fault{At: pointer(way), Problem: fmt.Sprintf(problem, more...)}
}

// fault looks at what a reader of the schema must read, the root and where that
// leads, for what no reader can make sense of.
func (s *Schema) fault() *Fault {
	seen := map[*node]bool{s.root: true}
	for todo := []*spot{{schema: s.root}}; len(todo) > 0; todo = todo[1:] {
		p := todo[0]
		if !p.schema.isSchema() {
			return p.fault("", "is %s, and must be an object or a boolean", p.schema.article())
		}
		if fault := s.faultIn(p); fault != nil {
			return fault
		}
		for _, next := range s.below(p) {
			if !seen[next.schema] {
				seen[next.schema] = true
				todo = append(todo, next)
			}
		}
	}
	return nil
}

// below are the schemas that every reader of p reads.
func (s *Schema) below(p *spot) []*spot {
	var out []*spot
	add := func(n *node, steps ...string) { out = append(out, &spot{schema: n, up: p, steps: steps}) }
	if target := s.targets[p.schema]; target != nil {
		add(target, "$ref")
	}
	if s.lone(p.schema) {
		return out
	}
	for _, name := range []string{"not", "additionalProperties", "items"} {
		if v := p.schema.member(name); v != nil && v.kind != '[' {
			add(v, name)
		}
	}
	for _, name := range s.lists() {
		if v := p.schema.member(name); v != nil {
			for i, one := range v.values {
				add(one, name, strconv.Itoa(i))
			}
		}
	}
	for _, name := range []string{"properties", "patternProperties"} {
		if v := p.schema.member(name); v != nil {
			for i, one := range v.values {
				add(one, name, v.names[i])
			}
		}
	}
	return out
}

// lists are the keywords with arrays of schemas.
func (s *Schema) lists() []string {
	if s.dialect == draft2020 || s.dialect == unnamed {
		return []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	}
	return []string{"allOf", "anyOf", "oneOf"}
}

// lone says whether what stands beside a schema's `$ref` may mean nothing: older
// dialects have it so.
func (s *Schema) lone(n *node) bool {
	return n.has("$ref") && s.dialect != draft2019 && s.dialect != draft2020
}

// faultIn looks at the keywords of one schema.
func (s *Schema) faultIn(p *spot) *Fault {
	n := p.schema
	if ref := n.member("$ref"); ref != nil && ref.kind != '"' {
		return p.fault("$ref", "is %s, and must be a string", ref.article())
	}
	if target, followed := s.targets[n]; followed && target == nil {
		return p.fault("$ref", "leads to nothing in the schema")
	}
	if s.lone(n) {
		return nil
	}
	for _, group := range []struct {
		kind  byte
		names []string
	}{
		{'{', []string{"properties", "patternProperties"}},
		{'[', append(s.lists(), "enum", "required")},
		{'"', []string{"pattern"}},
		{'0', []string{"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}},
	} {
		for _, name := range group.names {
			if v := n.member(name); v != nil && v.kind != group.kind {
				return p.fault(name, "is %s, and must be %s", v.article(), (&node{kind: group.kind}).article())
			}
		}
	}
	if required := n.member("required"); required != nil {
		for _, name := range required.values {
			if name.kind != '"' {
				return p.fault("required", "holds %s, and must hold strings", name.article())
			}
		}
	}
	return p.faultyType(n.member("type"))
}

func (p *spot) faultyType(t *node) *Fault {
	if t == nil {
		return nil
	}
	names := []*node{t}
	if t.kind == '[' {
		names = t.values
	}
	for _, name := range names {
		switch {
		case name.kind != '"':
			return p.fault("type", "is or holds %s, and must be the name of a type or an array of such names", name.article())
		case !slices.Contains(types, name.text):
			return p.fault("type", "is or holds a name that is no type: there are %s", strings.Join(types, ", "))
		}
	}
	return nil
}

// article is kindName in a sentence.
func (n *node) article() string {
	switch kind := n.kindName(); kind {
	case "object", "array":
		return "an " + kind
	case "null":
		return kind
	default:
		return "a " + kind
	}
}

// maxPointer bounds a pointer as it is told.
const maxPointer = 256

var escape = strings.NewReplacer("~", "~0", "/", "~1")

// pointer writes a way as a JSON pointer.
func pointer(way []string) string {
	var b strings.Builder
	for _, step := range way {
		if b.Len()+len(step) > maxPointer {
			b.WriteString("/…")
			break
		}
		b.WriteByte('/')
		_, _ = escape.WriteString(&b, step) // a builder takes everything
	}
	return b.String()
}
