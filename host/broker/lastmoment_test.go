package broker

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/journal"
	"github.com/drawbridge-mcp/drawbridge/host/lock"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
)

// unsteady has an instance that lets something happen on a call's way to its server.
type unsteady struct {
	*fakeSessions
	epoch *atomic.Uint64
	// before is done when the call is handed over, turn when it would be sent.
	before, turn func()
}

func (u unsteady) Get(ctx context.Context, slug string) (Instance, error) {
	in, err := u.fakeSessions.Get(ctx, slug)
	if err != nil {
		return nil, err
	}
	return unsteadyInstance{in, u}, nil
}

type unsteadyInstance struct {
	Instance
	u unsteady
}

func (i unsteadyInstance) Epoch() uint64 { return i.u.epoch.Load() }

func (i unsteadyInstance) Do(ctx context.Context, c session.Call) (*rpc.Message, error) {
	i.u.before()
	begin := c.Begin
	c.Begin = func() error {
		if err := begin(); err != nil {
			return err
		}
		i.u.turn()
		return c.Last()
	}
	return i.Instance.Do(ctx, c)
}

// slowJournal lets something happen while a call is written down.
type slowJournal struct {
	noJournal
	writing func()
}

func (j slowJournal) Begin(*journal.Entry) error { j.writing(); return nil }

// TestNothingIsSentOfWhatChangesInTheLastMoment: a grant that is taken away, a definition
// that is no longer approved, a change that the server announces: until the call is sent
// each of them counts. Before it was written down the call is looked at again, and after
// that it ends.
func TestNothingIsSentOfWhatChangesInTheLastMoment(t *testing.T) {
	for what, again := range map[string]Outcome{"the policy": Denied, "the lock file": Denied, "the list": OK} {
		for _, when := range []string{"before", "while it is written down", "when it is its turn"} {
			f, b := newFake(t, map[string][]string{"shop": {"pay"}})
			var policy atomic.Pointer[access.Policy]
			var file atomic.Pointer[lock.File]
			policy.Store(site(catalog.NamesPrefixed, "*"))
			b.opts.Policy, b.worlds.policy = policy.Load, policy.Load
			b.opts.Lock, b.worlds.lock = file.Load, file.Load
			changed := 0
			u := unsteady{f, new(atomic.Uint64), func() {}, func() {}}
			change := func(at string) func() {
				return func() {
					if at != when || changed > 0 {
						return
					}
					changed++
					switch what {
					case "the policy":
						policy.Store(site(catalog.NamesPrefixed, "other"))
					case "the lock file":
						file.Store(lock.New())
					case "the list":
						u.epoch.Add(2)
					}
				}
			}
			u.before, u.turn = change("before"), change("when it is its turn")
			if what == "the list" { // the fake's Current says 0, so that it is looked at until it is
				u.before = func() {
					if u.epoch.Load() == 0 {
						change("before")()
						return
					}
					u.epoch.Store(0)
				}
			}
			b.opts.Sessions, b.opts.Journal = u, slowJournal{writing: change("while it is written down")}
			reply := b.Call(t.Context(), callOf(t, ann, "shop_pay"))
			want, sent := Unavailable, 0
			if when == "before" {
				if want = again; again == OK {
					sent = 1
				}
			}
			if changed != 1 || reply.Outcome != want || len(f.got) != sent || want == Unavailable && reply.Reason != "unsettled" {
				t.Errorf("%s changes %s: %s %s, %d calls were sent, %d changes", what, when, reply.Outcome, reply.Reason, len(f.got), changed)
			}
			if when == "while it is written down" && b.shown.of(ann).own.now.Load() != nothing {
				t.Errorf("%s changes %s: the caller is bound by a call that was not sent", what, when)
			}
		}
	}
}
