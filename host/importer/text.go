package importer

import "strings"

// Text is a string of a server as the importer understands it: what is written, and
// what stands for something that is known later.
type Text []Part

// PartKind says what a part of a text stands for.
type PartKind string

// The kinds of a part. All but the first are written «kind:value» in the neutral form.
const (
	// Literal is text as it is.
	Literal PartKind = ""
	// EnvRef is a variable of the host, with a default where there is one.
	EnvRef PartKind = "env"
	// InputRef is a value that the client asked its user for.
	InputRef PartKind = "input"
	// SecretRef is a value of the secret store.
	SecretRef PartKind = "secret"
	// FileRef is the text of a file.
	FileRef PartKind = "file"
	// Home is the user's home folder, Workspace the folder that the client works in,
	// WorkspaceName the last name of its path.
	Home          PartKind = "home"
	Workspace     PartKind = "workspace"
	WorkspaceName PartKind = "workspace-name"
	// Placeholder is a value that the user has yet to fill in; Value names the secret
	// that it is to become.
	Placeholder PartKind = "placeholder"
	// Unresolved is what cannot be imported; Written is how it stood in the file.
	Unresolved PartKind = "unresolved"
)

// Part is a part of a Text.
type Part struct {
	Kind  PartKind
	Value string
	// Default is that of a variable; nil where there is none.
	Default *Text
	// Written is how an unresolved part stood in the file.
	Written string
	// credential is the value that goes to the secret store; "" where the part refers
	// to one that the user has to set.
	credential string
}

func literalText(s string) Text {
	if s == "" {
		return nil
	}
	return Text{{Value: s}}
}

// String is the text in the neutral form.
func (t Text) String() string {
	var b strings.Builder
	for _, p := range t {
		switch p.Kind {
		case Literal:
			b.WriteString(p.Value)
		case Home, Workspace, WorkspaceName, Placeholder:
			b.WriteString("«" + string(p.Kind) + "»")
		default:
			b.WriteString("«" + string(p.Kind) + ":" + p.Value)
			if p.Default != nil {
				b.WriteString("|" + p.Default.String())
			}
			b.WriteString("»")
		}
	}
	return b.String()
}

// literal is the text where it is nothing but that.
func (t Text) literal() (string, bool) {
	var b strings.Builder
	for _, p := range t {
		if p.Kind != Literal {
			return "", false
		}
		b.WriteString(p.Value)
	}
	return b.String(), true
}

// each visits every part, those of defaults too.
func (t Text) each(visit func(*Part)) {
	for i := range t {
		visit(&t[i])
		if t[i].Default != nil {
			t[i].Default.each(visit)
		}
	}
}
