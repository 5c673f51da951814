package front

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestC012_EndOfInputEndsEverything(t *testing.T) {
	b := newFakeBroker("hold")
	s := newServer(t, b)
	c := connect(t, s)
	c.initialize("2025-11-25")
	c.send(call("1", "hold", "", ""))
	<-b.held
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-c.done:
		if err != nil {
			t.Errorf("ServeStdio = %v, want nil", err)
		}
	case <-time.After(patience):
		t.Fatal("ServeStdio did not return")
	}
	if got := b.ended(); !slices.Equal(got, []string{"1 cancelled"}) {
		t.Errorf("calls in flight ended as %v, want it cancelled", got)
	}
}

func TestStdioEndsWithItsContext(t *testing.T) {
	b := newFakeBroker("hold")
	s := newServer(t, b)
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer inW.Close()
	defer inR.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.ServeStdio(ctx, inR, io.Discard) }()
	if _, err := io.WriteString(inW, call("1", "hold", "", "")+"\n"); err != nil {
		t.Fatal(err)
	}
	<-b.held
	cancel()
	if err := <-done; err != nil {
		t.Errorf("ServeStdio = %v, want nil", err)
	}
	if got := b.ended(); !slices.Equal(got, []string{"1 cancelled"}) {
		t.Errorf("calls ended as %v", got)
	}
}

func TestCloseLetsRequestsInFlightEnd(t *testing.T) {
	b := newFakeBroker("hold")
	s := newServer(t, b)
	c := connect(t, s)
	c.send(call("1", "hold", "", ""))
	<-b.held
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		s.Close(ctx)
	}()
	// New requests are refused while the old one ends.
	eventually(t, "a request is refused", func() bool {
		s.mu.RLock()
		defer s.mu.RUnlock()
		return s.closed
	})
	close(b.releases)
	if m := c.next(); string(m.ID) != "1" || m.Result == nil {
		t.Errorf("got %s, want the result of 1", m.text)
	}
	<-closed
	if err := <-c.done; err != nil {
		t.Errorf("ServeStdio = %v", err)
	}
}

func TestCloseCancelsWhatDoesNotEnd(t *testing.T) {
	b := newFakeBroker("hold")
	s := newServer(t, b)
	c := connect(t, s)
	c.send(call("1", "hold", "", ""))
	<-b.held
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Close(ctx)
	if got := b.ended(); !slices.Equal(got, []string{"1 cancelled"}) {
		t.Errorf("calls ended as %v", got)
	}
	if err := s.ServeStdio(context.Background(), strings.NewReader(""), io.Discard); err == nil {
		t.Error("a closed server serves")
	}
}

func TestC030_IdsKeepTypeAndTextAndOwner(t *testing.T) {
	b := newFakeBroker("echo", "hold")
	s := newServer(t, b)
	c := connect(t, s)
	for _, id := range []string{`0`, `"1"`, `1`, `""`, `-5`, `9007199254740993`, `"\u0061/"`} {
		if m := c.ask(call(id, "echo", `{"me":`+id+`}`, "")); string(m.ID) != id || !strings.Contains(string(m.Result), `{"me":`+id+`}`) {
			t.Errorf("id %s came back as %s with %s", id, m.ID, m.Result)
		}
	}
	// While one is in flight its id is taken; other spellings are other ids.
	c.send(call("1", "hold", "", ""))
	<-b.held
	if m := c.ask(call("1", "echo", "{}", "")); m.code() != -32600 || string(m.ID) != "1" {
		t.Errorf("second request under id 1: %s", m.text)
	}
	if m := c.ask(call(`"1"`, "echo", "{}", "")); m.Result == nil || string(m.ID) != `"1"` {
		t.Errorf(`id "1" beside id 1: %s`, m.text)
	}
	close(b.releases)
	if m := c.next(); string(m.ID) != "1" || m.Result == nil {
		t.Errorf("the first request: %s", m.text)
	}
	if m := c.ask(call("1", "echo", "{}", "")); m.Result == nil {
		t.Errorf("id 1 after its answer: %s", m.text)
	}
}

func TestC031_ASlowCallDelaysNothing(t *testing.T) {
	b := newFakeBroker("hold", "echo")
	s := newServer(t, b)
	c := connect(t, s)
	for i := range 64 {
		c.send(call(fmt.Sprint(i), "hold", "", ""))
	}
	for range 64 {
		<-b.held
	}
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":"p","method":"ping"}`,
		`{"jsonrpc":"2.0","id":"l","method":"tools/list"}`,
		call(`"e"`, "echo", "{}", ""),
	} {
		if m := c.ask(line); m.Result == nil {
			t.Errorf("%s: %s", line, m.text)
		}
	}
	close(b.releases)
}

func TestStdioBoundsRequestsInFlight(t *testing.T) {
	b := newFakeBroker("hold")
	s := newServer(t, b)
	c := connect(t, s)
	for i := range maxInFlight {
		c.send(call(fmt.Sprint(i), "hold", "", ""))
	}
	for range maxInFlight {
		<-b.held
	}
	m := c.ask(`{"jsonrpc":"2.0","id":"more","method":"ping"}`)
	if string(m.ID) != `"more"` || m.code() != -31003 || !strings.Contains(string(m.Error.Data), `"retry":"safe"`) {
		t.Errorf("one request more: %s", m.text)
	}
	// A cancel is still heard.
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":17}}`)
	eventually(t, "17 is cancelled", func() bool { return slices.Contains(b.ended(), "17 cancelled") })
	close(b.releases)
}

func TestC035_CancelReachesItsCallAtOnceAndNoOther(t *testing.T) {
	b := newFakeBroker("hold", "echo")
	s := newServer(t, b)
	c := connect(t, s)
	c.send(call("101", "hold", "", ""), call("102", "hold", "", ""), call(`"101"`, "hold", "", ""))
	for range 3 {
		<-b.held
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":101,"reason":"enough"}}`)
	eventually(t, "101 is cancelled", func() bool { return slices.Equal(b.ended(), []string{"101 cancelled"}) })
	// Unknown and malformed ones are nothing.
	c.send(
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":101}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
	)
	// The cancelled request gets no answer: what comes next is another's.
	if m := c.ask(call(`"e"`, "echo", "{}", "")); string(m.ID) != `"e"` {
		t.Errorf("after the cancel: %s", m.text)
	}
	close(b.releases)
	got := []string{string(c.next().ID), string(c.next().ID)}
	slices.Sort(got)
	if want := []string{`"101"`, `102`}; !slices.Equal(got, want) {
		t.Errorf("answers to %v, want %v", got, want)
	}
	// The id is free again.
	if m := c.ask(call("101", "echo", "{}", "")); m.Result == nil {
		t.Errorf("id 101 anew: %s", m.text)
	}
}

func TestC046_LongLines(t *testing.T) {
	b := newFakeBroker("echo")
	const limit = 1 << 20
	s := newServer(t, b, func(o *Options) { o.MaxRequest = limit })
	c := connect(t, s)
	big := strings.Repeat("x", 300<<10)
	if m := c.ask(call("1", "echo", `{"big":"`+big+`"}`, "")); !strings.Contains(string(m.Result), big) {
		t.Error("an argument of 300 KiB did not come back")
	}
	long := strings.Repeat("y", limit+1)
	for name, line := range map[string]string{
		"id first": `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"a":"` + long + `"}}}`,
		"id last":  `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{"a":"` + long + `"}},"id":2}`,
	} {
		if m := c.ask(line); m.code() != -32600 || string(m.ID) != "2" || !strings.Contains(m.Error.Message, fmt.Sprint(limit)) {
			t.Errorf("%s: %.300s", name, m.text)
		}
	}
	if m := c.ask(long); m.code() == 0 || string(m.ID) != "null" {
		t.Errorf("a long line of rubbish: %.300s", m.text)
	}
	if m := c.ask(call("3", "echo", "{}", "")); m.Result == nil {
		t.Errorf("the session after long lines: %s", m.text)
	}
	if n := len(b.received()); n != 2 {
		t.Errorf("the broker got %d calls, want 2", n)
	}
}

func TestC049_NumbersKeepTheirDigits(t *testing.T) {
	b := newFakeBroker("echo")
	s := newServer(t, b)
	c := connect(t, s)
	args := `{"id":9007199254740993,"max":9223372036854775807,"u":18446744073709551615,"f":1.0,"e":1e2}`
	m := c.ask(call("1", "echo", args, ""))
	if want := `{"content":[],"structuredContent":` + args + `}`; string(m.Result) != want {
		t.Errorf("result %s, want %s", m.Result, want)
	}
	if got := string(b.received()[0].Request.Get("params", "arguments")); got != args {
		t.Errorf("arguments %s, want %s", got, args)
	}
}

func TestC053_AbsentEmptyAndNullArgumentsDiffer(t *testing.T) {
	b := newFakeBroker(`{"name":"q","inputSchema":{"type":"object","required":["q"]}}`)
	s := newServer(t, b)
	c := connect(t, s)
	m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`)
	if want := `{"tools":[{"name":"q","inputSchema":{"type":"object","required":["q"]}}]}`; string(m.Result) != want {
		t.Errorf("list %s, want %s", m.Result, want)
	}
	for i, args := range []string{"", "{}", `{"q":null}`} {
		c.ask(call(fmt.Sprint(i+2), "echo", args, ""))
		if got := string(b.received()[i].Request.Get("params", "arguments")); got != args {
			t.Errorf("arguments arrived as %q, want %q", got, args)
		}
	}
}

func TestC059_StdioClientHearsOnceOfAChange(t *testing.T) {
	b := newFakeBroker("a")
	s := newServer(t, b)
	early := connect(t, s) // never initializes
	c := connect(t, s)
	s.ToolsChanged() // before there is anything to be told
	m := c.initialize("2025-11-25")
	if !strings.Contains(string(m.Result), `"tools":{"listChanged":true}`) {
		t.Errorf("capabilities: %s", m.Result)
	}
	for range 3 {
		b.setTools("a", "new")
		s.ToolsChanged()
		if m := c.next(); m.Method != "notifications/tools/list_changed" || m.ID != nil {
			t.Fatalf("after a change: %s", m.text)
		}
		if m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); !strings.Contains(string(m.Result), `"new"`) {
			t.Fatalf("list after the change: %s", m.text)
		}
	}
	if m := early.ask(`{"jsonrpc":"2.0","id":1,"method":"ping"}`); m.Method != "" {
		t.Errorf("a client that did not initialize was told %s", m.text)
	}
}

const serverProgress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"up-9","progress":%s,"x":1.0}}`

func TestC061_NotificationsAreNotTheAnswer(t *testing.T) {
	b := newFakeBroker("say")
	s := newServer(t, b)
	c := connect(t, s)
	log := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"n":1.50}}}`
	c.send(call("5", "say", `{"say":[`+log+`,`+fmt.Sprintf(serverProgress, "1")+`]}`, `"progressToken":"p1"`))
	if m := c.next(); m.text != log+"\n" {
		t.Errorf("first %s, want the log message as it came", m.text)
	}
	if m := c.next(); m.Method != "notifications/progress" || string(m.Params) != `{"progressToken":"p1","progress":1,"x":1.0}` {
		t.Errorf("second %s", m.text)
	}
	if m := c.next(); string(m.ID) != "5" || m.Result == nil {
		t.Errorf("third %s, want the answer", m.text)
	}
}

func TestC062_ProgressTokensAreTheClientsOwn(t *testing.T) {
	b := newFakeBroker("say")
	s := newServer(t, b)
	var say []string
	values := []string{"1", "2.50", "2.50"} // one repeats
	for _, v := range values {
		say = append(say, fmt.Sprintf(serverProgress, v))
	}
	args := `{"say":[` + strings.Join(say, ",") + `]}`
	for name, given := range map[string]string{
		"string": `"p1"`, "number": `1`, "big": `18446744073709551615`, "escaped": `"\u00e4"`, "none": "",
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, s)
			meta := ""
			if given != "" {
				meta = `"progressToken":` + given
			}
			c.send(call("1", "say", args, meta))
			if given != "" {
				for _, v := range values {
					want := `{"progressToken":` + given + `,"progress":` + v + `,"x":1.0}`
					if m := c.next(); string(m.Params) != want {
						t.Errorf("progress %s, want %s", m.Params, want)
					}
				}
			}
			if m := c.next(); string(m.ID) != "1" || m.Result == nil {
				t.Errorf("got %s, want the answer", m.text)
			}
			if m := c.ask(`{"jsonrpc":"2.0","id":2,"method":"ping"}`); string(m.ID) != "2" {
				t.Errorf("after the answer: %s", m.text)
			}
		})
	}
}

func TestC082_MalformedMessagesEndNothing(t *testing.T) {
	b := newFakeBroker("echo", "hold")
	s := newServer(t, b)
	c := connect(t, s)
	other := connect(t, s)
	other.send(call("1", "hold", "", ""))
	<-b.held
	dropped := []string{
		`{"jsonrpc":"2.0","id":"never","result":{}}`,
		`{"jsonrpc":"2.0","id":99,"error":{"code":-1,"message":"x"}}`,
		`{"jsonrpc":"2.0","id":-1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1.5,"result":{}}`,
		`{"jsonrpc":"2.0","id":1e400,"result":{}}`,
		`{"jsonrpc":"2.0","id":"` + strings.Repeat("i", 10<<10) + `","result":{}}`,
		`{"jsonrpc":"2.0","id":{},"result":{}}`,
		`{"jsonrpc":"2.0","id":null,"result":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/unheard/of"}`,
		``, "  \t ", "\r",
	}
	refused := map[string]int{
		`{"jsonrpc":"2.0","id":1}`:                             -32600,
		`{"jsonrpc":"2.0"`:                                     -32700,
		strings.Repeat("[", 1000) + strings.Repeat("]", 1000):  -32600,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`:           -32600,
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`:           -32600,
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`:          -32600,
		`{"jsonrpc":"1.0","id":1,"method":"ping"}`:             -32600,
		`{"jsonrpc":"2.0","id":1,"method":7}`:                  -32600,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`: -32600,
		`{"jsonrpc":"2.0","id":1,"METHOD":"ping"}`:             -32600,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\x00\"}":  -32700,
		"\xff\xfe": -32700,
		`null`:     -32600,
		`"ping"`:   -32600,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","Name":"hold"}}`: -32600,
	}
	for _, line := range dropped {
		c.send(line)
	}
	for line, code := range refused {
		if m := c.ask(line); m.code() != code {
			t.Errorf("%.80q: %s, want code %d", line, m.text, code)
		}
	}
	if m := c.ask(call("1", "echo", "{}", "")); m.Result == nil {
		t.Errorf("the session afterwards: %s", m.text)
	}
	close(b.releases)
	if m := other.next(); m.Result == nil {
		t.Errorf("the other client: %s", m.text)
	}
	if n := len(b.received()); n != 2 {
		t.Errorf("the broker got %d calls, want 2", n)
	}
}

func TestC093_OnlyWhatIsThereIsOffered(t *testing.T) {
	b := newFakeBroker("a")
	b.noLogging = true
	s := newServer(t, b)
	c := connect(t, s)
	m := c.initialize("2025-11-25")
	var r struct{ Capabilities map[string]json.RawMessage }
	if err := json.Unmarshal(m.Result, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Capabilities) != 1 || r.Capabilities["tools"] == nil {
		t.Errorf("capabilities %v, want tools alone", r.Capabilities)
	}
	for _, method := range []string{"prompts/list", "resources/list", "resources/templates/list", "completion/complete", "logging/setLevel", "roots/list", "vendor/x"} {
		if m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"level":"info"}}`); m.code() != -32601 {
			t.Errorf("%s: %s", method, m.text)
		}
	}
	if n := len(b.received()); n != 0 {
		t.Errorf("the broker got %d calls", n)
	}
}

func TestLogLevelIsThatOfTheSession(t *testing.T) {
	b := newFakeBroker("say")
	s := newServer(t, b)
	quiet, curious, silent := connect(t, s), connect(t, s), connect(t, s)
	for _, c := range []*pipeClient{quiet, curious, silent} {
		c.initialize("2025-06-18")
	}
	level := func(c *pipeClient, l string) message {
		return c.ask(`{"jsonrpc":"2.0","id":"lv","method":"logging/setLevel","params":{"level":"` + l + `"}}`)
	}
	if m := level(quiet, "loud"); m.code() != -32602 {
		t.Errorf("level loud: %s", m.text)
	}
	if m := level(quiet, "error"); string(m.Result) != "{}" {
		t.Errorf("level error: %s", m.text)
	}
	level(curious, "debug")
	var told []string
	for _, l := range b.levelOf() {
		told = append(told, l)
	}
	slices.Sort(told)
	if !slices.Equal(told, []string{"debug", "error"}) {
		t.Errorf("the broker was told %v", told)
	}
	log := func(l string) string {
		return `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"` + l + `","data":1}}`
	}
	// Of a call.
	args := `{"say":[` + log("info") + `,` + log("critical") + `]}`
	for c, want := range map[*pipeClient]int{quiet: 1, curious: 2, silent: 2} {
		c.send(call("1", "say", args, ""))
		for i := range want {
			if m := c.next(); m.Method != "notifications/message" {
				t.Fatalf("message %d: %s", i, m.text)
			}
		}
		if m := c.next(); m.Result == nil {
			t.Errorf("after %d messages: %s", want, m.text)
		}
	}
	// Of no call.
	s.Log("info", fromServer(log("info")))
	s.Log("error", fromServer(log("error")))
	for c, want := range map[*pipeClient]int{quiet: 1, curious: 2, silent: 2} {
		for range want {
			if m := c.next(); m.Method != "notifications/message" {
				t.Errorf("got %s", m.text)
			}
		}
		if m := c.ask(`{"jsonrpc":"2.0","id":2,"method":"ping"}`); string(m.ID) != "2" {
			t.Errorf("got %s", m.text)
		}
	}
	// Who leaves is forgotten.
	_ = curious.in.Close()
	<-curious.done
	eventually(t, "the level is forgotten", func() bool { return len(b.levelOf()) == 1 })
}

func TestBothErasShareAPipe(t *testing.T) {
	b := newFakeBroker("echo", "hold")
	s := newServer(t, b)
	c := connect(t, s)
	// A modern probe, a legacy handshake, then both mixed.
	m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + modernMeta + `}}`)
	for _, want := range []string{
		`"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`,
		`"resultType":"complete"`, `"ttlMs":0`, `"cacheScope":"private"`, `"io.modelcontextprotocol/serverInfo":{"name":"drawbridge","version":"1.2.3"`,
	} {
		if !strings.Contains(string(m.Result), want) {
			t.Errorf("discover lacks %s: %s", want, m.Result)
		}
	}
	c.initialize("2024-11-05")
	legacyList := c.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	modernList := c.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{` + modernMeta + `}}`)
	for _, key := range []string{"resultType", "ttlMs", "cacheScope", "serverInfo"} {
		if strings.Contains(legacyList.text, key) || !strings.Contains(modernList.text, key) {
			t.Errorf("%s: legacy %s, modern %s", key, legacyList.text, modernList.text)
		}
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(modernMeta, `"_meta":{`), "}")
	if m := c.ask(call("3", "echo", "{}", inner)); !strings.Contains(string(m.Result), `"resultType":"complete"`) {
		t.Errorf("modern call: %s", m.text)
	}
	if m := c.ask(call("3", "echo", "{}", "")); string(m.Result) != `{"content":[],"structuredContent":{}}` {
		t.Errorf("legacy call: %s", m.text)
	}
	calls := b.received()
	if !calls[0].Caller.Modern || calls[0].Caller.Session != "" || calls[1].Caller.Modern || calls[1].Caller.Session == "" {
		t.Errorf("callers %+v and %+v", calls[0].Caller, calls[1].Caller)
	}
	if calls[0].Caller.Principal != "local" || calls[1].Caller.Principal != "local" {
		t.Errorf("principals %q and %q, want local", calls[0].Caller.Principal, calls[1].Caller.Principal)
	}
	// The modern cancel works on the pipe too.
	c.send(call("9", "hold", "", inner))
	<-b.held
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`)
	eventually(t, "9 is cancelled", func() bool { return slices.Equal(b.ended(), []string{"9 cancelled"}) })
}

func TestVersionsAreNegotiated(t *testing.T) {
	s := newServer(t, newFakeBroker())
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2026-07-28": "2025-11-25", "2099-01-01": "2025-11-25", "1999-01-01": "2025-11-25", "draft": "2025-11-25",
	} {
		c := connect(t, s)
		m := c.initialize(asked)
		var r struct {
			ProtocolVersion string
			ServerInfo      struct{ Name, Version string }
		}
		if err := json.Unmarshal(m.Result, &r); err != nil {
			t.Fatal(err)
		}
		if r.ProtocolVersion != want || r.ServerInfo.Name != "drawbridge" || r.ServerInfo.Version != "1.2.3" {
			t.Errorf("initialize for %s: %s", asked, m.Result)
		}
	}
	c := connect(t, s)
	if m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`); m.code() != -32602 {
		t.Errorf("initialize without a version: %s", m.text)
	}
}

func TestModernRequestsAreChecked(t *testing.T) {
	s := newServer(t, newFakeBroker("echo"))
	c := connect(t, s)
	const version, capabilities = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, `"io.modelcontextprotocol/clientCapabilities":{}`
	for name, tc := range map[string]struct {
		method, meta string
		code         int
	}{
		"no _meta":                  {"server/discover", "", -32602},
		"no version":                {"server/discover", capabilities, -32602},
		"no capabilities":           {"tools/list", version, -32602},
		"capabilities of a string":  {"tools/list", version + `,"io.modelcontextprotocol/clientCapabilities":"all"`, -32602},
		"version of a number":       {"subscriptions/listen", `"io.modelcontextprotocol/protocolVersion":2026,` + capabilities, -32602},
		"unknown level":             {"tools/list", version + `,"io.modelcontextprotocol/logLevel":"loud",` + capabilities, -32602},
		"newer version":             {"tools/list", `"io.modelcontextprotocol/protocolVersion":"2099-01-01",` + capabilities, -32022},
		"older than all":            {"tools/list", `"io.modelcontextprotocol/protocolVersion":"1900-01-01",` + capabilities, -32022},
		"no version of any kind":    {"tools/list", `"io.modelcontextprotocol/protocolVersion":"v9",` + capabilities, -32022},
		"removed: initialize":       {"initialize", version + "," + capabilities, -32601},
		"removed: ping":             {"ping", version + "," + capabilities, -32601},
		"removed: logging/setLevel": {"logging/setLevel", version + "," + capabilities, -32601},
		"unknown":                   {"resources/list", version + "," + capabilities, -32601},
		"good":                      {"tools/list", version + "," + capabilities, 0},
		"good, with a level":        {"tools/list", version + `,"io.modelcontextprotocol/logLevel":"info",` + capabilities, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := c.ask(`{"jsonrpc":"2.0","id":"x","method":"` + tc.method + `","params":{"_meta":{` + tc.meta + `}}}`)
			if m.code() != tc.code || string(m.ID) != `"x"` {
				t.Errorf("got %s, want code %d", m.text, tc.code)
			}
			if tc.code == -32022 && !strings.Contains(string(m.Error.Data), `"supported":["2026-07-28"`) {
				t.Errorf("data %s does not name what is supported", m.Error.Data)
			}
		})
	}
}

func TestModernLogsOnlyWhenAsked(t *testing.T) {
	s := newServer(t, newFakeBroker("say"))
	c := connect(t, s)
	inner := strings.TrimSuffix(strings.TrimPrefix(modernMeta, `"_meta":{`), "}")
	log := func(l string) string {
		return `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"` + l + `","data":1}}`
	}
	args := `{"say":[` + log("info") + `,` + log("error") + `]}`
	if m := c.ask(call("1", "say", args, inner)); m.Result == nil {
		t.Errorf("without a level: %s", m.text)
	}
	c.send(call("1", "say", args, inner+`,"io.modelcontextprotocol/logLevel":"warning"`))
	if m := c.next(); !strings.Contains(string(m.Params), `"error"`) {
		t.Errorf("with level warning: %s", m.text)
	}
	if m := c.next(); m.Result == nil {
		t.Errorf("after it: %s", m.text)
	}
	s.Log("emergency", fromServer(log("emergency")))
	if m := c.ask(call("1", "echo", "{}", inner)); m.Result == nil {
		t.Errorf("a log message of no request came: %s", m.text)
	}
}

func TestListenOnStdio(t *testing.T) {
	s := newServer(t, newFakeBroker())
	c := connect(t, s)
	listen := func(id, filter string) {
		c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{"notifications":` + filter + `,` + modernMeta + `}}`)
	}
	listen(`"s1"`, `{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["file:///x"]}`)
	want := `{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":"s1"}}`
	if m := c.next(); m.Method != "notifications/subscriptions/acknowledged" || string(m.Params) != want {
		t.Fatalf("first %s", m.text)
	}
	listen(`2`, `{"promptsListChanged":true}`)
	if m := c.next(); string(m.Params) != `{"notifications":{},"_meta":{"io.modelcontextprotocol/subscriptionId":2}}` {
		t.Fatalf("of the second %s", m.text)
	}
	s.ToolsChanged()
	if m := c.next(); m.Method != "notifications/tools/list_changed" || string(m.Params) != `{"_meta":{"io.modelcontextprotocol/subscriptionId":"s1"}}` {
		t.Errorf("after a change %s", m.text)
	}
	// Cancelled, it says nothing more; ended by the host, it ends with an answer.
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s1"}}`)
	eventually(t, "the subscription is gone", func() bool {
		s.audience.mu.RLock()
		defer s.audience.mu.RUnlock()
		return len(s.audience.all) == 0
	})
	s.ToolsChanged()
	go s.Close(context.Background())
	if m := c.next(); string(m.ID) != "2" || string(m.Result) != `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":2}}` {
		t.Errorf("at the end %s", m.text)
	}
	if err := <-c.done; err != nil {
		t.Error(err)
	}
	for _, params := range []string{`{` + modernMeta + `}`, `{"notifications":[],` + modernMeta + `}`, `{"notifications":{"toolsListChanged":1},` + modernMeta + `}`} {
		c := connect(t, newServer(t, newFakeBroker()))
		if m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":` + params + `}`); m.code() != -32602 {
			t.Errorf("%s: %s", params, m.text)
		}
	}
}

func TestStdioClientThatReadsNothingIsGivenUp(t *testing.T) {
	for _, kind := range []string{"interruptible", "not interruptible"} {
		t.Run(kind, func(t *testing.T) {
			b := newFakeBroker("echo", "hold")
			s := newServer(t, b, func(o *Options) { o.WriteTimeout = 50 * time.Millisecond })
			inR, inW, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			outR, outW, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			var out io.Writer = outW
			if kind != "interruptible" {
				out = struct{ io.Writer }{outW}
			}
			done := make(chan error, 1)
			go func() { done <- s.ServeStdio(context.Background(), inR, out) }()
			lines := call("1", "hold", "", "") + "\n" + call("2", "echo", `{"a":"`+strings.Repeat("x", 256<<10)+`"}`, "") + "\n"
			if _, err := io.WriteString(inW, lines); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-done:
				if !errors.Is(err, ErrStalled) {
					t.Errorf("ServeStdio = %v, want ErrStalled", err)
				}
			case <-time.After(patience):
				t.Fatal("ServeStdio did not return")
			}
			if got := b.ended(); !slices.Equal(got, []string{"1 cancelled"}) {
				t.Errorf("calls ended as %v", got)
			}
			// The reader that hung in its write ends when the pipe does.
			_, _, _, _ = outR.Close(), outW.Close(), inR.Close(), inW.Close()
		})
	}
}

func TestALastLineWithoutItsEndCounts(t *testing.T) {
	s := newServer(t, newFakeBroker())
	var out strings.Builder
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n\n" + `{"jsonrpc":"2.0","id":2,"method":"pi`)
	if err := s.ServeStdio(context.Background(), in, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"id":1,"result":{}`) || !strings.Contains(out.String(), `-32700`) {
		t.Errorf("output %q", out.String())
	}
}

func TestAFaultInAHandlerIsAnswered(t *testing.T) {
	s := newServer(t, newFakeBroker("panic", "echo"))
	c := connect(t, s)
	if m := c.ask(call("1", "panic", "", "")); m.code() != -32603 || string(m.ID) != "1" {
		t.Errorf("got %s", m.text)
	}
	if m := c.ask(call("1", "echo", "{}", "")); m.Result == nil {
		t.Errorf("afterwards: %s", m.text)
	}
}
