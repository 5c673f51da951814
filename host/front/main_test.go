package front

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come. It is no measure.
const patience = 20 * time.Second

// message is any JSON-RPC message, as a test looks at it.
type message struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
	text string
}

func (m message) code() int {
	if m.Error == nil {
		return 0
	}
	return m.Error.Code
}

func parse(t testing.TB, text []byte) message {
	t.Helper()
	m := message{text: string(text)}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("not JSON: %v: %.200q", err, text)
	}
	return m
}

// newServer makes a server that is closed at the test's end.
func newServer(t testing.TB, b Broker, adjust ...func(*Options)) *Server {
	t.Helper()
	opts := Options{Broker: b, Version: "1.2.3", SpoolDir: t.TempDir()}
	for _, f := range adjust {
		f(&opts)
	}
	s := New(opts)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		s.Close(ctx)
	})
	return s
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// call is a tools/call with raw arguments and, if any, raw `_meta` members.
func call(id, name, arguments, meta string) string {
	if arguments != "" {
		arguments = `,"arguments":` + arguments
	}
	if meta != "" {
		meta = `,"_meta":{` + meta + `}`
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `"` + arguments + meta + `}}`
}

// eventually waits until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

var counter atomic.Int64

// unique is an id that no other request of the test run has.
func unique() string { return fmt.Sprintf("%d", counter.Add(1)) }
