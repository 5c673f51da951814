package crossing

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// TestProgress makes calls that send three progress messages right before their
// result, alone and sixteen at a time in one session: every message arrives, on
// its own call's stream, in order, before the result.
func TestProgress(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake"}))
		c.Request(t, "tools/list", "") // what a cold provider adds to the view is no stray message after this
		const calls = 100
		for range calls {
			progress(t, c)
		}
		const callers = 16
		var all sync.WaitGroup
		work := make(chan struct{}, calls)
		for range calls {
			work <- struct{}{}
		}
		close(work)
		for range callers {
			all.Go(func() {
				for range work {
					progress(t, c)
				}
			})
		}
		all.Wait()
		if stray := c.Heard(); len(stray) != 0 {
			t.Errorf("%d messages on no call's stream, the first: %s", len(stray), stray[0].Raw)
		}
	})
}

func progress(t *testing.T, c client) {
	t.Helper()
	r := c.Request(t, "tools/call", `{"name":"fake_progress","arguments":{"n":3},"_meta":{"progressToken":"TOKEN"}}`)
	if r.Error != nil {
		t.Errorf("%s", r.Error)
		return
	}
	var seen []string
	for _, n := range r.Notes {
		var p struct {
			ProgressToken json.RawMessage `json:"progressToken"`
			Progress      json.RawMessage `json:"progress"`
		}
		if err := json.Unmarshal(n.Params, &p); err != nil || string(p.ProgressToken) != string(r.ID) {
			t.Errorf("on the stream of call %s: %s", r.ID, n.Raw)
		}
		seen = append(seen, string(p.Progress))
	}
	if fmt.Sprint(seen) != "[1 2 3]" {
		t.Errorf("call %s: progress %v, want 1, 2, 3", r.ID, seen)
	}
}

// TestNoToken drops progress that a client did not ask for; the server has a
// token all the same.
func TestNoToken(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake"}))
		c.Request(t, "tools/list", "") // what a cold provider adds to the view is no stray message after this
		r := c.Request(t, "tools/call", `{"name":"fake_progress","arguments":{"n":3}}`)
		if r.Error != nil || len(r.Notes) != 0 || len(c.Heard()) != 0 {
			t.Errorf("without a token: error %s, %d notes on the stream, %d elsewhere", r.Error, len(r.Notes), len(c.Heard()))
		}
	})
}
