package fakeserver

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Headers of streamable HTTP (MCP 2025-11-25 and 2026-07-28, basic/transports).
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
)

// face is FH: the server over streamable HTTP.
type face struct {
	*server
	mu       sync.Mutex
	sessions map[string]*httpSession
	// stateless is the session of all requests of 2026-07-28, which has none.
	stateless *session
}

// httpSession is a session and its GET stream; what is said while there is none
// waits for the next.
type httpSession struct {
	*session
	mu      sync.Mutex
	get     func(line string)
	waiting []string
}

func (s *server) serveHTTP() int {
	listener, err := net.Listen("tcp", s.opt.http)
	if err != nil {
		s.log.add(DirNote, "address in use")
		return exitTaken
	}
	f := &face{server: s, sessions: map[string]*httpSession{}}
	f.stateless = s.newSession(func(string) {})
	s.log.add(DirListen, "http://"+listener.Addr().String()+"/mcp")
	if !s.opt.ignoreEOF {
		// A parent that dies takes the server with it, as over stdio. A server
		// whose stdin is /dev/null sees its end at once and is meant to stay.
		go f.endWithStdin()
	}
	server := &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}
	if err := server.Serve(listener); err != nil {
		s.log.add(DirNote, err.Error())
	}
	return 1
}

func (f *face) endWithStdin() {
	if info, err := os.Stdin.Stat(); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	f.log.add(DirEOF, "")
	os.Exit(0)
}

func (f *face) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o := f.opt
	f.log.addHeader(DirHTTP, r.Method+" "+r.URL.Path, r.Header)
	age := time.Since(f.started)
	switch {
	case age < o.http503:
		http.Error(w, "not yet", http.StatusServiceUnavailable)
		return
	case age < o.http503+o.httpHang:
		time.Sleep(o.httpHang)
	}
	switch {
	case o.http401:
		w.Header().Set("WWW-Authenticate", `Bearer realm="fake"`)
		http.Error(w, "unauthorized", http.StatusUnauthorized)
	case o.httpOldOnly && r.Header.Get(headerVersion) > "2025-06-18":
		http.Error(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Unsupported protocol version (supported versions: 2025-06-18, 2025-03-26, 2024-11-05)"}}`,
			http.StatusBadRequest)
	case r.Method == http.MethodPost:
		f.post(w, r)
	case r.Method == http.MethodGet:
		f.get(w, r)
	case r.Method == http.MethodDelete:
		f.delete(w, r)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// session finds the session a request names, or answers the request.
func (f *face) session(w http.ResponseWriter, r *http.Request) *httpSession {
	id := r.Header.Get(headerSession)
	if id == "" || f.opt.httpStrict && r.Header.Get(headerVersion) == "" {
		http.Error(w, "session id and protocol version needed", http.StatusBadRequest)
		return nil
	}
	f.mu.Lock()
	h := f.sessions[id]
	f.mu.Unlock()
	if h != nil {
		f.server.mu.Lock()
		alive := f.server.sessions[h.session]
		f.server.mu.Unlock()
		if alive {
			return h
		}
	}
	http.Error(w, "no such session", http.StatusNotFound)
	return nil
}

func (f *face) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.log.add(DirIn, string(body))
	var m Message
	if err := json.Unmarshal(body, &m); err != nil {
		http.Error(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`, http.StatusBadRequest)
		return
	}
	var n *session
	modern := (f.opt.modern || f.opt.dual) && r.Header.Get(headerVersion) >= modernVersion
	switch {
	case modern:
		if got := r.Header.Get(headerMethod); got != "" && got != m.Method {
			http.Error(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"header mismatch"}}`, m.ID), http.StatusBadRequest)
			return
		}
		n = f.stateless
	case m.Method == "initialize" || m.Method == "server/discover":
		h := f.open()
		n = h.session
		if m.Method == "initialize" && !f.opt.modern {
			id := rand.Text()
			w.Header().Set(headerSession, id)
			f.mu.Lock()
			f.sessions[id] = h
			f.mu.Unlock()
		}
	default:
		h := f.session(w, r)
		if h == nil {
			return
		}
		n = h.session
	}
	if m.ID == nil || m.Method == "" {
		n.handle(body, stream{write: func(string) {}, done: func() {}})
		w.WriteHeader(http.StatusAccepted)
		return
	}
	f.answer(w, r, n, m, body, modern)
}

// open makes a session whose unrelated messages go to its GET stream.
func (f *face) open() *httpSession {
	h := &httpSession{}
	h.session = f.newSession(func(line string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.get == nil {
			h.waiting = append(h.waiting, line)
			return
		}
		h.get(line)
	})
	return h
}

// answer runs a request and waits for the end of its stream.
func (f *face) answer(w http.ResponseWriter, r *http.Request, n *session, m Message, body []byte, modern bool) {
	reply := &reply{w: w, sse: f.opt.httpSSE}
	finished := make(chan struct{})
	dropped := make(chan struct{})
	n.handle(body, stream{
		write: reply.line,
		done:  func() { close(finished) },
		drop:  func() { close(dropped) },
	})
	select {
	case <-finished:
		if reply.finish() {
			return
		}
		<-r.Context().Done() // a server that does not answer
	case <-dropped:
		panic(http.ErrAbortHandler) // net/http's way to close the connection
	case <-r.Context().Done():
		f.log.add(DirNote, "disconnected "+string(m.ID))
		reply.close()
		if modern {
			// Over HTTP a client of this revision cancels by closing the stream.
			n.cancel(m.ID)
		}
	}
}

func (n *session) cancel(id json.RawMessage) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if cancel := n.running[string(id)]; cancel != nil {
		cancel()
	}
}

func (f *face) get(w http.ResponseWriter, r *http.Request) {
	if f.opt.modern {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	h := f.session(w, r)
	if h == nil {
		return
	}
	reply := &reply{w: w}
	reply.start()
	h.mu.Lock()
	h.get = reply.line
	for _, line := range h.waiting {
		reply.line(line)
	}
	h.waiting = nil
	h.mu.Unlock()
	<-r.Context().Done()
	h.mu.Lock()
	h.get = nil
	h.mu.Unlock()
	reply.close()
}

func (f *face) delete(w http.ResponseWriter, r *http.Request) {
	h := f.session(w, r)
	if h == nil {
		return
	}
	f.endSession(h.session)
	f.mu.Lock()
	delete(f.sessions, r.Header.Get(headerSession))
	f.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// reply is the body of one answer: plain JSON if all there is to say is one
// response, else an event stream.
type reply struct {
	mu     sync.Mutex
	w      http.ResponseWriter
	sse    bool
	begun  bool
	closed bool
	held   string
}

func (p *reply) line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	var m Message
	_ = json.Unmarshal([]byte(text), &m)
	if !p.sse && m.Method == "" && p.held == "" {
		p.held = text
		return
	}
	p.sse = true
	if held := p.held; held != "" {
		p.held = ""
		p.event(held)
	}
	p.event(text)
}

func (p *reply) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sse = true
	p.begin()
}

func (p *reply) begin() {
	if p.begun {
		return
	}
	p.begun = true
	p.w.Header().Set("Content-Type", "text/event-stream")
	p.w.Header().Set("Cache-Control", "no-store")
	p.w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(p.w).Flush()
}

func (p *reply) event(text string) {
	p.begin()
	_, _ = io.WriteString(p.w, "event: message\ndata: "+text+"\n\n")
	_ = http.NewResponseController(p.w).Flush()
}

// finish ends the body; false if nothing was said at all.
func (p *reply) finish() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = p.begun || p.held != ""
	if p.held != "" {
		p.w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(p.w, p.held)
	}
	return p.closed
}

// close makes what a handler still writes go nowhere: the ResponseWriter is
// dead once ServeHTTP has returned.
func (p *reply) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}
