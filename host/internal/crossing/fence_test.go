//go:build linux

package crossing

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// staleness is what a call was refused for, and what the refusal says.
type staleness struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    struct {
		Outcome, Reason, Provider, Tool, Revision, Digest, Instance, Retry string
		Dispatched                                                         bool
	} `json:"data"`
}

// refusedAs checks that a call was refused as stale, and with which reason.
func refusedAs(t testing.TB, r hosttest.Reply, reason string) staleness {
	t.Helper()
	var e staleness
	if r.Error == nil || json.Unmarshal(r.Error, &e) != nil || e.Code != -31002 || e.Data.Reason != reason || e.Data.Outcome != "stale" || e.Data.Dispatched || e.Data.Retry != "yes" {
		t.Fatalf("the call ended with %s %s, want stale, %s", r.Result, r.Error, reason)
	}
	return e
}

// listing is what a list says of itself.
type listing struct {
	Meta struct {
		Revisions map[string]string `json:"drawbridge/revisions"`
		Digests   map[string]string `json:"drawbridge/digests"`
	} `json:"_meta"`
}

func revisionsOf(t testing.TB, c hosttest.Client) listing {
	t.Helper()
	var l listing
	if r := c.Request(t, "tools/list", ""); r.Error != nil || json.Unmarshal(r.Result, &l) != nil {
		t.Fatalf("tools/list: %s %s", r.Result, r.Error)
	}
	return l
}

// callNaming calls a tool with more in its _meta.
func callNaming(t testing.TB, c hosttest.Client, name, args, meta string) hosttest.Reply {
	t.Helper()
	return c.Request(t, "tools/call", fmt.Sprintf(`{"name":%s,"arguments":%s,"_meta":{%s}}`, encoded(name), args, meta))
}

// journaled are the calls that the host's journal tells of, in order of their ends.
func journaled(t testing.TB, p hosttest.Place) []map[string]any {
	t.Helper()
	files, err := filepath.Glob(p.Path("state/journal/*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	begun := map[any]map[string]any{}
	var out []map[string]any
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			var line map[string]map[string]any
			_ = json.Unmarshal(lines.Bytes(), &line) // members that are no objects stay out
			switch {
			case line["begin"] != nil:
				begun[line["begin"]["id"]] = line["begin"]
			case line["end"] != nil:
				whole := begun[line["end"]["id"]]
				for k, v := range line["end"] {
					whole[k] = v
				}
				out = append(out, whole)
			case line["call"] != nil:
				out = append(out, line["call"])
			}
		}
		_ = file.Close()
	}
	return out
}

// TestC087_ARefusalShowsWhatTheNewServerHas: a client that was shown the old list is
// refused once for each tool, told what there is, and nothing reaches the server.
func TestC087_ARefusalShowsWhatTheNewServerHas(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		shelve(t, p, "a", "b x")
		path := config(t, p, "", filing(p))
		c := open(path)
		old := revisionsOf(t, c)
		s := awaitStatus(t, p, path, "fake", "ready", isReady)
		shelve(t, p, "b x y", "c")
		signal(t, p, serverOf(t, p, s), syscall.SIGKILL)
		eventually(t, "the client is told", func() bool { return len(changes(c)) > 0 })
		gone := refusedAs(t, tool(t, c, "fake_a", "{}"), "tool_gone")
		if gone.Data.Revision == old.Meta.Revisions["fake"] || gone.Data.Revision == "" || !strings.Contains(gone.Message, "gone") {
			t.Errorf("of the tool that is gone: %+v", gone)
		}
		changed := refusedAs(t, tool(t, c, "fake_b", `{"x":"1"}`), "definition_changed")
		if changed.Data.Revision != gone.Data.Revision || !strings.Contains(changed.Message, `"y":{"type":"string"}`) || !strings.Contains(changed.Message, "had no effect") {
			t.Errorf("of the tool that changed: %+v", changed)
		}
		if calls := received(t, p, "fake"); len(calls) != 0 {
			t.Errorf("the server received %d calls", len(calls))
		}
		// Each was shown by its refusal: what is there passes, what is gone is no tool.
		if r := tool(t, c, "fake_b", `{"x":"1","y":"2"}`); r.Error != nil {
			t.Errorf("b, once shown: %s", r.Error)
		}
		var denied staleness
		if r := tool(t, c, "fake_a", "{}"); json.Unmarshal(r.Error, &denied) != nil || denied.Code != -31001 {
			t.Errorf("a, once it was told to be gone: %s", r.Error)
		}
		l := revisionsOf(t, c)
		if l.Meta.Revisions["fake"] != gone.Data.Revision || l.Meta.Digests["fake_b"] != changed.Data.Digest {
			t.Errorf("the list is of revision %s", l.Meta.Revisions["fake"])
		}
		if r := tool(t, c, "fake_c", "{}"); r.Error != nil {
			t.Errorf("c: %s", r.Error)
		}
		if n := len(changes(c)); n != 1 {
			t.Errorf("%d list_changed", n)
		}
		var fences []string
		for _, row := range journaled(t, p) {
			fences = append(fences, fmt.Sprint(row["tool"], " ", row["outcome"], " ", row["fence"]))
		}
		want := []string{"a stale tool_gone", "b stale definition_changed", "b ok shown", "fake_a denied unknown_tool", "c ok shown"}
		if !slices.Equal(fences, want) {
			t.Errorf("the journal has %q, want %q", fences, want)
		}
	})
}

// TestC089_TheRevisionTellsTheListsApart, of which one lacks a provider.
func TestC089_TheRevisionTellsTheListsApart(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, `list_wait = "60s"`,
			provider{name: "one", args: []string{"--tools", "echo"}},
			provider{name: "two", args: []string{"--tools", "echo", "--list-fail-for", "3s"}},
		))
		first := revisionsOf(t, c)
		if len(first.Meta.Digests) != 1 || len(first.Meta.Revisions) != 1 || first.Meta.Revisions["one"] == "" {
			t.Errorf("at first: %+v", first)
		}
		eventually(t, "the client is told", func() bool { return len(changes(c)) == 1 })
		second := revisionsOf(t, c)
		if len(second.Meta.Digests) != 2 || second.Meta.Revisions["two"] == "" || second.Meta.Revisions["one"] != first.Meta.Revisions["one"] {
			t.Errorf("later: %+v", second)
		}
		if second.Meta.Digests["one_echo"] != second.Meta.Digests["two_echo"] {
			t.Errorf("one definition has two digests: %v", second.Meta.Digests)
		}
	})
}

// TestC091_TheSchemaChangesBetweenListAndCall: the server renames an argument of pay
// and says so half a second later. Before it says so a call may pass, as of what was
// listed; afterwards it is refused, and the ledger has nothing of it.
func TestC091_TheSchemaChangesBetweenListAndCall(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		shelve(t, p, "pay to")
		c := open(config(t, p, "", filing(p, "--ledger", p.Path("ledger"))))
		n := revisionsOf(t, c).Meta.Digests["fake_pay"]
		hosttest.CallTool(t, c, "fake_notify", `{"after_ms":500}`)
		shelve(t, p, "pay target")
		if r := tool(t, c, "fake_pay", `{"to":"ann"}`); r.Error != nil {
			t.Errorf("before the host could know: %s", r.Error)
		}
		rows := journaled(t, p)
		if row := rows[len(rows)-1]; row["tool"] != "pay" || row["digest"] != n || row["fence"] != "shown" || row["outcome"] != "ok" {
			t.Errorf("the call that passed is in the journal as %v", row)
		}
		eventually(t, "the client is told", func() bool { return len(changes(c)) > 0 })
		before := ledger(t, p)
		e := refusedAs(t, tool(t, c, "fake_pay", `{"to":"bob"}`), "definition_changed")
		if !strings.Contains(e.Message, `"target":{"type":"string"}`) {
			t.Errorf("the refusal does not say what to call with: %s", e.Message)
		}
		// A call that names a digest runs under no other, whatever was shown meanwhile.
		refusedAs(t, callNaming(t, c, "fake_pay", `{"to":"bob"}`, `"drawbridge/digest":"`+n+`"`), "definition_changed")
		if after := ledger(t, p); after != before || strings.Count(before, "\n") != 1 {
			t.Errorf("the ledger has %q, and had %q", after, before)
		}
		if r := callNaming(t, c, "fake_pay", `{"target":"bob"}`, `"drawbridge/digest":"`+e.Data.Digest+`"`); r.Error != nil {
			t.Errorf("named as it is: %s", r.Error)
		}
		if r := tool(t, c, "fake_pay", `{"target":"bob"}`); r.Error != nil {
			t.Errorf("as the refusal shows: %s", r.Error)
		}
	})
}

// ledger is what was paid.
func ledger(t testing.TB, p hosttest.Place) string {
	t.Helper()
	text, err := os.ReadFile(p.Path("ledger"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// TestC091_WhoWasShownNothingIsBoundAtFirstUse, and the journal says so; with
// discovery = "required" such a call is refused, and shows.
func TestC091_WhoWasShownNothingIsBoundAtFirstUse(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		shelve(t, p, "pay to")
		strict := provider{name: "strict", args: []string{"--tools", "echo"}, body: `discovery = "required"`}
		c := open(config(t, p, "", filing(p, "--ledger", p.Path("ledger")), strict))
		if r := tool(t, c, "fake_pay", `{"to":"ann"}`); r.Error != nil {
			t.Fatalf("first use: %s", r.Error)
		}
		if rows := journaled(t, p); len(rows) != 1 || rows[0]["fence"] != "first_use" {
			t.Errorf("the journal has %v", rows)
		}
		shelve(t, p, "pay target")
		hosttest.CallTool(t, c, "fake_notify", `{}`)
		refusedAs(t, tool(t, c, "fake_pay", `{"to":"ann"}`), "definition_changed")
		e := refusedAs(t, tool(t, c, "strict_echo", `{}`), "not_discovered")
		if !strings.Contains(e.Message, `"name":"strict_echo"`) {
			t.Errorf("the refusal does not show: %s", e.Message)
		}
		if r := tool(t, c, "strict_echo", `{}`); r.Error != nil {
			t.Errorf("once it was shown: %s", r.Error)
		}
	})
}

// TestDefinitionsAreReadAgainBeforeACall of a server that does not say when they
// change: with recheck = "before_call" each time, else when the list is old.
func TestDefinitionsAreReadAgainBeforeACall(t *testing.T) {
	for name, body := range map[string]string{"before_call": `recheck = "before_call"`, "refresh_interval": `refresh_interval = "100ms"`} {
		t.Run(name, func(t *testing.T) {
			transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
				shelve(t, p, "pay to")
				quiet := provider{name: "fake", args: []string{"--tools", "echo", "--tools-file", p.Path("tools.json"), "--ledger", p.Path("ledger")}, body: body}
				c := open(config(t, p, "", quiet))
				revisionsOf(t, c)
				lists := func() int { return len(fakeserver.Method(logged(t, p, "fake"), "tools/list")) }
				if name == "before_call" {
					before := lists()
					textOf(t, tool(t, c, "fake_echo", `{}`))
					if lists() != before {
						t.Error("the list was read again for a tool without effect")
					}
					textOf(t, tool(t, c, "fake_pay", `{}`))
					if lists() != before+1 {
						t.Errorf("the list was read %d times for a call", lists()-before)
					}
				}
				paid := ledger(t, p)
				shelve(t, p, "pay target")
				// With an interval a call may pass until it is over.
				eventually(t, "a call is refused", func() bool {
					r := tool(t, c, "fake_pay", `{}`)
					if r.Error == nil {
						if paid = ledger(t, p); name == "before_call" {
							t.Fatal("a call passed")
						}
						return false
					}
					refusedAs(t, r, "definition_changed")
					return true
				})
				if ledger(t, p) != paid {
					t.Error("what was refused has run")
				}
			})
		})
	}
}

// TestAReplacedServerIsTold: a stateful one's calls are refused once, another one's
// results say it.
func TestAReplacedServerIsTold(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		path := config(t, p, "",
			provider{name: "keeps", args: []string{"--tools", "inc"}, body: "session {\n    stateful = true\n  }"},
			provider{name: "free", args: []string{"--tools", "inc"}},
		)
		c := open(path)
		const report = `"drawbridge/report":true`
		instance := func(r hosttest.Reply) (is, was string) {
			var result struct {
				Meta map[string]string `json:"_meta"`
			}
			if r.Error != nil || json.Unmarshal(r.Result, &result) != nil {
				t.Fatalf("%s %s", r.Result, r.Error)
			}
			if result.Meta["drawbridge/outcome"] != "ok" || result.Meta["drawbridge/call"] == "" || len(result.Meta["drawbridge/digest"]) != 64 {
				t.Errorf("the report is %v", result.Meta)
			}
			return result.Meta["drawbridge/instance"], result.Meta["drawbridge/replaced"]
		}
		was := map[string]string{}
		for _, name := range []string{"keeps", "free"} {
			was[name], _ = instance(callNaming(t, c, name+"_inc", "{}", report))
			s := awaitStatus(t, p, path, name, "ready", isReady)
			signal(t, p, serverOf(t, p, s), syscall.SIGKILL)
			awaitStatus(t, p, path, name, "another one is ready", func(s providerStatus) bool {
				return isReady(s) && len(s.Instances) == 1 && s.Instances[0].ID != was[name]
			})
		}
		e := refusedAs(t, tool(t, c, "keeps_inc", "{}"), "instance_replaced")
		if !strings.Contains(e.Message, was["keeps"]) || e.Data.Instance == was["keeps"] || e.Data.Instance == "" {
			t.Errorf("the refusal: %+v", e)
		}
		if now, before := instance(callNaming(t, c, "keeps_inc", "{}", report)); now != e.Data.Instance || before != "" {
			t.Errorf("the next call went to %q, and says that it was %q", now, before)
		}
		if now, before := instance(callNaming(t, c, "free_inc", "{}", report)); before != was["free"] || now == before {
			t.Errorf("the result of a call to %q says that it was %q before", now, before)
		}
		if _, before := instance(callNaming(t, c, "free_inc", "{}", report)); before != "" {
			t.Errorf("the next result says it again: %q", before)
		}
		refusedAs(t, callNaming(t, c, "free_inc", "{}", `"drawbridge/instance":"`+was["free"]+`"`), "instance_replaced")
		// Nobody else is told what he did not ask for.
		var plain struct {
			Meta map[string]any `json:"_meta"`
		}
		if r := tool(t, c, "free_inc", "{}"); json.Unmarshal(r.Result, &plain) != nil || len(plain.Meta) != 0 {
			t.Errorf("a plain call's result: %s", r.Result)
		}
	})
}

// TestWhatWasShownOutlivesTheHost: a client that comes back after the host was
// started again, and does not list, is held to what it was shown before.
func TestWhatWasShownOutlivesTheHost(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		shelve(t, p, "pay to", "keep")
		path := config(t, p, "", filing(p, "--ledger", p.Path("ledger")))
		c := open(path)
		revisionsOf(t, c)
		leave(t, c)
		shelve(t, p, "pay target", "keep")
		c = open(path)
		if r := tool(t, c, "fake_keep", "{}"); r.Error != nil {
			t.Errorf("what is as it was shown: %s", r.Error)
		}
		refusedAs(t, tool(t, c, "fake_pay", `{"to":"ann"}`), "definition_changed")
		leave(t, c)
		// A file that is damaged is no blank sheet.
		files, err := filepath.Glob(p.Path("state/shown/*/*.json"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%v %v", files, err)
		}
		if err := os.WriteFile(files[0], []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		c = open(path)
		refusedAs(t, tool(t, c, "fake_keep", "{}"), "not_discovered")
		if said := c.host().Said(); !strings.Contains(said, files[0]) {
			t.Errorf("the log does not name %s:\n%s", files[0], said)
		}
		if r := tool(t, c, "fake_keep", "{}"); r.Error != nil {
			t.Errorf("once it was shown: %s", r.Error)
		}
		if ledger(t, p) != "" {
			t.Errorf("paid: %s", ledger(t, p))
		}
	})
}

// TestTheFirstListOfAModernClientIsNoChange: it listens before it lists, and the list
// starts the servers.
func TestTheFirstListOfAModernClientIsNoChange(t *testing.T) {
	p := hosttest.NewPlace(t)
	h := p.ServeHTTP(t, config(t, p, "", filing(p)))
	shelve(t, p, "a")
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"modern","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	ask := func(method, params string) *http.Response {
		t.Helper()
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s%s}}`, method, params, meta)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range map[string]string{
			"Accept": "application/json, text/event-stream", "Content-Type": "application/json", "Authorization": "Bearer " + h.Token,
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": "fake_notify",
		} {
			if k != "Mcp-Name" || method == "tools/call" {
				req.Header.Set(k, v)
			}
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v %v", method, res, err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	stream := bufio.NewScanner(ask("subscriptions/listen", `"notifications":{"toolsListChanged":true},`).Body)
	next := func() string {
		for stream.Scan() {
			if text, ok := strings.CutPrefix(stream.Text(), "data: "); ok {
				return text
			}
		}
		t.Fatalf("the stream has ended: %v", stream.Err())
		return ""
	}
	if got := next(); !strings.Contains(got, "acknowledged") {
		t.Fatalf("first %s", got)
	}
	var l struct {
		Result listing
	}
	if err := json.NewDecoder(ask("tools/list", "").Body).Decode(&l); err != nil || l.Result.Meta.Digests["fake_a"] == "" {
		t.Fatalf("%+v %v", l, err)
	}
	shelve(t, p, "a x")
	res := ask("tools/call", `"name":"fake_notify","arguments":{},`)
	if id := res.Header.Get("Drawbridge-Call"); id == "" {
		t.Error("the answer to a call has no Drawbridge-Call")
	} else if rows := journaled(t, p); len(rows) != 1 || rows[0]["id"] != id {
		t.Errorf("the header says %q, the journal %v", id, rows)
	}
	// The first change that is told is that of the definition: what follows it on the
	// stream is told after the list has it.
	if got := next(); !strings.Contains(got, "notifications/tools/list_changed") {
		t.Errorf("then %s", got)
	}
	var again struct{ Result listing }
	if err := json.NewDecoder(ask("tools/list", "").Body).Decode(&again); err != nil || again.Result.Meta.Digests["fake_a"] == l.Result.Meta.Digests["fake_a"] {
		t.Errorf("what was told was told for nothing: %+v %v", again, err)
	}
}
