package hosttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// CallLimit bounds one request of a test. A first call may start servers and a browser.
const CallLimit = 90 * time.Second

// Message is one JSON-RPC message: as it came, and its envelope.
type Message struct {
	Raw    []byte          `json:"-"`
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func parse(t testing.TB, raw []byte) Message {
	t.Helper()
	m := Message{Raw: bytes.Clone(raw)}
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Errorf("no JSON-RPC message: %v: %.200s", err, raw)
	}
	return m
}

// Reply is an answer, and the notifications that came on its own stream before
// it (over stdio: those that carry its progress token).
type Reply struct {
	Message
	Notes []Message
}

// Client is a plain JSON-RPC writer that declares no capabilities. Requests may
// be made concurrently.
type Client interface {
	// Request sends one request and waits for its answer. Where params hold the
	// string "TOKEN", the request's id is put in as a number: a progress token.
	Request(t testing.TB, method, params string) Reply
	Notify(t testing.TB, method, params string)
	// Heard returns the notifications so far that belong to no single request.
	Heard() []Message
	// Close ends the session and waits for all that belongs to it. A second
	// Close does nothing.
	Close(t testing.TB)
}

// Initialize is the params of the handshake: no capabilities, 2025-11-25.
const Initialize = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"hosttest","version":"1.0.0"}}`

// Open does the handshake. The test's end closes the client if the test did not.
func Open(t testing.TB, c Client) Client {
	t.Helper()
	Hello(t, c, Initialize)
	return c
}

// Hello is Open with params of the test's own; it returns the answer to initialize.
func Hello(t testing.TB, c Client, params string) Reply {
	t.Helper()
	t.Cleanup(func() { c.Close(t) })
	r := c.Request(t, "initialize", params)
	if r.Error != nil {
		t.Fatalf("initialize: %s", r.Error)
	}
	c.Notify(t, "notifications/initialized", "")
	return r
}

// Envelope writes a request, or with id 0 a notification.
func Envelope(id int, method, params string) string {
	text := `{"jsonrpc":"2.0"`
	if id > 0 {
		text += fmt.Sprintf(`,"id":%d`, id)
	}
	text += fmt.Sprintf(`,"method":%q`, method)
	if params != "" {
		text += `,"params":` + params
	}
	return text + "}"
}

func token(params string, id int) string {
	return strings.ReplaceAll(params, `"TOKEN"`, fmt.Sprint(id))
}

// box holds what no single request waits for.
type box struct {
	mu    sync.Mutex
	notes []Message
}

func (b *box) put(m Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes = append(b.notes, m)
}

// Heard implements Client.
func (b *box) Heard() []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Message(nil), b.notes...)
}

// Result is a tool's result, as far as tests look into it.
type Result struct {
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	IsError    bool            `json:"isError"`
	Structured json.RawMessage `json:"structuredContent"`
}

// Text is the text of all blocks, one below the other.
func (r Result) Text() string {
	var all []string
	for _, c := range r.Content {
		all = append(all, c.Text)
	}
	return strings.Join(all, "\n")
}

// ParseResult reads a tool's result; what names it in a failure.
func ParseResult(t testing.TB, what string, raw []byte) Result {
	t.Helper()
	var r Result
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatalf("%s: no tool result: %v: %.400s", what, err, raw)
	}
	return r
}

// CallTool calls a tool by the name that c knows; an error of the protocol ends the test.
func CallTool(t testing.TB, c Client, name, args string) Result {
	t.Helper()
	r := c.Request(t, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args))
	if r.Error != nil {
		t.Fatalf("%s: %s", name, r.Error)
	}
	return ParseResult(t, name, r.Result)
}

// Definition is one entry of a tools/list, as it came.
type Definition struct {
	Name string
	Raw  json.RawMessage
}

// ownTool is the host's own, which it lists beside those of servers.
const ownTool = "read_artifact"

// Definitions lists the tools of servers to the last page. The host's own tool is
// not among them.
func Definitions(t testing.TB, c Client) []Definition {
	t.Helper()
	var out []Definition
	for params := "{}"; ; {
		r := c.Request(t, "tools/list", params)
		if r.Error != nil {
			t.Fatalf("tools/list: %s", r.Error)
		}
		var list struct {
			Tools      []json.RawMessage `json:"tools"`
			NextCursor json.RawMessage   `json:"nextCursor"`
		}
		if err := json.Unmarshal(r.Result, &list); err != nil {
			t.Fatal(err)
		}
		for _, raw := range list.Tools {
			var d struct {
				Name string `json:"name"`
			}
			if err := json.Unmarshal(raw, &d); err != nil {
				t.Fatal(err)
			}
			if d.Name != ownTool {
				out = append(out, Definition{d.Name, raw})
			}
		}
		if list.NextCursor == nil {
			return out
		}
		params = fmt.Sprintf(`{"cursor":%s}`, list.NextCursor)
	}
}

// Rename replaces the value of the member name at the top of an object, and
// nothing else.
func Rename(t testing.TB, object json.RawMessage, name string) []byte {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatal(err)
		}
		if end := dec.InputOffset(); key == "name" {
			quoted, err := json.Marshal(name)
			if err != nil {
				t.Fatal(err)
			}
			return bytes.Join([][]byte{object[:end-int64(len(value))], quoted, object[end:]}, nil)
		}
	}
	t.Fatalf("no name in %s", object)
	return nil
}
