package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

func TestInstancesAndTheirCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.when("tools/call", ignore)
		h := oneServer(t, s)
		if got := h.manager.Instances("p"); len(got) != 0 {
			t.Errorf("cold: %+v", got)
		}
		if got := h.manager.Instances("q"); len(got) != 0 {
			t.Errorf("of a provider that there is not: %+v", got)
		}
		began := time.Now()
		i := h.get("p")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _, _ = i.Do(ctx, Call{Request: callOf(t, "slow", `{}`)}) }()
		s.await("tools/call", 1)
		want := Running{Mark: "h/p/1", Started: began, Calls: 1}
		if got := h.manager.Instances("p"); len(got) != 1 || got[0] != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		cancel()
		<-done
		if got := h.manager.Instances("p"); len(got) != 1 || got[0].Calls != 0 {
			t.Errorf("%+v", got)
		}
		h.plugin("p").exitServer(provider.ExitStatus{Code: 3, StderrTail: "why"})
		synctest.Wait()
		st, _ := h.manager.State("p")
		if len(h.manager.Instances("p")) != 0 || len(st.Exits) != 1 || st.Exits[0].Code != 3 || st.Exits[0].Stderr != "why" || st.Next.IsZero() {
			t.Errorf("%+v", st)
		}
	})
}

// The calls in flight end on the old instance; what comes meanwhile goes to the new.
func TestRestartLetsCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.when("tools/call", func(s *server, m *rpc.Message) {
			go func() { time.Sleep(time.Second); s.call(m) }()
		})
		h := oneServer(t, s)
		i := h.get("p")
		called := make(chan string, 1)
		go func() { called <- h.do(i, Call{Request: callOf(t, "echo", `{"a":1}`)}) }()
		s.await("tools/call", 1)
		began := time.Now()
		restarted := make(chan error, 1)
		go func() { restarted <- h.manager.Restart(t.Context(), "p") }()
		synctest.Wait()
		if st, _ := h.manager.State("p"); st.Name != string(supervise.Draining) {
			t.Errorf("%+v", st)
		}
		if next := h.get("p"); next == i {
			t.Error("the old instance is given out")
		}
		if got := <-called; !contains(got, `{"a":1}`) {
			t.Errorf("the call in flight: %s", got)
		}
		if err := <-restarted; err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d != time.Second {
			t.Errorf("it took %v", d)
		}
		st, _ := h.manager.State("p")
		if st.Restarts != 0 || len(st.Exits) != 1 || !st.Exits[0].Asked {
			t.Errorf("%+v", st)
		}
	})
}

// A restart does not wait for a call for ever.
func TestRestartIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.when("tools/call", ignore)
		h := oneServer(t, s)
		i := h.get("p")
		lost := make(chan error, 1)
		go func() {
			_, err := i.Do(t.Context(), Call{Request: callOf(t, "slow", `{}`)})
			lost <- err
		}()
		s.await("tools/call", 1)
		began := time.Now()
		if err := h.manager.Restart(t.Context(), "p"); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if l, ok := (<-lost).(*Lost); !ok || l.Reason != Crashed || !l.Dispatched {
			t.Errorf("the call: %+v", l)
		}
	})
}

func TestRestartOfWhatCannotStart(t *testing.T) {
	spec := specOf("p")
	spec.Fault = &supervise.Failure{Provider: "p", Phase: supervise.PhaseConfig, Cause: "no such variable"}
	h := newHouse(t, func(string, int) *plugin { return nil }, spec)
	wantFailure(t, h.manager.Restart(t.Context(), "p"), supervise.PhaseConfig, "no such variable")
	wantFailure(t, h.manager.Restart(t.Context(), "q"), supervise.PhaseConfig, "no such provider")
	wantFailure(t, h.manager.Start(t.Context(), "p"), supervise.PhaseConfig, "no such variable")
	h.manager.Stop(t.Context())
}
