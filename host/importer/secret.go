package importer

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// text reads a text: its references, and what of the rest is a credential. key is the
// name that it is the value of, "" where it has none; own as in resolve.
func (b *builder) text(s, path, key string, own []string) Text {
	secret, surely := secretKey(key)
	return b.secretText(s, path, key, secret, surely, own)
}

// secretText is text where it is known whether the value is a credential.
func (b *builder) secretText(s, path, key string, secret, surely bool, own []string) Text {
	prefix := ""
	if secret {
		prefix = scheme.FindString(s)
	}
	rest := s[len(prefix):]
	if placeholderValue(rest) && (secret || key != "" || strings.HasPrefix(rest, "<") && strings.Contains(path, ".args")) {
		b.note(path, "it looks like a placeholder; set its value: drawbridge secret set %s", secretName(b.secretPath(orValue(key), "")))
		return append(literalText(prefix), Part{Kind: Placeholder, Value: b.secretPath(orValue(key), "")})
	}
	notes := b.Notes
	t := b.resolve(s, path, own)
	if _, plain := t.literal(); plain && secret && !plainFor(rest, surely) {
		b.Notes = notes // they are of what looks like references in a credential
		if cookie(key) {
			prefix, rest = "", s
		}
		return append(literalText(prefix), b.credential(rest, path, key))
	}
	for i := range t {
		if p := &t[i]; p.Kind == EnvRef && p.Default != nil {
			b.defaultOf(p, path)
		}
	}
	t = b.mask(t, path)
	if _, plain := t.literal(); !plain && secret {
		return b.pieces(t, prefix, path, key)
	}
	return t
}

// minPiece is the length from which text beside a reference counts as a part of a
// credential.
const minPiece = 6

// pieces moves what stands beside references in a credential to the secret store.
func (b *builder) pieces(t Text, prefix, path, key string) Text {
	var out Text
	for i, p := range t {
		if i == 0 && p.Kind == Literal {
			before := p.Value[:min(len(prefix), len(p.Value))]
			out, p.Value = literalText(before), p.Value[len(before):]
		}
		if p.Kind == Literal && len(strings.TrimSpace(p.Value)) >= minPiece {
			p = b.credential(p.Value, path, key)
		}
		if p.Kind != Literal || p.Value != "" {
			out = append(out, p)
		}
	}
	return out
}

func orValue(key string) string {
	if key == "" {
		return "value"
	}
	return key
}

func cookie(key string) bool { return strings.EqualFold(key, "cookie") }

// defaultOf moves the default of a variable to the secret store where it is a
// credential.
func (b *builder) defaultOf(p *Part, path string) {
	value, _ := p.Default.literal()
	if secret, surely := secretKey(p.Value); secret && !plainFor(value, surely) {
		*p.Default = Text{b.credential(value, path, p.Value)}
		return
	}
	*p.Default = b.mask(*p.Default, path)
}

// mask moves what looks like a credential in literal parts to the secret store.
func (b *builder) mask(t Text, path string) Text {
	inURL := "password"
	if strings.HasPrefix(path, b.path) && !strings.Contains(path[len(b.path):], ".args") && !strings.Contains(path[len(b.path):], ".env") {
		inURL = "url-password"
	}
	var out Text
	for i, p := range t {
		if p.Kind != Literal {
			out = append(out, p)
			continue
		}
		at := 0
		found := credentials(p.Value, inURL)
		if m := openPassword.FindStringSubmatchIndex(p.Value); i+1 < len(t) && m != nil && strings.Trim(p.Value[m[2]:m[3]], "0123456789") != "" {
			found = apart(append(found, span{m[2], m[3], inURL}))
		}
		for _, s := range found {
			out = append(append(out, literalText(p.Value[at:s.start])...), b.credential(p.Value[s.start:s.end], path, b.keyFor(s.key, path)))
			at = s.end
		}
		out = append(out, literalText(p.Value[at:])...)
	}
	return out
}

// keyFor is the name of a credential that was told by how it looks: the name that its
// text has in the file.
func (b *builder) keyFor(key, path string) string {
	key, unnamed := strings.CutPrefix(key, guessed)
	if !unnamed {
		return key
	}
	for _, under := range []string{".env", ".environment", ".headers", ".http_headers"} {
		if _, name, found := strings.Cut(path, under+"."); found {
			return name
		}
	}
	return key
}

// credential moves a value to the secret store.
func (b *builder) credential(value, path, key string) Part {
	p := Part{Kind: SecretRef, Value: b.secretPath(orValue(key), value), credential: value}
	where := ""
	switch {
	case strings.Contains(path, ".args") || strings.HasSuffix(path, ".command"):
		where = "; on the command line ps shows it: if the server can take it from its environment, move it there"
	case strings.HasSuffix(path, "rl") || strings.HasSuffix(path, "Url"):
		where = "; it stands in the URL, which servers and proxies write into logs"
	}
	b.note(path, "it carries a credential, which was moved to the secret %s%s", secretName(p.Value), where)
	return p
}

// secretPath is the name of a credential of this entry. Another one that would have
// the same name in the store, which may not tell letters' case apart, gets a number.
func (b *builder) secretPath(key, value string) string {
	path := b.e.Name + "/" + key
	for n := 2; ; n++ {
		name := strings.ToLower(secretName(path))
		if other, taken := b.taken[name]; !taken || other == value {
			b.taken[name] = value
			return path
		}
		path = fmt.Sprintf("%s/%s-%d", b.e.Name, key, n)
	}
}

// envFlags hand a variable to what a program starts, headerFlags a header.
var (
	envFlags    = []string{"-e", "--env"}
	headerFlags = []string{"-H", "--header", "--headers"}
	flagName    = regexp.MustCompile(`^--?([A-Za-z][A-Za-z0-9_-]*)$`)
	flagValue   = regexp.MustCompile(`^(--?([A-Za-z][A-Za-z0-9_-]*)=)((?s:.*))$`)
	pair        = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*=)((?s:.*))$`)
	headerPair  = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*\s*:\s*)((?s:.*))$`)
)

// arguments reads the arguments of a program, one after the other: what follows
// --api-key is one.
func (b *builder) arguments(args []*node, path string, own []string) {
	before := ""
	for i, n := range args {
		at := index(path, i)
		value, ok := b.value(n, at)
		if !ok {
			return
		}
		b.e.Server.Args = append(b.e.Server.Args, b.argument(value, before, at, own))
		before = value
	}
}

func (b *builder) argument(s, before, path string, own []string) Text {
	if m := flagName.FindStringSubmatch(before); m != nil && !strings.HasPrefix(s, "-") {
		if t, ok := b.valueOf(m[1], before, "", s, path, own); ok {
			return t
		}
	}
	if m := flagValue.FindStringSubmatch(s); m != nil {
		if t, ok := b.valueOf(m[2], strings.TrimSuffix(m[1], "="), m[1], m[3], path, own); ok {
			return t
		}
	}
	if m := pair.FindStringSubmatch(s); m != nil {
		if secret, surely := secretKey(m[1]); secret {
			return append(literalText(m[1]), b.secretText(m[2], path, strings.TrimSuffix(m[1], "="), true, surely, own)...)
		}
	}
	return b.text(s, path, "", own)
}

// valueOf reads the value of a flag, behind what stands before it in its argument. It
// is false where the flag says nothing about the value.
func (b *builder) valueOf(name, flag, prefix, value, path string, own []string) (Text, bool) {
	pattern := pair
	switch {
	case slices.Contains(headerFlags, flag):
		pattern = headerPair
	case !slices.Contains(envFlags, flag):
		if secret, surely := secretKey(name); secret {
			return append(literalText(prefix), b.secretText(value, path, name, true, surely, own)...), true
		}
		return nil, false
	}
	m := pattern.FindStringSubmatch(value)
	if m == nil {
		return nil, false
	}
	key := strings.TrimRight(m[1], "=: ")
	if secret, surely := secretKey(key); secret {
		return append(literalText(prefix+m[1]), b.secretText(m[2], path, key, true, surely, own)...), true
	}
	return nil, false
}
