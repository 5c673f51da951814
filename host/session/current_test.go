package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

const listChanged = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

func (s *server) asked() int { return len(s.received(methodListTools)) }

func current(t *testing.T, i *Instance, age time.Duration) uint64 {
	t.Helper()
	epoch, err := i.Current(t.Context(), age)
	if err != nil {
		t.Fatal(err)
	}
	return epoch
}

// last is the last list that was heard of.
func (h *house) last() heardList {
	lists := h.lists()
	return lists[len(lists)-1]
}

// TestAListThatIsCurrentIsNotReadAgain: as long as nothing is announced, at any age
// that will do.
func TestAListThatIsCurrentIsNotReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		h := oneServer(t, s)
		i := h.get("p")
		first := current(t, i, -1)
		time.Sleep(time.Hour)
		if again := current(t, i, -1); again != first || i.Epoch() != first {
			t.Errorf("the epoch went from %d to %d (%d) for nothing", first, again, i.Epoch())
		}
		if again := current(t, i, time.Hour+time.Second); again != first || s.asked() != 1 {
			t.Errorf("asked %d times for a list that was young enough", s.asked())
		}
		if again := current(t, i, time.Hour-time.Second); again != first || s.asked() != 2 {
			t.Errorf("asked %d times; the epoch of an equal list is %d, was %d", s.asked(), again, first)
		}
		time.Sleep(time.Second)
		if now := current(t, i, 0); now != first || s.asked() != 3 {
			t.Errorf("asked %d times for a list of now; its epoch is %d", s.asked(), now)
		}
		if n := len(h.lists()); n != 1 {
			t.Errorf("a list that is the same was handed over %d times", n)
		}
		s.mu.Lock()
		s.tools = []string{`{"name":"unsaid"}`}
		s.mu.Unlock()
		time.Sleep(time.Second)
		if now := current(t, i, 0); now == first || h.last().defs[0] != `{"name":"unsaid"}` {
			t.Errorf("another list has the epoch %d, as the one before, and is %v", now, h.last().defs)
		}
	})
}

// TestC091_SuspectFromTheMomentItIsRead: what the server says after the
// announcement finds the epoch changed and the list suspect.
func TestC091_SuspectFromTheMomentItIsRead(t *testing.T) {
	s := newServer(t)
	h := oneServer(t, s)
	i := h.get("p")
	before := current(t, i, -1)
	hold := make(chan struct{})
	s.when(methodListTools, func(s *server, m *rpc.Message) { <-hold; s.list(m) })
	s.when("tools/call", func(s *server, m *rpc.Message) {
		s.conn.say(listChanged)
		s.result(m, `{}`)
	})
	h.do(i, Call{Request: callOf(t, "x", `{}`)})
	if i.Epoch() == before {
		t.Error("the answer was handed on before the change that was announced before it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := i.Current(ctx, -1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the list is called current while it is read: %v", err)
	}
	s.mu.Lock()
	s.tools = []string{`{"name":"new"}`}
	s.mu.Unlock()
	close(hold)
	epoch := current(t, i, -1)
	if got := h.last().defs; len(got) != 1 || got[0] != `{"name":"new"}` {
		t.Errorf("current, and the list is %v", got)
	}
	if epoch != i.Epoch() || epoch == before {
		t.Errorf("epoch %d of now %d, before %d", epoch, i.Epoch(), before)
	}
}

// TestOneReadingServesAllWhoWait: of 64 callers who want a list of now, those who
// come while one is read share the next.
func TestOneReadingServesAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		h := oneServer(t, s)
		i := h.get("p")
		hold := make(chan struct{})
		s.when(methodListTools, func(s *server, m *rpc.Message) { <-hold; s.list(m) })
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				if _, err := i.Current(t.Context(), 0); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		close(hold)
		all.Wait()
		if n := s.asked(); n != 3 { // the first, the one they found under way, and one for all the rest
			t.Errorf("asked %d times", n)
		}
	})
}

// TestC098_AReadingThatFails: those who wait learn why at once, and get no list of
// before; the next who asks is served if it can be.
func TestC098_AReadingThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		h := oneServer(t, s, func(sp *Spec) { sp.Restart.Backoff = 10 * time.Second })
		i := h.get("p")
		s.when(methodListTools, refuse(-32603, "no list today"))
		s.conn.say(listChanged)
		synctest.Wait()
		begun := time.Now()
		if _, err := i.Current(t.Context(), -1); err == nil || !contains(err.Error(), "no list today") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("it took %s to say so", took)
		}
		n := s.asked()
		time.Sleep(25 * time.Second)
		if again := s.asked() - n; again != 2 {
			t.Errorf("asked %d times in 25 s, nobody waiting, with a pause of 10 s", again)
		}
		s.when(methodListTools, nil)
		begun = time.Now()
		current(t, i, -1)
		if took := time.Since(begun); took != 0 {
			t.Errorf("a list that can be had took %s", took)
		}
	})
}

// TestC099_AReadingThatFailsInTheMiddle: the list of before stays whole, and suspect.
func TestC099_AReadingThatFailsInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.tools, s.pageLen = manyTools(120), 50
		h := oneServer(t, s)
		i := h.get("p")
		s.when(methodListTools, func(s *server, m *rpc.Message) {
			if m.Get("params", "cursor") != nil {
				s.refuse(m, -32603, "page lost")
				return
			}
			s.list(m)
		})
		s.setTools(manyTools(130)...)
		synctest.Wait()
		if _, err := i.Current(t.Context(), -1); err == nil || !contains(err.Error(), "page lost") {
			t.Errorf("got %v", err)
		}
		if lists := h.lists(); len(lists) != 1 || len(lists[0].defs) != 120 {
			t.Errorf("%d lists were heard of", len(lists))
		}
		s.when(methodListTools, nil)
		current(t, i, -1)
		if got := len(h.last().defs); got != 130 {
			t.Errorf("%d tools", got)
		}
	})
}

// TestAChangeDuringTheFirstList: it is read again, and no call sees what was listed
// before the change as current.
func TestAChangeDuringTheFirstList(t *testing.T) {
	s := newServer(t)
	first := true
	s.when(methodListTools, func(s *server, m *rpc.Message) {
		if first {
			first = false
			s.conn.say(listChanged)
			s.result(m, `{"tools":[{"name":"old"}]}`)
			return
		}
		s.result(m, `{"tools":[{"name":"new"}]}`)
	})
	h := oneServer(t, s)
	i := h.get("p")
	current(t, i, -1)
	if got := h.last().defs; got[0] != `{"name":"new"}` {
		t.Errorf("called current: %v", got)
	}
}

// TestAReadingThatFailsForAgeAlone is not repeated: the list is old, not suspect.
func TestAReadingThatFailsForAgeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		h := oneServer(t, s)
		i := h.get("p")
		s.when(methodListTools, refuse(-32603, "no list today"))
		time.Sleep(time.Second)
		if _, err := i.Current(t.Context(), 0); err == nil {
			t.Error("no error")
		}
		n := s.asked()
		time.Sleep(time.Hour)
		if s.asked() != n {
			t.Errorf("asked %d times more, for nobody", s.asked()-n)
		}
		current(t, i, -1) // it will do for who wants no younger one
	})
}

// TestTheEndOfAServerEndsTheWait.
func TestTheEndOfAServerEndsTheWait(t *testing.T) {
	s := newServer(t)
	h := oneServer(t, s)
	i := h.get("p")
	s.when(methodListTools, func(*server, *rpc.Message) {})
	got := make(chan error, 1)
	go func() { _, err := i.Current(t.Context(), 0); got <- err }()
	s.await(methodListTools, 2)
	h.plugin("p").conn().end()
	if err := <-got; !errors.Is(err, errServerEnded) {
		t.Errorf("got %v", err)
	}
}

// TestAStormOfChangesCostsLittle: 10,000 announcements, each with another list, in
// ten seconds; a call that waits has the last list at the end.
func TestAStormOfChangesCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		h := oneServer(t, s)
		i := h.get("p")
		for n := range 10000 {
			s.setTools(fmt.Sprintf(`{"name":"t%d"}`, n))
			time.Sleep(time.Millisecond)
		}
		begun := time.Now()
		current(t, i, -1)
		if took := time.Since(begun); took > 2*paceMax {
			t.Errorf("the list was current only %s after the storm", took)
		}
		if n := s.asked(); n > 2*(paceAfter+10+6) {
			t.Errorf("asked %d times", n)
		}
		if got := h.last().defs; got[0] != `{"name":"t9999"}` {
			t.Errorf("the last list is %v", got)
		}
		synctest.Wait()
		n := s.asked()
		time.Sleep(time.Hour)
		if s.asked() != n {
			t.Errorf("asked %d times more after the storm", s.asked()-n)
		}
		// After the calm a change is read at once.
		s.setTools(`{"name":"calm"}`)
		synctest.Wait()
		begun = time.Now()
		current(t, i, -1)
		if time.Since(begun) != 0 || h.last().defs[0] != `{"name":"calm"}` {
			t.Errorf("after %s: %v", time.Since(begun), h.last().defs)
		}
	})
}

// TestAServerThatCriesWolf: one that announces a change after each of its lists,
// and lists the same, can be called, and does not keep the host busy.
func TestAServerThatCriesWolf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.when(methodListTools, func(s *server, m *rpc.Message) { s.list(m); s.conn.say(listChanged) })
		h := oneServer(t, s)
		i := h.get("p")
		for range 10 {
			begun := time.Now()
			current(t, i, -1)
			if took := time.Since(begun); took > time.Second {
				t.Errorf("a call waited %s", took)
			}
			time.Sleep(10 * time.Second)
		}
		epoch := current(t, i, -1)
		synctest.Wait()
		if i.Epoch() != epoch {
			t.Error("noise changed the epoch")
		}
		n := s.asked()
		time.Sleep(time.Hour)
		if more := s.asked() - n; more > 2*int(time.Hour/paceNoise) {
			t.Errorf("asked %d times in an hour", more)
		}
		// A change in the noise is a change.
		s.mu.Lock()
		s.tools = []string{`{"name":"wolf"}`}
		s.mu.Unlock()
		s.conn.say(listChanged)
		synctest.Wait()
		current(t, i, -1)
		if got := h.last().defs; got[0] != `{"name":"wolf"}` {
			t.Errorf("the list is %v", got)
		}
	})
}
