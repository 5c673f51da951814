package importer

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// references say what a client puts in the place of references in a file's texts.
type references struct {
	dollar    bool // ${NAME} and ${NAME:-default}
	bare      bool // $NAME
	percent   bool // %NAME%
	prefixed  bool // ${env:NAME}
	tolerated bool // ${NAME} is not documented, and found in files
	editor    bool // ${workspaceFolder}, ${userHome}, ${input:ID} …
	files     bool // ${file:PATH}
	braced    bool // {env:NAME} and {file:PATH}
	continues bool // ${{ secrets.NAME }} and ${{ inputs.NAME }}
	perUser   bool // {{NAME}}, a value per end user
}

// dollars says whether ${…} means anything to the client.
func (r references) dollars() bool {
	return r.dollar || r.prefixed || r.tolerated || r.editor || r.files
}

// reference finds what may be one, for any client.
var reference = regexp.MustCompile(`\$\{\{[^{}]*\}\}|\$\{[^{}]*\}|\{\{[^{}]*\}\}|\{(?:env|file):[^{}]*\}|%[A-Za-z_][A-Za-z0-9_]*%|\$[A-Za-z_][A-Za-z0-9_]*`)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// clientOnly are variables that a client sets for its servers alone.
var clientOnly = []string{"CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA", "CLAUDE_PROJECT_DIR", "extensionPath", "GEMINI_CLI"}

// resolve takes a text of the file apart. path is where it stands, and own are the
// variables that the entry itself sets where a program may expand them: its arguments.
func (b *builder) resolve(s, path string, own []string) Text {
	var out Text
	rest := 0
	for _, at := range reference.FindAllStringIndex(s, -1) {
		part := b.reference(s[at[0]:at[1]], path, own)
		if part.Kind == Literal && part.Value == "" {
			continue
		}
		out = append(append(out, literalText(s[rest:at[0]])...), part)
		rest = at[1]
	}
	out = append(out, literalText(s[rest:])...)
	for i := range out {
		if out[i].Kind == Literal && b.d.refs.dollars() && strings.Contains(reference.ReplaceAllString(out[i].Value, ""), "${") {
			out[i] = b.unresolved(path, out[i].Value, "nested", "a reference inside of another, or one that is not closed,")
		}
	}
	return out
}

// reference is what one stands for; a literal where it is text to this client.
func (b *builder) reference(s, path string, own []string) Part {
	inner := strings.TrimSpace(strings.Trim(s, "${}%"))
	switch {
	case strings.HasPrefix(s, "${{"):
		if b.d.refs.continues {
			return b.continued(s, inner, path)
		}
	case strings.HasPrefix(s, "{{"):
		if b.d.refs.perUser {
			return b.unresolved(path, s, inner, "a value per end user, which one shared provider does not have,")
		}
	case strings.HasPrefix(s, "{"):
		if b.d.refs.braced {
			kind, name, _ := strings.Cut(inner, ":")
			return b.prefixed(s, kind, name, path)
		}
	case strings.HasPrefix(s, "${"):
		if b.d.refs.dollars() {
			return b.dollar(s, s[2:len(s)-1], path, own)
		}
	case s[0] == '%':
		if b.d.refs.percent {
			return b.variable(inner, nil, path)
		}
	default:
		if b.d.refs.bare {
			if slices.Contains(own, inner) {
				b.note(path, "%s is set by the entry's own env, so it is the program's to expand; kept as text", s)
				return Part{}
			}
			return b.variable(inner, nil, path)
		}
		if b.client != Generic && !b.d.refs.dollars() {
			return Part{}
		}
	}
	b.note(path, "this client does not expand %s; kept as text", shownReference(s))
	return Part{}
}

// showable is a reference that nobody takes for a part of a password: pa$word is one.
var showable = regexp.MustCompile(`^(?:\$\{\{ ?|\$\{|\{\{ ?|\{|%|\$)(?:(?:env|file|input|config|command|secrets|inputs)[:.])?([A-Z_][A-Z0-9_]*)(?: ?\}\}|\}|%)?$`)

// shownReference is a reference as a report may show it.
func shownReference(s string) string {
	if showable.MatchString(s) {
		return s
	}
	return s[:len(s)-len(strings.TrimLeft(s, "${%"))] + "…" + s[len(strings.TrimRight(s, "}%")):]
}

// dollar is ${…}.
func (b *builder) dollar(s, inner, path string, own []string) Part {
	refs := b.d.refs
	name, fallback, given := strings.Cut(inner, ":-")
	switch kind, value, found := strings.Cut(inner, ":"); {
	case variableName.MatchString(name) && slices.Contains(own, name):
		b.note(path, "${%s} is set by the entry's own env, so it is the program's to expand; kept as text", name)
		return Part{}
	case refs.editor && !found && editorVariable(inner) != nil:
		return *editorVariable(inner)
	case variableName.MatchString(name) && (refs.dollar || refs.tolerated):
		if !refs.dollar {
			b.note(path, "plain ${%s} is not this client's documented form; taken as a variable of the host", name)
		}
		if given {
			t := literalText(fallback)
			return b.variable(name, &t, path)
		}
		return b.variable(name, nil, path)
	case found && (refs.prefixed && kind == "env" || refs.files && kind == "file" || refs.editor && kind == "input"):
		return b.prefixed(s, kind, value, path)
	case refs.bare: // it keeps what it does not know
		b.note(path, "this client does not expand %s; kept as text", shownReference(s))
		return Part{}
	case found && kind == "input":
		return b.unresolved(path, s, inner, "an input that this client does not have")
	case found:
		return b.unresolved(path, s, inner, fmt.Sprintf("${%s:…}", kind))
	}
	return b.unresolved(path, s, inner, "a reference that is not known")
}

// editorVariable is what VS Code and its kin put in the place of a predefined variable;
// nil where it is none of those that make sense outside of an editor.
func editorVariable(name string) *Part {
	switch name {
	case "userHome":
		return &Part{Kind: Home}
	case "workspaceFolder", "workspaceRoot":
		return &Part{Kind: Workspace}
	case "workspaceFolderBasename", "workspaceRootFolderName":
		return &Part{Kind: WorkspaceName}
	case "pathSeparator", "/":
		return &Part{Kind: Literal, Value: "/"}
	}
	return nil
}

// prefixed is a reference that names its kind.
func (b *builder) prefixed(s, kind, value, path string) Part {
	value = strings.TrimSpace(value)
	switch {
	case kind == "env" && variableName.MatchString(value):
		return b.variable(value, nil, path)
	case kind == "file" && value != "":
		return Part{Kind: FileRef, Value: value}
	case kind == "input":
		if input, ok := b.inputs[value]; ok {
			if !input.Secret && input.Default != nil {
				b.note(path, "the client asks its user for `%s`; what is written is the default that the file gives", value)
			} else {
				b.note(path, "the client asks its user for `%s`; set it here: drawbridge secret set %s", value, secretName(value))
			}
			if input.Secret && strings.Contains(path, ".args") {
				b.noteOnce(strings.TrimRight(path, "[]0123456789"), "a secret input is passed on the command line, where ps shows it")
			}
			return Part{Kind: InputRef, Value: value}
		}
		return b.unresolved(path, s, "input:"+value, fmt.Sprintf("the input `%s`, which is not declared,", value))
	}
	return b.unresolved(path, s, kind+":"+value, "a reference that is not known")
}

// continued is ${{ … }}.
func (b *builder) continued(s, inner, path string) Part {
	kind, name, _ := strings.Cut(inner, ".")
	switch {
	case kind == "secrets" && secretName(name) == name:
		b.note(path, "its value is one of the client's own secrets; set it here: drawbridge secret set %s", name)
		return Part{Kind: SecretRef, Value: name}
	case kind == "inputs" && secretName(name) == name:
		b.note(path, "its value was given in the client; set it here: drawbridge secret set %s", name)
		return Part{Kind: InputRef, Value: name}
	}
	return b.unresolved(path, s, inner, "a reference that is not known")
}

// variable refers to one of the host's.
func (b *builder) variable(name string, fallback *Text, path string) Part {
	if slices.Contains(clientOnly, name) {
		b.note(path, "%s is set by that client alone: where the host does not have it, the provider will not start", name)
	}
	return Part{Kind: EnvRef, Value: name, Default: fallback}
}

// unresolved is what keeps the entry from starting. what names it, and never shows a
// value.
func (b *builder) unresolved(path, written, value, what string) Part {
	b.note(path, "%s cannot be imported; the entry is imported disabled", what)
	b.off(fmt.Sprintf("%s: %s cannot be imported", path, what))
	return Part{Kind: Unresolved, Value: value, Written: written}
}
