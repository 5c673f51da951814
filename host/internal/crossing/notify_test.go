//go:build linux

package crossing

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// TestC059_ChangesAreTold: a server adds a tool during a call and says so. Each
// client hears of it once, and then finds the tool, under another revision.
func TestC059_ChangesAreTold(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake", args: []string{"--list-changed"}}))
		names(t, c) // what a cold provider adds to the view is no news after this
		clients := []client{c}
		if h, ok := c.(overHTTP); ok {
			clients = append(clients, h.another(t))
		}
		for _, c := range clients {
			var said struct {
				Capabilities struct{ Tools struct{ ListChanged bool } }
			}
			if err := json.Unmarshal(c.hello().Result, &said); err != nil || !said.Capabilities.Tools.ListChanged {
				t.Errorf("initialize: %v: %s", err, c.hello().Raw)
			}
		}
		last := revisions(t, c)["fake"]
		for i, name := range []string{"new", "newer"} {
			hosttest.CallTool(t, c, "fake_add_tool", fmt.Sprintf(`{"name":%q}`, name))
			for n, c := range clients {
				eventually(t, fmt.Sprintf("client %d does not hear of tool %s", n, name), func() bool { return len(changes(c)) > i })
				if !slices.Contains(names(t, c), "fake_"+name) {
					t.Errorf("client %d heard of a change, and its list lacks the tool %s", n, name)
				}
			}
			now := revisions(t, c)["fake"]
			if now == last || now == "" {
				t.Errorf("the revision is %q and was %q", now, last)
			}
			for n, c := range clients {
				if got := revisions(t, c)["fake"]; got != now {
					t.Errorf("client %d sees the same under the revision %s, not %s", n, got, now)
				}
			}
			last = now
		}
		for n, c := range clients {
			if got := len(changes(c)); got != 2 {
				t.Errorf("client %d heard %d times of two changes", n, got)
			}
		}
	})
}

// TestC061_OnlyTheAnswerIsTheAnswer: a message, progress and a request of the
// server come before its answer; over HTTP in a stream or, where the client wants
// none of them, as plain JSON.
func TestC061_OnlyTheAnswerIsTheAnswer(t *testing.T) {
	replied := func(t *testing.T, p hosttest.Place, n int) {
		log := waitLog(t, p, "fake", func(log []fakeserver.Entry) bool { return len(notes(log, "reply ")) == n })
		for _, e := range notes(log, "reply ") {
			var m fakeserver.Message
			if err := json.Unmarshal([]byte(strings.TrimPrefix(e.Raw, "reply ")), &m); err != nil || string(m.Result) != "{}" {
				t.Errorf("the server's request got %s", e.Raw)
			}
		}
	}
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake"}))
		if got := textOf(t, tool(t, c, "fake_sequence", "{}")); got != "the answer" {
			t.Errorf("the result: %q", got)
		}
		r := c.Request(t, "tools/call", `{"name":"fake_sequence","arguments":{},"_meta":{"progressToken":"TOKEN"}}`)
		if got := textOf(t, r); got != "the answer" || len(progressOf(t, r.Notes)) != 1 {
			t.Errorf("the result: %q after %d notes", got, len(r.Notes))
		}
		replied(t, p, 2)
	})
	t.Run("both forms over HTTP", func(t *testing.T) {
		p := hosttest.NewPlace(t)
		c := dial(t, p.ServeHTTP(t, config(t, p, "", provider{name: "fake"})))
		c.Request(t, "logging/setLevel", `{"level":"error"}`)
		for form, meta := range map[string]string{"application/json": "", "text/event-stream": `,"_meta":{"progressToken":"x"}`} {
			res, err := c.Do(t.Context(), http.MethodPost,
				`{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{"name":"fake_sequence","arguments":{}`+meta+`}}`)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil || !strings.HasPrefix(res.Header.Get("Content-Type"), form) {
				t.Errorf("%s, want %s: %v", res.Header.Get("Content-Type"), form, err)
			}
			if strings.Count(string(body), `"id":"s"`) != 1 || strings.Count(string(body), "the answer") != 1 {
				t.Errorf("the answer as %s:\n%s", form, body)
			}
		}
		replied(t, p, 2)
	})
}

// notes are a server's notes that begin with a text.
func notes(log []fakeserver.Entry, begin string) []fakeserver.Entry {
	return slices.DeleteFunc(fakeserver.Dir(log, fakeserver.DirNote), func(e fakeserver.Entry) bool { return !strings.HasPrefix(e.Raw, begin) })
}

// progressOf are token and value of each progress notification, as they came.
func progressOf(t testing.TB, notes []hosttest.Message) []string {
	t.Helper()
	var out []string
	for _, n := range notes {
		var params struct {
			ProgressToken json.RawMessage `json:"progressToken"`
			Progress      json.RawMessage `json:"progress"`
		}
		if n.Method != "notifications/progress" {
			continue
		}
		if err := json.Unmarshal(n.Params, &params); err != nil {
			t.Errorf("%v: %s", err, n.Raw)
		}
		out = append(out, string(params.ProgressToken)+" "+string(params.Progress))
	}
	return out
}

// c062 are a caller's token, what the server is asked to send, and what the caller gets.
var c062 = []struct{ token, args, want string }{
	{`"p1"`, `{"n":3,"gap_ms":20,"after":true}`, `["p1" 1 "p1" 2 "p1" 3]`},
	{`"p1"`, `{"n":3,"gap_ms":20,"after":true,"repeat":true}`, `["p1" 1 "p1" 2 "p1" 2 "p1" 3]`},
	{`1`, `{"n":3,"gap_ms":20,"after":true}`, `[1 1 1 2 1 3]`},
	{``, `{"n":3,"gap_ms":20,"after":true}`, `[]`},
}

// TestC062_ProgressUnderTheCallersToken, all at once over HTTP, where each has a
// session; over stdio those with a token of their own.
func TestC062_ProgressUnderTheCallersToken(t *testing.T) {
	request := func(id, token, args string) string {
		meta := ""
		if token != "" {
			meta = `,"_meta":{"progressToken":` + token + `}`
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"fake_progress","arguments":%s%s}}`, id, args, meta)
	}
	check := func(t *testing.T, c client, id, want string, r hosttest.Reply) {
		if got := fmt.Sprint(progressOf(t, r.Notes)); got != want || textOf(t, r) != "done" {
			t.Errorf("call %s: progress %s, want %s, then %s", id, got, want, r.Raw)
		}
		// What the server sent after its answer has been read by the time that this is.
		hosttest.CallTool(t, c, "fake_echo", "{}")
		if stray := progressOf(t, c.Heard()); len(stray) != 0 {
			t.Errorf("call %s: progress outside of it: %v", id, stray)
		}
	}
	t.Run("http", func(t *testing.T) {
		p := hosttest.NewPlace(t)
		h := p.ServeHTTP(t, config(t, p, "", provider{name: "fake"}))
		var clients []overHTTP
		var waits []func() hosttest.Reply
		for _, one := range c062 {
			c := dial(t, h)
			clients = append(clients, c)
			waits = append(waits, c.begin(t, "5", request("5", one.token, one.args)))
		}
		for i, wait := range waits {
			check(t, clients[i], c062[i].token, c062[i].want, wait())
		}
	})
	t.Run("stdio", func(t *testing.T) {
		p := hosttest.NewPlace(t)
		c := setting{}.stdio(t, p, config(t, p, "", provider{name: "fake"}))
		waits := map[int]*hosttest.Pending{}
		for i, one := range c062 {
			if i == 0 {
				continue // its token is another's here
			}
			id := fmt.Sprintf(`"call %d"`, i)
			waits[i] = c.Expect(id, one.token)
			c.WriteLine(t, request(id, one.token, one.args))
		}
		for i, wait := range waits {
			check(t, c, c062[i].token, c062[i].want, wait.Wait(t))
		}
	})
}
