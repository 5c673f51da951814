package crossing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// atOnce is what a thing may take on a busy machine that happens at once on a
// quiet one. Where a test measures, what the fault would cost is far more.
const atOnce = 15 * time.Second

// limits is a block of a provider.
func limits(text string) string { return "  limits {\n    " + text + "\n  }\n" }

// neverAgain is a restart block with which a provider that failed is not started
// again while a test runs.
const neverAgain = "  restart {\n    backoff = \"10m\"\n    backoff_max = \"10m\"\n  }\n"

// nonce asks a fake server which process it is.
func nonce(t testing.TB, c hosttest.Client, provider string) string {
	t.Helper()
	return hosttest.CallTool(t, c, provider+"_whoami", "{}").Text()
}

// lineOf is where a provider's block begins, as a person is told it.
func lineOf(t testing.TB, path, provider string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := bytes.Cut(text, []byte("provider "+quote(provider)))
	if !found {
		t.Fatalf("no provider %q in %s", provider, path)
	}
	return fmt.Sprintf("providers.hcl:%d", bytes.Count(before, []byte("\n"))+1)
}

// says checks that a text has all the parts.
func says(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s does not say %q: %s", what, part, text)
		}
	}
}

// TestC005_TheDeadlineOfTheStartEndsWithIt calls a server long after the time for
// its start was over: it is the same process, whoever's call started it. (The
// count of restarts, which `status` will show, is here the server's own log.)
func TestC005_TheDeadlineOfTheStartEndsWithIt(t *testing.T) {
	const startTimeout = 4 * time.Second
	fake := provider{
		name: "fake", args: []string{"--init-delay", "100ms"},
		body: limits(fmt.Sprintf("start_timeout = %q", startTimeout)),
	}
	after := func(t *testing.T, p hosttest.Place) {
		began := fakeserver.Dir(logged(t, p, "fake"), fakeserver.DirStart)[0].T
		time.Sleep(time.Until(began.Add(startTimeout + time.Second)))
	}
	same := func(t *testing.T, p hosttest.Place, first, later string) {
		if first == "" || later != first || starts(logged(t, p, "fake")) != 1 {
			t.Errorf("process %q answered first and %q later, of %d", first, later, starts(logged(t, p, "fake")))
		}
	}
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", fake))
		first := nonce(t, c, "fake")
		after(t, p)
		same(t, p, first, nonce(t, c, "fake"))
	})
	t.Run("another client", func(t *testing.T) {
		t.Parallel()
		p := hosttest.NewPlace(t)
		h := p.ServeHTTP(t, config(t, p, "", fake))
		c := dial(t, h)
		first := nonce(t, c, "fake")
		c.Close(t)
		after(t, p)
		same(t, p, first, nonce(t, dial(t, h), "fake"))
	})
}

// TestC040_InitializeIsNotCancelled: a server that never answers `initialize` is
// ended and told nothing.
func TestC040_InitializeIsNotCancelled(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{
			name: "fake", args: []string{"--mute"}, body: limits(`start_timeout = "4s"`) + neverAgain,
		}))
		e := errorOf(t, tool(t, c, "fake_echo", "{}"))
		says(t, "the error", e.Message, `"fake"`, "initialize: timed out after 4s")
		log := logged(t, p, "fake")
		if len(fakeserver.Method(log, "initialize")) != 1 {
			t.Errorf("the server was not asked to initialize: %+v", log)
		}
		eventually(t, "the server still runs", func() bool { return len(servers(p, "fake")) == 0 })
		if got := fakeserver.Method(logged(t, p, "fake"), "notifications/cancelled"); len(got) != 0 {
			t.Errorf("the server was told of a cancel: %s", got[0].Raw)
		}
	})
}

// servers are the processes of one provider's MCP server.
func servers(p hosttest.Place, provider string) []hosttest.Process {
	return slices.DeleteFunc(p.Processes(), func(one hosttest.Process) bool {
		return !strings.Contains(one.Mark, "/"+provider+"/") || !strings.Contains(one.Command, "--log")
	})
}

// plugins are the plugin processes of one provider.
func plugins(p hosttest.Place, provider string) []hosttest.Process {
	return slices.DeleteFunc(p.Processes(), func(one hosttest.Process) bool {
		return !strings.Contains(one.Mark, "/"+provider+"/") || !strings.HasPrefix(one.Command, "drawbridge plugin ")
	})
}

// TestC041_AMuteServerHoldsUpNobody: the host answers, and lists the servers that
// speak, while one that does not is still being waited for; that one is marked
// failed in time.
func TestC041_AMuteServerHoldsUpNobody(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "",
			provider{name: "mute", args: []string{"--mute"}, body: limits(`start_timeout = "10s"`) + neverAgain},
			provider{name: "two"}, provider{name: "three"}))
		for {
			all := names(t, c)
			if slices.Contains(all, "two_echo") && slices.Contains(all, "three_echo") {
				break
			}
			if failed := strings.Contains(c.host().Said(), "timed out"); failed {
				t.Fatalf("the mute server's time is over, and %v is listed", all)
			}
		}
		if strings.Contains(c.host().Said(), "timed out") {
			t.Error("the list waited for the mute server")
		}
		failed := func() bool { return strings.Contains(c.host().Said(), "initialize: timed out after 10s") }
		eventually(t, "the mute server is not marked failed in phase initialize", failed)
		if all := names(t, c); slices.ContainsFunc(all, func(name string) bool { return strings.HasPrefix(name, "mute_") }) {
			t.Errorf("listed: %v", all)
		}
	})
}

// TestC092_ASlowStarterComesLater: a list does not wait for a slow server longer
// than list_wait and does not end its start; when it is ready the client hears of
// it. (That it is "starting" meanwhile is for `status` to say.)
func TestC092_ASlowStarterComesLater(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, `list_wait = "500ms"`, provider{
			name: "fake", args: []string{"--init-delay", "5s"}, body: limits(`start_timeout = "60s"`),
		}))
		if all := names(t, c); len(all) != 0 {
			t.Errorf("before the server was ready, %v is listed", all)
		}
		began := fakeserver.Dir(waitLog(t, p, "fake", func(log []fakeserver.Entry) bool { return starts(log) > 0 }), fakeserver.DirStart)[0]
		eventually(t, "no list_changed", func() bool { return len(changes(c)) == 1 })
		if all := names(t, c); !slices.Contains(all, "fake_echo") {
			t.Errorf("after list_changed, %v is listed", all)
		}
		if got := nonce(t, c, "fake"); got != began.Nonce {
			t.Errorf("process %s answers, %s was started by the list", got, began.Nonce)
		}
		if got := changes(c); len(got) != 1 {
			t.Errorf("%d list_changed, want one", len(got))
		}
	})
}

// changes are the list_changed that a client has heard.
func changes(c hosttest.Client) []hosttest.Message {
	return slices.DeleteFunc(c.Heard(), func(m hosttest.Message) bool { return m.Method != "notifications/tools/list_changed" })
}

// TestC120_ACrashAtTheStartSaysWhy: long before the time for the start is over,
// the caller knows which provider, where it is declared, the phase, the exit code
// and what the server said.
func TestC120_ACrashAtTheStartSaysWhy(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		path := config(t, p, "", provider{
			name: "fake", args: []string{"--stderr", "Error: API_KEY is not set", "--exit-at-start", "3", "--exit-after", "200ms"},
			body: limits(`start_timeout = "2m"`) + neverAgain,
		})
		c := open(path)
		began := time.Now()
		e := errorOf(t, tool(t, c, "fake_echo", "{}"))
		if took := time.Since(began); took > atOnce {
			t.Errorf("it took %v", took)
		}
		says(t, "the error", e.Message, `provider "fake"`, lineOf(t, path, "fake"), "initialize", "exited with code 3", "Error: API_KEY is not set")
		eventually(t, "the log says nothing of it", func() bool { return strings.Contains(c.host().Said(), "provider is not running") })
		says(t, "the log", c.host().Said(), "exited with code 3", "Error: API_KEY is not set", lineOf(t, path, "fake"))
	})
}

// TestC121_ACrashAtTheStartAnswersTheCall: over HTTP the response is the error of
// the request, and ends.
func TestC121_ACrashAtTheStartAnswersTheCall(t *testing.T) {
	p := hosttest.NewPlace(t)
	c := dial(t, p.ServeHTTP(t, config(t, p, "", provider{
		name: "fake", args: []string{"--exit-at-start", "1"}, body: limits(`start_timeout = "2m"`) + neverAgain,
	})))
	began := time.Now()
	res, err := c.Do(t.Context(), http.MethodPost, `{"jsonrpc":"2.0","id":"c121","method":"tools/call","params":{"name":"fake_echo","arguments":{}}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("the response did not end well: %v", err)
	}
	if took := time.Since(began); took > atOnce {
		t.Errorf("it took %v", took)
	}
	body = bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(body), []byte("event: message")))
	var m hosttest.Message
	if err := json.Unmarshal(bytes.TrimPrefix(body, []byte("data:")), &m); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if string(m.ID) != `"c121"` {
		t.Errorf("answered as %s", m.ID)
	}
	says(t, "the error", errorOf(t, hosttest.Reply{Message: m}).Message, `provider "fake"`, "exited with code 1")
}
