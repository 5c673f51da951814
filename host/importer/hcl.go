package importer

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Variables that stand for a workspace where none was given: a start without them is
// an error that names them.
const (
	workspaceEnv     = "WORKSPACE_FOLDER"
	workspaceNameEnv = "WORKSPACE_FOLDER_BASENAME"
)

// longCall is the default of call_timeout_max: a call_timeout above it needs another.
const longCall = 10 * time.Minute

// writer writes entries of one file as provider blocks.
type writer struct {
	im *Import
	// workspace is the folder that stands for the client's; "" for none.
	workspace string
}

// lower is a text in what HCL has: literals, env(), secret(), file() and path.home.
func (w *writer) lower(e *Entry, t Text) Text {
	workspace := w.workspace
	if e.Workspace != "" {
		workspace = e.Workspace
	}
	var out Text
	for _, p := range t {
		switch p.Kind {
		case InputRef:
			in, declared := w.im.Inputs[p.Value]
			if declared && !in.Secret && in.Default != nil {
				p = Part{Value: *in.Default}
			} else {
				p = Part{Kind: SecretRef, Value: p.Value}
			}
		case Placeholder:
			p.Kind = SecretRef
		case Workspace:
			p = Part{Kind: EnvRef, Value: workspaceEnv}
			if workspace != "" {
				p = Part{Value: workspace}
			}
		case WorkspaceName:
			p = Part{Kind: EnvRef, Value: workspaceNameEnv}
			if workspace != "" {
				p = Part{Value: filepath.Base(workspace)}
			}
		case Unresolved:
			p = Part{Value: p.Written}
		}
		if p.Kind == SecretRef {
			p.Value = secretName(p.Value)
		}
		if p.Default != nil {
			fallback := w.lower(e, *p.Default)
			p.Default = &fallback
		}
		if p.Kind == Literal && len(out) > 0 && out[len(out)-1].Kind == Literal {
			out[len(out)-1].Value += p.Value
		} else if p.Kind != Literal || p.Value != "" {
			out = append(out, p)
		}
	}
	return out
}

// path lowers a path: one that is relative is so to the workspace.
func (w *writer) path(e *Entry, t Text) Text {
	if len(t) > 0 && t[0].Kind == Literal {
		rest, inHome := strings.CutPrefix(t[0].Value, "~/")
		switch {
		case inHome:
			t = append(Text{{Kind: Home}, {Value: "/" + rest}}, t[1:]...)
		case !absolute.MatchString(t[0].Value):
			rest := strings.TrimPrefix(t[0].Value, "./")
			t = append(Text{{Kind: Workspace}, {Value: "/" + rest}}, t[1:]...)
		}
	}
	return w.lower(e, t)
}

// command lowers a program: a name is searched in PATH, a path is one.
func (w *writer) command(e *Entry, t Text) Text {
	if len(t) > 0 && t[0].Kind == Literal && strings.Contains(t[0].Value, "/") {
		return w.path(e, t)
	}
	return w.lower(e, t)
}

// lowered is a server with texts in what HCL has.
func (w *writer) lowered(e *Entry) Server {
	s := *e.Server
	s.Command, s.URL = w.command(e, s.Command), w.lower(e, s.URL)
	s.EnvFile, s.Cwd = w.path(e, s.EnvFile), w.path(e, s.Cwd)
	s.Args = nil
	for _, arg := range e.Server.Args {
		s.Args = append(s.Args, w.lower(e, arg))
	}
	variables := func(from []Variable) (out []Variable) {
		for _, v := range from {
			out = append(out, Variable{v.Name, w.lower(e, v.Value)})
		}
		return out
	}
	s.Env, s.Headers = variables(s.Env), variables(s.Headers)
	return s
}

// block is the provider block of an entry, in layout of its own.
func (w *writer) block(e *Entry) string {
	s := w.lowered(e)
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# From %s in %s (%s).", comment(e.Path), comment(filepath.Base(w.im.File)), w.im.Client)
	for _, why := range e.Off {
		line("# Off: %s.", comment(why))
	}
	for _, name := range w.toSet(&s, e) {
		line("# Before it can start: drawbridge secret set %s", name)
	}
	line("provider %s {", quote(e.Name))
	if s.Transport == Stdio {
		line(`plugin = "stdio"`)
	} else {
		line(`plugin = "http"`)
	}
	if d := e.description(); d != "" {
		line("description = %s", quote(d))
	}
	if !s.Enabled {
		line("enabled = false")
	}
	if s.ToolsAllow != nil {
		line("tools = %s", quoteList(s.ToolsAllow))
	}
	if len(s.ToolsDeny) > 0 {
		line("except = %s", quoteList(s.ToolsDeny))
	}
	line("")
	line("config {")
	b.WriteString(configBody(&s))
	line("}")
	b.WriteString(limitsBlock(&s))
	line("}")
	return b.String()
}

// toSet are the secrets that the block refers to and that the import has no value for.
func (w *writer) toSet(s *Server, e *Entry) []string {
	have := map[string]bool{}
	for _, c := range e.Credentials() {
		have[c.Name] = true
	}
	var out []string
	s.texts(func(t *Text) {
		t.each(func(p *Part) {
			if p.Kind == SecretRef && p.credential == "" && !have[p.Value] {
				have[p.Value] = true
				out = append(out, p.Value)
			}
		})
	})
	return out
}

// description is what the file says about the entry, or its name where the provider
// has another.
func (e *Entry) description() string {
	if e.Description == "" && e.Name != e.Source {
		return e.Source
	}
	return e.Description
}

// configBody is what stands in the config block.
func configBody(s *Server) string {
	var b strings.Builder
	single := func(name string, t Text) {
		if len(t) > 0 {
			fmt.Fprintf(&b, "%s = %s\n", name, expression(t))
		}
	}
	if s.Transport == Stdio {
		single("command", s.Command)
		if len(s.Args) > 0 {
			b.WriteString("args = [\n")
			for _, arg := range s.Args {
				fmt.Fprintf(&b, "%s,\n", expression(arg))
			}
			b.WriteString("]\n")
		}
		pairsBlock(&b, "env", s.Env)
		if len(s.UnsetEnv) > 0 {
			fmt.Fprintf(&b, "unset_env = %s\n", quoteList(s.UnsetEnv))
		}
		single("env_file", s.EnvFile)
		single("cwd", s.Cwd)
		return b.String()
	}
	single("url", s.URL)
	pairsBlock(&b, "headers", s.Headers)
	fmt.Fprintf(&b, "transport = %s\n", quote(s.transport()))
	return b.String()
}

// transport is the value of the plugin http's attribute.
func (s *Server) transport() string {
	if s.Fallback != "" {
		return "auto"
	}
	return string(s.Transport)
}

func pairsBlock(b *strings.Builder, name string, list []Variable) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "%s = {\n", name)
	for _, v := range list {
		fmt.Fprintf(b, "%s = %s\n", mapKey(v.Name), expression(v.Value))
	}
	b.WriteString("}\n")
}

func limitsBlock(s *Server) string {
	if s.StartTimeout == "" && s.CallTimeout == "" {
		return ""
	}
	out := "\nlimits {\n"
	if s.StartTimeout != "" {
		out += "start_timeout = " + quote(s.StartTimeout) + "\n"
	}
	if s.CallTimeout != "" {
		out += "call_timeout = " + quote(s.CallTimeout) + "\n"
		if d, err := time.ParseDuration(s.CallTimeout); err == nil && d > longCall {
			out += "call_timeout_max = " + quote(s.CallTimeout) + "\n"
		}
	}
	return out + "}\n"
}

// expression writes a lowered text.
func expression(t Text) string {
	if len(t) == 1 && t[0].Kind != Literal {
		return call(t[0])
	}
	var b strings.Builder
	b.WriteByte('"')
	for i, p := range t {
		if p.Kind == Literal {
			b.WriteString(escape(p.Value, i < len(t)-1))
		} else {
			b.WriteString("${" + call(p) + "}")
		}
	}
	b.WriteByte('"')
	return b.String()
}

func call(p Part) string {
	switch p.Kind {
	case EnvRef:
		if p.Default != nil {
			return "env(" + quote(p.Value) + ", " + expression(*p.Default) + ")"
		}
		return "env(" + quote(p.Value) + ")"
	case SecretRef:
		return "secret(" + quote(p.Value) + ")"
	case FileRef:
		return "file(" + quote(p.Value) + ")"
	}
	return "path.home"
}

func quote(s string) string { return `"` + escape(s, false) + `"` }

func quoteList(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// mapKey writes a key such that it is never a word of the language.
func mapKey(s string) string {
	switch {
	case !variableName.MatchString(s):
		return quote(s)
	case s == "for" || s == "true" || s == "false" || s == "null" || s == "if" || s == "in":
		return quote(s)
	}
	return s
}

// escape writes a text between quotes. before says that a reference follows, which a $
// at the end would take for text.
func escape(s string, before bool) string {
	var b strings.Builder
	runes := []rune(s)
	for i, r := range runes {
		switch {
		case r == '"' || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '$' || r == '%':
			b.WriteString(escapeSign(runes, i, before))
		case escaped(r):
			if r > 0xFFFF {
				fmt.Fprintf(&b, `\U%08x`, r)
			} else {
				fmt.Fprintf(&b, `\u%04x`, r)
			}
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// escapeSign writes a $ or %: doubled before a brace, as HCL has it, and as a number
// where doubling could be read in two ways.
func escapeSign(runes []rune, i int, before bool) string {
	sign := runes[i]
	last := i == len(runes)-1
	alone := i == 0 || runes[i-1] != sign
	switch {
	case last && before, !last && runes[i+1] == sign, !last && runes[i+1] == '{' && !alone:
		return fmt.Sprintf(`\u%04x`, sign)
	case !last && runes[i+1] == '{':
		return string(sign) + string(sign)
	}
	return string(sign)
}

// escaped says of a character whether it is written as a number: one that does not
// show, that turns the direction of the text, or that Unicode's form NFC would change.
func escaped(r rune) bool {
	if r < unicode.MaxASCII {
		return r < ' '
	}
	c := string(r)
	return r == unicode.MaxASCII || !unicode.IsGraphic(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) ||
		!norm.NFC.PropertiesString(c).BoundaryBefore() || !norm.NFC.IsNormalString(c)
}

// maxComment bounds a line that says where a block comes from.
const maxComment = 240

// comment is a text that cannot end a comment, nor hide in one.
func comment(s string) string {
	s = strings.Map(func(r rune) rune {
		if escaped(r) {
			return '?'
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > maxComment {
		return string(runes[:maxComment]) + "…"
	}
	return s
}

// header is what a new file begins with.
const header = "# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.\n"
