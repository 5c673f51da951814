package front

import (
	"context"
	"slices"
	"strings"
	"testing"
)

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
		b.changes(s)
		if m := c.next(); m.Method != "notifications/tools/list_changed" || m.ID != nil {
			t.Fatalf("after a change: %s", m.text)
		}
		if m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); !strings.Contains(string(m.Result), `"another-1"`) {
			t.Fatalf("list after the change: %s", m.text)
		}
	}
	if m := early.ask(`{"jsonrpc":"2.0","id":1,"method":"ping"}`); m.Method != "" {
		t.Errorf("a client that did not initialize was told %s", m.text)
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
	// Of no call. What the curious one has brought about reaches nobody else.
	s.Log("p", "debug", fromServer(log("debug")))
	if m := curious.next(); !strings.Contains(string(m.Params), `"debug"`) {
		t.Errorf("got %s", m.text)
	}
	s.Log("p", "info", fromServer(log("info")))
	s.Log("p", "error", fromServer(log("error")))
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

// As long as nobody has set a level, what a server sends by itself is passed.
func TestNoLevelMeansWhatServersSend(t *testing.T) {
	s := newServer(t, newFakeBroker())
	c := connect(t, s)
	c.initialize("2025-06-18")
	s.Log("p", "debug", fromServer(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":1}}`))
	if m := c.next(); m.Method != "notifications/message" {
		t.Errorf("got %s", m.text)
	}
}

// What a server says is for those who have to do with its provider.
func TestLogsOfOthersProvidersAreNotHeard(t *testing.T) {
	s := newServer(t, newFakeBroker())
	c := connect(t, s)
	c.initialize("2025-06-18")
	s.Log("hidden", "error", fromServer(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"hidden"}}`))
	s.Log("p", "error", fromServer(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"seen"}}`))
	if m := c.next(); m.Method != "notifications/message" || !strings.Contains(m.text, "seen") {
		t.Errorf("got %s", m.text)
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
	s.Log("p", "emergency", fromServer(log("emergency")))
	if m := c.ask(call("1", "echo", "{}", inner)); m.Result == nil {
		t.Errorf("a log message of no request came: %s", m.text)
	}
}

func TestListenOnStdio(t *testing.T) {
	b := newFakeBroker()
	s := newServer(t, b)
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
	b.changes(s)
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
	b.changes(s)
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

func TestChangesWithinAListAreNotToldBesideIt(t *testing.T) {
	b := newFakeBroker()
	s := newServer(t, b)
	c := connect(t, s)
	c.initialize("2025-11-25")
	b.starts = func() { // the list itself starts a provider, and waits for it
		b.setTools("late")
		s.ToolsChanged()
	}
	if m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); !strings.Contains(string(m.Result), `"late"`) {
		t.Fatalf("instead of the list: %s", m.text)
	}
	b.setTools("late", "later")
	s.ToolsChanged()
	if m := c.next(); m.Method != "notifications/tools/list_changed" {
		t.Fatalf("after the list a change is one again, but came: %s", m.text)
	}
	if m := c.ask(`{"jsonrpc":"2.0","id":2,"method":"ping"}`); m.Method != "" {
		t.Errorf("one change was told twice: %s", m.text)
	}
}
