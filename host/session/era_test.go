package session

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// TestErasMeet: each era of client against each of server. What the protocol says
// with each request is there or not; everything else stays.
func TestErasMeet(t *testing.T) {
	const (
		legacyRequest = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":1.0},"_meta":{"io.modelcontextprotocol/related-task":{"a":1}}}}`
		modernRequest = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","a":1,"io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/logLevel":"info","io.modelcontextprotocol/related-task":{"a":1}},"name":"x","arguments":{"n":1.0}}}`
		task          = `"io.modelcontextprotocol/related-task":{"a":1}`
	)
	for name, c := range map[string]struct {
		server []string
		modern bool
		want   string
	}{
		"legacy to legacy": {nil, false,
			`{"name":"x","arguments":{"n":1.0},"_meta":{` + task + `,"progressToken":ID}}`},
		"modern to legacy": {nil, true,
			`{"_meta":{"a":1,` + task + `,"progressToken":ID},"name":"x","arguments":{"n":1.0}}`},
		"legacy to modern": {[]string{"2026-07-28"}, false,
			`{"name":"x","arguments":{"n":1.0},"_meta":{` + task + `,"progressToken":ID,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"drawbridge","version":"1.2.3"},"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"debug"}}`},
		"modern to modern": {[]string{"2026-07-28"}, true,
			`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","a":1,"io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/logLevel":"info",` + task + `,"progressToken":ID},"name":"x","arguments":{"n":1.0}}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.modern = c.server
			s.when("tools/call", func(s *server, m *rpc.Message) { s.result(m, `{}`) })
			h := oneServer(t, s)
			h.manager.SetLogLevel("debug")
			call := Call{Request: request(t, legacyRequest), Modern: c.modern}
			if c.modern {
				call.Request = request(t, modernRequest)
			}
			h.do(h.get("p"), call)
			m := s.received("tools/call")[0]
			want := replaceAll(c.want, "ID", string(m.ID))
			if got := string(m.Get("params")); got != want {
				t.Errorf("the server got\n%s, want\n%s", got, want)
			}
		})
	}
}

// TestTasksAreNotAskedFor: the host does not carry them, so no server shall make one.
func TestTasksAreNotAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		server       []string
		modern       bool
		params, want string
	}{
		"the parameter": {nil, false,
			`{"name":"x","task":{"ttl":60000},"arguments":{"task":1}}`, `{"name":"x","arguments":{"task":1},"_meta":{"progressToken":ID}}`},
		"the extension": {[]string{"2026-07-28"}, true,
			`{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"a":1}},"roots":{}}}}`,
			`{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/ui":{"a":1}},"roots":{}},"progressToken":ID}}`},
		"with much else": {[]string{"2026-07-28"}, true,
			`{"name":"x","_meta":{"io.modelcontextprotocol/clientCapabilities":{"x":"` + strings.Repeat("x", usualCapabilities) + `","extensions":{"io.modelcontextprotocol\u002ftasks":{}}}}}`,
			`{"name":"x","_meta":{"io.modelcontextprotocol/clientCapabilities":{"x":"` + strings.Repeat("x", usualCapabilities) + `","extensions":{}},"progressToken":ID,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.modern = c.server
			s.when("tools/call", func(s *server, m *rpc.Message) { s.result(m, `{}`) })
			h := oneServer(t, s)
			h.do(h.get("p"), Call{Request: request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+c.params+`}`), Modern: c.modern})
			m := s.received("tools/call")[0]
			if got, want := string(m.Get("params")), replaceAll(c.want, "ID", string(m.ID)); got != want {
				t.Errorf("the server got\n%s, want\n%s", got, want)
			}
		})
	}
}

// TestAnUnfinishedAnswerIsNoResultToAnOlderClient, who would take it for one. To a
// client of the server's era it passes, whatever it is.
func TestAnUnfinishedAnswerIsNoResultToAnOlderClient(t *testing.T) {
	const asks = `{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage"},"b":{"method":"elicitation/create"},"c":{"method":"elicitation/create"}},"requestState":"s"}`
	modern := []string{"2026-07-28"}
	for name, c := range map[string]struct {
		server []string
		modern bool
		result string
		reason Reason
		cause  string
	}{
		"input":                         {modern, false, asks, InputRequired, "input first (elicitation/create, sampling/createMessage)"},
		"input that is no object":       {modern, false, `{"resultType":"input_required","inputRequests":[1]}`, InputRequired, "wants to be called again"},
		"state alone":                   {modern, false, `{"resultType":"input_required","requestState":"s"}`, InputRequired, "wants to be called again"},
		"another type":                  {modern, false, `{"resultType":"task","taskId":"1"}`, MalformedAnswer, `"task"`},
		"complete":                      {modern, false, `{"resultType":"complete","content":[]}`, "", ""},
		"none":                          {modern, false, `{"content":[]}`, "", ""},
		"a modern client":               {modern, true, asks, "", ""},
		"a modern client, another type": {modern, true, `{"resultType":"vendor"}`, "", ""},
		"an older server":               {nil, false, asks, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.modern = c.server
			s.when("tools/call", func(s *server, m *rpc.Message) { s.result(m, c.result) })
			h := oneServer(t, s)
			i := h.get("p")
			if c.reason == "" {
				if got := h.do(i, Call{Request: callOf(t, "x", `{}`), Modern: c.modern}); !contains(got, `"result":`+c.result) {
					t.Errorf("answered %s", got)
				}
				return
			}
			_, err := i.Do(t.Context(), Call{Request: callOf(t, "x", `{}`)})
			wantLost(t, err, true, c.reason, c.cause)
		})
	}
}

func TestEditIsTheBrokers(t *testing.T) {
	s := newServer(t)
	h := oneServer(t, s)
	got := h.do(h.get("p"), Call{
		Request: request(t, `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"p_echo","arguments":{"k":9007199254740993},"_meta":{"drawbridge/digest":"d"}}}`),
		Edit: func(e *rpc.Editor) {
			e.SetString("echo", "params", "name").RemovePrefix("drawbridge/", "params", "_meta")
		},
	})
	if !contains(got, `"structuredContent":{"k":9007199254740993}`) {
		t.Errorf("answered %s", got)
	}
	m := s.received("tools/call")[0]
	if got := string(m.Get("params")); got != `{"name":"echo","arguments":{"k":9007199254740993},"_meta":{"progressToken":`+string(m.ID)+`}}` {
		t.Errorf("the server got %s", got)
	}
}

// TestLogMessagesOfOneCall: with one call in flight they are its own, in order
// with its progress; with none, or with two, they are nobody's.
func TestLogMessagesOfOneCall(t *testing.T) {
	s := newServer(t)
	s.when("tools/call", func(s *server, m *rpc.Message) {
		s.message("info", "first")
		s.progress(m, 1)
		s.message("error", "second")
		s.result(m, `{}`)
	})
	h := oneServer(t, s)
	i := h.get("p")
	var got []string
	h.do(i, Call{Request: callOf(t, "x", `{}`), Notify: func(m *rpc.Message) error {
		data, _ := m.GetString("params", "data")
		got = append(got, m.Method+" "+data)
		return nil
	}})
	if want := []string{methodMessage + " first", methodProgress + " ", methodMessage + " second"}; !equal(got, want) {
		t.Errorf("notified of %v", got)
	}
	s.message("notice", "of no call")
	logged := func(n int) func() bool {
		return func() bool { h.mu.Lock(); defer h.mu.Unlock(); return len(h.logs) == n }
	}
	eventually(t, "the message of no call is heard of", logged(1))

	var held []*rpc.Message
	s.when("tools/call", func(s *server, m *rpc.Message) {
		if held = append(held, m); len(held) == 2 {
			s.message("alert", "of one of two")
			s.result(held[0], `{}`)
			s.result(held[1], `{}`)
		}
	})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			_, err := i.Do(context.Background(), Call{Request: callOf(t, "x", `{}`), Notify: func(m *rpc.Message) error {
				t.Errorf("guessed: %s", m.Method)
				return nil
			}})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	eventually(t, "the other message is heard of", logged(2))
	if want := []string{"p h/p/1 notice of no call", "p h/p/1 alert of one of two"}; !equal(h.logs, want) {
		t.Errorf("logged %q", h.logs)
	}
}

func TestTheLogLevelReachesServersThatLog(t *testing.T) {
	s := newServer(t)
	h := oneServer(t, s)
	h.get("p")
	if n := len(s.received(methodSetLevel)); n != 0 {
		t.Error("a level was set that nobody wants")
	}
	h.manager.SetLogLevel("info")
	if got := string(s.await(methodSetLevel, 1)[0].Get("params")); got != `{"level":"info"}` {
		t.Errorf("params %s", got)
	}
	h.manager.SetLogLevel("info")
	h.manager.SetLogLevel("debug")
	if got := string(s.await(methodSetLevel, 2)[1].Get("params")); got != `{"level":"debug"}` {
		t.Errorf("params %s", got)
	}

	quiet := newServer(t)
	quiet.caps = `{"tools":{}}`
	h = oneServer(t, quiet)
	h.manager.SetLogLevel("info")
	h.do(h.get("p"), Call{Request: callOf(t, "echo", `{}`)})
	if n := len(quiet.received(methodSetLevel)); n != 0 {
		t.Error("a server that does not log was told a level")
	}
}

// A server that never answers logging/setLevel holds one request, not one for each
// change of the level.
func TestLevelsWithoutAnswerDoNotPileUp(t *testing.T) {
	s := newServer(t)
	s.when(methodSetLevel, func(*server, *rpc.Message) {})
	h := oneServer(t, s)
	i := h.get("p")
	for n := range 20 {
		h.manager.SetLogLevel([]string{"info", "debug"}[n%2])
		s.await(methodSetLevel, n+1)
	}
	waiting := func() int {
		i.link.mu.Lock()
		defer i.link.mu.Unlock()
		return len(i.link.calls)
	}
	if n := waiting(); n != 1 {
		t.Errorf("%d requests wait for an answer", n)
	}
	h.do(i, Call{Request: callOf(t, "echo", `{}`)})
}

func TestDeclares(t *testing.T) {
	s := Server{Capabilities: []byte(`{"tools":{"listChanged":true},"logging":{},"prompts":{"listChanged":false},"x":null}`)}
	for _, c := range []struct {
		path []string
		want bool
	}{
		{[]string{"tools"}, true}, {[]string{"tools", "listChanged"}, true}, {[]string{"logging"}, true},
		{[]string{"logging", "listChanged"}, false}, {[]string{"prompts", "listChanged"}, false},
		{[]string{"x"}, false}, {[]string{"y"}, false}, {[]string{"Tools"}, false},
	} {
		if got := s.Declares(c.path...); got != c.want {
			t.Errorf("%v: %v", c.path, got)
		}
	}
	if (Server{}).Declares("tools") {
		t.Error("a server that declares nothing declares tools")
	}
}
