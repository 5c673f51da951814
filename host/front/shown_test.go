package front

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
)

func TestAListSaysWhatIsShown(t *testing.T) {
	b := newFakeBroker("a", "b", "c")
	s := newServer(t, b, func(o *Options) { o.PageSize = 2 })
	c := connect(t, s)
	c.initialize("2025-11-25")
	view := b.View(broker.Caller{})
	cursor := ""
	for _, page := range [][]string{{"a", "b"}, {"c"}} {
		var r struct {
			NextCursor string
			Meta       struct {
				Revisions map[string]string `json:"drawbridge/revisions"`
				Digests   map[string]string `json:"drawbridge/digests"`
			} `json:"_meta"`
		}
		if err := json.Unmarshal(c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+cursor+`}}`).Result, &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Meta.Revisions) != 1 || r.Meta.Revisions["fake"] != view.Revisions()["fake"] || len(r.Meta.Digests) != len(page) {
			t.Errorf("_meta of page %v: %+v", page, r.Meta)
		}
		for _, name := range page {
			if tool, _ := view.Find(name); r.Meta.Digests[name] != tool.Digest {
				t.Errorf("digest of %s: %q", name, r.Meta.Digests[name])
			}
		}
		cursor = `"cursor":"` + r.NextCursor + `"`
	}
	if got := b.wasShown(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("the broker was told that %v were shown", got)
	}
}

func (b *fakeBroker) wasShown() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.shown)
}

// TestAListThatIsNotWrittenShowsNothing: its client has cancelled it.
func TestAListThatIsNotWrittenShowsNothing(t *testing.T) {
	b := newFakeBroker("a")
	s := newServer(t, b)
	c := connect(t, s)
	c.initialize("2025-11-25")
	under, on := make(chan struct{}), make(chan struct{})
	b.mu.Lock()
	b.starts = func() { close(under); <-on }
	b.mu.Unlock()
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	<-under
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	c.ask(`{"jsonrpc":"2.0","id":2,"method":"ping"}`) // the cancel was read before
	close(on)
	c.ask(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	if got := b.wasShown(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("the broker was told that %v were shown, once too often", got)
	}
}

func TestC101_ACursorIsOneCallersAndOneRevisions(t *testing.T) {
	b := newFakeBroker("a", "b", "c", "d", "e")
	s := newSite(t, newServer(t, b, func(o *Options) { o.PageSize = 2 }))
	one, two := s.open(), s.open()
	page := func(session, cursor string) message {
		return s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+cursor+`}}`, "Mcp-Session-Id", session).last(t)
	}
	var first struct{ NextCursor string }
	if err := json.Unmarshal(page(one, "").Result, &first); err != nil || first.NextCursor == "" {
		t.Fatal(err, first)
	}
	cursor := `"cursor":"` + first.NextCursor + `"`
	refused := func(what, says string, m message) {
		t.Helper()
		if m.code() != -32602 || !strings.Contains(m.text, says) || !strings.Contains(m.text, "list again without a cursor") {
			t.Errorf("%s: %s", what, m.text)
		}
	}
	refused("another session", "given to another client", page(two, cursor))
	refused("another era", "given to another client", s.modern("tools/list", "1", cursor).last(t))
	if m := page(one, cursor); m.Result == nil {
		t.Errorf("its own: %s", m.text)
	}
	b.changes(s.front)
	refused("another revision", "the list has changed", page(one, cursor))
}

// TestACursorIsNobodyElses: also where there is no session to tell callers apart, and
// where they see the same.
func TestACursorIsNobodyElses(t *testing.T) {
	view := newFakeBroker("a", "b", "c").View(broker.Caller{})
	mine := broker.Caller{Principal: "ada", Project: "site", Client: broker.Client{Name: "c", Version: "1"}}
	_, _, cursor, err := paginate(view, mine, "", 2)
	if err != nil || cursor == "" {
		t.Fatal(err, cursor)
	}
	if from, to, _, err := paginate(view, mine, cursor, 2); from != 2 || to != 3 || err != nil {
		t.Errorf("its own: %d to %d, %v", from, to, err)
	}
	for what, change := range map[string]func(*broker.Caller){
		"principal": func(c *broker.Caller) { c.Principal = "ben" },
		"project":   func(c *broker.Caller) { c.Project = "shop" },
		"session":   func(c *broker.Caller) { c.Session = "s" },
		"client":    func(c *broker.Caller) { c.Client.Name = "d" },
		"version":   func(c *broker.Caller) { c.Client.Version = "2" },
		// What is moved from one part to the next is another caller.
		"border": func(c *broker.Caller) { c.Principal, c.Project = "adas", "ite" },
	} {
		other := mine
		change(&other)
		if from, to, _, err := paginate(view, other, cursor, 2); err == nil || !strings.Contains(err.Error(), notYours) {
			t.Errorf("of another %s: %d to %d, %v", what, from, to, err)
		}
	}
}

func TestCallersAreWhoTheySayThatTheyAre(t *testing.T) {
	b := newFakeBroker("echo")
	s := newServer(t, b)
	c := connect(t, s)
	c.ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"` +
		strings.Repeat("n", 1000) + `","version":"7"}}}`)
	c.ask(call("2", "echo", "{}", ""))
	inner := strings.TrimSuffix(strings.TrimPrefix(modernMeta, `"_meta":{`), "}")
	c.ask(call("3", "echo", "{}", inner+`,"io.modelcontextprotocol/clientInfo":{"name":"new","version":"8"}`))
	c.ask(call("4", "echo", "{}", inner+`,"io.modelcontextprotocol/clientInfo":"odd"`))
	site := newSite(t, s)
	site.modern("tools/call", "5", `"name":"echo","_meta":0`, "Mcp-Name", "echo") // refused; the next one is not
	site.post(strings.Replace(modernBody("tools/call", "6", `"name":"echo"`), `"_meta":{`, `"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"web"},`, 1),
		modernHeaders("tools/call", "Mcp-Name", "echo")...)
	want := []broker.Client{{Name: strings.Repeat("n", maxClientName), Version: "7"}, {Name: "new", Version: "8"}, {}, {Name: "web"}}
	var got []broker.Client
	for _, one := range b.received() {
		got = append(got, one.Caller.Client)
	}
	if !slices.Equal(got, want) {
		t.Errorf("clients %.300v, want %.300v", got, want)
	}
}

func TestAReportIsForWhoAsks(t *testing.T) {
	b := newFakeBroker("echo")
	s := newServer(t, b)
	c := connect(t, s)
	c.initialize("2025-11-25")
	const plain = `{"content":[],"structuredContent":{}}`
	for _, meta := range []string{"", `"drawbridge/report":false`, `"drawbridge/report":"true"`} {
		if m := c.ask(call("1", "echo", "{}", meta)); string(m.Result) != plain {
			t.Errorf("with %q: %s", meta, m.text)
		}
	}
	want := strings.TrimSuffix(plain, "}") + `,"_meta":{"drawbridge/outcome":"ok","drawbridge/instance":"host/fake/2","drawbridge/digest":"d1g3st","drawbridge/call":"j-2"}}`
	if m := c.ask(call("2", "echo", "{}", `"drawbridge/report":true`)); string(m.Result) != want {
		t.Errorf("asked for: %s, want %s", m.text, want)
	}
	b.replaced = "host/fake/1"
	want = strings.TrimSuffix(plain, "}") + `,"_meta":{"drawbridge/replaced":"host/fake/1"}}`
	if m := c.ask(call("3", "echo", "{}", "")); string(m.Result) != want {
		t.Errorf("what must be told: %s, want %s", m.text, want)
	}
}

func TestTheHeaderNamesTheCall(t *testing.T) {
	s := newSite(t, newServer(t, newFakeBroker("echo", "say")))
	id := s.open()
	for what, body := range map[string]string{
		"plain":    call("11", "echo", "{}", ""),
		"a stream": call("11", "say", `{"say":[`+fmt.Sprintf(serverProgress, "1")+`]}`, `"progressToken":7`),
		"an error": call("11", "none", "{}", ""),
	} {
		if got := s.post(body, "Mcp-Session-Id", id).Header.Get("Drawbridge-Call"); got != "j-11" {
			t.Errorf("%s: Drawbridge-Call is %q", what, got)
		}
	}
	if got := s.post(listLine, "Mcp-Session-Id", id).Header.Get("Drawbridge-Call"); got != "" {
		t.Errorf("of a list: %q", got)
	}
}

// TestTheFirstListIsNoChange to a client without a session: the list that it asks for
// starts the servers.
func TestTheFirstListIsNoChange(t *testing.T) {
	b := newFakeBroker()
	s := newSite(t, newServer(t, b))
	listen := func(client string) *stream {
		st := s.listen(http.MethodPost, as(client, modernBody("subscriptions/listen", "9", `"notifications":{"toolsListChanged":true}`)), modernHeaders("subscriptions/listen")...)
		if m := st.next(); m.Method != "notifications/subscriptions/acknowledged" {
			t.Fatalf("first %s", m.text)
		}
		return st
	}
	list := func(client string) {
		t.Helper()
		if r := s.post(as(client, modernBody("tools/list", "1", "")), modernHeaders("tools/list")...); r.StatusCode != http.StatusOK {
			t.Fatalf("list: %d %s", r.StatusCode, r.body)
		}
	}
	starting := func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.starts = func() { b.changes(s.front) }
	}
	told := func(what string, st *stream) {
		t.Helper()
		if m := st.next(); m.Method != "notifications/tools/list_changed" {
			t.Errorf("%s: %s", what, m.text)
		}
	}
	first, other := listen("one"), listen("other")
	starting()
	list("one")
	first.none()
	told("another client's stream", other)
	b.changes(s.front)
	told("a change after the list", first)
	told("a change after the list", other)
	// A stream that begins when its kind knows a list is told of what another list of
	// its kind brings: it cannot be told whose that is.
	list("one")
	late := listen("one")
	late.none()
	starting()
	list("one")
	told("a list of its kind", late)
	// And of what changed between list and stream.
	list("two")
	b.changes(s.front)
	told("between list and stream", listen("two"))
}

// as makes a modern request one of a client of that name.
func as(client, body string) string {
	return strings.Replace(body, `"_meta":{`, `"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"`+client+`","version":"1"},`, 1)
}

// TestSessionsAreForgotten when they have ended and their last request has.
func TestSessionsAreForgotten(t *testing.T) {
	b := newFakeBroker("hold")
	s := newSite(t, newServer(t, b))
	id := s.open()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.post(call("1", "hold", "", ""), "Mcp-Session-Id", id)
	}()
	<-b.held
	s.do(http.MethodDelete, "", "Mcp-Session-Id", id)
	<-answered
	eventually(t, "the session is forgotten after its request", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.forgets[id] >= 2
	})
}
