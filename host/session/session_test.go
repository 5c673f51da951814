package session

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

func replaceAll(s, old, new string) string { return strings.ReplaceAll(s, old, new) }

// TestC022_SequentialCallsReachOneServer.
func TestC022_SequentialCallsReachOneServer(t *testing.T) {
	s := newServer(t)
	count := 0
	s.when("tools/call", func(s *server, m *rpc.Message) {
		count++
		s.result(m, fmt.Sprintf(`{"n":%d}`, count))
	})
	h := oneServer(t, s)
	first := h.get("p")
	for n := 1; n <= 4; n++ {
		i := h.get("p")
		if i != first {
			t.Fatal("another instance")
		}
		if got := h.do(i, Call{Request: callOf(t, "inc", `{}`)}); !contains(got, fmt.Sprintf(`{"n":%d}`, n)) {
			t.Errorf("call %d: %s", n, got)
		}
	}
	if got := len(s.received(methodInitialize)); got != 1 {
		t.Errorf("%d initialize", got)
	}
}

// TestC025_PingIsAnsweredAtOnce: with no client, and while a call is slow.
func TestC025_PingIsAnsweredAtOnce(t *testing.T) {
	s := newServer(t)
	h := oneServer(t, s)
	i := h.get("p")
	slow := make(chan struct{})
	s.when("tools/call", func(s *server, m *rpc.Message) { close(slow) })
	answered := func(id string) bool {
		for _, m := range s.received("") {
			if m.Kind == rpc.Result && string(m.ID) == id {
				return text(t, m) == `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`
			}
		}
		return false
	}
	s.conn.say(`{"jsonrpc":"2.0","id":"a","method":"ping"}`)
	eventually(t, "the ping is answered", func() bool { return answered(`"a"`) })

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _, _ = i.Do(ctx, Call{Request: callOf(t, "slow", `{}`)}) }()
	<-slow
	s.conn.say(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	eventually(t, "the ping is answered during a call", func() bool { return answered(`7`) })
	cancel()
	<-done
}

func TestRequestsOfTheServer(t *testing.T) {
	s := newServer(t)
	h := oneServer(t, s)
	h.get("p")
	s.conn.say(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	s.conn.say(`{"jsonrpc":"2.0","id":2,"method":"sampling/createMessage","params":{}}`)
	s.conn.say(`{"jsonrpc":"2.0","id":3,"method":"elicitation/create","params":{}}`)
	want := map[string]string{
		"1": `{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`,
		"2": `"code":-32601`,
		"3": `"code":-32601`,
	}
	eventually(t, "all three are answered", func() bool {
		found := 0
		for _, m := range s.received("") {
			if part, ok := want[string(m.ID)]; ok && m.Kind != rpc.Request && contains(text(t, m), part) {
				found++
			}
		}
		return found == 3
	})
}

// TestC030_EqualIdsOfClientsDoNotMeet: the server never sees a client's id.
func TestC030_EqualIdsOfClientsDoNotMeet(t *testing.T) {
	s := newServer(t)
	var held []*rpc.Message
	s.when("tools/call", func(s *server, m *rpc.Message) {
		if held = append(held, m); len(held) == 2 {
			s.call(held[1])
			s.call(held[0])
		}
	})
	h := oneServer(t, s)
	i := h.get("p")
	var all sync.WaitGroup
	for _, word := range []string{"a", "b"} {
		all.Go(func() {
			m, err := i.Do(t.Context(), Call{Request: request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"w":"`+word+`"}}}`)})
			if err != nil {
				t.Error(err)
				return
			}
			if got := text(t, m); !contains(got, `{"w":"`+word+`"}`) {
				t.Errorf("%s got %s", word, got)
			}
		})
	}
	all.Wait()
	calls := s.received("tools/call")
	if calls[0].ID == calls[1].ID || calls[0].ID == "1" {
		t.Errorf("the server saw the ids %s and %s", calls[0].ID, calls[1].ID)
	}
}

// TestC031_ASlowCallDelaysNothing: neither another call nor a ping nor a list.
func TestC031_ASlowCallDelaysNothing(t *testing.T) {
	s := newServer(t)
	h := oneServer(t, s)
	i := h.get("p")
	ctx, cancel := context.WithCancel(t.Context())
	slow := make(chan struct{})
	go func() { defer close(slow); _, _ = i.Do(ctx, Call{Request: callOf(t, "slow", `{}`)}) }()
	s.await("tools/call", 1)
	begun := time.Now()
	h.do(i, Call{Request: callOf(t, "echo", `{}`)})
	s.conn.say(`{"jsonrpc":"2.0","id":"x","method":"ping"}`)
	s.setTools(`{"name":"new"}`)
	eventually(t, "the list is read again", func() bool { return len(h.lists()) == 2 })
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
	cancel()
	<-slow
}

// TestC040_InitializeIsNeverCancelled.
func TestC040_InitializeIsNeverCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		mute := func(*server, *rpc.Message) {}
		s.when(methodDiscover, mute)
		s.when(methodInitialize, mute)
		h := oneServer(t, s, func(sp *Spec) { sp.StartTimeout = time.Second; sp.Restart.Intensity = 0 })
		begun := time.Now()
		_, err := h.manager.Get(t.Context(), "p")
		wantFailure(t, err, supervise.PhaseInitialize, "initialize: timed out after 1s")
		if took := time.Since(begun); took != time.Second {
			t.Errorf("it took %s", took)
		}
		select {
		case <-h.plugin("p").done:
		case <-time.After(patience):
			t.Error("the process was not ended")
		}
		if got := s.methods(); !equal(got, []string{methodDiscover, methodInitialize}) {
			t.Errorf("the server got %v", got)
		}
	})
}

// TestC041_AMuteServerHoldsUpNoOther.
func TestC041_AMuteServerHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mute := newServer(t)
		mute.when(methodDiscover, func(*server, *rpc.Message) {})
		mute.when(methodInitialize, func(*server, *rpc.Message) {})
		specs := []Spec{specOf("p1"), specOf("p2"), specOf("p3")}
		specs[0].StartTimeout = 5 * time.Second
		specs[0].Restart.Intensity = 0
		h := newHouse(t, func(slug string, _ int) *plugin {
			if slug == "p1" {
				return &plugin{server: mute}
			}
			return &plugin{server: newServer(t)}
		}, specs...)
		var all sync.WaitGroup
		begun := time.Now()
		all.Go(func() {
			_, err := h.manager.Get(t.Context(), "p1")
			wantFailure(t, err, supervise.PhaseInitialize, "")
			if took := time.Since(begun); took != 5*time.Second {
				t.Errorf("the mute one failed after %s", took)
			}
		})
		for _, slug := range []string{"p2", "p3"} {
			all.Go(func() {
				if _, err := h.manager.Get(t.Context(), slug); err != nil || time.Since(begun) > 2*time.Second {
					t.Errorf("%s: %v after %s", slug, err, time.Since(begun))
				}
			})
		}
		all.Wait()
	})
}

// TestC059_ListChangedIsReadAgain: on the same instance, and heard of.
func TestC059_ListChangedIsReadAgain(t *testing.T) {
	s := newServer(t)
	h := oneServer(t, s)
	i := h.get("p")
	s.setTools(`{"name":"echo"}`, `{"name":"new"}`)
	eventually(t, "the new list is heard of", func() bool { return len(h.lists()) == 2 })
	got := h.lists()[1]
	if got.instance != i.Mark() || !equal(got.defs, []string{`{"name":"echo"}`, `{"name":"new"}`}) {
		t.Errorf("the new list is %+v", got)
	}
}

// TestListChangedIsCoalesced: however often it is said, one list is read at a
// time, and one more after it.
func TestListChangedIsCoalesced(t *testing.T) {
	s := newServer(t)
	h := oneServer(t, s)
	h.get("p")
	gate := make(chan struct{})
	lists := make(chan *rpc.Message, 100)
	s.when(methodListTools, func(_ *server, m *rpc.Message) { lists <- m })
	go func() {
		for m := range lists {
			<-gate
			s.list(m)
		}
	}()
	defer close(lists)
	s.setTools(`{"name":"one"}`)
	s.await(methodListTools, 2) // the first one was the start's
	for range 50 {
		s.setTools(`{"name":"one"}`)
	}
	eventually(t, "all of it is read", func() bool { return len(s.conn.events) == 0 })
	close(gate)
	s.await(methodListTools, 3)
	current(t, h.get("p"), -1)
	if n := len(h.lists()); n != 2 {
		t.Errorf("%d lists were heard of, want the start's and the other one", n)
	}
	h.do(h.get("p"), Call{Request: callOf(t, "echo", `{}`)})
	if n := len(s.received(methodListTools)); n != 3 {
		t.Errorf("%d lists were read, want the start's, one and one more", n)
	}
}

func TestAFailedRereadKeepsTheOldListAndIsTriedAgain(t *testing.T) {
	s := newServer(t)
	h := oneServer(t, s)
	h.get("p")
	fails := 3
	s.when(methodListTools, func(s *server, m *rpc.Message) {
		if fails--; fails >= 0 {
			s.refuse(m, -32603, "busy")
			return
		}
		s.list(m)
	})
	s.setTools(`{"name":"new"}`)
	eventually(t, "the list is read in the end", func() bool { return len(h.lists()) == 2 })
}

// TestC062_TheUpstreamTokenIsTheHostsOwn: with or without a client's.
func TestC062_TheUpstreamTokenIsTheHostsOwn(t *testing.T) {
	s := newServer(t)
	s.when("tools/call", func(s *server, m *rpc.Message) {
		s.progress(m, 1)
		s.progress(m, 2)
		s.result(m, `{}`)
		s.progress(m, 3)
	})
	h := oneServer(t, s)
	i := h.get("p")
	seen := map[string]bool{}
	for _, meta := range []string{``, `,"_meta":{"progressToken":"p1"}`, `,"_meta":{"progressToken":"p1","x":1}`, `,"_meta":{"progressToken":1}`} {
		var got []string
		h.do(i, Call{
			Request: request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"`+meta+`}}`),
			Notify: func(m *rpc.Message) error {
				got = append(got, string(m.Get("params", "progress")))
				return nil
			},
		})
		if !equal(got, []string{"1", "2"}) {
			t.Errorf("%s: progress %v", meta, got)
		}
	}
	for _, m := range s.received("tools/call") {
		token := string(m.Get("params", "_meta", "progressToken"))
		if seen[token] || token == `"p1"` || token == "1" || token == "" {
			t.Errorf("the server saw the token %s", token)
		}
		seen[token] = true
	}
	if got := text(t, s.received("tools/call")[2]); !contains(got, `"x":1`) {
		t.Errorf("the rest of _meta is gone: %s", got)
	}
}

// TestC116_TheHandshakeIsDoneOnce: for 1000 calls.
func TestC116_TheHandshakeIsDoneOnce(t *testing.T) {
	s := newServer(t)
	h := oneServer(t, s)
	for n := range 1000 {
		if got := h.do(h.get("p"), Call{Request: callOf(t, "echo", fmt.Sprintf(`{"n":%d}`, n))}); !contains(got, fmt.Sprintf(`{"n":%d}`, n)) {
			t.Fatalf("call %d: %s", n, got)
		}
	}
	if a, b := len(s.received(methodInitialize)), len(s.received(methodListTools)); a != 1 || b != 1 {
		t.Errorf("%d initialize, %d tools/list", a, b)
	}
}

// TestC037_ACrashEndsTheCallsAndTheProviderComesBack.
func TestC037_ACrashEndsTheCallsAndTheProviderComesBack(t *testing.T) {
	for name, crash := range map[string]func(p *plugin){
		"the server exits": func(p *plugin) { p.exitServer(provider.ExitStatus{Code: 1, StderrTail: "out of luck\n"}) },
		"the plugin dies":  func(p *plugin) { p.end() },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, func(string, int) *plugin { return &plugin{server: newServer(t)} }, specOf("p"))
			i := h.get("p")
			first := h.plugin("p")
			lost := make(chan error, 1)
			go func() {
				_, err := i.Do(context.Background(), Call{Request: callOf(t, "slow", `{}`)})
				lost <- err
			}()
			first.server.await("tools/call", 1)
			crash(first)
			select {
			case err := <-lost:
				wantLost(t, err, true, Crashed, "")
			case <-time.After(time.Second):
				t.Fatal("the call did not end within a second")
			}
			again := h.get("p")
			if again == i || again.Mark() != "h/p/2" {
				t.Errorf("the same instance is given out again: %s", again.Mark())
			}
			h.do(again, Call{Request: callOf(t, "echo", `{}`)})
			select {
			case <-first.done:
			case <-time.After(patience):
				t.Error("what is left of the first instance was not ended")
			}
			if n := len(h.plugin("p").server.received(methodListTools)); n != 1 {
				t.Errorf("the new server's tools were listed %d times", n)
			}
		})
	}
}

func TestStopLetsCallsInFlightEnd(t *testing.T) {
	s := newServer(t)
	h := oneServer(t, s)
	i := h.get("p")
	ended := make(chan error, 1)
	go func() {
		_, err := i.Do(context.Background(), Call{Request: callOf(t, "slow", `{}`)})
		ended <- err
	}()
	m := s.await("tools/call", 1)[0]
	stopped := make(chan struct{})
	go func() { defer close(stopped); h.manager.Stop(context.Background()) }()
	eventually(t, "no new calls are taken", func() bool {
		_, err := h.manager.Get(t.Context(), "p")
		return err != nil
	})
	s.result(m, `{}`)
	if err := <-ended; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	<-stopped
}

func TestStopWaitsForNoMoreThanTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		h := oneServer(t, s)
		i := h.get("p")
		ended := make(chan error, 1)
		go func() {
			_, err := i.Do(context.Background(), Call{Request: callOf(t, "slow", `{}`)})
			ended <- err
		}()
		synctest.Wait()
		begun := time.Now()
		h.manager.Stop(context.Background())
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("it took %s", took)
		}
		wantLost(t, <-ended, true, Crashed, "")
	})
}

func TestNoiseIsInTheState(t *testing.T) {
	s := newServer(t)
	h := oneServer(t, s)
	h.get("p")
	s.conn.event(provider.Noise{Line: []byte("hello")})
	eventually(t, "noise is counted", func() bool { st, _ := h.manager.State("p"); return st.Noise == 1 })
}
