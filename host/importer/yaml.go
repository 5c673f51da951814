package importer

import (
	"errors"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

// parseYAML reads YAML. A scalar keeps its text as it is written, whatever the
// format takes it for: 0123 is an argument, not 83.
func parseYAML(name, src string) (*node, []Note, error) {
	decoder := yaml.NewDecoder(strings.NewReader(src))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, nil, yamlError(name, err)
	}
	t := &yamlTree{name: name}
	root, err := t.node(&document, 0)
	if err != nil {
		return nil, nil, err
	}
	var notes []Note
	var more yaml.Node
	switch err := decoder.Decode(&more); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, nil, yamlError(name, err)
	default:
		notes = append(notes, Note{Path: "(file)", Text: "it holds several documents, of which only the first is read"})
	}
	return root, notes, nil
}

func yamlError(name string, err error) error {
	e := &FileError{File: name, Problem: "it is no valid YAML"}
	if errors.Is(err, io.EOF) {
		e.Empty, e.Problem = true, "it is empty"
		return e
	}
	var wrong *yaml.LoadError
	if errors.As(err, &wrong) {
		e.Line, e.Column, e.Problem = wrong.Mark.Line, wrong.Mark.Column, withoutValues(wrong.Message)
	}
	return e
}

// yamlTree turns the parser's nodes into ours; aliases and merge keys are followed.
type yamlTree struct {
	name  string
	nodes int
}

func (t *yamlTree) node(y *yaml.Node, depth int) (*node, error) {
	if t.nodes++; depth > maxDepth || t.nodes > maxNodes {
		return nil, &FileError{File: t.name, Line: y.Line, Column: y.Column, Problem: "its values are nested too deeply, or multiplied by aliases"}
	}
	n := &node{line: y.Line, column: y.Column}
	switch y.Kind {
	case yaml.DocumentNode:
		if len(y.Content) != 1 {
			return n, nil
		}
		return t.node(y.Content[0], depth+1)
	case yaml.AliasNode:
		return t.node(y.Alias, depth+1)
	case yaml.SequenceNode:
		n.kind = list
		for _, item := range y.Content {
			inner, err := t.node(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, inner)
		}
	case yaml.MappingNode:
		n.kind = table
		return n, t.mapping(n, y, depth)
	case yaml.ScalarNode:
		scalarNode(n, y)
	default:
		return n, nil
	}
	return n, nil
}

// mapping fills n. What a merge key brings stands behind what the mapping says itself.
func (t *yamlTree) mapping(n *node, y *yaml.Node, depth int) error {
	var merged []*node
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return &FileError{File: t.name, Line: key.Line, Column: key.Column, Problem: "a name is a list or an object"}
		}
		inner, err := t.node(value, depth+1)
		if err != nil {
			return err
		}
		switch {
		case key.ShortTag() != "!!merge":
			n.members = append(n.members, member{key.Value, inner})
		case inner.kind == table:
			merged = append(merged, inner)
		default:
			merged = append(merged, inner.items...)
		}
	}
	for _, from := range merged {
		for _, m := range from.members {
			if n.get(m.key) == nil {
				n.members = append(n.members, m)
			}
		}
	}
	return nil
}

// otherwise are plain scalars that some readers of YAML take for a boolean or for a
// number to the base of sixty.
var otherwise = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|[0-9]+(:[0-5]?[0-9])+)$`)

func scalarNode(n *node, y *yaml.Node) {
	n.kind, n.text = text, y.Value
	if y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return
	}
	switch y.ShortTag() {
	case "!!null":
		n.kind = null
	case "!!bool":
		n.kind = boolean
	case "!!int", "!!float":
		n.kind = number
	default:
		n.odd = y.ShortTag() != "!!str" || otherwise.MatchString(y.Value)
	}
}
