//go:build linux

package crossing

import (
	"os"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// TestNothingRunsWhileAListCannotBeReadAgain: the server says that its tools have changed
// and then cannot list them. Its calls are unavailable, and nothing is sent, until it can;
// lists show what there was.
func TestNothingRunsWhileAListCannotBeReadAgain(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		shelve(t, p, "pay to", "keep")
		c := open(config(t, p, "", filing(p, "--ledger", p.Path("ledger"))))
		before := len(names(t, c))
		broken := p.Write(t, "tools.new", "[")
		if err := os.Rename(broken, p.Path("tools.json")); err != nil {
			t.Fatal(err)
		}
		if r := tool(t, c, "fake_notify", "{}"); r.Error != nil {
			t.Fatal(string(r.Error))
		}
		sent := len(received(t, p, "fake"))
		for _, name := range []string{"fake_pay", "fake_keep", "fake_echo"} {
			e := errorOf(t, tool(t, c, name, `{"to":"ann"}`))
			if e.Code != -31003 || e.Data.Outcome != "unavailable" || e.Data.Reason != "not_current" || e.Data.Dispatched || e.Data.Retry != "safe" {
				t.Errorf("%s: %+v", name, e)
			}
		}
		if n := len(received(t, p, "fake")) - sent; n != 0 {
			t.Errorf("%d calls reached the server", n)
		}
		if n := len(names(t, c)); n != before {
			t.Errorf("%d tools are listed, want the %d of before", n, before)
		}
		shelve(t, p, "pay target", "keep")
		eventually(t, "what is as it was shown can be called again", func() bool { return tool(t, c, "fake_keep", "{}").Error == nil })
		refusedAs(t, tool(t, c, "fake_pay", `{"to":"ann"}`), "definition_changed")
		if n := len(calls(t, p, "pay")); n != 0 {
			t.Errorf("the server was asked to pay %d times", n)
		}
	})
}
