package importer

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// builder makes a Server of one entry.
type builder struct {
	*reader
	e    *Entry
	path string
	n    *node
	// client is whose names and references hold.
	client Client
	d      dialect
	inputs map[string]Input
	// used are the members of n that were understood.
	used map[string]bool
	// taken are the names of its secrets, lower case, with their values.
	taken map[string]string
	// where and whereName are what address has found.
	where     *node
	whereName string
}

func (b *builder) build() {
	b.client, b.d, b.inputs = b.Client, b.reader.d, b.Inputs
	b.flatten()
	command, args := b.command()
	if b.transport(command != nil); b.e.Error != "" {
		return
	}
	if b.e.Server.Transport == Stdio {
		b.environment()
		b.process(command, args)
	} else {
		if b.headers(); b.ownToken() {
			b.fail("it is this gateway itself (loop)")
			return
		}
		b.url()
	}
	b.switches()
	b.filters()
	b.timeouts()
	b.rest()
	b.advise()
}

// fail ends the entry as an error; the first one stands.
func (b *builder) fail(format string, args ...any) {
	if b.e.Error == "" {
		b.e.Error = fmt.Sprintf(format, args...)
	}
}

// off imports the entry disabled.
func (b *builder) off(why string) {
	if !slices.Contains(b.e.Off, why) {
		b.e.Off = append(b.e.Off, why)
	}
}

// flatten gives an entry the common form where a client nests it: Zed's older
// command {path, args, env}, and transport {type, command, args}.
func (b *builder) flatten() {
	members := slices.Clone(b.n.members)
	for i := 0; i < len(members); i++ {
		m := members[i]
		if m.value.kind != table || m.key != "command" && m.key != "transport" {
			continue
		}
		var inner []member
		for _, under := range m.value.members {
			if under.key == "path" {
				under.key = "command"
			}
			inner = append(inner, under)
		}
		members = slices.Replace(members, i, i+1, inner...)
		i += len(inner) - 1
	}
	flat := *b.n
	flat.members = members
	if name := flat.twice(); name != "" {
		b.fail("%q stands twice in it, and which one is meant cannot be told", name)
	}
	b.n = &flat
}

// field is the member under the first of several names that is there and not empty. A
// name of another client's is told.
func (b *builder) field(canonical string, names ...string) (n *node, path string) {
	for _, name := range slices.Concat([]string{canonical}, names) {
		value := b.n.get(name)
		if value == nil {
			continue
		}
		b.used[name] = true
		at := step(b.path, name)
		if value.kind == null {
			continue
		}
		if n != nil {
			if !same(n, value) {
				b.fail("%s and %s differ, and which one is meant cannot be told", canonical, name)
			}
			continue
		}
		if whose, ok := nativeTo[name]; ok && !slices.Contains(whose, b.client) {
			b.note(at, "%s is not this client's name; taken as %s", name, canonical)
		}
		n, path = value, at
	}
	return n, path
}

// same says whether two values are equal.
func same(a, b *node) bool {
	if a.kind != b.kind || a.text != b.text || len(a.items) != len(b.items) || len(a.members) != len(b.members) {
		return false
	}
	for i := range a.items {
		if !same(a.items[i], b.items[i]) {
			return false
		}
	}
	for i, m := range a.members {
		if m.key != b.members[i].key || !same(m.value, b.members[i].value) {
			return false
		}
	}
	return true
}

// command is the program, and the arguments that stand with it.
func (b *builder) command() (*node, []*node) {
	n, path := b.field("command")
	if n == nil || n.empty() {
		return nil, nil
	}
	if n.kind == list {
		for i, item := range n.items {
			if item.kind != text {
				b.fail("%s is %s, where a text was expected", index("command", i), item.kind)
				return nil, nil
			}
		}
		if b.client != OpenCode {
			b.note(path, "it is a list; its first element is the program, the others are arguments")
		}
		return n.items[0], n.items[1:]
	}
	if n.kind != text {
		b.fail("command is %s, where a text was expected", n.kind)
		return nil, nil
	}
	return b.split(n, path)
}

// split takes a command line apart where it can only be one: it holds a space, and no
// slash before that. Quotes mean a shell, which there is none of.
func (b *builder) split(n *node, path string) (*node, []*node) {
	program, rest, found := strings.Cut(n.text, " ")
	if !found || strings.ContainsAny(program, `/\`) {
		return n, nil
	}
	if strings.ContainsAny(rest, "\"'`|&;<>") {
		b.note(path, "it is a line for a shell, which the importer does not take apart; the entry is imported disabled")
		b.off(path + ": it is a line for a shell")
		return n, nil
	}
	b.note(path, "it holds arguments; split at the spaces")
	var args []*node
	for _, word := range strings.Fields(rest) {
		args = append(args, &node{kind: text, text: word})
	}
	return &node{kind: text, text: program}, args
}

// value is the text of a scalar, told where it was none. ok is false, and the entry
// has failed, where it cannot be one.
func (b *builder) value(n *node, path string) (string, bool) {
	switch {
	case !n.scalar():
		b.fail("%s is %s, where a text was expected", path, n.kind)
		return "", false
	case n.broken:
		b.fail("%s holds half of a character (line %d, column %d)", path, n.line, n.column)
		return "", false
	case strings.ContainsRune(n.text, 0):
		b.fail("%s holds a NUL character, which no program can be given", path)
		return "", false
	}
	switch {
	case n.reworded:
		b.note(path, "it was no text but a number or a time, and may be spelled otherwise now; write it in quotes to be sure")
	case n.odd:
		b.note(path, "some readers take what stands here for something else; kept as it is written")
	case n.kind == number:
		b.note(path, "it was a number; taken as the text that it is written as")
	case n.kind == boolean:
		b.note(path, "it was true or false; taken as the text %q", n.text)
	}
	return n.text, true
}

// environment reads env, env_file and the like.
func (b *builder) environment() {
	s := b.e.Server
	if n, path := b.field("env", "environment"); n != nil {
		b.variables(n, path, &s.Env)
	}
	if n, path := b.field("env_vars"); n != nil {
		for _, name := range b.names(n, path) {
			if !slices.ContainsFunc(s.Env, func(v Variable) bool { return v.Name == name }) {
				s.Env = append(s.Env, Variable{name, Text{{Kind: EnvRef, Value: name}}})
			}
		}
	}
	if n, path := b.field("envFile", "env_file"); n != nil && !n.empty() {
		s.EnvFile = b.pathText(n, path)
	}
	if n, path := b.field("cwd", "workingDirectory"); n != nil && !n.empty() {
		s.Cwd = b.pathText(n, path)
	}
}

// variables reads an object of variables.
func (b *builder) variables(n *node, path string, to *[]Variable) {
	if n.kind != table {
		if !n.empty() {
			b.fail("%s is %s, where an object was expected", path, n.kind)
		}
		return
	}
	if name := n.twice(); name != "" {
		b.fail("%s: %q stands twice, and which one is meant cannot be told", path, name)
	}
	for _, m := range n.members {
		at := step(path, m.key)
		if m.key == "" || strings.ContainsAny(m.key, "=\x00") {
			b.fail("%s: a name is empty or holds = or a NUL character", path)
			continue
		}
		if m.value.kind == null {
			if b.client != VSCode {
				b.note(at, "it is null; the server does not get the variable")
			}
			b.e.Server.UnsetEnv = append(b.e.Server.UnsetEnv, m.key)
			continue
		}
		value, ok := b.value(m.value, at)
		if !ok {
			continue
		}
		if strings.HasPrefix(value, "~/") {
			b.note(at, "this client does not expand ~; kept as text")
		}
		*to = append(*to, Variable{m.key, b.text(value, at, m.key, nil)})
	}
}

// names reads a list of names.
func (b *builder) names(n *node, path string) []string {
	if n.kind != list {
		b.fail("%s is %s, where a list of names was expected", path, n.kind)
		return nil
	}
	out := make([]string, 0, len(n.items))
	for i, item := range n.items {
		if item.kind != text || item.text == "" || strings.ContainsRune(item.text, 0) {
			b.fail("%s is %s, where a name was expected", index(path, i), item.kind)
			continue
		}
		out = append(out, item.text)
	}
	return out
}

var absolute = regexp.MustCompile(`^(/|~/|[A-Za-z]:[\\/]|\\\\)`)

// pathText reads a path. What a relative one is relative to, the client knows.
func (b *builder) pathText(n *node, path string) Text {
	value, ok := b.value(n, path)
	if !ok {
		return nil
	}
	t := b.text(value, path, "", nil)
	if len(t) > 0 && t[0].Kind == Literal && !absolute.MatchString(t[0].Value) {
		b.note(path, "it is relative to the workspace")
	}
	return t
}

// process reads what belongs to a server that is started.
func (b *builder) process(command *node, args []*node) {
	s := b.e.Server
	own := ownNames(s.Env)
	path := step(b.path, "command")
	if value, ok := b.value(command, path); ok {
		s.Command = b.text(value, path, "", own)
	}
	n, at := b.field("args")
	switch {
	case n == nil || n.empty():
	case n.kind == list:
		args = append(slices.Clip(args), n.items...)
	case n.scalar():
		b.note(at, "it is one text and no list; taken as one argument, and not split")
		args = append(slices.Clip(args), n)
	default:
		b.fail("args is %s, where a list was expected", n.kind)
	}
	b.arguments(args, step(b.path, "args"), own)
	if n, at := b.field("headers", "http_headers", "httpHeaders"); n != nil && !n.empty() {
		b.note(at, "headers mean nothing to a server that is started; ignored")
	}
}

func ownNames(env []Variable) []string {
	var own []string
	for _, v := range env {
		own = append(own, v.Name)
	}
	return own
}

// bearer reads a token that the client sends as Authorization.
func (b *builder) bearer(n *node, name string) {
	b.used[name] = true
	at := step(b.path, name)
	if value, ok := b.value(n, at); ok {
		t := b.secretText("Bearer "+value, at, "Authorization", true, true, nil)
		b.e.Server.Headers = append(b.e.Server.Headers, Variable{"Authorization", t})
	}
}

// headers reads what is sent to a server over HTTP.
func (b *builder) headers() {
	s := b.e.Server
	options := b.n.get("requestOptions")
	if options == nil {
		options = b.n.get("requestInit")
	}
	if n := b.n.get("bearer_token_env_var"); n != nil && n.kind == text {
		b.used["bearer_token_env_var"] = true
		s.Headers = append(s.Headers, Variable{"Authorization", Text{{Value: "Bearer "}, {Kind: EnvRef, Value: n.text}}})
	}
	for _, name := range []string{"bearer_token", "apiKey"} { // the one of Codex, the other of Continue
		if n := b.n.get(name); n != nil && n.kind == text && n.text != "" {
			b.bearer(n, name)
		}
	}
	if n, path := b.field("headers", "http_headers", "httpHeaders"); n != nil {
		b.variables(n, path, &s.Headers)
	} else if n := options.get("headers"); n != nil {
		b.variables(n, step(step(b.path, "requestOptions"), "headers"), &s.Headers)
	}
	if n := b.n.get("env_http_headers"); n != nil && n.kind == table {
		b.used["env_http_headers"] = true
		for _, m := range n.members {
			s.Headers = append(s.Headers, Variable{m.key, Text{{Kind: EnvRef, Value: m.value.text}}})
		}
	}
	for i, h := range s.Headers {
		if slices.ContainsFunc(s.Headers[:i], func(o Variable) bool { return strings.EqualFold(o.Name, h.Name) }) {
			b.fail("the header %s is given twice", h.Name)
		}
	}
	for _, name := range []string{"env", "environment", "env_vars", "envFile", "env_file", "cwd", "args"} {
		if n := b.n.get(name); n != nil {
			b.used[name] = true
			if !n.empty() {
				b.note(step(b.path, name), "it means nothing to a server that is not started; ignored")
				b.forsaken(step(b.path, name), n)
			}
		}
	}
}
