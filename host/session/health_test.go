package session

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// pinged is a house whose server is pinged after ten seconds of silence.
func pinged(t *testing.T, s *server, change ...func(*Spec)) *house {
	return oneServer(t, s, append(change, func(sp *Spec) { sp.HealthInterval = 10 * time.Second })...)
}

func ignore(*server, *rpc.Message) {}

func TestSilentServerIsPinged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t) // which refuses ping, as is its right: that too is an answer
		h := pinged(t, s)
		h.get("p")
		time.Sleep(10*time.Second - time.Millisecond)
		synctest.Wait()
		if got := s.received(methodPing); len(got) != 0 {
			t.Errorf("pinged before it was silent for long: %d", len(got))
		}
		time.Sleep(2 * time.Millisecond)
		if got := s.await(methodPing, 1); text(t, got[0]) != `{"jsonrpc":"2.0","id":`+string(got[0].ID)+`,"method":"ping"}` {
			t.Errorf("the ping is %s", text(t, got[0]))
		}
		time.Sleep(5 * time.Minute)
		if got := len(s.received(methodPing)); got < 29 || got > 31 {
			t.Errorf("%d pings in five minutes", got)
		}
		if n := h.started("p"); n != 1 {
			t.Errorf("started %d times", n)
		}
	})
}

// What the server says by itself is as good as an answer.
func TestServerThatTalksIsNotPinged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.when(methodPing, ignore)
		h := pinged(t, s)
		h.get("p")
		for range 20 {
			time.Sleep(9 * time.Second)
			s.message("info", "here I am")
			synctest.Wait()
		}
		if got := len(s.received(methodPing)); got != 0 {
			t.Errorf("%d pings", got)
		}
	})
}

func TestUnhealthyServerEndsLikeACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.when(methodPing, ignore)
		h := pinged(t, s)
		i := h.get("p")
		began := time.Now()
		time.Sleep(40*time.Second - time.Millisecond) // ten of silence, three pings of ten
		synctest.Wait()
		if st, _ := h.manager.State("p"); st.Name != "ready" || len(s.received(methodPing)) != maxMisses {
			t.Errorf("after %v: %s, %d pings", time.Since(began), st.Name, len(s.received(methodPing)))
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		st, _ := h.manager.State("p")
		if st.Failure == nil || !strings.Contains(st.Failure.Error(), "running: unhealthy: the server has said nothing for 40s and left 3 pings without an answer") {
			t.Errorf("%+v", st)
		}
		next := h.get("p")
		if next == i || h.started("p") != 2 {
			t.Errorf("%d starts", h.started("p"))
		}
		st, _ = h.manager.State("p")
		if st.Restarts != 1 || len(st.Exits) != 1 || st.Exits[0].Asked || st.Exits[0].Instance != i.Mark() {
			t.Errorf("%+v", st)
		}
	})
}

// TestC020_OneMissIsNoIllness: only misses in a row count.
func TestC020_OneMissIsNoIllness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		n := 0
		s.when(methodPing, func(s *server, m *rpc.Message) {
			if n++; n%maxMisses == 0 {
				s.result(m, "{}")
			}
		})
		h := pinged(t, s)
		h.get("p")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		st, _ := h.manager.State("p")
		if st.Name != "ready" || st.Restarts != 0 || h.started("p") != 1 {
			t.Errorf("%+v", st)
		}
		if n < 40 {
			t.Errorf("%d pings", n)
		}
	})
}

// A server that does one thing after the other answers no ping while it works.
func TestNoPingDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.when(methodPing, ignore)
		release := make(chan struct{})
		s.when("tools/call", func(s *server, m *rpc.Message) {
			go func() { <-release; s.call(m) }()
		})
		h := pinged(t, s, func(sp *Spec) { sp.CallTimeout, sp.CallTimeoutMax = 0, 0 })
		i := h.get("p")
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.do(i, Call{Request: callOf(t, "echo", `{"a":1}`)})
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := len(s.received(methodPing)); got != 0 {
			t.Errorf("%d pings during a call", got)
		}
		close(release)
		<-done
		if st, _ := h.manager.State("p"); st.Name != "ready" {
			t.Errorf("%+v", st)
		}
	})
}

// A call that begins while a ping is out may be what keeps the server from it.
func TestPingBeforeACallIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.when(methodPing, ignore)
		s.when("tools/call", ignore)
		h := pinged(t, s, func(sp *Spec) { sp.CallTimeout, sp.CallTimeoutMax = time.Hour, time.Hour })
		i := h.get("p")
		time.Sleep(35 * time.Second) // two are missed, the third is out
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _, _ = i.Do(ctx, Call{Request: callOf(t, "slow", `{}`)}) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if st, _ := h.manager.State("p"); st.Name != "ready" || len(s.received(methodPing)) != 3 {
			t.Errorf("%+v, %d pings", st, len(s.received(methodPing)))
		}
		cancel() // the server still says nothing, and now nothing excuses it
		<-done
		time.Sleep(20*time.Second + time.Millisecond)
		synctest.Wait()
		if st, _ := h.manager.State("p"); st.Failure == nil && st.Restarts == 0 {
			t.Errorf("%+v", st)
		}
	})
}

// The modern era has no ping.
func TestModernServerIsNotPinged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.modern = []string{"2026-07-28"}
		s.when(methodPing, func(*server, *rpc.Message) { t.Error("pinged") })
		h := pinged(t, s)
		h.get("p")
		time.Sleep(time.Hour)
	})
}

// A server that reads nothing cannot even be pinged.
func TestServerThatDoesNotReadIsUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.when("tools/call", ignore)
		h := pinged(t, s)
		i := h.get("p")
		resume := s.conn.stopReading()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = i.Do(ctx, Call{Request: callOf(t, "echo", `{"big":"`+strings.Repeat("x", 2*inlineUnread)+`"}`)})
		time.Sleep(time.Minute)
		synctest.Wait()
		if st, _ := h.manager.State("p"); st.Restarts != 1 || st.Instance == i.Mark() {
			t.Errorf("%+v", st)
		}
		resume()
	})
}
