package importer

import (
	"fmt"
	"slices"
	"strings"
)

// maxShownKeys bounds what a message lists of a file.
const maxShownKeys = 12

// Read reads the text of a client's file; name is what it is called. A file that
// cannot be used as a whole gives a *FileError, and nothing of it is imported.
func Read(name string, src []byte, opts Options) (*Import, error) {
	root, in, notes, err := parse(name, src)
	if err != nil {
		return nil, err
	}
	if root.kind != table {
		return nil, &FileError{File: name, Problem: fmt.Sprintf("it holds %s, where an object with servers was expected", root.kind)}
	}
	groups, whose := groupsOf(root, in)
	if len(groups) == 0 {
		return nil, &FileError{File: name, Empty: true, Problem: "it holds no MCP servers: looked for mcpServers, servers, context_servers, mcp_servers and mcp; it has " + keysOf(root)}
	}
	r := &reader{
		Import: &Import{File: name, Client: opts.Client, Notes: notes}, opts: opts, root: root,
		sources: map[string]bool{}, names: map[string]bool{},
	}
	if r.Client == "" {
		r.Client = clientOf(name, root, whose)
	}
	r.d = dialects[r.Client]
	r.readInputs()
	for _, g := range groups {
		if err := r.group(g); err != nil {
			return nil, err
		}
	}
	r.spread()
	return r.Import, nil
}

// keysOf lists the names at the top of a file.
func keysOf(n *node) string {
	if len(n.members) == 0 {
		return "no members at all"
	}
	var names []string
	for i, m := range n.members {
		if i == maxShownKeys {
			names = append(names, fmt.Sprintf("and %d more", len(n.members)-i))
			break
		}
		names = append(names, fmt.Sprintf("%.40q", m.key))
	}
	return strings.Join(names, ", ")
}

// reader reads one file.
type reader struct {
	*Import
	opts Options
	d    dialect
	root *node
	// sources and names are those that entries have already.
	sources, names map[string]bool
}

func (r *reader) note(path, format string, args ...any) {
	r.Notes = append(r.Notes, Note{Path: path, Text: fmt.Sprintf(format, args...)})
}

func (r *reader) noteOnce(path, what string) {
	if n := (Note{Path: path, Text: what}); !slices.Contains(r.Notes, n) {
		r.Notes = append(r.Notes, n)
	}
}

func (r *reader) info(path, format string, args ...any) {
	r.Notes = append(r.Notes, Note{Path: path, Text: fmt.Sprintf(format, args...), Info: true})
}

// group reads a map or a list of entries.
func (r *reader) group(g group) error {
	switch g.value.kind {
	case null:
		return nil
	case list:
		for i, item := range g.value.items {
			path := index(g.path, i)
			name := item.get("name")
			if name == nil || !name.scalar() || name.text == "" {
				if item.get("uses") == nil && item.kind == table {
					r.note(path, "it has no name, and is called after its place")
				}
				r.entry(path, path, item, g)
				continue
			}
			r.entry(name.text, path, item, g)
		}
		return nil
	case table:
		twice := map[string]int{}
		for _, m := range g.value.members {
			twice[m.key]++
		}
		for _, m := range g.value.members {
			path := step(g.path, m.key)
			if twice[m.key] > 1 {
				r.refuse(m.key, path, m.value, fmt.Sprintf("the name stands %d times in this file, and which one is meant cannot be told; none is imported", twice[m.key]))
				continue
			}
			r.entry(m.key, path, m.value, g)
		}
		return nil
	}
	return &FileError{File: r.File, Line: g.value.line, Column: g.value.column,
		Problem: fmt.Sprintf("%s is %s, where an object of servers was expected", g.path, g.value.kind)}
}

// source makes the name of an entry one that no other has.
func (r *reader) source(name, path string) string {
	unique := name
	for n := 2; r.sources[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", name, n)
	}
	if unique != name {
		r.note(path, "another entry is named %q too; this one is called %q", name, unique)
	}
	r.sources[unique] = true
	return unique
}

// refuse records an entry that is not imported.
func (r *reader) refuse(name, path string, n *node, why string) {
	unique := name
	for i := 2; r.sources[unique]; i++ {
		unique = fmt.Sprintf("%s (%d)", name, i)
	}
	r.sources[unique] = true
	r.Entries = append(r.Entries, &Entry{Source: unique, Path: path, Line: n.line, Error: why})
}

// entry reads one entry.
func (r *reader) entry(name, path string, n *node, g group) {
	if why := refusable(n); why != "" {
		r.refuse(name, path, n, why)
		r.forsaken(path, n)
		return
	}
	before := len(r.Notes)
	name = r.source(name, path)
	b := &builder{reader: r, path: path, n: n, used: map[string]bool{"name": g.value.kind == list}, taken: map[string]string{}}
	b.e = &Entry{Source: name, Path: path, Line: n.line, Workspace: g.workspace, Server: &Server{Enabled: true}}
	b.e.Name = r.name(name, path)
	b.build()
	if b.e.Error != "" {
		b.e.Server = nil
		r.Notes = r.Notes[:before] // they are of a server that there is not
		r.forsaken(path, n)
	} else {
		b.e.Server.Enabled = len(b.e.Off) == 0
	}
	r.Entries = append(r.Entries, b.e)
}

// refusable says what makes a value no entry at all, "" if nothing.
func refusable(n *node) string {
	switch {
	case n.kind != table:
		return fmt.Sprintf("it is %s, where an object that describes a server was expected", n.kind)
	case n.twice() != "":
		return fmt.Sprintf("%q stands twice in it, and which one is meant cannot be told", n.twice())
	case n.get("uses") != nil:
		return "it refers to a block of the client's hub (uses); there is nothing to import"
	}
	if source := n.get("source"); source != nil && source.text == "extension" {
		return "it is started by an extension of the editor; the file has no command"
	}
	return ""
}

// forsaken tells of credentials in what is not imported, by their paths.
func (r *reader) forsaken(path string, n *node) {
	switch n.kind {
	case table:
		for _, m := range n.members {
			at := step(path, m.key)
			own := withoutReferences(m.value.text)
			if secret, surely := secretKey(m.key); m.value.kind == text && (secret && own != "" && !plainFor(own, surely) || len(credentials(own, "password")) > 0) {
				r.note(at, "it is a literal credential, which was not copied anywhere")
				continue
			}
			r.forsaken(at, m.value)
		}
	case list:
		for i, item := range n.items {
			r.forsaken(index(path, i), item)
		}
	case text:
		if len(credentials(withoutReferences(n.text), "password")) > 0 {
			r.note(path, "it holds a literal credential, which was not copied anywhere")
		}
	}
}

// withoutReferences is what a text holds itself: neither references, but for those with a
// default, nor the word before a credential.
func withoutReferences(s string) string {
	s = reference.ReplaceAllStringFunc(s, func(ref string) string {
		if strings.Contains(ref, ":-") {
			return ref
		}
		return ""
	})
	if rest := s[len(scheme.FindString(s)):]; rest == "" {
		return ""
	}
	return s
}

// readInputs reads what VS Code asks its user for.
func (r *reader) readInputs() {
	r.Inputs = map[string]Input{}
	path, inputs := "inputs", r.root.get("inputs")
	if inputs == nil {
		path, inputs = "mcp.inputs", r.root.at("mcp", "inputs")
	}
	if inputs == nil || inputs.kind != list {
		return
	}
	for i, item := range inputs.items {
		id := item.get("id")
		if id == nil || id.text == "" {
			r.note(index(path, i), "it has no id, and is ignored")
			continue
		}
		at := step(path, id.text)
		if _, twice := r.Inputs[id.text]; twice {
			r.note(at, "it is declared twice; the first one counts")
			continue
		}
		r.Inputs[id.text] = r.input(at, item)
	}
}

func (r *reader) input(path string, item *node) Input {
	var in Input
	switch kind := item.get("type"); {
	case kind == nil || kind.text == "promptString":
		hidden := item.get("password")
		in.Secret = hidden != nil && hidden.text == "true"
	case kind.text == "pickString":
		if options := item.get("options"); options != nil {
			for _, o := range options.items {
				if label := o.get("value"); label != nil {
					o = label
				}
				in.Options = append(in.Options, o.text)
			}
		}
	default:
		in.Secret, in.Unsupported = true, kind.text+" input"
		r.note(path, "%s inputs cannot be imported: the editor runs something to get the value; set it here, as a secret", kind.text)
	}
	fallback := item.get("default")
	if fallback == nil || !fallback.scalar() {
		return in
	}
	if secret, surely := secretKey(path[strings.LastIndexAny(path, `."`)+1:]); in.Secret || secret && !plainFor(fallback.text, surely) || len(credentials(fallback.text, "password")) > 0 {
		in.Secret = true
		r.note(path, "its default is a literal credential, which was not copied anywhere")
		return in
	}
	in.Default = &fallback.text
	return in
}

// spread takes a credential out of every other text in which it stands too.
func (r *reader) spread() {
	known := map[string]Part{}
	var values []string
	for _, e := range r.Entries {
		e.parts(func(p *Part) {
			if _, seen := known[p.credential]; p.credential != "" && len(p.credential) >= 8 && !seen {
				known[p.credential] = *p
				values = append(values, p.credential)
			}
		})
	}
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	for _, e := range r.Entries {
		if e.Server != nil {
			e.Server.texts(func(t *Text) { *t = without(*t, values, known) })
		}
	}
}

// without puts references in the place of values that stand in literal parts.
func without(t Text, values []string, known map[string]Part) Text {
	for _, value := range values {
		var out Text
		for _, p := range t {
			before, after, found := strings.Cut(p.Value, value)
			for p.Kind == Literal && found {
				out = append(append(out, literalText(before)...), known[value])
				p.Value = after
				before, after, found = strings.Cut(p.Value, value)
			}
			if p.Kind != Literal || p.Value != "" {
				out = append(out, p)
			}
		}
		t = out
	}
	return t
}
