package shape

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// The bounds of a text that is looked at. One that is larger is not.
const (
	// MaxSchema and MaxValue are the most bytes of a schema and of a result's
	// structuredContent.
	MaxSchema = 64 << 10
	MaxValue  = 128 << 10

	maxNodes   = 16 << 10
	maxNesting = 64
)

// node is a JSON value.
type node struct {
	// kind is the first byte of the text, '0' for every number.
	kind byte
	// text is what a string stands for, and the literal of a number.
	text string
	// names are those of an object's members, in order; values are theirs, or the
	// elements of an array.
	names  []string
	values []*node
	// index finds the members of an object that has many, else it is nil.
	index map[string]*node
}

// indexed is how many members an object has that needs no index.
const indexed = 8

// parse reads a text, and says how many values it has. It returns nil for one that is
// no JSON or out of bounds, and for one that names a member twice: readers differ in
// which of the two they take.
func parse(raw []byte) (n *node, nodes int) {
	p := parser{dec: jsontext.NewDecoder(bytes.NewBuffer(raw)), left: maxNodes}
	n = p.value(0)
	if _, err := p.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, 0
	}
	return n, maxNodes - p.left
}

type parser struct {
	dec  *jsontext.Decoder
	left int
}

// value reads the next one, nil where there is none or a bound is passed.
func (p *parser) value(depth int) *node {
	if p.left--; p.left < 0 || depth > maxNesting {
		return nil
	}
	tok, err := p.dec.ReadToken()
	if err != nil {
		return nil
	}
	n := &node{kind: byte(tok.Kind())}
	switch n.kind {
	case '"', '0':
		n.text = tok.String()
	case '[', '{':
		return p.within(n, depth)
	}
	return n
}

// within reads what is in an array or an object, and its end.
func (p *parser) within(n *node, depth int) *node {
	end := n.kind + 2 // of both
	for byte(p.dec.PeekKind()) != end {
		if n.kind == '{' {
			name, err := p.dec.ReadToken()
			if err != nil {
				return nil
			}
			n.names = append(n.names, name.String())
		}
		value := p.value(depth + 1)
		if value == nil {
			return nil
		}
		n.values = append(n.values, value)
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return nil
	}
	n.findable()
	return n
}

func (n *node) findable() {
	if len(n.names) <= indexed {
		return
	}
	n.index = make(map[string]*node, len(n.names))
	for i, name := range n.names {
		n.index[name] = n.values[i]
	}
}

// member is the value of an object's member, nil where there is none.
func (n *node) member(name string) *node {
	if n.index != nil {
		return n.index[name]
	}
	if i := slices.Index(n.names, name); i >= 0 {
		return n.values[i]
	}
	return nil
}

// has says whether an object has a member.
func (n *node) has(name string) bool { return n.member(name) != nil }

// kindName is what JSON Schema calls what a value is.
func (n *node) kindName() string {
	switch n.kind {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case '0':
		return "number"
	case 'n':
		return "null"
	}
	return "boolean"
}
