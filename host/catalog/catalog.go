package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// ErrUnknownProvider is returned by Put for a slug that the store was not made with.
var ErrUnknownProvider = errors.New("unknown provider")

// The ways of naming (`names` in the config).
const (
	// NamesPrefixed puts the provider's slug and `_` before each tool's name.
	NamesPrefixed = "prefixed"
	// NamesBare leaves tools as their servers call them; what clashes is hidden.
	NamesBare = "bare"
)

// Provider is what the catalog must know of a provider.
type Provider struct {
	Slug string
	// Tools and Except say what the provider exposes to anyone: the tools whose
	// name, as the server calls them, matches one of Tools and none of Except.
	// "*" matches any run of characters. Without Tools nothing is exposed.
	Tools, Except []string
}

// Options says how a Store names what it holds.
type Options struct {
	// Names is NamesPrefixed (the default) or NamesBare.
	Names string
	// NameMax is the most characters of an exposed name; 0 means DefaultNameMax.
	NameMax int
	// Reserved are the names of the host's own tools, which no other tool gets.
	Reserved []string
	// OnChange is called after a Put that changed what is visible, on Put's
	// goroutine. It must not call Put.
	OnChange func()
	// Logger hears about definitions that are hidden. Nil: nobody does.
	Logger *slog.Logger
}

// Store holds the catalog of each provider. Its methods may be called concurrently.
type Store struct {
	opts      Options
	providers map[string]Provider
	reserved  map[string]bool

	mu       sync.Mutex // held by Put while it builds the next snapshot
	snapshot atomic.Pointer[Snapshot]
}

// New makes a store in which no provider has a list yet.
func New(opts Options, providers []Provider) *Store {
	if opts.NameMax == 0 {
		opts.NameMax = DefaultNameMax
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{opts: opts, providers: map[string]Provider{}, reserved: map[string]bool{}}
	for _, p := range providers {
		s.providers[p.Slug] = p
	}
	for _, name := range opts.Reserved {
		s.reserved[name] = true
	}
	s.snapshot.Store(&Snapshot{})
	return s
}

// Snapshot returns what the catalog holds now.
func (s *Store) Snapshot() *Snapshot { return s.snapshot.Load() }

// Put replaces a provider's list by defs, which must be complete: the raw
// definitions in the server's order. instance is the mark of the instance that
// sent them. The bytes are kept and must not be changed by the caller. A
// definition that is of no use is hidden and reported; it is no error.
func (s *Store) Put(slug, instance string, defs []json.RawMessage) error {
	provider, ok := s.providers[slug]
	if !ok {
		return fmt.Errorf("%w %q", ErrUnknownProvider, slug)
	}
	next := s.readList(provider, instance, defs)

	s.mu.Lock()
	before := s.snapshot.Load()
	lists := make([]*list, 0, len(before.lists)+1)
	for _, l := range before.lists {
		if l.slug != slug {
			lists = append(lists, l)
		}
	}
	lists = append(lists, next)
	slices.SortFunc(lists, func(a, b *list) int { return strings.Compare(a.slug, b.slug) })
	after := assemble(lists)
	s.snapshot.Store(after)
	s.mu.Unlock()

	s.report(before, after, next)
	if s.opts.OnChange != nil && !sameView(before.tools, after.tools) {
		s.opts.OnChange()
	}
	return nil
}

// readList turns a provider's raw definitions into tools with their names.
func (s *Store) readList(p Provider, instance string, defs []json.RawMessage) *list {
	l := &list{slug: p.Slug, instance: instance}
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
		exposed := d.name
		if s.opts.Names != NamesBare {
			exposed = Exposed(p.Slug, d.name, s.opts.NameMax)
		}
		if s.reserved[exposed] {
			exposed = s.awayFromOwn(p.Slug, d.name)
		}
		headers, fault := headerParams(raw)
		if fault != "" {
			l.faulty = append(l.faulty, Hidden{Provider: p.Slug, Name: d.name, Reason: fault})
		}
		l.tools = append(l.tools, &Tool{
			Provider: p.Slug, Name: d.name, Exposed: exposed,
			Raw: raw, Listed: d.renamed(raw, exposed),
			Digest:    DigestTool(raw),
			Effectful: d.effectful, Annotations: d.annotations, Headers: headers,
		})
	}
	return l
}

// awayFromOwn names a tool that would be taken for one of the host's own.
func (s *Store) awayFromOwn(slug, tool string) string {
	prefix := ""
	if s.opts.Names != NamesBare {
		prefix = slug + "_"
	}
	return shortened(prefix, tool, s.opts.NameMax)
}

// report logs what a Put has hidden, or clients will hide: of the new list, and by
// clashes that were not there before.
func (s *Store) report(before, after *Snapshot, l *list) {
	for _, h := range l.hidden {
		s.opts.Logger.Warn("tool definition hidden", "provider", h.Provider, "tool", h.Name, "reason", h.Reason)
	}
	for _, f := range l.faulty {
		s.opts.Logger.Warn("tool definition invalid: clients of MCP 2026-07-28 on HTTP will leave it out", "provider", f.Provider, "tool", f.Name, "reason", f.Reason)
	}
	known := map[string]bool{}
	for _, c := range before.clashes {
		known[c.Exposed] = true
	}
	for _, c := range after.clashes {
		if known[c.Exposed] {
			continue
		}
		of := make([]string, 0, len(c.Tools))
		for _, t := range c.Tools {
			of = append(of, t.Provider+"/"+t.Name)
		}
		s.opts.Logger.Warn("tools hidden: they would have one name", "name", c.Exposed, "tools", of)
	}
}

// sameView says whether a client that was shown a would be shown the same by b.
func sameView(a, b []*Tool) bool {
	return slices.EqualFunc(a, b, func(x, y *Tool) bool {
		return x.Provider == y.Provider && bytes.Equal(x.Listed, y.Listed)
	})
}
