package shape

import (
	"bytes"
	"net/url"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/shared/scrub"
)

// dialect is a version of JSON Schema.
type dialect uint8

// The dialects, oldest first. MCP reads a schema that names none as one of 2020-12;
// older revisions of it did not say, so where they differ nothing is known.
const (
	unnamed dialect = iota
	draft4
	draft6
	draft7
	draft2019
	draft2020
)

var dialects = map[string]dialect{
	"json-schema.org/draft-04/schema":      draft4,
	"json-schema.org/draft-06/schema":      draft6,
	"json-schema.org/draft-07/schema":      draft7,
	"json-schema.org/draft/2019-09/schema": draft2019,
	"json-schema.org/draft/2020-12/schema": draft2020,
}

// Schema is a schema that values can be held against. It is immutable.
type Schema struct {
	root    *node
	dialect dialect
	// size is what it takes to keep it: a value, or stepBytes of text, is one.
	size int
	// places are the values in it that are schemas themselves.
	places map[*node]bool
	// targets are where the references of schemas lead, by the schema; for one that
	// leads nowhere in the document it is nil, and one that cannot be followed is not in it.
	targets map[*node]*node
}

// Compile reads a schema. It returns nil for one that cannot be held against
// anything: because it has a fault, or is too large, or in a dialect that is not
// known here. Only a fault is one.
func Compile(raw []byte) (*Schema, *Fault) {
	// A secret that was taken out may have been part of what the schema says.
	if len(raw) > MaxSchema || bytes.Contains(raw, []byte(scrub.Mark)) {
		return nil, nil
	}
	root, nodes := parse(raw)
	if root == nil {
		return nil, nil
	}
	s := &Schema{root: root, size: nodes + len(raw)/stepBytes, places: map[*node]bool{}, targets: map[*node]*node{}}
	if !s.named() {
		return nil, nil
	}
	foreign := false
	s.collect(root, &foreign)
	if foreign {
		return nil, nil
	}
	if !rebased(root, true) {
		s.link()
	}
	if fault := s.fault(); fault != nil {
		return nil, fault
	}
	return s, nil
}

// cost is what it takes to keep a schema, or that there is none.
func (s *Schema) cost() int {
	if s == nil {
		return 1
	}
	return s.size
}

// named finds the dialect; false for one that is not known.
func (s *Schema) named() bool {
	name := s.root.member("$schema")
	if name == nil {
		return true
	}
	_, rest, ok := strings.Cut(strings.TrimSuffix(name.text, "#"), "://")
	if !ok || name.kind != '"' {
		return false
	}
	s.dialect, ok = dialects[rest]
	return ok
}

// Where schemas stand in a schema: as the value of a keyword, in an array, by name.
var (
	holdsOne = []string{"not", "if", "then", "else", "contains", "propertyNames", "additionalProperties",
		"unevaluatedProperties", "unevaluatedItems", "additionalItems", "items"}
	holdsMany  = []string{"allOf", "anyOf", "oneOf", "prefixItems", "items"}
	holdsNamed = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)

// collect finds the schemas in n, itself one. foreign becomes true where one of them
// names a dialect of its own.
func (s *Schema) collect(n *node, foreign *bool) {
	s.places[n] = true
	if n.kind != '{' {
		return
	}
	if n != s.root && n.has("$schema") {
		*foreign = true
	}
	for _, name := range holdsOne {
		if v := n.member(name); v != nil && v.kind != '[' {
			s.collect(v, foreign)
		}
	}
	for _, name := range holdsMany {
		if v := n.member(name); v != nil && v.kind == '[' {
			for _, one := range v.values {
				s.collect(one, foreign)
			}
		}
	}
	for _, name := range holdsNamed {
		if v := n.member(name); v != nil && v.kind == '{' {
			for _, one := range v.values {
				s.collect(one, foreign)
			}
		}
	}
}

// rebased says whether something in n gives itself an id, so that references below
// it may lead elsewhere than they seem to. That of the root changes nothing.
func rebased(n *node, root bool) bool {
	if !root {
		for _, name := range []string{"$id", "id"} {
			if id := n.member(name); id != nil && id.kind == '"' {
				return true
			}
		}
	}
	for _, v := range n.values {
		if rebased(v, false) {
			return true
		}
	}
	return false
}

// link finds where the references lead.
func (s *Schema) link() {
	for n := range s.places {
		ref := n.member("$ref")
		if ref == nil || ref.kind != '"' {
			continue
		}
		if pointer, local := strings.CutPrefix(ref.text, "#"); local && (pointer == "" || pointer[0] == '/') {
			s.lead(n, pointer)
		} // else to another document, or an anchor
	}
}

// lead notes where a schema's reference leads, if there is no doubt of that.
func (s *Schema) lead(from *node, pointer string) {
	plain, err := url.PathUnescape(pointer)
	if err != nil {
		return
	}
	target := s.root.at(plain)
	switch {
	case target == nil:
		if strings.ContainsAny(pointer, "%~") || pointer == "/" {
			return // not all readers resolve these alike
		}
	case target.isSchema() && !s.places[target]:
		return // in a keyword that is not known
	}
	s.targets[from] = target
}

// isSchema says whether a value is of a kind that schemas are.
func (n *node) isSchema() bool { return n.kind == '{' || n.kind == 't' || n.kind == 'f' }

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// at is the value at a JSON pointer, nil for none.
func (n *node) at(pointer string) *node {
	if pointer == "" {
		return n
	}
	for _, token := range strings.Split(pointer[1:], "/") {
		if n = n.step(unescape.Replace(token)); n == nil {
			return nil
		}
	}
	return n
}

func (n *node) step(token string) *node {
	if n.kind != '[' {
		return n.member(token)
	}
	i, err := strconv.Atoi(token)
	if err != nil || i < 0 || i >= len(n.values) || strconv.Itoa(i) != token {
		return nil
	}
	return n.values[i]
}
