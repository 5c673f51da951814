package catalog

import (
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
	// Identity decides which server the provider's definitions are of, and
	// Generation is the ordinal of what its process is made of; "" and 0 where they
	// are not known yet. Both come with Apply.
	Identity   string
	Generation int
}

// Naming is a way to name tools.
type Naming struct {
	// Names is NamesPrefixed (the default) or NamesBare.
	Names string
	// NameMax is the most characters of an exposed name; 0 means DefaultNameMax.
	NameMax int
}

// Options says how a Store names what it holds.
type Options struct {
	// Names and NameMax are the naming of a Snapshot's own Tools.
	Names   string
	NameMax int
	// Reserved are the names of the host's own tools, which no other tool gets.
	Reserved []string
	// OnChange is called after a Put that changed what is visible, on Put's
	// goroutine. It must not call Put.
	OnChange func()
	// Dir is where the last complete list of each identity is kept, a file each; ""
	// keeps none. With Afresh they are written and not read.
	Dir    string
	Afresh bool
	// Clean takes secrets out of what a server says of itself, before anything else
	// is made of it: a digest outlives a secret. It gives back what holds none. Nil:
	// nothing is taken out.
	Clean func(json.RawMessage) json.RawMessage
	// OutputSchema is told of each outputSchema that is listed in a definition that was
	// not there before, on Put's goroutine. It must not call Put. Nil: nobody is.
	OutputSchema func(provider, tool, digest string, schema []byte)
	// Logger hears about definitions that are hidden and files that are of no use.
	// Nil: nobody does.
	Logger *slog.Logger
}

// Store holds the catalog of each provider. Its methods may be called concurrently.
type Store struct {
	opts     Options
	naming   Naming
	reserved map[string]bool

	disk disk

	mu        sync.Mutex // held while the next snapshot is built
	providers map[string]Provider
	servers   map[string]Server // by slug
	puts      uint64            // how many lists have come: their order
	snapshot  atomic.Pointer[Snapshot]
}

// New makes a store in which no provider has a list yet.
func New(opts Options, providers []Provider) *Store {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{opts: opts, naming: Naming{opts.Names, opts.NameMax}.orDefaults(), reserved: map[string]bool{}}
	for _, name := range opts.Reserved {
		s.reserved[name] = true
	}
	s.disk = disk{dir: opts.Dir, log: opts.Logger, saved: map[string]string{}, latest: map[string]uint64{}}
	s.providers, s.servers = bySlug(providers), map[string]Server{}
	s.snapshot.Store(s.assemble(nil))
	return s
}

func bySlug(providers []Provider) map[string]Provider {
	m := make(map[string]Provider, len(providers))
	for _, p := range providers {
		m[p.Slug] = p
	}
	return m
}

// Snapshot returns what the catalog holds now.
func (s *Store) Snapshot() *Snapshot { return s.snapshot.Load() }

// Apply sets the providers. A list stays where its provider has the same identity
// as before, or had none, and goes with a provider that is no longer there. One
// that has no list gets what the disk has of its identity, if anything.
func (s *Store) Apply(providers []Provider) {
	remembered := map[string]kept{}
	for _, p := range providers {
		if s.opts.Afresh {
			break
		}
		if k, ok := s.disk.load(p.Slug, p.Identity); ok {
			k.defs = s.clean(k.defs) // it may be one only since
			remembered[p.Slug] = k
		}
	}
	s.change(func(before []*list) []*list {
		s.providers = bySlug(providers)
		servers := map[string]Server{}
		var after []*list
		for _, l := range before {
			p, ok := s.providers[l.provider.Slug]
			if ok && (l.provider.Identity == "" || l.provider.Identity == p.Identity) {
				after = append(after, s.readList(p, l.instance, l.raw))
				servers[p.Slug] = s.servers[p.Slug]
				delete(remembered, p.Slug)
			}
		}
		for slug, k := range remembered {
			after = replaced(after, s.readList(s.providers[slug], "", k.defs))
			servers[slug] = k.server
		}
		s.servers = servers
		return after
	})
}

// Met says what a provider's server is. It comes before the list that Put gets of
// that server, and is remembered with it.
func (s *Store) Met(slug string, server Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opts.Clean != nil && server.Capabilities != nil {
		server.Capabilities = s.opts.Clean(server.Capabilities)
	}
	s.servers[slug] = server
}

// clean are definitions without secrets.
func (s *Store) clean(defs []json.RawMessage) []json.RawMessage {
	if s.opts.Clean == nil {
		return defs
	}
	out := make([]json.RawMessage, len(defs))
	for i, d := range defs {
		out[i] = s.opts.Clean(d)
	}
	return out
}

// Server returns what is known of a provider's server: of the last that was met, or
// of the one whose list is remembered.
func (s *Store) Server(slug string) (Server, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server, ok := s.servers[slug]
	return server, ok && server.Era != ""
}

// Provider returns what the catalog was told of a provider.
func (s *Store) Provider(slug string) (Provider, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.providers[slug]
	return p, ok
}

// Put replaces a provider's list by defs, which must be complete: the raw
// definitions in the server's order. instance is the mark of the instance that
// sent them. The bytes are kept and must not be changed by the caller. A
// definition that is of no use is hidden and reported; it is no error. Nor is it
// one if the list cannot be kept on disk.
func (s *Store) Put(slug, instance string, defs []json.RawMessage) error {
	defs = s.clean(defs)
	var (
		provider Provider
		known    bool
		k        = kept{defs: defs}
		used     = map[string]bool{}
	)
	s.change(func(before []*list) []*list {
		if provider, known = s.providers[slug]; !known {
			return before
		}
		s.puts++
		k.server, k.order = s.servers[slug], s.puts
		for _, p := range s.providers {
			used[p.Identity] = true
		}
		return replaced(before, s.readList(provider, instance, defs))
	})
	if !known {
		return fmt.Errorf("%w %q", ErrUnknownProvider, slug)
	}
	s.disk.save(slug, provider.Identity, k, used)
	return nil
}

// replaced is lists with next in the place of its provider's.
func replaced(lists []*list, next *list) []*list {
	after := make([]*list, 0, len(lists)+1)
	for _, l := range lists {
		if l.provider.Slug != next.provider.Slug {
			after = append(after, l)
		}
	}
	after = append(after, next)
	slices.SortFunc(after, func(a, b *list) int { return strings.Compare(a.provider.Slug, b.provider.Slug) })
	return after
}

// change swaps in the snapshot of other lists, and tells of what that changes.
func (s *Store) change(f func(before []*list) []*list) {
	s.mu.Lock()
	before := s.snapshot.Load()
	after := s.assemble(f(before.lists))
	s.snapshot.Store(after)
	s.mu.Unlock()

	s.report(before, after)
	if s.opts.OnChange != nil && !sameTools(before.lists, after.lists) {
		s.opts.OnChange()
	}
}

// report logs what is hidden, or clients will hide, and was not before: of lists
// that are new, and by clashes.
func (s *Store) report(before, after *Snapshot) {
	for _, l := range after.lists {
		if slices.Contains(before.lists, l) {
			continue
		}
		for _, h := range l.hidden {
			s.opts.Logger.Warn("tool definition hidden", "provider", h.Provider, "tool", h.Name, "reason", h.Reason)
		}
		for _, f := range l.faulty {
			s.opts.Logger.Warn("tool definition invalid: clients of MCP 2026-07-28 on HTTP will leave it out", "provider", f.Provider, "tool", f.Name, "reason", f.Reason)
		}
		s.tellOutputs(before, l)
	}
	known := map[string]bool{}
	for _, c := range before.Clashes() {
		known[c.Exposed] = true
	}
	for _, c := range after.Clashes() {
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

// tellOutputs tells of the outputSchemas in a list that is new.
func (s *Store) tellOutputs(before *Snapshot, l *list) {
	if s.opts.OutputSchema == nil {
		return
	}
	known := map[string]bool{}
	for _, old := range before.lists {
		for _, e := range old.entries {
			if old.provider.Slug == l.provider.Slug && e.output != nil {
				known[e.digest] = true
			}
		}
	}
	for _, e := range l.entries {
		if e.output != nil && !known[e.digest] {
			s.opts.OutputSchema(l.provider.Slug, e.name, e.digest, e.output)
		}
	}
}

// sameTools says whether whoever was shown a would be shown the same by b.
func sameTools(a, b []*list) bool {
	a, b = withoutEmpty(a), withoutEmpty(b)
	return slices.EqualFunc(a, b, func(x, y *list) bool {
		return x == y || x.provider.Slug == y.provider.Slug && x.provider.Identity == y.provider.Identity &&
			slices.EqualFunc(x.entries, y.entries, func(d, e entry) bool { return d.digest == e.digest })
	})
}

func withoutEmpty(lists []*list) []*list {
	return slices.DeleteFunc(slices.Clone(lists), func(l *list) bool { return len(l.entries) == 0 })
}
