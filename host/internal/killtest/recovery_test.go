//go:build linux

package killtest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// step is the pause before each restart of the tests of recovery, where no two in a
// row are meant.
const step = 300 * time.Millisecond

var recovers = fmt.Sprintf("  restart {\n    intensity = 1000\n    backoff = %q\n    backoff_max = %q\n  }\n"+
	"  limits {\n    stop_grace = \"500ms\"\n    start_timeout = \"60s\"\n  }\n", step, step)

// A server that is killed while nobody calls is there again for the next call, after
// no more than a pause and a start.
//
// A call that comes in the same moment as the kill may reach the server that is
// ending, and then it ends with it: nothing is sent a second time. So the call that
// is measured comes once the instance is gone; in odd rounds one comes before it,
// which is answered, or is told the truth within a second. Of all rounds the one in
// the middle counts: what else the machine does comes on top of any.
func TestServerKilledIdle(t *testing.T) {
	both(t, func(t *testing.T, p place, flags ...string) {
		args := []string{"--init-delay", "200ms", "--life", "5m"}
		h := p.serve(t, p.config(t, "c.hcl", provider{"p", args, recovers}), flags...).ready(t, p)
		began := time.Now()
		h.answers(t, "p_echo")
		limit := 2 * (time.Since(began) + step)
		var all []time.Duration
		for round := range 5 {
			server := pick(marked(h.id+"/"), "server")
			if len(server) != 1 || !server[0].signal(t, syscall.SIGKILL) {
				t.Fatalf("servers: %v", server)
			}
			killed := time.Now()
			if round%2 == 1 {
				r := h.await(t, "the call in that moment", h.call("p_echo", `{}`))
				if e := r.Error; e != nil && (e.Data.Dispatched != (e.Data.Outcome == "unknown") || time.Since(killed) > answerLimit) {
					t.Errorf("round %d: after %v: %+v", round, time.Since(killed), *e)
				}
			}
			eventually(t, "the end of the instance", func() bool { return len(instance(server[0].mark)) == 0 })
			h.answers(t, "p_echo")
			all = append(all, time.Since(killed))
		}
		slices.Sort(all)
		if took := all[len(all)/2]; took > limit {
			t.Errorf("the answer came after %v (of %v), want at most %v", took, all, limit)
		}
		h.stop(t)
	})
}

// answers calls once, and the call is answered.
func (h *host) answers(t *testing.T, tool string) {
	t.Helper()
	if r := h.await(t, tool, h.call(tool, `{}`)); r.Error != nil {
		t.Errorf("%s: %+v", tool, *r.Error)
	}
}

// A server that is killed under a call ends that call, with the truth about it, and no
// other: not of another provider, nor the next of this one.
func TestServerKilledUnderACall(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p place, flags ...string) {
		log := func(name string) string { return p.path(name + ".log") }
		config := p.config(t, "c.hcl",
			provider{"p", []string{"--life", "5m", "--log", log("p")}, recovers},
			provider{"q", []string{"--life", "5m", "--log", log("q")}, recovers})
		h := p.serve(t, config, flags...).ready(t, p)
		h.answers(t, "p_echo")
		h.answers(t, "q_echo")
		others := pick(marked(h.id+"/q/"), "server")
		dies := h.call("p_slow", `{"ms":600001}`)
		lives := h.call("q_slow", `{"ms":2002}`)
		for name, call := range map[string]string{"p": "600001", "q": "2002"} {
			eventually(t, "the call", func() bool {
				text, _ := os.ReadFile(log(name))
				return strings.Contains(string(text), call)
			})
		}
		server := pick(marked(h.id+"/p/"), "server")
		if len(server) != 1 || !server[0].signal(t, syscall.SIGKILL) {
			t.Fatalf("servers: %v", server)
		}
		killed := time.Now()
		r := h.await(t, "the call", dies)
		if took := time.Since(killed); took > answerLimit {
			t.Errorf("the call ended after %v", took)
		}
		if r.Error == nil || r.Error.Data.Outcome != "unknown" || !r.Error.Data.Dispatched {
			t.Errorf("the call ended with %s %+v", r.Result, r.Error)
		}
		h.answers(t, "p_echo")
		if r := h.await(t, "the other's call", lives); r.Error != nil {
			t.Errorf("the other's call: %+v", *r.Error)
		}
		if len(others) != 1 || !others[0].lives() {
			t.Errorf("the other's server: %v", others)
		}
		h.stop(t)
	})
}
