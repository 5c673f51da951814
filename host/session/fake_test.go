package session

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// patience is what a test waits at most for something that must happen.
const patience = 10 * time.Second

// fakeConn is the host's end of an exchange with a scripted server. What the host
// sends goes to a handler, on one goroutine; what the script says comes out of
// Recv, in order.
type fakeConn struct {
	ctx context.Context

	mu      sync.Mutex
	partial []byte
	inbox   chan received
	// shut is not nil while the server reads nothing: Send blocks until it is closed.
	shut chan struct{}
	// sends counts the calls of Send that handed over a last chunk.
	sends int

	events chan provider.Event
	over   chan struct{} // closed when the plugin has ended the stream
	finish sync.Once
	done   sync.WaitGroup
}

// end makes the plugin end the stream, after what was said.
func (c *fakeConn) end() { c.finish.Do(func() { close(c.over) }) }

type received struct {
	seq  uint64
	text []byte
}

// newFakeConn starts a server that hands what it reads to handle.
func newFakeConn(ctx context.Context, handle func(*fakeConn, received)) *fakeConn {
	c := &fakeConn{ctx: ctx, inbox: make(chan received, 4096), events: make(chan provider.Event, 1<<12), over: make(chan struct{})}
	c.done.Go(func() {
		for {
			select {
			case r := <-c.inbox:
				handle(c, r)
			case <-ctx.Done():
				return
			}
		}
	})
	return c
}

func (c *fakeConn) Send(f provider.Frame) error {
	c.mu.Lock()
	shut := c.shut
	if f.Last {
		c.sends++
	}
	c.mu.Unlock()
	if shut != nil {
		select {
		case <-shut:
		case <-c.ctx.Done():
			return io.EOF
		}
	}
	if c.ctx.Err() != nil {
		return io.EOF
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.partial = append(c.partial, f.Data...)
	if !f.Last {
		return nil
	}
	r := received{seq: f.Seq, text: c.partial}
	c.partial = nil
	select {
	case c.inbox <- r:
		return nil
	case <-c.ctx.Done():
		return io.EOF
	}
}

func (c *fakeConn) Recv() (provider.Event, error) {
	select {
	case e := <-c.events:
		return e, nil
	default:
	}
	select {
	case e := <-c.events:
		return e, nil
	case <-c.over:
		select {
		case e := <-c.events:
			return e, nil
		default:
			return nil, io.EOF
		}
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}
}

// stopReading makes Send block until the returned function is called.
func (c *fakeConn) stopReading() (resume func()) {
	shut := make(chan struct{})
	c.mu.Lock()
	c.shut = shut
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		c.shut = nil
		c.mu.Unlock()
		close(shut)
	}
}

func (c *fakeConn) handed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sends
}

// say makes the server write a message.
func (c *fakeConn) say(text string) {
	for len(text) > provider.SendChunk {
		c.event(provider.Chunk{Data: []byte(text[:provider.SendChunk])})
		text = text[provider.SendChunk:]
	}
	c.event(provider.Chunk{Data: []byte(text), Last: true})
}

func (c *fakeConn) event(e provider.Event) {
	select {
	case c.events <- e:
	case <-c.over:
	case <-c.ctx.Done():
	}
}

// server is a scripted MCP server.
type server struct {
	t    testing.TB
	conn *fakeConn

	// version is what initialize is answered with; modern what server/discover is,
	// none means that it is refused.
	version string
	modern  []string
	caps    string
	tools   []string // definitions
	pageLen int      // 0: all in one page

	mu sync.Mutex
	// on replaces or adds the handling of a method; it runs on the server's goroutine.
	on  map[string]func(s *server, m *rpc.Message)
	log []*rpc.Message
	// more is closed and made anew at each entry of the log.
	more chan struct{}
}

func newServer(t testing.TB) *server {
	return &server{
		t: t, version: "2025-11-25", caps: `{"tools":{"listChanged":true},"logging":{}}`,
		tools: []string{`{"name":"echo","inputSchema":{"type":"object"}}`},
		on:    map[string]func(*server, *rpc.Message){},
		more:  make(chan struct{}),
	}
}

// when sets what the server does with a method, nil for what is usual.
func (s *server) when(method string, f func(s *server, m *rpc.Message)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on[method] = f
}

// handle answers as an honest server does.
func (s *server) handle(c *fakeConn, r received) {
	m, err := rpc.Parse(rpc.FromServer, r.text)
	if err != nil {
		s.t.Errorf("the host sent what is no message: %s: %v", r.text, err)
		return
	}
	s.mu.Lock()
	s.log = append(s.log, m)
	close(s.more)
	s.more = make(chan struct{})
	f := s.on[m.Method]
	s.mu.Unlock()
	if f != nil {
		f(s, m)
		return
	}
	switch m.Method {
	case methodDiscover:
		if s.modern == nil {
			s.refuse(m, -32601, "Method not found")
			return
		}
		versions, _ := json.Marshal(s.modern)
		s.result(m, fmt.Sprintf(`{"resultType":"complete","supportedVersions":%s,"capabilities":%s,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake"}},"instructions":"use it"}`, versions, s.caps))
	case methodInitialize:
		s.result(m, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"fake","x":1.0},"instructions":"use it"}`, s.version, s.caps))
	case methodListTools:
		s.list(m)
	case methodListen:
		s.conn.say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(m.ID) + `}}}`)
	case "tools/call":
		s.call(m)
	default:
		if m.Kind == rpc.Request {
			s.refuse(m, -32601, "Method not found")
		}
	}
}

func (s *server) list(m *rpc.Message) {
	from := 0
	if cursor, ok := m.GetString("params", "cursor"); ok {
		from, _ = strconv.Atoi(strings.TrimPrefix(cursor, "from "))
	}
	s.mu.Lock()
	tools := s.tools
	s.mu.Unlock()
	to := len(tools)
	next := ""
	if s.pageLen > 0 && from+s.pageLen < to {
		to = from + s.pageLen
		next = fmt.Sprintf(`,"nextCursor":"from %d"`, to)
	}
	s.result(m, `{"tools":[`+strings.Join(tools[from:to], ",")+`]`+next+`}`)
}

// call answers tools/call: echo gives its arguments back, every other tool nothing.
func (s *server) call(m *rpc.Message) {
	if name, _ := m.GetString("params", "name"); name == "echo" {
		s.result(m, `{"content":[],"structuredContent":`+string(m.Get("params", "arguments"))+`}`)
	}
}

func (s *server) result(m *rpc.Message, result string) {
	s.conn.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`)
}

func (s *server) refuse(m *rpc.Message, code int, text string) {
	s.conn.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, m.ID, code, text))
}

// progress sends a progress notification for a call.
func (s *server) progress(m *rpc.Message, value int) {
	s.conn.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`,
		m.Get("params", "_meta", "progressToken"), value))
}

func (s *server) message(level, data string) {
	s.conn.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":%q,"data":%q}}`, level, data))
}

// setTools changes the list and says so.
func (s *server) setTools(defs ...string) {
	s.mu.Lock()
	s.tools = defs
	s.mu.Unlock()
	s.conn.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
}

// received returns what the server has read of a method, or of all with "".
func (s *server) received(method string) []*rpc.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*rpc.Message
	for _, m := range s.log {
		if method == "" || m.Method == method {
			out = append(out, m)
		}
	}
	return out
}

// methods returns the methods in the order in which they were read.
func (s *server) methods() []string {
	var out []string
	for _, m := range s.received("") {
		out = append(out, m.Method)
	}
	return out
}

// await waits until the server has read n messages of a method.
func (s *server) await(method string, n int) []*rpc.Message {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		more := s.more
		s.mu.Unlock()
		if got := s.received(method); len(got) >= n {
			return got
		}
		select {
		case <-more:
		case <-deadline:
			s.t.Fatalf("the server got %d %s, want %d; all it got: %v", len(s.received(method)), method, n, s.methods())
		}
	}
}

// eventually waits for a condition that nothing announces.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// request parses a client's request.
func request(t testing.TB, text string) *rpc.Message {
	t.Helper()
	m, err := rpc.Parse(rpc.FromClient, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// callOf is a client's tools/call.
func callOf(t testing.TB, tool, arguments string) *rpc.Message {
	t.Helper()
	return request(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments))
}

func text(t testing.TB, m *rpc.Message) string {
	t.Helper()
	b, err := m.Payload().Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
