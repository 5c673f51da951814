package session

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// TestC005_TheDeadlineOfTheStartEndsWithIt: neither the end of start_timeout nor
// that of the client who caused the start touches the server.
func TestC005_TheDeadlineOfTheStartEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		h := oneServer(t, s, func(sp *Spec) { sp.StartTimeout = 2 * time.Second })
		ctx, leave := context.WithCancel(t.Context())
		if _, err := h.manager.Get(ctx, "p"); err != nil {
			t.Fatal(err)
		}
		leave()
		time.Sleep(5 * time.Second)
		i := h.get("p")
		if got := h.do(i, Call{Request: callOf(t, "echo", `{"a":1}`)}); !contains(got, `"structuredContent":{"a":1}`) {
			t.Errorf("answered %s", got)
		}
		if n := h.started("p"); n != 1 {
			t.Errorf("started %d times", n)
		}
	})
}

// TestC092_ASlowStarterIsNotCutOff: the wait of a client is not the start's.
func TestC092_ASlowStarterIsNotCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.when(methodInitialize, func(s *server, m *rpc.Message) {
			s.when(methodInitialize, nil)
			time.Sleep(8 * time.Second)
			s.handle(s.conn, received{text: []byte(text(t, m))})
		})
		h := oneServer(t, s)
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := h.manager.Get(ctx, "p"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the first Get: %v", err)
		}
		if st, _ := h.manager.State("p"); st.Name != "starting" {
			t.Errorf("state %q", st.Name)
		}
		i := h.get("p")
		if took := time.Since(begun); took < 8*time.Second || took > 9*time.Second {
			t.Errorf("ready after %s", took)
		}
		if h.started("p") != 1 || i.Mark() != "h/p/1" || len(h.lists()) != 1 {
			t.Errorf("%d starts, %d lists", h.started("p"), len(h.lists()))
		}
	})
}

func TestManyFirstGetsStartOneServer(t *testing.T) {
	s := newServer(t)
	gate := make(chan struct{})
	s.when(methodInitialize, func(s *server, m *rpc.Message) {
		<-gate
		s.result(m, `{"protocolVersion":"2025-11-25","capabilities":{}}`)
	})
	h := oneServer(t, s)
	var all sync.WaitGroup
	got := make([]*Instance, 20)
	for n := range got {
		all.Go(func() { got[n] = h.get("p") })
	}
	s.await(methodInitialize, 1)
	close(gate)
	all.Wait()
	for _, i := range got {
		if i != got[0] {
			t.Error("more than one instance")
		}
	}
	if h.started("p") != 1 || len(s.received(methodInitialize)) != 1 {
		t.Errorf("%d starts", h.started("p"))
	}
}

func TestAStartThatCrashesSaysHow(t *testing.T) {
	s := newServer(t)
	h := newHouse(t, func(string, int) *plugin { return &plugin{server: s} }, func() Spec {
		sp := specOf("p")
		sp.Restart.Intensity = 0
		return sp
	}())
	s.when(methodDiscover, func(*server, *rpc.Message) {
		h.plugin("p").exitServer(provider.ExitStatus{Code: 3, StderrTail: "Error: API_KEY is not set\n"})
	})
	_, err := h.manager.Get(t.Context(), "p")
	f := wantFailure(t, err, supervise.PhaseInitialize, `provider "p" (providers.hcl:1): initialize: the server exited with code 3: Error: API_KEY is not set`)
	if f.Exit == nil || f.Exit.Code != 3 {
		t.Errorf("exit: %+v", f.Exit)
	}
}

func TestAServerThatCannotBeStarted(t *testing.T) {
	sp := specOf("p")
	sp.Restart.Intensity = 0
	h := newHouse(t, func(string, int) *plugin {
		return &plugin{server: newServer(t), diags: provider.Diagnostics{
			{Severity: provider.Warning, Summary: "a warning"},
			{Severity: provider.Error, Summary: "no such executable", Detail: "looked in /bin"},
		}}
	}, sp)
	_, err := h.manager.Get(t.Context(), "p")
	wantFailure(t, err, supervise.PhaseStart, "no such executable: looked in /bin")
}

func TestProvidersThatCannotBeGot(t *testing.T) {
	fault := &supervise.Failure{Provider: "q", Phase: supervise.PhaseConfig, Cause: "env TOKEN is not set"}
	sp := specOf("q")
	sp.Fault = fault
	h := newHouse(t, func(string, int) *plugin { return &plugin{server: newServer(t)} }, specOf("p"), sp)
	if _, err := h.manager.Get(t.Context(), "q"); !errors.Is(err, error(fault)) {
		t.Errorf("with a fault: %v", err)
	}
	if st, ok := h.manager.State("q"); !ok || st.Name != "failed" || st.Failure != fault {
		t.Errorf("state with a fault: %+v", st)
	}
	_, err := h.manager.Get(t.Context(), "nobody")
	wantFailure(t, err, supervise.PhaseConfig, "no such provider")
	if _, ok := h.manager.State("nobody"); ok {
		t.Error("state of nobody")
	}
	if st, ok := h.manager.State("p"); !ok || st.Name != "cold" {
		t.Errorf("state before the first use: %+v", st)
	}
	h.get("p")
	if st, _ := h.manager.State("p"); st.Name != "ready" || st.Instance != "h/p/1" {
		t.Errorf("state after it: %+v", st)
	}
	h.manager.Stop(t.Context())
	_, err = h.manager.Get(t.Context(), "p")
	wantFailure(t, err, supervise.PhaseRunning, "stopping")
}
