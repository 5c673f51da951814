package rpc

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What a client's message must not hold, at top level, in params and in
// params._meta: a name that occurs twice, or one that differs from a name the
// protocol defines there by case folding alone. Servers read such messages each
// in their own way, first wins, last wins, any case wins, and the one that was
// checked here need not be the one that runs there.

// names are the names that the protocol defines at one place.
type names struct {
	folded map[string]string
	// prefixes are those of keys whose rest anyone may choose, as they are and folded.
	prefixes []prefix
}

type prefix struct {
	name   string
	folded []byte
}

func namesOf(prefixes []string, list ...string) names {
	n := names{folded: make(map[string]string, len(list))}
	for _, name := range list {
		n.folded[string(appendFold(nil, name))] = name
	}
	for _, p := range prefixes {
		n.prefixes = append(n.prefixes, prefix{p, appendFold(nil, p)})
	}
	return n
}

var (
	// JSON-RPC 2.0, sections 4 and 5.
	topNames = namesOf(nil, "jsonrpc", "id", "method", "params", "result", "error")

	// Every member of the params of any request or notification, either way, in the
	// MCP schemas of 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28.
	paramNames = namesOf(nil,
		"_meta",
		"protocolVersion", "capabilities", "clientInfo", // initialize
		"name", "arguments", "task", // tools/call, prompts/get
		"uri", "cursor", // resources/*, */list
		"ref", "argument", "context", // completion/complete
		"level", "logger", "data", // logging
		"requestId", "reason", // notifications/cancelled
		"progressToken", "progress", "total", "message", // notifications/progress, elicitation
		"inputResponses", "requestState", // a request sent again with answers, 2026-07-28
		"notifications",                                                                          // subscriptions/listen
		"taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttl", "pollInterval", // tasks
		"messages", "modelPreferences", "systemPrompt", "includeContext", "temperature", // sampling
		"maxTokens", "stopSequences", "metadata", "tools", "toolChoice",
		"mode", "requestedSchema", "elicitationId", "url", // elicitation
	)

	// The keys of _meta in the same schemas, their prefixes, and the host's own.
	metaNames = namesOf([]string{"io.modelcontextprotocol/", "drawbridge/"},
		"progressToken", "traceparent", "tracestate", "baggage",
		"io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientInfo",
		"io.modelcontextprotocol/clientCapabilities", "io.modelcontextprotocol/logLevel",
		"io.modelcontextprotocol/subscriptionId", "io.modelcontextprotocol/serverInfo",
		"io.modelcontextprotocol/related-task", "io.modelcontextprotocol/model-immediate-response",
		"io.modelcontextprotocol/tasks", "io.modelcontextprotocol/ui",
		"drawbridge/digest", "drawbridge/instance", "drawbridge/report", "drawbridge/call_id",
	)
)

// imitated returns the defined name, or prefix, that name differs from by case
// folding alone; "" if there is none.
func (n names) imitated(name string) string {
	var buf [96]byte
	folded := appendFold(buf[:0], name)
	if real, ok := n.folded[string(folded)]; ok && real != name {
		return real
	}
	for _, p := range n.prefixes {
		if bytes.HasPrefix(folded, p.folded) && !strings.HasPrefix(name, p.name) {
			return p.name
		}
	}
	return ""
}

// appendFold appends the one form that all strings which strings.EqualFold takes
// for equal have in common: of each character the least that simple folding
// leads to. That is the capital of an ASCII letter, K for the Kelvin sign and S
// for the long s.
func appendFold(dst []byte, s string) []byte {
	for _, r := range s {
		if r < utf8.RuneSelf {
			if 'a' <= r && r <= 'z' {
				r -= 'a' - 'A'
			}
			dst = append(dst, byte(r))
			continue
		}
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		dst = utf8.AppendRune(dst, least)
	}
	return dst
}

// fewMembers is how many members are compared each with each; above it a map is
// cheaper.
const fewMembers = 24

// strict refuses doubled and look-alike members where origin asks for it.
func (m *Message) strict(origin Origin) *Error {
	var seen map[place]bool
	if len(m.members) > fewMembers {
		seen = make(map[place]bool, len(m.members))
	}
	for i := range m.members {
		c := &m.members[i]
		defined, where := m.strictAt(origin, c.parent)
		if defined == nil {
			continue
		}
		if m.doubled(i, seen) {
			return invalid(fmt.Sprintf("%s occurs twice%s", quoteName(c.name), where))
		}
		if real := defined.imitated(c.name); real != "" {
			return invalid(fmt.Sprintf("%s%s is not %q", quoteName(c.name), where, real))
		}
	}
	return nil
}

// strictAt returns what the protocol defines in the object that is the value of
// member parent, and how to say where that is; nil where members are not judged.
func (m *Message) strictAt(origin Origin, parent int32) (defined *names, where string) {
	if parent == root {
		return &topNames, ""
	}
	if origin != FromClient {
		return nil, ""
	}
	p := &m.members[parent]
	if p.parent == root {
		if p.name == "params" {
			return &paramNames, ` in "params"`
		}
		return nil, ""
	}
	if p.name == "_meta" && m.members[p.parent].name == "params" {
		return &metaNames, ` in "_meta"`
	}
	return nil, ""
}

// Alike returns the names of recorded members of the object at a path that differ
// from name by case folding alone. There are readers, Go's encoding/json among them,
// that take such a member for the one of that name.
func (m *Message) Alike(name string, path ...string) []string {
	parent, ok := m.index(path)
	if !ok {
		return nil
	}
	var alike []string
	for i := range m.members {
		if c := &m.members[i]; c.parent == parent && c.name != name && strings.EqualFold(c.name, name) {
			alike = append(alike, c.name)
		}
	}
	return alike
}

type place struct {
	parent int32
	name   string
}

// doubled says whether a member before i has the same place and name.
func (m *Message) doubled(i int, seen map[place]bool) bool {
	c := &m.members[i]
	if seen != nil {
		at := place{c.parent, c.name}
		if seen[at] {
			return true
		}
		seen[at] = true
		return false
	}
	for j := range m.members[:i] {
		if d := &m.members[j]; d.parent == c.parent && d.name == c.name {
			return true
		}
	}
	return false
}

// quoteName quotes a foreign name for an error. One that is longer than a person reads is
// not shown: a piece of a secret is not found where the whole one would be.
func quoteName(name string) string {
	const most = 64
	if len(name) > most {
		return fmt.Sprintf("a member whose name has %d bytes", len(name))
	}
	return fmt.Sprintf("%q", name)
}
