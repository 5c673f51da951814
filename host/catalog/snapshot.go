package catalog

import "encoding/json"

// Tool is one visible tool. Its fields must not be changed.
type Tool struct {
	// Provider is the slug, Name what the server calls the tool, Exposed what
	// clients call it.
	Provider, Name, Exposed string
	// Identity is that of the provider when it listed the tool, and Instance the
	// mark of the instance that did, "" where the list is remembered from before.
	Identity, Instance string
	// Raw is the definition as the server sent it, Listed the same with the value
	// of name replaced by Exposed.
	Raw, Listed json.RawMessage
	// Digest is DigestTool of Raw.
	Digest string
	// Effectful is false only for a definition that says readOnlyHint true.
	Effectful bool
	// Structured says that the definition has an outputSchema: clients reject its
	// results without structuredContent.
	Structured bool
	// OutputSchema is that schema, nil where there is none or more than one.
	OutputSchema json.RawMessage
	// Annotations is the definition's own member of that name, nil where there is none.
	Annotations json.RawMessage
	// Headers are the arguments that HTTP headers must repeat; nil where there are
	// none, and where the definition asks for them in an invalid way.
	Headers []HeaderParam
}

// Hidden is a definition that is not shown, and why.
type Hidden struct {
	// Name is the tool's name, or its place in the list where it has none.
	Provider, Name, Reason string
}

// Clash names tools that would all have one exposed name and are hidden for it.
type Clash struct {
	Exposed string
	Tools   []*Tool
}

// Snapshot is the catalog at one moment. It is immutable.
type Snapshot struct {
	lists []*list // by slug
	whole *View   // all of it, under the store's own naming
}

// assemble makes a snapshot of lists that are sorted by slug.
func (s *Store) assemble(lists []*list) *Snapshot {
	sn := &Snapshot{lists: lists}
	sn.whole = sn.View(s.naming, func(*Tool) bool { return true })
	return sn
}

// Tools returns the visible tools: by provider's slug, and of one provider in
// the server's order. The slice must not be changed.
func (sn *Snapshot) Tools() []*Tool { return sn.whole.Tools() }

// Find returns the visible tool of that exposed name.
func (sn *Snapshot) Find(exposed string) (*Tool, bool) { return sn.whole.Find(exposed) }

// Known says whether the provider has a complete list, be it empty.
func (sn *Snapshot) Known(slug string) bool {
	_, ok := sn.Instance(slug)
	return ok
}

// Instance returns the mark of the instance that a provider's list came from,
// "" where it is remembered from before; false where there is no list.
func (sn *Snapshot) Instance(slug string) (string, bool) {
	for _, l := range sn.lists {
		if l.provider.Slug == slug {
			return l.instance, true
		}
	}
	return "", false
}

// Clashes returns the names that more than one tool would have, in the order of
// Tools. None of those tools is visible.
func (sn *Snapshot) Clashes() []Clash { return sn.whole.Clashes() }

// Hidden returns the definitions that are of no use, by provider's slug. What a
// provider does not expose is not among them.
func (sn *Snapshot) Hidden() []Hidden {
	var all []Hidden
	for _, l := range sn.lists {
		all = append(all, l.hidden...)
	}
	return all
}
