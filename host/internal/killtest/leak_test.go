//go:build linux

package killtest

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// TestManyCallsLeaveNothing: after 10,000 calls that end in every way that a call ends
// in while its server lives, the host has no more descriptors and goroutines than after
// a few of each.
func TestManyCallsLeaveNothing(t *testing.T) {
	const calls, side = 10_000, 16
	p := newPlace(t, os.Getuid())
	body := "  limits {\n    inline_result = \"8KiB\"\n    max_message = \"64KiB\"\n    call_timeout = \"200ms\"\n    max_queue = 4\n    max_concurrent = 8\n  }\n"
	h := p.serve(t, p.config(t, "c.hcl", provider{"p", []string{"--life", "10m"}, body})).ready(t, p)
	h.answers(t, "p_echo")
	ends := map[string]int{}
	var mu sync.Mutex
	// one sends the call that is due, and notes how it ends.
	one := func(n int) {
		var r reply
		id := fmt.Sprintf(`,"_meta":{"drawbridge/call_id":"n%d"}`, n/2*2) // every id comes twice
		send := func(tool, args, more string) {
			r = h.await(t, tool, h.send("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s%s}`, tool, args, more)))
		}
		switch n % 50 {
		case 0, 1:
			send("p_inc", "{}", id)
		case 2:
			send("p_tool_error", "{}", "")
		case 3:
			send("p_error_rpc", "{}", "")
		case 4:
			send("p_none", "{}", "")
		case 5:
			send("p_big", `{"bytes":10000}`, "")
		case 6:
			send("p_big", `{"bytes":100000}`, "")
		case 7:
			send("p_echo", `{"text":"`+strings.Repeat("x", 70_000)+`"}`, "")
		case 8:
			send("p_echo", `{}`, `,"_meta":{"drawbridge/digest":"none"}`)
		case 9:
			if n%1000 == 9 {
				send("p_slow", `{"ms":0}`, "")
				break
			}
			fallthrough
		default:
			send("p_echo", "{}", "")
		}
		end := "answer"
		if r.Error != nil {
			if end = r.Error.Data.Outcome + " " + r.Error.Data.Reason; end == " " {
				end = "rpc_error"
			}
		}
		mu.Lock()
		defer mu.Unlock()
		ends[end]++
	}
	from := 0
	run := func(upTo int) {
		var all sync.WaitGroup
		for at := range side {
			all.Go(func() {
				for n := from + at; n < upTo; n += side {
					one(n)
				}
			})
		}
		all.Wait()
		from = upTo
	}
	run(1000)
	files, goroutines := descriptors(h.pid()), h.goroutines(t, p)
	run(calls)
	if now := 0; !within(orphanLimit, func() bool { now = descriptors(h.pid()); return now <= files }) {
		t.Errorf("the host had %d descriptors, and has %d", files, now)
	}
	if more := h.gained(t, p, goroutines); len(more) > 0 {
		t.Errorf("the host has more goroutines: %q", more)
	}
	t.Logf("the calls ended so: %v", ends)
	for _, end := range []string{"answer", "rpc_error", "denied unknown_tool", "stale definition_changed", "unavailable message_too_large", "unknown result_too_large", "unknown timeout", "unavailable queue_full"} {
		if ends[end] == 0 {
			t.Errorf("no call has ended as %s", end)
		}
	}
	h.stop(t)
}
