package importer

import (
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// urlNames are the members that say where a server answers.
var urlNames = []string{"httpUrl", "url", "serverUrl", "baseUrl"}

// typeNames are those that say how it is reached.
var typeNames = []string{"type", "transport", "transportType"}

// byType are the words that clients have for the transports. "remote" is whatever a
// url alone is.
var byType = map[string]Transport{
	"stdio": Stdio, "local": Stdio,
	"http": HTTP, "streamable-http": HTTP, "streamablehttp": HTTP, "streamable_http": HTTP, "streamable": HTTP,
	"sse": SSE, "remote": "",
}

// transport finds how the server is reached, and whether the rest fits.
func (b *builder) transport(command bool) {
	s := b.e.Server
	word, at := b.kindWord()
	where, urlName := b.address()
	if b.e.Error != "" {
		return
	}
	t, known := byType[strings.ToLower(word)]
	switch {
	case word != "" && !known:
		b.fail("unknown transport %.40q", word)
	case word == "" && command && where != nil:
		b.fail("it has both a command and %s, and does not say which one is meant", urlName)
	case !command && where == nil:
		b.fail("it has neither a command nor a url; it has %s", keysOf(b.n))
	case t == Stdio && !command:
		b.fail("its transport is %s, and it has no command", word)
	case (t == HTTP || t == SSE || word != "" && t == "") && where == nil:
		b.fail("its transport is %s, and it has no url", word)
	case t == Stdio || word == "" && command:
		s.Transport = Stdio
		if where != nil {
			b.note(at, "the transport is %s, so %s is not used", word, urlName)
		}
	case t != "":
		s.Transport = t
	default:
		b.bareURL(urlName)
	}
	if command && s.Transport != Stdio && b.e.Error == "" {
		b.note(at, "the transport is %s, so command is not used", word)
	}
	if s.Transport == SSE && b.e.Error == "" {
		b.note(b.path, "SSE is the older transport; it is supported, and servers give it up")
	}
}

// kindWord is what the entry says of its transport.
func (b *builder) kindWord() (word, at string) {
	n, at := b.field(typeNames[0], typeNames[1:]...)
	switch {
	case n == nil || n.empty():
		return "", b.path
	case n.kind != text:
		b.fail("%s is %s, where a text was expected", at, n.kind)
	}
	return n.text, at
}

// address is where the server answers, and the name of the member that says so.
func (b *builder) address() (*node, string) {
	if b.where == nil {
		b.where, b.whereName = b.findAddress()
	}
	return b.where, b.whereName
}

func (b *builder) findAddress() (*node, string) {
	var found *node
	var name string
	for _, n := range urlNames {
		value := b.n.get(n)
		if value == nil {
			continue
		}
		b.used[n] = true
		switch {
		case value.empty():
			continue
		case value.kind != text:
			b.fail("%s is %s, where a text was expected", n, value.kind)
			return nil, ""
		case found != nil && found.text != value.text && b.client == Gemini && name == "httpUrl":
			b.note(step(b.path, n), "httpUrl wins over it, as it does in this client; it is not used")
			continue
		case found != nil && found.text != value.text:
			b.fail("%s and %s differ, and which one is meant cannot be told", n, name)
			return nil, ""
		case found != nil:
			continue
		}
		if whose, ok := nativeTo[n]; ok && !slices.Contains(whose, b.client) {
			b.note(step(b.path, n), "%s is not this client's name; taken as url", n)
		}
		found, name = value, n
	}
	return found, name
}

// bareURL is the transport of an entry that has a url and does not name one.
func (b *builder) bareURL(name string) {
	s, at := b.e.Server, step(b.path, name)
	s.Transport, s.Fallback = b.d.bareURL, b.d.fallback
	switch {
	case name == "httpUrl":
		s.Transport, s.Fallback = HTTP, ""
	case s.Transport == SSE:
		b.note(at, "the transport is not given; this client takes a url alone for SSE, and so does the importer")
	case s.Fallback == SSE:
		hint := ""
		if n := b.n.get(name); strings.HasSuffix(strings.TrimRight(pathOf(n.text), "/"), "/sse") {
			hint = "; its path ends with /sse, which suggests SSE: say so with transport = \"sse\""
		}
		b.note(at, "the transport is not given; streamable HTTP is tried first, then SSE%s", hint)
	}
}

func pathOf(raw string) string {
	raw, _, _ = strings.Cut(raw, "?")
	raw, _, _ = strings.Cut(raw, "#")
	return raw
}

// url reads where the server answers, and refuses what is not on this machine.
func (b *builder) url() {
	n, name := b.address()
	if n == nil {
		return
	}
	at := step(b.path, name)
	value, ok := b.value(n, at)
	if !ok {
		return
	}
	notes, off := b.Notes, b.e.Off
	t := b.resolve(value, at, nil)
	b.Notes, b.e.Off = notes, off // they are told below, once
	if b.checkURL(t); b.e.Error == "" {
		b.e.Server.URL = b.text(value, at, "", nil)
	}
}

// unknownPart stands for what is not known yet in a URL that is looked at.
const unknownPart = "\x01"

// checkURL looks at a URL as far as it is known: a default stands for its variable.
func (b *builder) checkURL(t Text) {
	var s strings.Builder
	for _, p := range t {
		switch {
		case p.Kind == Literal:
			s.WriteString(p.Value)
		case p.Default != nil:
			s.WriteString(p.Default.String())
		default:
			s.WriteString(unknownPart)
		}
	}
	raw := s.String()
	scheme, rest, found := strings.Cut(raw, "://")
	switch {
	case strings.HasPrefix(raw, unknownPart), found && strings.Contains(scheme, unknownPart):
		return
	case !found:
		b.fail("its URL has no scheme (suggest http://%s)", withoutCredentials(raw))
		return
	case !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https"):
		b.fail("unsupported URL scheme %.20q", scheme)
		return
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority = rest[:i]
	}
	if strings.Contains(authority, unknownPart) {
		return
	}
	u, err := url.Parse(scheme + "://" + authority)
	switch {
	case err != nil || u.Hostname() == "":
		b.fail("its URL cannot be read")
	case !loopback(u.Hostname()):
		b.fail("not a local server (%.100s is not this machine)", u.Hostname())
	case b.gateway(u):
		b.fail("it is this gateway itself (loop)")
	}
}

// gateway says whether a URL on this machine is where this program's host answers.
func (b *builder) gateway(u *url.URL) bool {
	_, port, err := net.SplitHostPort(b.opts.Listen)
	return err == nil && port != "0" && u.Port() == port
}

// ownToken says whether the entry is one that this program writes into clients' files:
// it sends the token of a host, by whatever reference the client has.
func (b *builder) ownToken() bool {
	if b.opts.TokenEnv == "" {
		return false
	}
	same := func(name string) bool {
		name = strings.TrimPrefix(name, "input:")
		return strings.EqualFold(strings.ReplaceAll(name, "-", "_"), b.opts.TokenEnv)
	}
	return slices.ContainsFunc(b.e.Server.Headers, func(h Variable) bool {
		return strings.EqualFold(h.Name, "Authorization") && slices.ContainsFunc(h.Value, func(p Part) bool {
			return p.Kind != Literal && same(p.Value)
		})
	})
}

// withoutCredentials is a URL as a report may show it.
func withoutCredentials(raw string) string {
	raw = pathOf(raw)
	if i := strings.LastIndexByte(raw, '@'); i >= 0 {
		raw = raw[i+1:]
	}
	return strings.ReplaceAll(raw, unknownPart, "…")
}

// loopback says whether a host is this machine, whatever a resolver says.
func loopback(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// ownCommand finds this program among the words of an entry, also inside of what a
// shell is given.
var ownCommand = regexp.MustCompile(`(?:^|[\s"';&|(/\\])([A-Za-z0-9_.-]+?)(?:\.exe)?["']?\s+(?:serve|connect)\b`)

// loop says whether the entry starts this program.
func (b *builder) loop(command string, args []string) bool {
	for i, word := range slices.Concat([]string{command}, args) {
		name := strings.TrimSuffix(strings.ToLower(path.Base(strings.ReplaceAll(word, `\`, "/"))), ".exe")
		own := slices.Contains(b.opts.Self, name) || slices.Contains(b.opts.Self, strings.ToLower(word))
		if own && (i == 0 || i < len(args) && slices.Contains([]string{"serve", "connect"}, args[i])) {
			return true
		}
		for _, m := range ownCommand.FindAllStringSubmatch(word, -1) {
			if slices.Contains(b.opts.Self, strings.ToLower(m[1])) {
				return true
			}
		}
		if u, err := url.Parse(word); err == nil && strings.HasPrefix(u.Scheme, "http") && loopback(u.Hostname()) && b.gateway(u) {
			return true
		}
	}
	return false
}
