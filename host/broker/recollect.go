package broker

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/host/access"
)

// maxClients is how many clients of one principal in one project are remembered,
// the last used ones. Once one was forgotten, a client of that owner of which nothing
// is known may be that one, and does not count as new.
const maxClients = 64

// maxClientName bounds the parts of a client's name, which it chooses itself.
const maxClientName = 200

// owner is whose clients are counted together; clientKey one of them.
type owner struct{ Principal, Project string }

type clientKey struct {
	owner
	Client
}

// ownersOf are all to whom a policy gives anything.
func ownersOf(p *access.Policy) (out []owner) {
	if p.Open() {
		return []owner{{Principal: access.Local}}
	}
	for _, principal := range p.Principals() {
		for _, project := range p.Projects(principal) {
			out = append(out, owner{principal, project})
		}
	}
	return out
}

// keyOf is the key of a caller's client. What a client calls itself is written down, so
// that it is without secrets.
func (r *recollections) keyOf(c Caller) clientKey {
	k := clientKey{owner{c.Principal, c.Project}, c.Client}
	k.Name, k.Version = clipped(r.clean(k.Name), maxClientName), clipped(r.clean(k.Version), maxClientName)
	return k
}

// clipped is the beginning of a name, whole characters alone: half of one would not
// come back from a file as it was.
func clipped(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "")
	}
	return s
}

// recollections are the memories of all callers: of each client session, and of
// each client, which outlives its sessions and the host.
type recollections struct {
	store shownStore
	// clean takes secrets out of what is written down.
	clean func(string) string

	sessions table[string, recollection]
	clients  table[clientKey, memory]
	clock    atomic.Int64

	mu     sync.Mutex // held to add and to forget
	owners map[owner][]clientKey
	// forgot are the owners of clients that were forgotten and are in no file.
	forgot map[owner]bool
}

func newRecollections(dir string, log *slog.Logger, clean func(string) string) *recollections {
	return &recollections{clean: clean, store: shownStore{dir: dir, log: log}, owners: map[owner][]clientKey{}, forgot: map[owner]bool{}}
}

// recollection is where to look for what a caller was shown, and where to note it.
type recollection struct {
	// own decides: the session's, or that of the client which has none.
	own *memory
	// client is the client's, beside a session's; nil where own is it.
	client *memory
}

// of returns a caller's. A session begins with what its client was shown before,
// and is on its own from then on. It has met no instance: it is new to all of them,
// unless it goes on with a session that its client had with another host. (Which of the
// client's that was, if it had several, is not known: what one has met, all may have.)
func (r *recollections) of(c Caller) recollection {
	if c.Session == "" {
		return recollection{own: r.client(r.keyOf(c))}
	}
	found, ok := r.sessions.load(c.Session)
	if !ok {
		client := r.client(r.keyOf(c))
		seed := *client.now.Load()
		seed.instances, seed.before, seed.sessions = nil, nil, nil
		if c.Resumed {
			seed.instances = client.now.Load().before
		}
		found = r.sessions.loadOrStore(c.Session, &recollection{own: newMemory(&seed, nil), client: client})
	}
	return *found
}

// forget drops a session that has ended.
func (r *recollections) forget(session string) { r.sessions.remove(session) }

func (r *recollections) client(k clientKey) *memory {
	now := r.clock.Add(1)
	if m, ok := r.clients.load(k); ok {
		m.used.Store(now)
		return m
	}
	read := r.store.read(k) // before the lock: of two who read it, one is kept
	r.mu.Lock()
	defer r.mu.Unlock()
	if m, ok := r.clients.load(k); ok {
		return m
	}
	if read == nothing && r.forgot[k.owner] {
		read = unknown
	}
	m := newMemory(read, func(s *remembered) bool { return r.store.write(k, s) })
	m.used.Store(now)
	r.clients.store(k, m)
	keys := append(r.owners[k.owner], k)
	if len(keys) > maxClients {
		oldest := slices.MinFunc(keys[:len(keys)-1], func(a, b clientKey) int { return cmp.Compare(r.usedAt(a), r.usedAt(b)) })
		r.drop(oldest)
		keys = slices.DeleteFunc(keys, func(o clientKey) bool { return o == oldest })
	}
	r.owners[k.owner] = keys
	return m
}

// drop takes a client out of memory; mostly it is in its file.
func (r *recollections) drop(k clientKey) {
	if m, ok := r.clients.load(k); ok && m.unsaved.Load() {
		r.forgot[k.owner] = true
	}
	r.clients.remove(k)
}

func (r *recollections) usedAt(k clientKey) int64 {
	if m, ok := r.clients.load(k); ok {
		return m.used.Load()
	}
	return 0
}

// met notes that the caller came to know a provider's instance. Of a session's it is kept
// with the client's, for a session that goes on with another host.
func (r recollection) met(slug, mark string) {
	r.own.change(func(s *remembered) *remembered { return s.met(slug, mark) })
	r.metInSession(slug, mark)
}

// metInSession keeps with the client's what a session of it met.
func (r recollection) metInSession(slug, mark string) {
	if r.client != nil {
		r.client.change(func(s *remembered) *remembered { return s.metInSession(slug, mark) })
	}
}

// change notes something with all who are to know it.
func (r recollection) change(f func(*remembered) *remembered) {
	r.own.change(f)
	if r.client != nil {
		r.client.change(f)
	}
}
