package clientfile

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yamlKey is a name as a key.
func yamlKey(name string) string {
	if bareKey.MatchString(name) {
		return name
	}
	return quoted(name)
}

// yamlPlace is where a YAML file holds servers: the key and its value; nil where there is
// none.
func (s shape) yamlPlace(text string) (key, value *yaml.Node, err error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return nil, nil, ErrUnusable
	}
	if document.Kind == 0 {
		return nil, nil, nil
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, nil, ErrForm
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == s.at[0] {
			if key != nil {
				return nil, nil, ErrForm
			}
			key, value = root.Content[i], root.Content[i+1]
		}
	}
	return key, value, nil
}

// entryLines is an entry as lines.
func (s shape) entryLines(name string, entry []field, indent, nl string) string {
	var b strings.Builder
	inner := indent + "  "
	if s.list {
		b.WriteString(indent + "- name: " + quoted(name) + nl)
	} else {
		b.WriteString(indent + yamlKey(name) + ":" + nl)
	}
	for _, f := range entry {
		b.WriteString(inner + yamlKey(f.name) + ": " + inline(f.value, ": ", yamlKey) + nl)
	}
	return b.String()
}

// putYAML writes an entry as the first of the servers, whose place is certain: where the
// last one ends only a reader of the whole language knows.
func (s shape) putYAML(text, name string, entry []field) (string, error) {
	if root, err := s.decode(text); err == nil && s.entry(root, name) != nil {
		if text, err = s.takeYAML(text, name); err != nil {
			return "", err
		}
	}
	key, value, err := s.yamlPlace(text)
	if err != nil {
		return "", err
	}
	nl := newline(text)
	if key == nil {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += nl
		}
		return text + s.at[0] + ":" + nl + s.entryLines(name, entry, "  ", nl), nil
	}
	lines := strings.SplitAfter(text, "\n")
	line := key.Line - 1
	indent := strings.Repeat(" ", key.Column+1)
	switch empty := len(value.Content) == 0; {
	case empty && value.Kind == yaml.ScalarNode && value.Value == "":
	case empty && value.Line == key.Line && (value.Kind == yaml.SequenceNode || value.Kind == yaml.MappingNode):
		after, ok := cutEmpty(lines[line][value.Column-1:])
		if !ok {
			return "", ErrForm
		}
		lines[line] = strings.TrimRight(lines[line][:value.Column-1], " ") + after
	case !empty && value.Style&yaml.FlowStyle == 0 && value.Line > key.Line && value.Kind != yaml.AliasNode:
		indent = strings.Repeat(" ", value.Column-1)
	default:
		return "", ErrForm
	}
	if !strings.HasSuffix(lines[line], "\n") {
		lines[line] += nl
	}
	return strings.Join(slices.Insert(lines, line+1, s.entryLines(name, entry, indent, nl)), ""), nil
}

// cutEmpty cuts an empty list or object from the beginning of a text.
func cutEmpty(text string) (after string, ok bool) {
	for _, empty := range []string{"[]", "{}"} {
		if rest, found := strings.CutPrefix(text, empty); found {
			return rest, true
		}
	}
	return "", false
}

// takeYAML takes out the lines of an entry.
func (s shape) takeYAML(text, name string) (string, error) {
	key, value, err := s.yamlPlace(text)
	if err != nil || key == nil || value.Style&yaml.FlowStyle != 0 {
		return "", ErrForm
	}
	first, last, count := 0, 0, 0
	for i, one := range value.Content {
		body := one
		if value.Kind == yaml.MappingNode {
			if i%2 == 1 {
				continue
			}
			body = value.Content[i+1]
		}
		count++
		if value.Kind == yaml.MappingNode && one.Value == name || value.Kind == yaml.SequenceNode && named(one, name) {
			first, last = one.Line, lastLine(body)
		}
	}
	if first == 0 {
		return "", ErrForm
	}
	lines := strings.SplitAfter(text, "\n")
	lines = slices.Delete(lines, first-1, last)
	if count == 1 { // a key without a value is no empty list
		empty, line := " {}", key.Line-1
		if s.list {
			empty = " []"
		}
		body := strings.TrimRight(lines[line], "\r\n")
		at := strings.IndexByte(body, ':') + 1
		lines[line] = body[:at] + empty + body[at:] + lines[line][len(body):]
	}
	return strings.Join(lines, ""), nil
}

// named says whether an item of a list has a name.
func named(item *yaml.Node, name string) bool {
	for i := 0; i+1 < len(item.Content); i += 2 {
		if item.Content[i].Value == "name" && item.Content[i+1].Value == name {
			return true
		}
	}
	return false
}

// lastLine is that of the last part of a value. A text of several lines has more; then
// the result does not read as it should, and is not used.
func lastLine(n *yaml.Node) int {
	last := n.Line
	for _, inner := range n.Content {
		last = max(last, lastLine(inner))
	}
	return last
}
