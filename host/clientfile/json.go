package clientfile

import (
	"strings"

	"github.com/tailscale/hujson"
)

// document is a file of JSON with comments, parsed with the places of its parts.
type document struct {
	text string
	root *hujson.Value
	nl   string
	// unit is one step of indentation.
	unit string
}

func parseJSON(text string) (*document, error) {
	root, err := hujson.Parse([]byte(text + "\n")) // a comment may end the file
	if err != nil {
		return nil, ErrUnusable
	}
	d := &document{text: text, root: &root, nl: newline(text), unit: "  "}
	if object, ok := root.Value.(*hujson.Object); ok && len(object.Members) > 0 {
		if indent, own := d.indentAt(object.Members[0].Name.StartOffset); own && indent != "" {
			d.unit = indent
		}
	}
	return d, nil
}

// indentAt is the white space that the line of an offset begins with; own says that
// nothing else stands before the offset.
func (d *document) indentAt(offset int) (indent string, own bool) {
	line := d.text[strings.LastIndexByte(d.text[:offset], '\n')+1:]
	indent = line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	return indent, len(d.text)-len(line)+len(indent) == offset
}

// find is the value of a member; where it stands twice, it is not for us to edit.
func find(v *hujson.Value, name string) (index int, value *hujson.Value, err error) {
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		return -1, nil, ErrForm
	}
	index = -1
	for i := range object.Members {
		key, ok := object.Members[i].Name.Value.(hujson.Literal)
		if !ok || key.String() != name {
			continue
		}
		if index >= 0 {
			return -1, nil, ErrForm
		}
		index, value = i, &object.Members[i].Value
	}
	return index, value, nil
}

// putJSON puts an entry into the object at a path, which is made as far as it is missing.
func (s shape) putJSON(text string, at []string, name string, entry []field) (string, error) {
	if strings.TrimSpace(text) == "" {
		text = "{}\n"
	}
	d, err := parseJSON(text)
	if err != nil {
		return "", err
	}
	here := d.root
	for i, step := range at {
		_, next, err := find(here, step)
		if err != nil {
			return "", err
		}
		if next == nil {
			var value any = []field{{name, entry}}
			for _, missing := range reversed(at[i+1:]) {
				value = []field{{missing, value}}
			}
			return d.add(here, step, value), nil
		}
		here = next
	}
	_, old, err := find(here, name)
	if err != nil {
		return "", err
	}
	if old == nil {
		return d.add(here, name, entry), nil
	}
	indent, _ := d.indentAt(old.StartOffset)
	value := d.render(entry, indent)
	if was := text[old.StartOffset:old.EndOffset]; !strings.Contains(was, "\n") {
		value = inline(entry, ": ", quoted)
	}
	return apply(text, []splice{{old.StartOffset, old.EndOffset, value}}), nil
}

func reversed(list []string) (out []string) {
	for i := len(list) - 1; i >= 0; i-- {
		out = append(out, list[i])
	}
	return out
}

// parts are the elements of an object or a list: where each begins and ends, and where
// the comma after it is, -1 where there is none.
type part struct{ start, end, comma int }

func partsOf(v *hujson.Value) (parts []part) {
	add := func(start int, value *hujson.Value) {
		p := part{start, value.EndOffset, -1}
		if value.AfterExtra != nil {
			p.comma = value.EndOffset + len(value.AfterExtra)
		}
		parts = append(parts, p)
	}
	switch composite := v.Value.(type) {
	case *hujson.Object:
		for i := range composite.Members {
			add(composite.Members[i].Name.StartOffset, &composite.Members[i].Value)
		}
	case *hujson.Array:
		for i := range composite.Elements {
			add(composite.Elements[i].StartOffset, &composite.Elements[i])
		}
	}
	// Between elements there is a comma, with nothing before it or not.
	for i := range parts[:max(0, len(parts)-1)] {
		if parts[i].comma < 0 {
			parts[i].comma = parts[i].end
		}
	}
	return parts
}

// add puts a member behind the last of an object, or with name "" an element behind the
// last of a list, in the style of those that are there.
func (d *document) add(to *hujson.Value, name string, value any) string {
	label := ""
	if name != "" {
		label = quoted(name) + ": "
	}
	open, closing := to.StartOffset, to.EndOffset-1
	parts := partsOf(to)
	if len(parts) == 0 {
		base, _ := d.indentAt(open)
		inside := d.text[open+1 : closing]
		kept := strings.TrimRight(inside, " \t\r\n")
		tail := inside[len(kept):]
		body := d.nl + base + d.unit + label + d.render(value, base+d.unit)
		if !strings.Contains(tail, "\n") {
			tail = d.nl + base
		}
		return apply(d.text, []splice{{open + 1 + len(kept), closing, body + tail}})
	}
	last := parts[len(parts)-1]
	from, comma := last.end, ""
	if last.comma >= 0 {
		from, comma = last.comma+1, ","
	}
	kept := strings.TrimRight(d.text[from:closing], " \t\r\n")
	body := " " + label + inline(value, ": ", quoted) + comma
	if indent, own := d.indentAt(last.start); own || strings.Contains(kept, "//") {
		body = d.nl + indent + label + d.render(value, indent) + comma
	}
	splices := []splice{{from + len(kept), from + len(kept), body}}
	if comma == "" {
		splices = append([]splice{{last.end, last.end, ","}}, splices...)
	}
	return apply(d.text, splices)
}

// render is a value over several lines, as it stands on a line with that indentation.
func (d *document) render(value any, indent string) string {
	inner := indent + d.unit
	if list, ok := value.([][]field); ok {
		return "[" + d.nl + inner + d.render(list[0], inner) + d.nl + indent + "]"
	}
	fields, ok := value.([]field)
	if !ok {
		return inline(value, ": ", quoted)
	}
	var b strings.Builder
	b.WriteString("{")
	for i, f := range fields {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(d.nl + inner + quoted(f.name) + ": " + d.render(f.value, inner))
	}
	b.WriteString(d.nl + indent + "}")
	return b.String()
}

// takeJSON takes an entry out, with the comma that it no longer needs.
func (s shape) takeJSON(text, name string) (string, error) {
	d, err := parseJSON(text)
	if err != nil {
		return "", err
	}
	here := d.root
	for _, step := range s.at {
		if _, here, err = find(here, step); err != nil || here == nil {
			return "", ErrForm
		}
	}
	i, _, err := find(here, name)
	if err != nil || i < 0 {
		return "", ErrForm
	}
	return d.remove(here, i), nil
}

func (d *document) remove(from *hujson.Value, i int) string {
	parts := partsOf(from)
	before := from.StartOffset + 1
	if i > 0 {
		before = parts[i-1].comma + 1
	}
	start := before + len(strings.TrimRight(d.text[before:parts[i].start], " \t\r\n"))
	cut := splice{at: start, end: parts[i].end}
	if parts[i].comma >= 0 {
		cut.end = parts[i].comma + 1
	} else if i > 0 {
		return apply(d.text, []splice{{at: parts[i-1].comma, end: parts[i-1].comma + 1}, cut})
	}
	return apply(d.text, []splice{cut})
}

// putInput adds the input by which the client asks for the token, where it is missing.
func (s shape) putInput(text string, e Entry) (string, error) {
	d, err := parseJSON(text)
	if err != nil {
		return "", err
	}
	input := []field{{"type", "promptString"}, {"id", inputID(e)}, {"description", "Token of Drawbridge"}, {"password", true}}
	_, inputs, err := find(d.root, "inputs")
	switch {
	case err != nil:
		return "", err
	case inputs == nil:
		return d.add(d.root, "inputs", [][]field{input}), nil
	}
	list, ok := inputs.Value.(*hujson.Array)
	if !ok {
		return "", ErrForm
	}
	for i := range list.Elements {
		if _, id, err := find(&list.Elements[i], "id"); err == nil && id != nil {
			if literal, ok := id.Value.(hujson.Literal); ok && literal.String() == inputID(e) {
				return text, nil
			}
		}
	}
	return d.add(inputs, "", input), nil
}
