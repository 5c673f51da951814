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

// TestWhoSeesNoChangeHearsOfNone: a tool that ben is not granted is redefined, goes and
// comes; ada hears of it, and ben only of what changes for him.
func TestWhoSeesNoChangeHearsOfNone(t *testing.T) {
	p := hosttest.NewPlace(t)
	shelve(t, p, "pay to", "keep")
	fake := filing(p)
	fake.body = shared
	h := setting{}.http(t, p, governed(t, p, project("site", grant("ada", "fake", `tools = ["*"]`), grant("ben", "fake", `tools = ["*"]
    except = ["pay"]`)), fake))
	ada := dialAs(t, h, tokenOfAda)
	names(t, ada)
	ben := dialAs(t, h, tokenOfBen) // what the server's start adds to a view is no news to him
	names(t, ben)
	before := revisions(t, ben)["fake"]
	change := func(told int, tools ...string) {
		t.Helper()
		shelve(t, p, tools...)
		if r := tool(t, ada, "fake_notify", "{}"); r.Error != nil {
			t.Fatal(string(r.Error))
		}
		eventually(t, "ada is told", func() bool { return len(changes(ada)) == told })
	}
	change(1, "pay target", "keep")
	change(2, "keep")
	change(3, "pay anew", "keep")
	if now := revisions(t, ben)["fake"]; now != before {
		t.Errorf("ben's revision is %s, was %s", now, before)
	}
	change(4, "pay anew", "keep it")
	eventually(t, "ben is told", func() bool { return len(changes(ben)) > 0 })
	if n := len(changes(ben)); n != 1 {
		t.Errorf("ben was told %d times", n)
	}
	if revisions(t, ben)["fake"] == before {
		t.Error("ben's revision is what it was")
	}
	if n := len(changes(ada)); n != 4 {
		t.Errorf("ada was told %d times", n)
	}
}
