package catalog

import (
	"encoding/json"
	"fmt"
	"sync"
)

// list is the complete list of one provider. Only named grows, and what is in it
// is not changed.
type list struct {
	provider Provider
	instance string // "" where the list is not of a running one
	raw      []json.RawMessage
	entries  []entry
	hidden   []Hidden
	faulty   []Hidden // shown all the same
	reserved map[string]bool

	mu    sync.Mutex
	named map[Naming][]*Tool
}

// entry is a definition that is of use, before it has a name for clients.
type entry struct {
	definition
	raw     json.RawMessage
	digest  string
	headers []HeaderParam
}

// readList reads a provider's raw definitions.
func (s *Store) readList(p Provider, instance string, defs []json.RawMessage) *list {
	l := &list{provider: p, instance: instance, raw: defs, reserved: s.reserved, named: map[Naming][]*Tool{}}
	seen := map[string]bool{}
	for i, raw := range defs {
		d, err := readDefinition(raw)
		if err != nil {
			l.hide(fmt.Sprintf("definition %d", i+1), err.Error())
			continue
		}
		if !exposes(p, d.name) {
			continue
		}
		if seen[d.name] {
			l.hide(d.name, "the server lists this name twice; the first one is shown")
			continue
		}
		seen[d.name] = true
		headers, fault := headerParams(raw)
		if fault != "" {
			l.faulty = append(l.faulty, Hidden{Provider: p.Slug, Name: d.name, Reason: fault})
		}
		l.entries = append(l.entries, entry{definition: d, raw: raw, digest: DigestTool(raw), headers: headers})
	}
	return l
}

func (l *list) hide(name, reason string) {
	l.hidden = append(l.hidden, Hidden{Provider: l.provider.Slug, Name: name, Reason: reason})
}

// tools are the list's tools under the names of n. All who use the same naming
// share them, and with them the bytes that clients are shown.
func (l *list) tools(n Naming) []*Tool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if tools, ok := l.named[n]; ok {
		return tools
	}
	tools := make([]*Tool, 0, len(l.entries))
	for _, e := range l.entries {
		exposed := n.expose(l.provider.Slug, e.name, l.reserved)
		tools = append(tools, &Tool{
			Provider: l.provider.Slug, Name: e.name, Exposed: exposed,
			Identity: l.provider.Identity, Instance: l.instance,
			Raw: e.raw, Listed: e.renamed(e.raw, exposed),
			Digest: e.digest, Effectful: e.effectful, Structured: e.structured, OutputSchema: e.output, Annotations: e.annotations, Headers: e.headers,
		})
	}
	l.named[n] = tools
	return tools
}

func (n Naming) orDefaults() Naming {
	if n.Names == "" {
		n.Names = NamesPrefixed
	}
	if n.NameMax == 0 {
		n.NameMax = DefaultNameMax
	}
	return n
}

// expose names a tool; one that would be taken for one of the host's own gets
// another name.
func (n Naming) expose(slug, tool string, reserved map[string]bool) string {
	prefix, exposed := "", tool
	if n.Names != NamesBare {
		prefix, exposed = slug+"_", Exposed(slug, tool, n.NameMax)
	}
	if reserved[exposed] {
		return shortened(prefix, tool, n.NameMax)
	}
	return exposed
}
