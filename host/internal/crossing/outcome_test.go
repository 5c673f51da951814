//go:build linux

package crossing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// endings are how calls ended, the earliest first, but for those of a tool.
func endings(t testing.TB, p hosttest.Place, path, but string) []string {
	t.Helper()
	var all []string
	for _, row := range rowsOf(t, p, path) {
		if row.Tool != but {
			all = append(all, row.ended())
		}
	}
	return all
}

// TestNothingIsSentTwice: whatever becomes of a call that was sent, the server has
// received it once, whatever its tool says of itself, and the journal says once that
// it is unknown; the provider is there for the next call.
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		tool, args string
		// reason is the unknown's.
		reason string
		// meanwhile is done while the call is in flight.
		meanwhile func(t *testing.T, p hosttest.Place, path string, s providerStatus)
	}{
		"timeout":           {tool: "pay", args: `{"then":"hang"}`, reason: "timeout"},
		"timeout, readonly": {tool: "slow", args: `{"ms":0}`, reason: "timeout"},
		"exit":              {tool: "pay", args: `{"then":"exit"}`, reason: "crashed"},
		"killed server":     {tool: "pay", args: `{"then":"kill"}`, reason: "crashed"},
		"closed output":     {tool: "close_stdout", args: `{}`, reason: "crashed"},
		"malformed answer":  {tool: "answer", args: `{"error":{"code":-31003,"message":"call again"}}`, reason: "malformed_answer"},
		"killed plugin": {tool: "pay", args: `{"then":"hang"}`, reason: "crashed", meanwhile: func(t *testing.T, _ hosttest.Place, _ string, s providerStatus) {
			if err := syscall.Kill(s.Instances[0].PluginPID, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}},
		"killed guard": {tool: "pay", args: `{"then":"hang"}`, reason: "crashed", meanwhile: func(t *testing.T, _ hosttest.Place, _ string, s providerStatus) {
			if err := syscall.Kill(s.Instances[0].GuardPID, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}},
		"restart": {tool: "pay", args: `{"then":"hang"}`, reason: "crashed", meanwhile: func(t *testing.T, p hosttest.Place, path string, _ providerStatus) {
			if _, err := hosttest.Output(t, p.Command(t, "restart", "fake", "--config", path)); err != nil {
				t.Error(err)
			}
		}},
	}
	for name, one := range cases {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			p := hosttest.NewPlace(t)
			timeout := "1s"
			if one.meanwhile != nil {
				timeout = "60s"
			}
			path := config(t, p, "", provider{name: "fake", args: []string{"--ledger", p.Path("ledger")},
				body: quick + limits(fmt.Sprintf("call_timeout = %q\n    stop_grace = \"500ms\"\n    drain_timeout = \"200ms\"", timeout))})
			c := setting{}.stdio(t, p, path)
			hosttest.CallTool(t, c, "fake_echo", "{}")
			before := awaitStatus(t, p, path, "fake", "ready", isReady)
			wait := c.begin(t, `"k"`, called(`"k"`, "fake_"+one.tool, one.args))
			waitCalls(t, p, "fake", 2)
			if one.meanwhile != nil {
				one.meanwhile(t, p, path, before)
			}
			e := errorOf(t, wait())
			if e.Code != -31004 || e.Data.Outcome != "unknown" || e.Data.Reason != one.reason || !e.Data.Dispatched || e.Data.Retry != "only_after_looking" {
				t.Errorf("%+v, want unknown, %s", e, one.reason)
			}
			hosttest.CallTool(t, c, "fake_echo", "{}")
			hosttest.CallTool(t, c, "fake_echo", "{}")
			n := 0
			for _, m := range received(t, p, "fake") {
				if strings.Contains(string(m.Params), `"name":"`+one.tool+`"`) {
					n++
				}
			}
			if lines := strings.Count(ledger(t, p), "\n"); n != 1 || one.tool == "pay" && lines != 1 {
				t.Errorf("the server has received it %d times, and the ledger has %d lines", n, lines)
			}
			want := []string{one.tool + " unknown " + one.reason + " sent"}
			if got := endings(t, p, path, "echo"); !slices.Equal(got, want) {
				t.Errorf("the journal has %q, want %q", got, want)
			}
		})
	}
}

// TestInputRequiredIsPassedOn: a modern server that wants input first is asked once;
// a modern client gets its answer as it is, and may call again with what was asked
// for. An older client cannot: to it the call is unknown.
func TestInputRequiredIsPassedOn(t *testing.T) {
	p := hosttest.NewPlace(t)
	path := config(t, p, "", provider{name: "fake", args: []string{"--modern"}})
	c := setting{}.stdio(t, p, path)
	const asks = `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"sure?"}}},"requestState":"s9"}`
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"modern","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	r := c.raw(t, `{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":"fake_answer","arguments":{"result":`+asks+`},`+meta+`}}`)
	var got struct {
		ResultType    string          `json:"resultType"`
		InputRequests json.RawMessage `json:"inputRequests"`
		RequestState  string          `json:"requestState"`
	}
	if err := json.Unmarshal(r.Result, &got); err != nil || got.ResultType != "input_required" || got.RequestState != "s9" ||
		string(got.InputRequests) != `{"a":{"method":"elicitation/create","params":{"message":"sure?"}}}` {
		t.Errorf("a modern client gets %s", r.Raw)
	}
	if n := len(received(t, p, "fake")); n != 1 {
		t.Errorf("the server has received %d calls", n)
	}
	e := errorOf(t, tool(t, c, "fake_answer", `{"result":`+asks+`}`))
	if e.Data.Outcome != "unknown" || e.Data.Reason != "input_required" || !e.Data.Dispatched {
		t.Errorf("an older client gets %+v", e)
	}
	if n := len(received(t, p, "fake")); n != 2 {
		t.Errorf("the server has received %d calls of two", n)
	}
	want := []string{"answer ok sent", "answer unknown input_required sent"}
	if got := endings(t, p, path, ""); !slices.Equal(got, want) {
		t.Errorf("the journal has %q, want %q", got, want)
	}
}

// TestC039_Progress keeps a call alive, and not for ever. (The client asks for none.)
func TestC039_Progress(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		path := config(t, p, "", provider{name: "fake", body: limits("call_timeout = \"2s\"\n    call_timeout_max = \"10s\"")})
		c := open(path)
		hosttest.CallTool(t, c, "fake_echo", "{}")
		began := time.Now()
		a := c.begin(t, `"a"`, called(`"a"`, "fake_slow", `{"ms":5000,"progress_ms":1000}`))
		b := c.begin(t, `"b"`, called(`"b"`, "fake_slow", `{"ms":0,"progress_ms":1000}`))
		if text := textOf(t, a()); text != "slept" || time.Since(began) < 5*time.Second {
			t.Errorf("a: %q after %v", text, time.Since(began))
		}
		r := b()
		took := time.Since(began)
		e := errorOf(t, r)
		if e.Data.Outcome != "unknown" || e.Data.Reason != "timeout" || took < 9*time.Second || took > 15*time.Second {
			t.Errorf("b: %+v after %v", e, took)
		}
		says(t, "b", e.Message, "10s", "2s", "call_timeout", "call_timeout_max")
		waitLog(t, p, "fake", func(log []fakeserver.Entry) bool {
			return len(fakeserver.Method(log, "notifications/cancelled")) == 1
		})
		for _, m := range append(c.Heard(), r.Notes...) {
			if m.Method == "notifications/progress" {
				t.Errorf("the client heard %s", m.Raw)
			}
		}
		want := []string{"slow ok sent", "slow unknown timeout sent"}
		got := endings(t, p, path, "echo")
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("the journal has %q, want %q", got, want)
		}
	})
}

// TestC052_AnswersAreTheServers, whatever their outputSchema says of them, and end as
// what they are. shape_test.go has the warnings.
func TestC052_AnswersAreTheServers(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		file := p.Write(t, "tools.json", `[{"name":"sums","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}},
			{"name":"broken","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"type":"nonsense","pattern":"("}}}}]`)
		path := config(t, p, "", provider{name: "fake", args: []string{"--tools", "none", "--tools-file", file}})
		c := open(path)
		for _, one := range []struct{ tool, result, ended string }{
			{"sums", `{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":"x"}}`, "sums ok sent"},
			{"sums", `{"content":[{"type":"text","text":"no"}],"isError":true}`, "sums tool_error sent"},
			{"sums", `{"content":[],"structuredContent":{"a":1}}`, "sums ok sent"},
			{"broken", `{"content":[],"structuredContent":{"a":1.0}}`, "broken ok sent"},
		} {
			if r := tool(t, c, "fake_"+one.tool, `{"result":`+one.result+`}`); string(r.Result) != one.result {
				t.Errorf("%s: the client got %s, want %s", one.tool, r.Raw, one.result)
			}
			if rows := rowsOf(t, p, path); rows[len(rows)-1].ended() != one.ended {
				t.Errorf("the journal has %q, want %q", rows[len(rows)-1].ended(), one.ended)
			}
		}
	})
}

// TestC094_NothingRunsTwice: a call that has had its effect when the server or its
// plugin dies is not sent again, and its caller is told that it may have had it.
func TestC094_NothingRunsTwice(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		path := config(t, p, "", provider{name: "fake", args: []string{"--ledger", p.Path("ledger")}, body: quick + limits(`stop_grace = "500ms"`)})
		c := open(path)
		e := errorOf(t, tool(t, c, "fake_pay", `{"then":"exit"}`))
		if e.Code != -31004 || e.Data.Outcome != "unknown" || !e.Data.Dispatched {
			t.Errorf("the server exits: %+v", e)
		}
		hosttest.CallTool(t, c, "fake_echo", "{}")
		before := awaitStatus(t, p, path, "fake", "ready again", isReady)
		wait := c.begin(t, `"k"`, called(`"k"`, "fake_pay", `{"then":"hang"}`))
		eventually(t, "the second line", func() bool { return strings.Count(ledger(t, p), "\n") == 2 })
		if err := syscall.Kill(before.Instances[0].PluginPID, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		if e := errorOf(t, wait()); e.Code != -31004 || e.Data.Outcome != "unknown" || !e.Data.Dispatched {
			t.Errorf("the plugin is killed: %+v", e)
		}
		hosttest.CallTool(t, c, "fake_echo", "{}")
		if n := strings.Count(ledger(t, p), "\n"); n != 2 {
			t.Errorf("the ledger has %d lines of two calls", n)
		}
		want := []string{"pay unknown crashed sent", "pay unknown crashed sent"}
		if got := endings(t, p, path, "echo"); !slices.Equal(got, want) {
			t.Errorf("the journal has %q, want %q", got, want)
		}
	})
}

// TestC096_EndingsAreToldApart: what the server says passes as it is, and what the host
// says is none of it.
func TestC096_EndingsAreToldApart(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		path := config(t, p, "", provider{name: "fake", body: quick})
		c := open(path)
		const twoBlocks = `{"content":[{"type":"text","text":"it did not work"},{"type":"text","text":"second"}],"isError":true}`
		if r := tool(t, c, "fake_tool_error", "{}"); string(r.Result) != twoBlocks {
			t.Errorf("isError: %s", r.Raw)
		}
		var e struct {
			Code    int
			Message string
			Data    json.RawMessage
		}
		if r := tool(t, c, "fake_error_rpc", `{"data":{"f":"q"}}`); json.Unmarshal(r.Error, &e) != nil || e.Code != -32602 || e.Message != "invalid arguments" || string(e.Data) != `{"f":"q"}` {
			t.Errorf("an error of the server's: %s", r.Raw)
		}
		if r := tool(t, c, "fake_echo", `{"text":"Error: none"}`); r.Error != nil || hosttest.ParseResult(t, "echo", r.Result).IsError || textOf(t, r) != "Error: none" {
			t.Errorf("a text that begins with Error: %s", r.Raw)
		}
		if e := errorOf(t, tool(t, c, "fake_exit", "{}")); e.Code != -31004 || e.Data.Outcome != "unknown" || e.Data.Reason != "crashed" || e.Data.Provider != "fake" {
			t.Errorf("the server exits: %+v", e)
		}
		if e := errorOf(t, tool(t, c, "fake_none", "{}")); e.Code != -31001 || e.Data.Outcome != "denied" || e.Data.Reason != "unknown_tool" || e.Data.Provider != "" {
			t.Errorf("no such tool: %+v", e)
		}
		want := []string{"tool_error tool_error sent", "error_rpc rpc_error sent", "echo ok sent", "exit unknown crashed sent", "fake_none denied unknown_tool"}
		if got := endings(t, p, path, ""); !slices.Equal(got, want) {
			t.Errorf("the journal has %q, want %q", got, want)
		}
	})
}

// TestMaxMessageIsExact: an answer of exactly max_message is the outcome; one byte more is
// unknown, and the instance lives.
func TestMaxMessageIsExact(t *testing.T) {
	const most = 64 << 10
	p := hosttest.NewPlace(t)
	path := config(t, p, "", provider{name: "fake", body: limits("max_message = \"64KiB\"\n    inline_result = \"64KiB\"")})
	c := setting{}.stdio(t, p, path)
	for range 12 { // the ids that the server is given are of two digits from then on
		hosttest.CallTool(t, c, "fake_echo", "{}")
	}
	last := func() journalRow {
		rows := rowsOf(t, p, path)
		return rows[len(rows)-1]
	}
	hosttest.CallTool(t, c, "fake_big", `{"bytes":1000}`)
	room := int(most - (last().ResultBytes - 1000))
	if text := textOf(t, tool(t, c, "fake_big", fmt.Sprintf(`{"bytes":%d}`, room))); len(text) != room || last().ResultBytes != most {
		t.Errorf("of %d bytes there are %d, in a message of %d", room, len(text), last().ResultBytes)
	}
	if e := errorOf(t, tool(t, c, "fake_big", fmt.Sprintf(`{"bytes":%d}`, room+1))); e.Data.Outcome != "unknown" || e.Data.Reason != "result_too_large" {
		t.Errorf("one byte more: %+v", e)
	}
	hosttest.CallTool(t, c, "fake_echo", "{}")
	if n := starts(logged(t, p, "fake")); n != 1 {
		t.Errorf("the server was started %d times", n)
	}
}

// TestADroppedRequestIsACancel for a client of the stateless era, and for no other: what
// was sent is unknown and its server is told, what waited was not sent, and a session's
// call goes on to its end. The journal says so of each.
func TestADroppedRequestIsACancel(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	path := config(t, p, "", provider{name: "fake", body: limits("max_concurrent = 2")})
	h := p.ServeHTTP(t, path)
	session := dial(t, h)
	hosttest.CallTool(t, session, "fake_echo", "{}")
	slow := func(mark string) string { return `{"mark":"` + mark + `","until":` + encoded(p.Path("released")) + `}` }
	// begin sends a request of either era and returns what drops it.
	begin := func(modern bool, mark string) (drop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		send := func() (*http.Response, error) {
			return session.Do(ctx, http.MethodPost, called(`"`+mark+`"`, "fake_slow", slow(mark)))
		}
		if modern {
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fake_slow","arguments":` + slow(mark) +
				`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"modern","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range map[string]string{"Authorization": "Bearer " + h.Token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
				"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "fake_slow"} {
				req.Header.Set(name, value)
			}
			send = func() (*http.Response, error) { return http.DefaultClient.Do(req) }
		}
		go func() {
			res, err := send()
			if err == nil {
				_, err = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
			ended <- err
		}()
		return func() {
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("%s was answered before its client left: %v", mark, err)
			}
		}
	}
	dropLegacy := begin(false, "legacy")
	waitCalls(t, p, "fake", 2)
	dropModern := begin(true, "modern")
	waitCalls(t, p, "fake", 3)
	// That one waits is seen nowhere. Of one that is dropped before it arrives there is no
	// call, so it is left a little longer each time.
	waited := time.Duration(0)
	eventually(t, "one that waits is cancelled", func() bool {
		drop := begin(true, "waiting")
		time.Sleep(waited)
		drop()
		waited += 10 * time.Millisecond
		return slices.Contains(endings(t, p, path, "echo"), "slow cancelled cancelled")
	})
	dropLegacy()
	dropModern()
	waitLog(t, p, "fake", func(log []fakeserver.Entry) bool {
		return len(fakeserver.Method(log, "notifications/cancelled")) == 1
	})
	eventually(t, "the modern one ends", func() bool {
		return slices.Contains(endings(t, p, path, "echo"), "slow unknown cancelled sent")
	})
	p.Write(t, "released", "")
	var got []string
	eventually(t, "the session's call ends", func() bool {
		got = endings(t, p, path, "echo")
		slices.Sort(got)
		return slices.Contains(got, "slow ok sent")
	})
	got = slices.Compact(got) // more than one may have waited
	if want := []string{"slow cancelled cancelled", "slow ok sent", "slow unknown cancelled sent"}; !slices.Equal(got, want) {
		t.Errorf("the journal has %q, want %q", got, want)
	}
	if n := len(received(t, p, "fake")); n != 3 {
		t.Errorf("the server has received %d calls, want the echo and two", n)
	}
}
