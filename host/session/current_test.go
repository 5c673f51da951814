package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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
		if again := current(t, i, time.Hour-time.Second); again == first || s.asked() != 2 {
			t.Errorf("asked %d times; the epoch is %d, was %d", s.asked(), again, first)
		}
		time.Sleep(time.Second)
		if before := current(t, i, 0); before == first || s.asked() != 3 {
			t.Errorf("asked %d times for a list of now", s.asked())
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

// TestAReadingThatFails: those who wait learn why at once, and the next who asks is
// served if it can be.
func TestAReadingThatFails(t *testing.T) {
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

// TestASubscriptionIsOpenedAgain: and what may have changed meanwhile is read.
func TestASubscriptionIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.modern = []string{"2026-07-28"}
		h := oneServer(t, s)
		i := h.get("p")
		if !i.Announces() {
			t.Error("a server with a subscription announces nothing")
		}
		s.mu.Lock()
		s.tools = []string{`{"name":"unsaid"}`}
		s.mu.Unlock()
		s.result(s.received(methodListen)[0], `{"resultType":"complete"}`)
		synctest.Wait()
		if i.Announces() {
			t.Error("a server without a subscription is said to announce changes")
		}
		time.Sleep(relistenFirst)
		synctest.Wait()
		if !i.Announces() || len(s.received(methodListen)) != 2 {
			t.Errorf("%d subscriptions; it announces: %v", len(s.received(methodListen)), i.Announces())
		}
		current(t, i, -1)
		if got := h.last().defs; got[0] != `{"name":"unsaid"}` {
			t.Errorf("what changed while nobody listened is missed: %v", got)
		}
		s.when(methodListen, refuse(-32601, "no such method"))
		s.result(s.received(methodListen)[1], `{"resultType":"complete"}`)
		time.Sleep(time.Hour)
		if n := len(s.received(methodListen)); n > 80 {
			t.Errorf("%d attempts in an hour", n)
		}
		s.when(methodListen, nil)
		time.Sleep(relistenMax)
		synctest.Wait()
		if !i.Announces() {
			t.Error("the subscription is not there again")
		}
	})
}

// TestAnnounces is what a server declares.
func TestAnnounces(t *testing.T) {
	for caps, want := range map[string]bool{
		`{"tools":{"listChanged":true}}`: true, `{"tools":{}}`: false, `{"tools":{"listChanged":false}}`: false, `{}`: false,
	} {
		s := newServer(t)
		s.caps = caps
		if got := oneServer(t, s).get("p").Announces(); got != want {
			t.Errorf("%s: %v", caps, got)
		}
	}
}

// TestAServerThatIsKnownIsAskedAsBefore: what it was decides what is tried first,
// and nothing else.
func TestAServerThatIsKnownIsAskedAsBefore(t *testing.T) {
	legacy, modern := &Server{Era: Legacy, Version: "2025-11-25"}, &Server{Era: Modern, Version: "2026-07-28"}
	for name, c := range map[string]struct {
		known  *Server
		modern []string
		want   string
		era    Era
	}{
		"unknown":             {nil, nil, "server/discover initialize notifications/initialized", Legacy},
		"as it was":           {legacy, nil, "initialize notifications/initialized", Legacy},
		"modern as it was":    {modern, []string{"2026-07-28"}, "server/discover", Modern},
		"modern by now":       {legacy, []string{"2026-07-28"}, "initialize server/discover", Modern},
		"not modern any more": {modern, nil, "server/discover initialize notifications/initialized", Legacy},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			if s.modern = c.modern; c.modern != nil {
				s.when(methodInitialize, refuse(-32601, "no such method"))
			}
			h := oneServer(t, s, func(sp *Spec) { sp.Known = c.known })
			i := h.get("p")
			var got []string
			for _, m := range s.methods() {
				if m == methodListTools || m == methodListen {
					break
				}
				got = append(got, m)
			}
			if strings.Join(got, " ") != c.want || i.Server().Era != c.era {
				t.Errorf("%s: %v, want %s", i.Server().Era, got, c.want)
			}
			if len(h.opened) != 1 || !strings.HasPrefix(h.opened[0], "h/p/1 "+c.era.String()) {
				t.Errorf("opened: %v", h.opened)
			}
		})
	}
}

// TestAServerThatIsKnownToLogMayLog: before it has been started.
func TestAServerThatIsKnownToLogMayLog(t *testing.T) {
	for caps, want := range map[string][2]bool{`{"logging":{}}`: {true, false}, `{}`: {false, false}} {
		s := newServer(t)
		h := oneServer(t, s, func(sp *Spec) { sp.Known = &Server{Era: Legacy, Capabilities: json.RawMessage(caps)} })
		if declared, unknown := h.manager.Logging(); declared != want[0] || unknown != want[1] {
			t.Errorf("%s: declared %v, unknown %v", caps, declared, unknown)
		}
	}
}

// TestC089_NobodyWarmsWhatCannotList: who wants a list and not a call does not wait
// for a server that cannot list its tools yet; its start goes on.
func TestC089_NobodyWarmsWhatCannotList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.when(methodListTools, refuse(-32603, "not yet"))
		h := oneServer(t, s, func(sp *Spec) { sp.Restart.Backoff = time.Second })
		begun := time.Now()
		for range 2 {
			if err := h.manager.Warm(t.Context(), "p"); err == nil || !contains(err.Error(), "not yet") {
				t.Errorf("got %v", err)
			}
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("it took %s", took)
		}
		s.when(methodListTools, nil)
		h.get("p")
		if err := h.manager.Warm(t.Context(), "p"); err != nil || h.started("p") != 1 {
			t.Errorf("%v after %d starts", err, h.started("p"))
		}
	})
}
