package crossing

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// listLimit is how long after the host's start the tools of healthy providers
// are listed, whatever the broken ones do; a test allows twice.
const listLimit = 2 * 2 * time.Second

// broken are providers that cannot start, and what must be said of each.
func broken() []provider {
	limits := "  limits {\n    start_timeout = \"3s\"\n  }"
	return []provider{
		{name: "missing", command: "/nowhere/no-such-server", body: limits},
		{name: "exits", args: []string{"--stderr", "the database is locked", "--exit-at-start", "7"}, body: limits},
		{name: "mute", args: []string{"--mute"}, body: limits},
	}
}

// TestBrokenProvider: broken providers cost a healthy one nothing.
func TestBrokenProvider(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		// Built before the clock runs.
		path := config(t, p, "", append(broken(), provider{name: "well"})...)
		hosttest.Build(t)
		began := time.Now()
		c := open(path)
		names := listed(t, c, began)
		if !strings.Contains(names, "well_echo") {
			t.Errorf("listed: %s; want the tools of the provider that works", names)
		}
		for _, one := range broken() {
			if strings.Contains(names, one.name+"_") {
				t.Errorf("a tool of the broken provider %s is listed: %s", one.name, names)
			}
		}
		if got := hosttest.CallTool(t, c, "well_echo", `{"text":"here"}`).Text(); got != "here" {
			t.Errorf("echo: %q", got)
		}
		for name, want := range map[string][]string{
			"missing": {"missing", "no-such-server"},
			"exits":   {"exits", "7", "the database is locked", "providers.hcl:"},
			"mute":    {"mute", "initialize", "providers.hcl:"},
		} {
			e := errorOf(t, c.Request(t, "tools/call", fmt.Sprintf(`{"name":"%s_echo","arguments":{}}`, name)))
			if e.Data.Outcome != "unavailable" || e.Data.Dispatched {
				t.Errorf("%s: %+v, want unavailable and nothing dispatched", name, e)
			}
			for _, part := range want {
				if !strings.Contains(e.Message, part) {
					t.Errorf("%s: the error does not say %q: %s", name, part, e.Message)
				}
			}
		}
	})
}

// listed lists once: healthy tools are there within the limit.
func listed(t *testing.T, c client, began time.Time) string {
	t.Helper()
	for {
		var names []string
		for _, d := range hosttest.Definitions(t, c) {
			names = append(names, d.Name)
		}
		all := strings.Join(names, " ")
		took := time.Since(began)
		if strings.Contains(all, "well_echo") || took > listLimit {
			if took > listLimit {
				t.Errorf("the list of a healthy provider took %v, want at most %v", took, listLimit)
			}
			return all
		}
	}
}

// TestBrokenInJSON: `tools --json` says what is wrong with each, and exits 1.
func TestBrokenInJSON(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	cmd := p.Command(t, "tools", "--json", "--config", config(t, p, "", append(broken(), provider{name: "well"})...))
	out, err := hosttest.Output(t, cmd)
	if exit, ok := asExit(err); !ok || exit != 1 {
		t.Errorf("tools --json with broken providers: %v, want exit 1", err)
	}
	var list struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
		Providers []struct {
			Name, State, Reason string
			Tools               int
		} `json:"providers"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v: %.400s", err, out)
	}
	reasons := map[string]string{}
	for _, one := range list.Providers {
		reasons[one.Name] = one.Reason
		if one.Name == "well" && (one.Tools == 0 || one.Reason != "") {
			t.Errorf("the healthy provider: %+v", one)
		}
	}
	for name, want := range map[string][]string{
		"missing": {"no-such-server", "providers.hcl:"},
		"exits":   {"7", "the database is locked", "providers.hcl:"},
		"mute":    {"initialize", "providers.hcl:"},
	} {
		for _, part := range want {
			if !strings.Contains(reasons[name], part) {
				t.Errorf("%s: %q does not say %q", name, reasons[name], part)
			}
		}
	}
}

func asExit(err error) (int, bool) {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0, false
	}
	return exit.ExitCode(), true
}

// TestOneServer: twenty first calls at once start one server, and calls after
// them reach the same process.
func TestOneServer(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake", args: []string{"--init-delay", "200ms"}}))
		const callers = 20
		nonces := make([]string, callers)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() { nonces[i] = hosttest.CallTool(t, c, "fake_whoami", "{}").Text() })
		}
		all.Wait()
		for range 5 {
			nonces = append(nonces, hosttest.CallTool(t, c, "fake_whoami", "{}").Text())
		}
		for _, one := range nonces {
			if one == "" || one != nonces[0] {
				t.Fatalf("several servers answered: %v", nonces)
			}
		}
	})
}

// TestStubborn: a server that ignores the end of its input and SIGTERM does not
// outlive the host; the place looks for it.
func TestStubborn(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{
			name: "fake", args: []string{"--ignore-eof", "--ignore-term"},
			body: "  limits {\n    stop_grace = \"1s\"\n  }",
		}))
		hosttest.CallTool(t, c, "fake_echo", "{}")
	})
}
