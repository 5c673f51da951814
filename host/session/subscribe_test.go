package session

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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
		if declared, unknown := h.manager.Logging(func(string) bool { return true }); declared != want[0] || unknown != want[1] {
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
