package broker

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/catalog"
)

const (
	// maxShown bounds what is remembered of one caller beside the last list that it
	// was shown whole. Over it, nothing but the list is known for sure: see lossy.
	maxShown = 20_000
	// writePatience is how long a call waits for an answer that is being written to
	// its caller at the moment it arrives. What a client does not take for so long,
	// it has not been shown.
	writePatience = 5 * time.Second
)

// item is what a caller was last shown under one exposed name. It is immutable.
type item struct {
	// Provider is the slug, Name what the server calls the tool.
	Provider string `json:"provider"`
	Name     string `json:"name"`
	Identity string `json:"identity,omitempty"`
	Digest   string `json:"digest,omitempty"`
	// Gone: it was shown that there is no such tool any more.
	Gone bool `json:"gone,omitempty"`
	// Fields are short digests of the parts of a large definition, so that what has
	// changed in it can be told without it; see fieldsOf.
	Fields map[string]string `json:"fields,omitempty"`
}

func itemOf(t *catalog.Tool) *item {
	return &item{Provider: t.Provider, Name: t.Name, Identity: t.Identity, Digest: t.Digest, Fields: fieldsOf(t)}
}

// gone is what a caller knows who was told that the tool is no longer there.
func (i *item) gone() *item {
	if i == nil {
		return nil
	}
	return &item{Provider: i.Provider, Name: i.Name, Identity: i.Identity, Gone: true}
}

func (i *item) equal(o *item) bool {
	return i == o || i.Provider == o.Provider && i.Name == o.Name && i.Identity == o.Identity && i.Digest == o.Digest && i.Gone == o.Gone
}

// shownList is a whole list, as it is remembered of all who were shown it.
type shownList struct {
	revision string
	items    map[string]*item
}

func listOf(v *catalog.View) *shownList {
	l := &shownList{revision: v.Revision(), items: make(map[string]*item, len(v.Tools()))}
	for _, t := range v.Tools() {
		l.items[t.Exposed] = itemOf(t)
	}
	return l
}

// remembered is what a caller was shown, at one moment. It is immutable.
type remembered struct {
	// list is the last list that was shown whole, nil for none; own wins over it.
	list *shownList
	own  map[string]*item
	// lossy says that more was shown once than is known now. What is not known was
	// then not shown for the first time, and the fence does not take it for that.
	lossy bool
	// instances are the last ones by slug: the caller called them, or was told of them.
	instances map[string]string
	// before are the last instances that sessions of a client met with hosts before this
	// one, sessions those of this host; neither is of a session itself.
	before, sessions map[string]string
	// paging and upTo say how far the pages of one revision have been shown.
	paging string
	upTo   int
}

// nothing is what a client was shown that is new, unknown what one was that is not, or
// may not be, where that is lost.
var (
	nothing = &remembered{}
	unknown = &remembered{lossy: true}
)

// find returns what was shown under a name, nil where nothing was.
func (r *remembered) find(exposed string) *item {
	if i, ok := r.own[exposed]; ok {
		return i
	}
	if r.list != nil {
		return r.list.items[exposed]
	}
	return nil
}

// findTool returns what was shown of a tool: under its name, or else under one that it
// had before, for a project's way of naming may change. Of several, it is one that the
// tool no longer is. nil where nothing was.
func (r *remembered) findTool(t *catalog.Tool) *item {
	if i := r.find(t.Exposed); i != nil {
		return i
	}
	var found *item
	look := func(i *item) {
		if i.Provider == t.Provider && i.Name == t.Name && (found == nil || i.Gone || i.Identity != t.Identity || i.Digest != t.Digest) {
			found = i
		}
	}
	for _, i := range r.own {
		look(i)
	}
	if r.list != nil {
		for exposed, i := range r.list.items {
			if _, newer := r.own[exposed]; !newer {
				look(i)
			}
		}
	}
	return found
}

// with is r after one item was shown.
func (r *remembered) with(exposed string, i *item) *remembered {
	if was := r.find(exposed); was != nil && was.equal(i) {
		return r
	}
	next := *r
	next.own = maps.Clone(r.own)
	if next.own == nil {
		next.own = map[string]*item{}
	}
	next.own[exposed] = i
	next.bound()
	return &next
}

// met is r after the caller came to know a provider's instance.
func (r *remembered) met(slug, mark string) *remembered {
	if r.instances[slug] == mark {
		return r
	}
	next := *r
	next.instances = with(r.instances, slug, mark)
	return &next
}

// metInSession is what is remembered of a client after a session of it met an instance.
func (r *remembered) metInSession(slug, mark string) *remembered {
	if r.sessions[slug] == mark {
		return r
	}
	next := *r
	next.sessions = with(r.sessions, slug, mark)
	return &next
}

// lastMet are the last instances that sessions of a client met with any host.
func (r *remembered) lastMet() map[string]string {
	all := maps.Clone(r.before)
	for slug, mark := range r.sessions {
		all = with(all, slug, mark)
	}
	return all
}

// with is a copy of m with one entry more.
func with(m map[string]string, key, value string) map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// paged is r after the tools [from:to) of a view were shown. A list that was shown
// to its end takes the place of all before it; what it lacks was shown to be gone,
// but for providers that it knows nothing of.
func (r *remembered) paged(v *catalog.View, whole func() *shownList, from, to int) *remembered {
	switch revision := v.Revision(); {
	case from == 0:
	case r.paging != revision || r.upTo != from:
		return r.pieces(v, from, to) // pages that do not follow each other make no list
	}
	if to < len(v.Tools()) {
		next := r.pieces(v, from, to)
		if next == r {
			copied := *r
			next = &copied
		}
		next.paging, next.upTo = v.Revision(), to
		return next
	}
	list := whole()
	own := map[string]*item{}
	keep := func(exposed string, was *item) {
		switch _, there := list.items[exposed]; {
		case there:
		case was.Gone || !v.Known(was.Provider):
			own[exposed] = was
		default:
			own[exposed] = was.gone()
		}
	}
	if r.list != nil && r.list.revision != list.revision {
		for exposed, was := range r.list.items {
			keep(exposed, was)
		}
	}
	for exposed, was := range r.own { // after the list, over which it wins
		keep(exposed, was)
	}
	if r.list != nil && r.list.revision == list.revision && maps.EqualFunc(own, r.own, (*item).equal) {
		return r
	}
	next := &remembered{list: list, own: own, lossy: r.lossy, instances: r.instances, before: r.before, sessions: r.sessions}
	next.bound()
	return next
}

// pieces is r after single tools were shown.
func (r *remembered) pieces(v *catalog.View, from, to int) *remembered {
	var fresh []*catalog.Tool
	for _, t := range v.Tools()[from:to] {
		if was := r.find(t.Exposed); was == nil || was.Digest != t.Digest || was.Identity != t.Identity || was.Gone {
			fresh = append(fresh, t)
		}
	}
	if len(fresh) == 0 {
		return r
	}
	next := *r
	next.own = make(map[string]*item, len(r.own)+len(fresh))
	maps.Copy(next.own, r.own)
	for _, t := range fresh {
		next.own[t.Exposed] = itemOf(t)
	}
	next.bound()
	return &next
}

// bound forgets what is too much, and that it did. Only a state that nobody else
// has may be bounded.
func (r *remembered) bound() {
	if len(r.own) <= maxShown {
		return
	}
	r.lossy = true
	maps.DeleteFunc(r.own, func(_ string, i *item) bool { return i.Gone })
	if len(r.own) > maxShown {
		r.own = nil
	}
}

// memory is what one caller was shown. Reading it takes no lock.
type memory struct {
	now atomic.Pointer[remembered]
	// used orders memories by their last use.
	used atomic.Int64
	// writes counts the answers under way that will change it.
	writes atomic.Int32

	mu sync.Mutex // held to change it, and while that is saved: files keep the order
	// settled is closed when writes falls to 0; nil while it is 0.
	settled chan struct{}
	// save keeps a state for the host's next run, and says whether it could. Nil: it is
	// not kept.
	save func(*remembered) (kept bool)
	// unsaved says that the state is here alone.
	unsaved atomic.Bool
}

func newMemory(r *remembered, save func(*remembered) bool) *memory {
	m := &memory{save: save}
	m.now.Store(r)
	return m
}

// arrive is what the caller has been shown when its call arrives. An answer that is
// just being written is waited for: the client may have read it, and called.
func (m *memory) arrive(ctx context.Context) *remembered {
	if m.writes.Load() > 0 {
		m.mu.Lock()
		settled := m.settled
		m.mu.Unlock()
		if settled != nil {
			patience := time.NewTimer(writePatience)
			defer patience.Stop()
			select {
			case <-settled:
			case <-patience.C:
			case <-ctx.Done():
			}
		}
	}
	return m.now.Load()
}

// change puts what f makes of the state in its place. f returns what it was given
// where nothing changes.
func (m *memory) change(f func(*remembered) *remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.now.Load()
	after := f(before)
	if after == before {
		return
	}
	m.now.Store(after)
	if m.save != nil {
		m.unsaved.Store(true)
		m.unsaved.Store(!m.save(after))
	}
}

// undo puts a state back, unless another has taken its place since.
func (m *memory) undo(from, to *remembered) {
	m.change(func(r *remembered) *remembered {
		if r == from {
			return to
		}
		return r
	})
}

// write runs what writes an answer to the caller; calls that arrive meanwhile wait.
func (m *memory) write(write func() error) error {
	m.mu.Lock()
	if m.writes.Add(1) == 1 {
		m.settled = make(chan struct{})
	}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.writes.Add(-1) == 0 {
			close(m.settled)
			m.settled = nil
		}
	}()
	return write()
}
