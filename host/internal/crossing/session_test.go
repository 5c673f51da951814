package crossing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// TestC017_ABrokenProviderBreaksNoOther calls a healthy provider while a broken one
// is started again and again. The case calls once a second for a minute, which
// shows as much as calls without a pause while there are ten restarts.
func TestC017_ABrokenProviderBreaksNoOther(t *testing.T) {
	restart := "  restart {\n    intensity = 1000\n    backoff = \"50ms\"\n    backoff_max = \"100ms\"\n  }\n"
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "",
			provider{name: "broken", command: "no-such-server", body: restart}, provider{name: "fake"}))
		e := errorOf(t, tool(t, c, "broken_echo", "{}"))
		says(t, "the error", e.Message, `provider "broken"`, "no-such-server")
		first := nonce(t, c, "fake")
		calls := 0
		for restarts := 0; restarts < 10 || calls < 60; calls++ {
			if got := hosttest.CallTool(t, c, "fake_echo", `{"text":"well"}`).Text(); got != "well" {
				t.Fatalf("call %d: %q", calls, got)
			}
			restarts = strings.Count(c.host().Said(), "provider is not running")
		}
		if got := nonce(t, c, "fake"); got != first || starts(logged(t, p, "fake")) != 1 {
			t.Errorf("after %d calls process %s answers, at first it was %s", calls, got, first)
		}
		if all := strings.Join(names(t, c), " "); !strings.Contains(all, "fake_echo") || strings.Contains(all, "broken_") {
			t.Errorf("listed: %s", all)
		}
	})
	t.Run("the path", func(t *testing.T) {
		p := hosttest.NewPlace(t)
		nowhere := setting{env: []string{"PATH=/nowhere/bin:/nor/here"}}
		c := nowhere.stdio(t, p, config(t, p, "", provider{name: "broken", command: "no-such-server", body: neverAgain}))
		e := errorOf(t, tool(t, c, "broken_echo", "{}"))
		says(t, "the error", e.Message, "no-such-server", "/nowhere/bin:/nor/here")
	})
}

// TestC022_SequentialCallsReachOneServer: what one call left in the server, the
// next finds there.
func TestC022_SequentialCallsReachOneServer(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake"}))
		for range 3 {
			hosttest.CallTool(t, c, "fake_inc", "{}")
		}
		if got := hosttest.CallTool(t, c, "fake_get", "{}").Text(); got != "3" {
			t.Errorf("the counter is %s, want 3", got)
		}
		log := logged(t, p, "fake")
		if starts(log) != 1 || len(fakeserver.Method(log, "initialize")) != 1 {
			t.Errorf("%d processes and %d handshakes, want one of each", starts(log), len(fakeserver.Method(log, "initialize")))
		}
		for _, e := range log {
			if e.Nonce != log[0].Nonce {
				t.Errorf("another process wrote %+v", e)
			}
		}
	})
}

// TestC025_PingsAreAnswered: a server that ends sessions which do not answer its
// pings keeps ours, with no client connected and during a call. (The case's FH
// comes with servers on HTTP.)
func TestC025_PingsAreAnswered(t *testing.T) {
	const dropAfter = 4 * time.Second
	fake := provider{
		name: "fake", args: []string{"--ping-every", "200ms", "--drop-after", dropAfter.String()},
		body: "  start = \"eager\"\n",
	}
	// idle waits until a server that hears nothing would long have gone.
	idle := func(t *testing.T, p hosttest.Place) {
		before := len(replies(logged(t, p, "fake")))
		enough := int(2*dropAfter/(200*time.Millisecond)) - 10
		waitLog(t, p, "fake", func(log []fakeserver.Entry) bool { return len(replies(log))-before >= enough })
	}
	kept := func(t *testing.T, p hosttest.Place, c client) {
		log := logged(t, p, "fake")
		if got := hosttest.CallTool(t, c, "fake_get", "{}").Text(); got != "1" || starts(log) != 1 {
			t.Errorf("the counter is %s after %d starts, want 1 after one", got, starts(log))
		}
		for _, e := range replies(log) {
			if string(e.Message().Result) != "{}" {
				t.Errorf("a ping was answered with %s", e.Raw)
			}
		}
	}
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", fake))
		hosttest.CallTool(t, c, "fake_inc", "{}")
		slow := make(chan string, 1)
		go func() { slow <- hosttest.CallTool(t, c, "fake_slow", `{"ms":5000}`).Text() }()
		idle(t, p)
		if got := <-slow; got != "slept" {
			t.Errorf("the slow call: %s", got)
		}
		kept(t, p, c)
	})
	t.Run("no client", func(t *testing.T) {
		t.Parallel()
		p := hosttest.NewPlace(t)
		h := p.ServeHTTP(t, config(t, p, "", fake))
		c := dial(t, h)
		hosttest.CallTool(t, c, "fake_inc", "{}")
		c.Close(t)
		idle(t, p)
		kept(t, p, dial(t, h))
	})
}

// replies are the answers that a server got to its own requests.
func replies(log []fakeserver.Entry) []fakeserver.Entry {
	var out []fakeserver.Entry
	for _, e := range fakeserver.Dir(log, fakeserver.DirIn) {
		if m := e.Message(); m.Method == "" && m.ID != nil {
			out = append(out, e)
		}
	}
	return out
}

// TestC116_TheHandshakeIsDoneOnce: a thousand calls cost no server another
// handshake or list, and one provider that cannot be reached costs them nothing:
// all are answered while it is still being waited for. (What a call costs, `make
// bench` says.)
func TestC116_TheHandshakeIsDoneOnce(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		var all []provider
		for i := range 4 {
			all = append(all, provider{name: fmt.Sprintf("fake%d", i), args: []string{"--list-changed"}})
		}
		all = append(all, provider{name: "mute", args: []string{"--mute"}, body: limits(`start_timeout = "5m"`)})
		c := open(config(t, p, "", all...))
		names(t, c)
		for i := range 1000 {
			name := fmt.Sprintf("fake%d_echo", i%4)
			if r := tool(t, c, name, `{"text":"x"}`); r.Error != nil {
				t.Fatalf("call %d: %s", i, r.Error)
			}
		}
		for i := range 4 {
			log := logged(t, p, fmt.Sprintf("fake%d", i))
			hellos, lists := len(fakeserver.Method(log, "initialize")), len(fakeserver.Method(log, "tools/list"))
			if calls := len(fakeserver.Method(log, "tools/call")); hellos != 1 || lists > 2 || calls != 250 {
				t.Errorf("fake%d: %d initialize, %d tools/list, %d calls", i, hellos, lists, calls)
			}
		}
		if said := c.host().Said(); strings.Contains(said, "timed out") || starts(logged(t, p, "mute")) != 1 {
			t.Errorf("the server that does not answer is no longer being waited for: %s", said)
		}
	})
}
