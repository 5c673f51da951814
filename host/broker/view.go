package broker

import (
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/lock"
)

// world is all that decides what callers see, at one moment: who may have what,
// and what there is. It is immutable but for the views in it, which are made when
// they are first asked for. A call holds on to one world while it decides.
type world struct {
	policy   *access.Policy
	snapshot *catalog.Snapshot
	// lock has the definitions that are approved; nil where all are.
	lock  *lock.File
	views table[owner, seen]
}

// seen is what a principal sees in a project.
type seen struct {
	once sync.Once
	view *catalog.View
	// unlocked is what it would see if every definition were approved.
	unlocked func() *catalog.View
	// list is all of view as it is remembered of who was shown it.
	list func() *shownList
}

// worlds keeps the world of now.
type worlds struct {
	policy  func() *access.Policy
	lock    func() *lock.File
	catalog Catalog
	now     atomic.Pointer[world]
}

// world returns the world of now. It takes no lock.
func (ws *worlds) world() *world {
	policy, lock, snapshot := ws.policy(), ws.lock(), ws.catalog.Snapshot()
	w := ws.now.Load()
	if w == nil || w.policy != policy || w.lock != lock || w.snapshot != snapshot {
		w = &world{policy: policy, lock: lock, snapshot: snapshot}
		ws.now.Store(w) // of two who find it old, the later one stays: both are of now
	}
	return w
}

// see returns what a caller sees.
func (w *world) see(c Caller) *seen {
	who := owner{c.Principal, c.Project}
	s, ok := w.views.load(who)
	if !ok {
		s = w.views.loadOrStore(who, &seen{})
	}
	s.once.Do(func() {
		names, most := w.policy.Naming(c.Project)
		naming := catalog.Naming{Names: names, NameMax: most}
		granted := func(t *catalog.Tool) bool { return w.admits(c, t.Provider, t.Name) }
		s.view = w.snapshot.View(naming, func(t *catalog.Tool) bool { return granted(t) && w.approves(t) })
		s.unlocked = sync.OnceValue(func() *catalog.View { return w.snapshot.View(naming, granted) })
		s.list = sync.OnceValue(func() *shownList { return listOf(s.view) })
	})
	return s
}

func (w *world) admits(c Caller, provider, tool string) bool {
	return w.policy.Decide(c.Principal, c.Project, access.Item{Kind: access.KindTool, Provider: provider, Name: tool}).Allowed
}

// approves says whether a definition may be shown and run.
func (w *world) approves(t *catalog.Tool) bool {
	return w.lock == nil || w.lock.Approves(t.Provider, t.Name, t.Digest)
}

// quarantined is the tool of that name which the caller would see if its definition
// were approved.
func (w *world) quarantined(c Caller, exposed string) (*catalog.Tool, bool) {
	if w.lock == nil {
		return nil, false
	}
	return w.see(c).unlocked().Find(exposed)
}

func (w *world) sees(c Caller, provider string) bool {
	return w.policy.Sees(c.Principal, c.Project, provider)
}

// bare says that the names of a caller's tools do not tell their provider.
func (w *world) bare(c Caller) bool {
	names, _ := w.policy.Naming(c.Project)
	return names == catalog.NamesBare
}

// View is what a caller sees now.
func (b *Broker) View(c Caller) *catalog.View { return b.worlds.world().see(c).view }

// Sees says whether a caller has anything to do with a provider, now.
func (b *Broker) Sees(c Caller, provider string) bool { return b.worlds.world().sees(c, provider) }

// Shown notes that the tools [from:to) of a view are being written to a caller:
// from here on it counts as having been shown them. undo takes that back, for when
// they could not be written.
func (b *Broker) Shown(c Caller, v *catalog.View, from, to int) (undo func()) {
	whole := sync.OnceValue(func() *shownList {
		if s := b.worlds.world().see(c); s.view == v {
			return s.list()
		}
		return listOf(v) // the world has changed since
	})
	var undos []func()
	r := b.shown.of(c)
	for _, m := range []*memory{r.own, r.client} {
		if m == nil {
			continue
		}
		var before, after *remembered
		m.change(func(r *remembered) *remembered {
			before, after = r, r.paged(v, whole, from, to)
			return after
		})
		if after != before {
			undos = append(undos, func() { m.undo(after, before) })
		}
	}
	return func() {
		for _, undo := range undos {
			undo()
		}
	}
}

// Forget drops what a client session was shown, and its log level: it has ended.
// What its client was shown is kept.
func (b *Broker) Forget(session string) {
	b.SetLogLevel(session, "")
	b.shown.forget(session)
}
