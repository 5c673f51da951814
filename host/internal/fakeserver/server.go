package fakeserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// server is the process: what all of its sessions share.
type server struct {
	opt     options
	log     *logger
	started time.Time
	calls   atomic.Int64

	mu       sync.Mutex
	added    []string // names of tools added at run time
	sessions map[*session]bool
}

func newServer(o options, log *logger) *server {
	return &server{opt: o, log: log, started: time.Now(), sessions: map[*session]bool{}}
}

// session is one MCP session: over stdio the only one.
type session struct {
	srv *server
	// out is where messages go that belong to no request.
	out   func(line string)
	heard atomic.Int64 // unix nanoseconds of the client's last word

	mu         sync.Mutex
	counter    int64
	nextID     int
	discovered bool
	level      string
	pending    map[string]chan Message       // our requests to the client, by id
	running    map[string]context.CancelFunc // the client's requests, by id
	listens    map[string]func(line string)  // subscriptions/listen streams, by id
}

func (s *server) newSession(out func(string)) *session {
	n := &session{
		srv: s, out: out,
		pending: map[string]chan Message{}, running: map[string]context.CancelFunc{},
		listens: map[string]func(string){},
	}
	n.heard.Store(time.Now().UnixNano())
	s.mu.Lock()
	s.sessions[n] = true
	s.mu.Unlock()
	return n
}

func (s *server) endSession(n *session) {
	s.mu.Lock()
	delete(s.sessions, n)
	s.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, cancel := range n.running {
		cancel()
	}
}

// call is one request of the client.
type call struct {
	*session
	ctx    context.Context
	id     json.RawMessage
	method string
	params json.RawMessage
	// name, args and token are those of a tool call.
	name        string
	args, token json.RawMessage
	meta        map[string]json.RawMessage
	modern      bool
	// write sends on the request's own stream.
	write func(line string)
	// drop ends the connection without an answer; nil over stdio.
	drop func()
}

// stream is where the answer to a message goes.
type stream struct {
	write func(line string)
	// done is called once nothing more will be written for the message.
	done func()
	// drop ends the connection without an answer; nil over stdio.
	drop func()
}

// handle takes one message. Requests run on goroutines of their own, but for
// the methods in inline.
func (n *session) handle(raw []byte, to stream) {
	n.heard.Store(time.Now().UnixNano())
	m, p, err := readMessage(raw)
	if err != nil {
		to.write(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`)
		to.done()
		return
	}
	switch {
	case n.srv.opt.mute:
		to.done()
	case m.Method == "" && m.ID != nil:
		n.reply(m)
		to.done()
	case m.ID == nil:
		n.notification(m)
		to.done()
	default:
		n.request(m, p, to)
	}
}

// reply hands the client's answer to whoever asked.
func (n *session) reply(m Message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if waiting := n.pending[string(m.ID)]; waiting != nil {
		delete(n.pending, string(m.ID))
		waiting <- m
	}
}

func (n *session) notification(m Message) {
	switch m.Method {
	case "notifications/cancelled":
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		_ = json.Unmarshal(m.Params, &p)
		n.cancel(p.RequestID)
	case "notifications/initialized":
		if n.srv.opt.askRoots {
			go func() { _, _ = n.ask(context.Background(), n.out, "roots/list", "{}") }()
		}
		if n.srv.opt.pingEvery > 0 {
			go n.pings()
		}
	}
}

// pings checks on the client, and ends the session when it says nothing.
func (n *session) pings() {
	o := n.srv.opt
	for range time.Tick(o.pingEvery) {
		go func() { _, _ = n.ask(context.Background(), n.out, "ping", "") }()
		silence := time.Since(time.Unix(0, n.heard.Load()))
		if o.dropAfter > 0 && silence > o.dropAfter {
			n.srv.log.add(DirNote, "dropped")
			n.srv.endSession(n)
			if o.http == "" {
				os.Exit(0)
			}
			return
		}
	}
}

// ask sends a request to the client and waits for its answer.
func (n *session) ask(ctx context.Context, write func(string), method, params string) (Message, error) {
	select {
	case m := <-n.send(write, method, params):
		return m, nil
	case <-ctx.Done():
		return Message{}, ctx.Err()
	}
}

// send sends a request to the client; its answer comes later.
func (n *session) send(write func(string), method, params string) <-chan Message {
	n.mu.Lock()
	n.nextID++
	id := strconv.Quote("fs-" + strconv.Itoa(n.nextID))
	answer := make(chan Message, 1)
	n.pending[id] = answer
	n.mu.Unlock()
	if params != "" {
		params = `,"params":` + params
	}
	write(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `"` + params + `}`)
	return answer
}

func (n *session) request(m Message, p callParams, to stream) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &call{session: n, ctx: ctx, id: m.ID, method: m.Method, params: m.Params, write: to.write, drop: to.drop}
	c.name, c.args, c.meta, c.token = p.Name, p.Args, p.Meta, p.Meta["progressToken"]
	n.mu.Lock()
	n.running[string(m.ID)] = cancel
	n.mu.Unlock()
	handler := methods[m.Method]
	if handler == nil {
		handler = func(c *call) { c.fail(-32601, "unknown method "+c.method, "") }
	}
	run := func() {
		defer to.done()
		if c.era() {
			handler(c)
		}
		n.mu.Lock()
		delete(n.running, string(m.ID))
		n.mu.Unlock()
		cancel()
	}
	if inline[m.Method] {
		run()
		return
	}
	go run()
}

// inline are the methods that are answered at once, in the order they came.
var inline = map[string]bool{"ping": true, "logging/setLevel": true}

// methods is what the server understands.
var methods map[string]func(*call)

func init() {
	methods = map[string]func(*call){
		"initialize":               (*call).initialize,
		"server/discover":          (*call).discover,
		"ping":                     func(c *call) { c.result(`{}`) },
		"logging/setLevel":         (*call).setLevel,
		"subscriptions/listen":     (*call).listen,
		"tools/list":               (*call).listTools,
		"tools/call":               (*call).callTool,
		"resources/list":           (*call).listResources,
		"resources/templates/list": (*call).listTemplates,
		"resources/read":           (*call).readResource,
		"prompts/list":             (*call).listPrompts,
		"prompts/get":              (*call).getPrompt,
	}
}

// result answers the request with a raw result object.
func (c *call) result(object string) {
	if c.modern {
		meta := `"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":` + serverInfo + `}`
		if strings.Contains(object, `"_meta"`) || strings.Contains(object, `"resultType"`) {
			meta = `"resultType":"complete"`
			if strings.Contains(object, `"resultType"`) {
				meta = ""
			}
		}
		if meta != "" {
			object = strings.TrimSpace(object)
			if object != "{}" {
				meta += ","
			}
			object = "{" + meta + object[1:]
		}
	}
	c.answer(`{"jsonrpc":"2.0","id":` + string(c.id) + `,"result":` + object + `}`)
}

// fail answers the request with an error; data is raw JSON or empty.
func (c *call) fail(code int, message, data string) {
	if data != "" {
		data = `,"data":` + data
	}
	c.answer(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s%s}}`, c.id, code, quote(message), data))
}

func (c *call) answer(line string) {
	if n := c.srv.opt.stderrFlood; n > 0 {
		_, _ = os.Stderr.Write(bytes.Repeat([]byte("x"), n))
	}
	c.write(line)
}

// notify sends a notification on the request's stream.
func (c *call) notify(method, params string) {
	c.write(notification(method, params))
}

func notification(method, params string) string {
	if params != "" {
		params = `,"params":` + params
	}
	return `{"jsonrpc":"2.0","method":"` + method + `"` + params + `}`
}

// broadcast sends a notification that belongs to no request to every session:
// to its listen streams where it has any, with their tag.
func (s *server) broadcast(method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.sessions {
		n.mu.Lock()
		listens := len(n.listens)
		for id, write := range n.listens {
			write(notification(method, `{"_meta":{"io.modelcontextprotocol/subscriptionId":`+id+`}}`))
		}
		n.mu.Unlock()
		if listens == 0 && !s.opt.modern {
			n.out(notification(method, ""))
		}
	}
}

// quote is text as a JSON string, with nothing escaped that need not be.
func quote(text string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text)
	return strings.TrimSuffix(b.String(), "\n")
}
