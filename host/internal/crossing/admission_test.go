//go:build linux

package crossing

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// slows begins one call of slow, and when the server has it so many more at once; none
// ends before release. What it returns tells of each when it ends.
func slows(t *testing.T, p hosttest.Place, c client, more int) (all <-chan hosttest.Reply, release func()) {
	t.Helper()
	replies := make(chan hosttest.Reply, more+1)
	released := p.Path("released")
	for n := range more + 1 {
		id := fmt.Sprintf("%q", fmt.Sprint("slow", n))
		wait := c.begin(t, id, called(id, "fake_slow", `{"until":`+encoded(released)+`}`))
		go func() { replies <- wait() }()
		if n == 0 {
			waitCalls(t, p, "fake", 2) // an echo came first
		}
	}
	return replies, func() { p.Write(t, "released", "") }
}

// refusedFull checks that a call was refused because of the queue.
func refusedFull(t *testing.T, r hosttest.Reply) {
	t.Helper()
	if e := errorOf(t, r); e.Code != -31003 || e.Data.Outcome != "unavailable" || e.Data.Reason != "queue_full" || e.Data.Dispatched || e.Data.Retry != "safe" {
		t.Errorf("%+v", e)
	}
}

// TestAFullQueueIsUnavailableAtOnce: of five calls while one runs, two wait and the
// others are told at once that there is no room, and nothing of them was sent.
func TestAFullQueueIsUnavailableAtOnce(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		path := config(t, p, "", provider{name: "fake", body: limits("max_concurrent = 1\n    max_queue = 2")})
		c := open(path)
		hosttest.CallTool(t, c, "fake_echo", "{}")
		all, release := slows(t, p, c, 5)
		for range 3 {
			refusedFull(t, <-all) // while none has ended
		}
		release()
		for range 3 {
			if text := textOf(t, <-all); text != "slept" {
				t.Errorf("a call that fits: %q", text)
			}
		}
		got := endings(t, p, path, "echo")
		slices.Sort(got)
		want := append(slices.Repeat([]string{"slow ok sent"}, 3), slices.Repeat([]string{"slow unavailable queue_full"}, 3)...)
		if !slices.Equal(got, want) {
			t.Errorf("the journal has %q, want %q", got, want)
		}
		if n := len(received(t, p, "fake")); n != 4 {
			t.Errorf("the server has received %d calls, want 4", n)
		}
	})
}

// TestDeadlinesCountQueueing: a call that waits for its turn for the whole of its time
// ends unsent when its time is over, and not later.
func TestDeadlinesCountQueueing(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		path := config(t, p, "", provider{name: "fake", body: limits("max_concurrent = 1\n    call_timeout = \"2s\"\n    call_timeout_max = \"3s\"")})
		c := open(path)
		hosttest.CallTool(t, c, "fake_echo", "{}")
		holds := c.begin(t, `"h"`, called(`"h"`, "fake_slow", `{"ms":0,"progress_ms":200}`)) // to its own end, at 3s
		waitCalls(t, p, "fake", 2)
		began := time.Now()
		second := c.begin(t, `"w"`, called(`"w"`, "fake_slow", `{"ms":2500,"progress_ms":200}`))
		if e := errorOf(t, holds()); e.Data.Outcome != "unknown" || e.Data.Reason != "timeout" {
			t.Errorf("the one that runs: %+v", e)
		}
		e := errorOf(t, second())
		if took := time.Since(began); took > 6*time.Second || e.Data.Reason != "timeout" {
			t.Errorf("the one that waits ends after %v with %+v", took, e)
		}
		// Nearly all of its time has gone by in the queue: it was sent late, or not at all.
		if sent := len(received(t, p, "fake")) == 3; e.Data.Dispatched != sent || (e.Data.Outcome == "unknown") != sent || !sent && e.Data.Outcome != "unavailable" {
			t.Errorf("sent is %v, and it is told %+v", sent, e)
		}
	})
}

// TestAGreedyPrincipalStarvesNobody: while one has its queue full of calls, the call of
// another is next, and does not wait for all of them.
func TestAGreedyPrincipalStarvesNobody(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	grant := "  grant {\n    principals = [\"ann\", \"ben\"]\n    provider = \"fake\"\n    tools = [\"*\"]\n  }\n"
	path := p.Write(t, "providers.hcl", hostBlock(p, "")+blocks(t, p, provider{name: "fake", body: limits("max_concurrent = 1\n    max_queue = 6") + "  session {\n    scope = \"shared\"\n  }\n"})+
		principal("ann", tokenAttribute("ann"))+principal("ben", tokenAttribute("ben"))+"project \"site\" {\n"+grant+"}\n")
	h := p.ServeHTTP(t, path)
	open := func(who string) overHTTP {
		c := hosttest.DialHTTP(h.URL, who)
		return overHTTP{c, h, hosttest.Hello(t, c, hosttest.Initialize)}
	}
	ann, ben := open("ann"), open("ben")
	hosttest.CallTool(t, ben, "fake_echo", "{}")
	all, release := slows(t, p, ann, 8) // one runs, six wait
	for range 2 {
		refusedFull(t, <-all)
	}
	answered := ben.begin(t, `"ben"`, called(`"ben"`, "fake_whoami", "{}"))
	refusedFull(t, <-all) // it makes way for ben's, which waits now
	release()
	if r := answered(); r.Error != nil {
		t.Errorf("ben: %s", r.Error)
	}
	for range 6 {
		if text := textOf(t, <-all); text != "slept" {
			t.Errorf("a call of ann's that fits: %q", text)
		}
	}
	// One was running, the first that waited is ann's, and then comes ben's.
	at := slices.IndexFunc(received(t, p, "fake"), func(m fakeserver.Message) bool { return strings.Contains(string(m.Params), `"whoami"`) })
	if at != 3 {
		t.Errorf("ben's call is number %d that the server has received, want 3 (echo, two of ann's)", at)
	}
}

// TestARateIsHeld: what a grant allows in its time is let through, what is more is told
// when the next is possible, is safe to repeat, and is let through then.
func TestARateIsHeld(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	grant := func(who, more string) string {
		return fmt.Sprintf("  grant {\n    principals = [%q]\n    provider = \"fake\"\n    tools = [\"*\"]\n%s  }\n", who, more)
	}
	path := p.Write(t, "providers.hcl", hostBlock(p, "")+blocks(t, p, provider{name: "fake", body: "  session {\n    scope = \"shared\"\n  }\n"})+
		principal("ann", tokenAttribute("ann"))+principal("ben", tokenAttribute("ben"))+
		"project \"site\" {\n"+grant("ann", "    rate = \"3/6s\"\n")+grant("ben", "")+"}\n")
	h := p.ServeHTTP(t, path)
	ann, ben := hosttest.DialHTTP(h.URL, "ann"), hosttest.DialHTTP(h.URL, "ben")
	hosttest.Open(t, ann)
	hosttest.Open(t, ben)
	for n := range 3 {
		if r := tool(t, ann, "fake_inc", "{}"); r.Error != nil {
			t.Errorf("call %d: %s", n, r.Error)
		}
	}
	e := errorOf(t, tool(t, ann, "fake_inc", "{}"))
	if e.Data.Outcome != "unavailable" || e.Data.Reason != "rate_limited" || e.Data.Dispatched || e.Data.Retry != "safe" {
		t.Errorf("one more: %+v", e)
	}
	says(t, "one more", e.Message, "3 calls in 6s", "possible in")
	for range 5 {
		if r := tool(t, ben, "fake_get", "{}"); r.Error != nil {
			t.Errorf("ben, who has no rate: %s", r.Error)
		}
	}
	eventually(t, "ann may call again", func() bool { return tool(t, ann, "fake_get", "{}").Error == nil })
	want := []string{"inc ok sent", "inc ok sent", "inc ok sent", "inc unavailable rate_limited"}
	if got := endings(t, p, path, "get"); !slices.Equal(got, want) {
		t.Errorf("the journal has %q, want %q", got, want)
	}
}

// TestCallsAroundAFailedStart: a start that fails ends the call that waits for it at once,
// however much time it has; a call that comes while the next start is due waits for
// that, and no longer than it may take.
func TestCallsAroundAFailedStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pause, most string
		// comes says that the next start is to be lived to see.
		comes bool
	}{
		"the next start comes":      {"5s", "50s", true},
		"the next start is far off": {"1h", "5s", false},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			p := hosttest.NewPlace(t)
			command := p.Write(t, "server", "#!/bin/sh\necho attempt >> "+p.Path("attempts")+"\n[ -e "+p.Path("released")+" ] || exit 3\nexec "+fakeserver.Build(t)+" \"$@\"\n")
			if err := os.Chmod(command, 0o700); err != nil {
				t.Fatal(err)
			}
			attempts := func() int {
				text, _ := os.ReadFile(p.Path("attempts"))
				return strings.Count(string(text), "\n")
			}
			body := fmt.Sprintf("  restart {\n    intensity = 100\n    backoff = %q\n    backoff_max = %q\n  }\n", c.pause, c.pause) +
				limits(fmt.Sprintf("call_timeout = %q\n    call_timeout_max = %q", c.most, c.most))
			path := config(t, p, "", provider{name: "fake", command: command, body: body})
			client := setting{}.stdio(t, p, path)
			if e := errorOf(t, tool(t, client, "fake_echo", "{}")); e.Data.Outcome != "unavailable" || e.Data.Reason != "provider_failed" || e.Data.Dispatched || e.Data.Retry != "safe" || !strings.Contains(e.Message, "code 3") {
				t.Errorf("the call that waited for the start: %+v", e)
			}
			awaitStatus(t, p, path, "fake", "in backoff", func(s providerStatus) bool { return s.State == "backoff" })
			before := attempts()
			p.Write(t, "released", "")
			r := tool(t, client, "fake_echo", `{"text":"here"}`)
			if !c.comes {
				if e := errorOf(t, r); e.Data.Outcome != "unavailable" || e.Data.Reason != "timeout" || e.Data.Dispatched || attempts() != 1 {
					t.Errorf("a call that came in between, after %d attempts: %+v", attempts(), e)
				}
				return
			}
			if text := textOf(t, r); text != "here" || attempts() != before+1 {
				t.Errorf("a call that came in between: %q after %d attempts more", text, attempts()-before)
			}
		})
	}
}
