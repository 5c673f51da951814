package front

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

func TestDefinitionsPassAsTheyAre(t *testing.T) {
	defs := []string{
		`{"name":"a","inputSchema":{"$schema":"x","type":["object","null"],"oneOf":[true,{"n":1.0}],"max":9223372036854775807},"x-vendor":{"b":1,"a":2}}`,
		`{ "description":"é\u00e9\/ <&>" , "name":"b","inputSchema":true,"annotations":{"category":"z"}}`,
	}
	s := newServer(t, newFakeBroker(defs...))
	c := connect(t, s)
	m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if want := `{"tools":[` + strings.Join(defs, ",") + `],"_meta":{`; !strings.HasPrefix(string(m.Result), want) {
		t.Errorf("list\n%s, want it to begin with\n%s", m.Result, want)
	}
	if m := connect(t, newServer(t, newFakeBroker())).ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); !strings.HasPrefix(string(m.Result), `{"tools":[],`) {
		t.Errorf("empty list %s", m.Result)
	}
}

func TestC101_PagesOfOneListNeverMix(t *testing.T) {
	var names []string
	for i := range 182 {
		names = append(names, fmt.Sprintf("tool%03d", i))
	}
	b := newFakeBroker(names...)
	s := newServer(t, b, func(o *Options) { o.PageSize = 50 })
	c := connect(t, s)
	page := func(cursor string) (got []string, next string, m message) {
		m = c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":` + cursor + `}}`)
		var r struct {
			Tools      []struct{ Name string }
			NextCursor string
		}
		if m.Result != nil {
			if err := json.Unmarshal(m.Result, &r); err != nil {
				t.Fatal(err)
			}
		}
		for _, tool := range r.Tools {
			got = append(got, tool.Name)
		}
		return got, r.NextCursor, m
	}
	var all []string
	cursor, first := "null", ""
	for pages := 1; ; pages++ {
		got, next, m := page(cursor)
		all = append(all, got...)
		if first == "" {
			first = next
		}
		if next == "" {
			if pages != 4 || len(got) != 32 {
				t.Errorf("page %d is the last, with %d tools: %.200s", pages, len(got), m.text)
			}
			break
		}
		cursor = `"` + next + `"`
	}
	if !slices.Equal(all, names) {
		t.Errorf("pages hold %v", all)
	}
	beginning, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		t.Fatal(err)
	}
	clear(beginning[len(beginning)-4:]) // the place in the list
	for name, bad := range map[string]string{
		"of the first page": `"` + base64.RawURLEncoding.EncodeToString(beginning) + `"`,
		"garbage":           `"garbage"`, "empty": `""`, "number": `5`, "object": `{}`,
		"longer": `"` + first + `AAAA"`, "changed": `"A` + first[1:] + `"`,
		"out of the list": `"` + first[:len(first)-4] + `____"`,
	} {
		if got, _, m := page(bad); m.code() != -32602 || got != nil {
			t.Errorf("%s cursor: %.200s", name, m.text)
		}
	}
	// The list changes between pages: by length, by order, by one definition.
	for name, changed := range map[string][]string{
		"shorter": names[:100], "reordered": append([]string{names[1], names[0]}, names[2:]...),
		"redefined": append([]string{`{"name":"tool000","inputSchema":{"type":"string"}}`}, names[1:]...),
	} {
		b.setTools(changed...)
		if _, _, m := page(`"` + first + `"`); m.code() != -32602 {
			t.Errorf("%s list: %.200s", name, m.text)
		}
	}
	b.setTools(names...)
	if got, _, _ := page(`"` + first + `"`); len(got) != 50 || got[0] != "tool050" {
		t.Errorf("the same list again: %v", got)
	}
}

func TestWhatTheHostChangesInAResult(t *testing.T) {
	s := newServer(t, newFakeBroker("raw"))
	c := connect(t, s)
	inner := strings.TrimSuffix(strings.TrimPrefix(modernMeta, `"_meta":{`), "}")
	const identity = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"drawbridge","version":"1.2.3","title":"Drawbridge"}}`
	for name, c2 := range map[string]struct{ server, legacy, modern string }{
		"of an old server": {
			`{"content":[], "x" : 1.0,"isError":false}`,
			`{"content":[], "x" : 1.0,"isError":false}`,
			`{"content":[], "x" : 1.0,"isError":false,"resultType":"complete",` + identity + `}`,
		},
		"empty": {`{}`, `{}`, `{"resultType":"complete",` + identity + `}`},
		"of a new server": {
			`{"resultType":"input_required","requestState":"s","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"theirs"}}}`,
			`{"resultType":"input_required","requestState":"s","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"theirs"}}}`,
			`{"resultType":"input_required","requestState":"s","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"theirs"}}}`,
		},
		"with our keys": {
			`{"_meta":{"drawbridge/outcome":"ok","a":1,"drawbridge/x":{}},"content":[]}`,
			`{"_meta":{"a":1},"content":[]}`,
			`{"_meta":{"a":1,` + strings.TrimPrefix(identity, `"_meta":{`) + `,"content":[],"resultType":"complete"}`,
		},
		"with our keys where some find them": {
			`{"_META":{"drawbridge/outcome":"ok","a":1},"content":[],"_Meta":7}`,
			`{"_META":{"a":1},"content":[],"_Meta":7}`,
			`{"_META":{"a":1},"content":[],"_Meta":7,"resultType":"complete",` + identity + `}`,
		},
		"with a _meta that is none": {`{"_meta":7}`, `{"_meta":7}`, `{"_meta":7,"resultType":"complete"}`},
	} {
		t.Run(name, func(t *testing.T) {
			args := `{"response":{"jsonrpc":"2.0","id":7,"result":` + c2.server + `}}`
			if m := c.ask(call("1", "raw", args, "")); string(m.Result) != c2.legacy {
				t.Errorf("to a legacy client\n%s, want\n%s", m.Result, c2.legacy)
			}
			if m := c.ask(call("1", "raw", args, inner)); string(m.Result) != c2.modern {
				t.Errorf("to a modern client\n%s, want\n%s", m.Result, c2.modern)
			}
		})
	}
}

// bigBroker answers with a result as large as the argument says.
type bigBroker struct {
	*fakeBroker
	t      testing.TB
	dir    string
	size   int
	closed []*rpc.Message
}

func (b *bigBroker) Call(_ context.Context, c broker.Call) broker.Reply {
	asm := rpc.NewAssembler(rpc.FromServer, b.dir, 0)
	say := func(s string) {
		if _, err := asm.Write([]byte(s)); err != nil {
			b.t.Error(err)
		}
	}
	for _, size := range []int{2 << 20, b.size} { // a notification, then the answer
		if size == b.size {
			say(`{"jsonrpc":"2.0","id":7,"result":{"text":"`)
		} else {
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"up","message":"`)
		}
		for range size / 1024 {
			say(strings.Repeat("z", 1024))
		}
		say(`"}}`)
		m, err := asm.Finish()
		if err != nil {
			b.t.Error(err)
		}
		b.closed = append(b.closed, m)
		if m.Kind == rpc.Notification {
			_ = c.Notify(m)
			_ = m.Close()
			continue
		}
		return broker.Reply{Message: m}
	}
	panic("unreachable")
}

func TestLargeMessagesPassThroughFiles(t *testing.T) {
	const size = 5 << 20
	b := &bigBroker{fakeBroker: newFakeBroker(), t: t, dir: t.TempDir(), size: size}
	s := newServer(t, b)
	check := func(t *testing.T, progress, answer message) {
		t.Helper()
		if !strings.HasPrefix(string(progress.Params), `{"progressToken":"mine","message":"zzz`) || len(progress.Params) < 2<<20 {
			t.Errorf("progress of %d bytes: %.100s", len(progress.Params), progress.Params)
		}
		want := sha256.Sum256([]byte(`{"text":"` + strings.Repeat("z", size) + `"}`))
		if got := sha256.Sum256(answer.Result); got != want || string(answer.ID) != `"i"` {
			t.Errorf("answer of %d bytes under %s: %.100s", len(answer.Result), answer.ID, answer.text)
		}
	}
	t.Run("stdio", func(t *testing.T) {
		c := connect(t, s)
		c.send(call(`"i"`, "big", "", `"progressToken":"mine"`))
		check(t, c.next(), c.next())
	})
	t.Run("http", func(t *testing.T) {
		s := newSite(t, s)
		r := s.post(call(`"i"`, "big", "", `"progressToken":"mine"`), "Mcp-Session-Id", s.open())
		if len(r.events) != 2 {
			t.Fatalf("%d events", len(r.events))
		}
		check(t, r.events[0], r.events[1])
		plain := s.post(call(`"i"`, "big", "", ""), "Mcp-Session-Id", s.open())
		check(t, r.events[0], parse(t, plain.body))
	})
	for i, m := range b.closed {
		if m.Close() == nil {
			t.Errorf("message %d still has its file", i)
		}
	}
}

func TestLargeRequestsPassThroughFiles(t *testing.T) {
	b := newFakeBroker("echo")
	s := newServer(t, b)
	args := `{"a":"` + strings.Repeat("q", 3<<20) + `"}`
	line := call("1", "echo", args, "")
	want := `"structuredContent":` + args
	c := connect(t, s)
	if m := c.ask(line); !strings.Contains(m.text, want) {
		t.Errorf("stdio: %.100s", m.text)
	}
	web := newSite(t, s)
	if r := web.post(line, "Mcp-Session-Id", web.open()); !bytes.Contains(r.body, []byte(want)) {
		t.Errorf("http: %.100s", r.body)
	}
	for i, c := range b.received() {
		eventually(t, fmt.Sprintf("request %d gives its file back", i), func() bool { return c.Request.Get("params", "arguments") == nil })
	}
}

func TestAnAnswerThatIsLostIsToldAsSuch(t *testing.T) {
	asm := rpc.NewAssembler(rpc.FromServer, t.TempDir(), 0)
	_, _ = asm.Write([]byte(`{"jsonrpc":"2.0","id":7,"result":{"text":"` + strings.Repeat("z", 2<<20) + `","_meta":{}}}`))
	m, err := asm.Finish()
	if err != nil {
		t.Fatal(err)
	}
	_ = m.Close() // as if the disk had failed
	s := newServer(t, lostBroker{newFakeBroker(), m})
	c := connect(t, s)
	inner := strings.TrimSuffix(strings.TrimPrefix(modernMeta, `"_meta":{`), "}")
	if m := c.ask(call("1", "x", "", inner)); m.code() != broker.CodeUnknown || !strings.Contains(string(m.Error.Data), `"dispatched":true`) {
		t.Errorf("got %.200s", m.text)
	}
}

type lostBroker struct {
	*fakeBroker
	m *rpc.Message
}

func (b lostBroker) Call(context.Context, broker.Call) broker.Reply {
	return broker.Reply{Message: b.m}
}

func TestAConnectionOutlivesTheWriteTimeout(t *testing.T) {
	const timeout = 40 * time.Millisecond
	s := newSite(t, newServer(t, newFakeBroker("echo"), func(o *Options) { o.WriteTimeout = timeout }))
	s.client.Transport.(*http.Transport).MaxConnsPerHost = 1
	var from []string
	ask := func(headers ...string) int {
		r := s.post(initializeLine("2025-11-25"), headers...)
		from = append(from, r.Header.Get("Date"))
		return r.StatusCode
	}
	for _, headers := range [][]string{nil, {"Authorization", ""}, {"Host", "evil.example"}, {"Content-Type", "text/plain"}, nil} {
		want := map[bool]int{true: 200, false: 0}[headers == nil]
		if got := ask(headers...); want != 0 && got != want || got == 0 {
			t.Errorf("%v: %d", headers, got)
		}
		time.Sleep(2 * timeout) // longer than any deadline that was left on the connection
	}
}
