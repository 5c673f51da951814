package crossing

import (
	"os"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// TestStateDirTakenAway: while the state dir of a running host is somewhere else, what
// runs goes on, and nothing is started; the caller reads why and what to do, and that
// it has nothing to do with the plugin. Put back, the provider starts again.
func TestStateDirTakenAway(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "dies", body: soonAgain}, provider{name: "lives"}))
		before := nonce(t, c, "lives")
		hosttest.CallTool(t, c, "dies_echo", "{}")
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		check(os.Rename(p.Path("state"), p.Path("elsewhere")))
		tool(t, c, "dies_exit", "{}")
		e := errorOf(t, tool(t, c, "dies_echo", "{}"))
		if e.Data.Outcome != "unavailable" || e.Data.Dispatched {
			t.Errorf("without a state dir: %+v", e)
		}
		says(t, "without a state dir", e.Message, p.Path("state/runs"), "is gone", "put the state dir back", "restart the host")
		if strings.Contains(e.Message, "cannot be run") {
			t.Errorf("the plugin is named for it: %s", e.Message)
		}
		if got := nonce(t, c, "lives"); got != before {
			t.Errorf("the provider that ran has another process: %s, then %s", before, got)
		}

		check(os.RemoveAll(p.Path("state")))
		check(os.Rename(p.Path("elsewhere"), p.Path("state")))
		eventually(t, "with its state dir back the provider does not start", func() bool {
			return tool(t, c, "dies_echo", "{}").Error == nil
		})
	})
}
