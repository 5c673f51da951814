package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"strconv"
	"sync"
)

// View is what one caller sees of a snapshot: the tools that it may call, under
// the names of its project. It is immutable. What it holds of definitions is
// shared with all other views of the same naming.
type View struct {
	sn      *Snapshot
	tools   []*Tool
	byName  map[string]*Tool
	byTool  map[toolKey]*Tool
	clashes []Clash

	revision  func() string
	revisions func() map[string]string
}

// toolKey is a tool as its server calls it.
type toolKey struct{ provider, name string }

// View returns what a caller sees who may call what admits says. Names that clash
// are judged among what is admitted: what a caller does not see hides nothing
// from it. admits must be pure; it is called before View returns.
func (sn *Snapshot) View(n Naming, admits func(*Tool) bool) *View {
	n = n.orDefaults()
	v := &View{sn: sn, byName: map[string]*Tool{}, byTool: map[toolKey]*Tool{}}
	v.revision = sync.OnceValue(v.digest)
	v.revisions = sync.OnceValue(v.digests)
	var admitted []*Tool
	claims := map[string][]*Tool{}
	for _, l := range sn.lists {
		for _, t := range l.tools(n) {
			if admits(t) {
				admitted = append(admitted, t)
				claims[t.Exposed] = append(claims[t.Exposed], t)
			}
		}
	}
	for _, t := range admitted {
		switch claim := claims[t.Exposed]; {
		case len(claim) == 1:
			v.tools = append(v.tools, t)
			v.byName[t.Exposed] = t
			v.byTool[toolKey{t.Provider, t.Name}] = t
		case claim[0] == t:
			v.clashes = append(v.clashes, Clash{Exposed: t.Exposed, Tools: claim})
		}
	}
	return v
}

// Tools returns the caller's tools: by provider's slug, and of one provider in
// the server's order. The slice must not be changed.
func (v *View) Tools() []*Tool { return v.tools }

// Find returns the tool of that exposed name.
func (v *View) Find(exposed string) (*Tool, bool) {
	t, ok := v.byName[exposed]
	return t, ok
}

// Tool returns a provider's tool by the name that its server gives it.
func (v *View) Tool(provider, name string) (*Tool, bool) {
	t, ok := v.byTool[toolKey{provider, name}]
	return t, ok
}

// Known says whether the provider has a complete list, whatever of it the caller
// sees.
func (v *View) Known(slug string) bool { return v.sn.Known(slug) }

// Instance returns the mark of the instance that a provider's list came from, ""
// where it is remembered from before; false where there is no list.
func (v *View) Instance(slug string) (mark string, ok bool) { return v.sn.Instance(slug) }

// Clashes returns the names that more than one of the admitted tools would have,
// in the order of Tools. None of those tools is in the view.
func (v *View) Clashes() []Clash { return v.clashes }

// Revision is a digest of all that the view shows: names, order, definitions,
// and which server each is of. Two views with one revision show the same.
func (v *View) Revision() string { return v.revision() }

// Revisions are, by slug, the digests of what the view holds of each provider. One
// of which it holds nothing is not in it. The map must not be changed.
func (v *View) Revisions() map[string]string { return v.revisions() }

func (v *View) digest() string {
	h := sha256.New()
	for _, t := range v.tools {
		for _, part := range []string{t.Exposed, t.Provider, t.Name, t.Identity, t.Digest} {
			// With its length before it no part runs into the next.
			_, _ = io.WriteString(h, strconv.Itoa(len(part))+":"+part) // a hash takes everything
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (v *View) digests() map[string]string {
	by := map[string][]string{}
	for _, t := range v.tools {
		by[t.Provider] = append(by[t.Provider], t.Digest)
	}
	out := make(map[string]string, len(by))
	for slug, digests := range by {
		out[slug] = Revision(digests)
	}
	return out
}

// Revision is the digest of definitions, given by their digests in any order: the
// SHA-256, in hex, of "revision" and the sorted digests, a line each.
func Revision(digests []string) string {
	h := sha256.New()
	_, _ = io.WriteString(h, "revision\n") // a hash takes everything
	for _, d := range slices.Sorted(slices.Values(digests)) {
		_, _ = io.WriteString(h, d+"\n")
	}
	return hex.EncodeToString(h.Sum(nil))
}
