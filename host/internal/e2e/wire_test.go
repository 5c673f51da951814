//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// callLimit bounds one request of a test. A first call may start four servers and a browser.
const callLimit = 90 * time.Second

// message is one JSON-RPC message as it came, and its envelope.
type message struct {
	raw    []byte
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func parse(t testing.TB, raw []byte) message {
	t.Helper()
	m := message{raw: bytes.Clone(raw)}
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Errorf("no JSON-RPC message: %v: %.200s", err, raw)
	}
	return m
}

// reply is an answer, and the notifications that came on its own stream before
// it (over stdio: that carry its progress token).
type reply struct {
	message
	notes []message
}

// client is a plain JSON-RPC writer that declares no capabilities.
type client interface {
	// request sends one request; the token of its progress is its id.
	request(t testing.TB, method, params string) reply
	notify(t testing.TB, method, params string)
	// heard returns the notifications so far that belong to no single request.
	heard() []message
	close(t testing.TB)
}

const initialize = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"e2e","version":"1.0.0"}}`

// open does the handshake. The test's end closes the client if it did not.
func open(t testing.TB, c client) client {
	t.Helper()
	t.Cleanup(func() { c.close(t) })
	r := c.request(t, "initialize", initialize)
	if r.Error != nil {
		t.Fatalf("initialize: %s", r.Error)
	}
	c.notify(t, "notifications/initialized", "")
	return c
}

func envelope(id int, method, params string) string {
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

// box holds what no single request waits for.
type box struct {
	mu    sync.Mutex
	notes []message
}

func (b *box) put(m message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes = append(b.notes, m)
}

func (b *box) heard() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]message(nil), b.notes...)
}

// stdioClient talks to a command over its standard streams.
type stdioClient struct {
	box
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{}
	once  sync.Once

	mu      sync.Mutex
	lastID  int
	pending map[string]*pending
}

type pending struct {
	notes []message
	done  chan reply
}

// startStdio starts cmd and reads what it says until it ends.
func startStdio(t testing.TB, cmd *exec.Cmd) *stdioClient {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c := &stdioClient{cmd: cmd, in: in, ended: make(chan struct{}), pending: map[string]*pending{}}
	start(t, cmd)
	go func() {
		defer close(c.ended)
		for lines := bufio.NewReaderSize(out, 1<<20); ; {
			line, err := lines.ReadBytes('\n')
			if line = bytes.TrimSpace(line); len(line) > 0 {
				c.take(t, parse(t, line))
			}
			if err != nil {
				return
			}
		}
	}()
	return c
}

func (c *stdioClient) take(t testing.TB, m message) {
	switch {
	case m.Method != "" && m.ID != nil: // a request from the server; we declared nothing
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		if m.Method == "ping" {
			answer = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		}
		c.write(t, answer)
	case m.Method != "":
		c.mu.Lock()
		p := c.pending[progressToken(m)]
		if p != nil {
			p.notes = append(p.notes, m)
		}
		c.mu.Unlock()
		if p == nil {
			c.put(m)
		}
	default:
		c.mu.Lock()
		p := c.pending[string(m.ID)]
		delete(c.pending, string(m.ID))
		c.mu.Unlock()
		if p == nil {
			t.Errorf("an answer nobody waits for: %.200s", m.raw)
			return
		}
		p.done <- reply{m, p.notes}
	}
}

func progressToken(m message) string {
	var p struct {
		ProgressToken json.RawMessage `json:"progressToken"`
	}
	if m.Method != "notifications/progress" || json.Unmarshal(m.Params, &p) != nil {
		return ""
	}
	return string(p.ProgressToken)
}

func (c *stdioClient) write(t testing.TB, line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		t.Errorf("write to %s: %v", c.cmd.Path, err)
	}
}

func (c *stdioClient) request(t testing.TB, method, params string) reply {
	t.Helper()
	c.mu.Lock()
	c.lastID++
	id := c.lastID
	p := &pending{done: make(chan reply, 1)}
	c.pending[fmt.Sprint(id)] = p
	c.mu.Unlock()
	c.write(t, envelope(id, method, token(params, id)))
	select {
	case r := <-p.done:
		return r
	case <-c.ended:
		select {
		case r := <-p.done: // the last thing it said
			return r
		default:
		}
		t.Fatalf("%s: the server's output ended before the answer", method)
	case <-time.After(callLimit):
		t.Fatalf("%s: no answer within %v", method, callLimit)
	}
	return reply{}
}

func (c *stdioClient) notify(t testing.TB, method, params string) {
	c.write(t, envelope(0, method, params))
}

// close ends the input, which ends a well-behaved server, and waits for it.
func (c *stdioClient) close(t testing.TB) {
	t.Helper()
	c.once.Do(func() {
		_ = c.in.Close()
		select {
		case <-c.ended:
		case <-time.After(stopLimit):
			t.Errorf("%s still runs %v after the end of its input", c.cmd.Path, stopLimit)
			_ = c.cmd.Process.Signal(syscall.SIGKILL)
			<-c.ended
		}
		if err := c.cmd.Wait(); err != nil {
			t.Errorf("%s ended with %v", c.cmd.Path, err)
		}
	})
}

// token puts the request's progress token in where params ask for one with TOKEN.
func token(params string, id int) string {
	return strings.ReplaceAll(params, `"TOKEN"`, fmt.Sprint(id))
}

// httpClient is a session over streamable HTTP, with its GET stream open.
type httpClient struct {
	box
	url, bearer string
	http        *http.Client
	ctx         context.Context
	cancel      context.CancelFunc
	listening   sync.WaitGroup
	once        sync.Once

	mu      sync.Mutex
	lastID  int
	session string
}

func dialHTTP(url, bearer string) *httpClient {
	ctx, cancel := context.WithCancel(context.Background())
	return &httpClient{url: url, bearer: bearer, http: &http.Client{Transport: &http.Transport{}}, ctx: ctx, cancel: cancel}
}

func (c *httpClient) do(ctx context.Context, method, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.bearer)
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodGet {
		req.Header.Set("Accept", "text/event-stream")
	}
	req.Header.Set("Content-Type", "application/json")
	c.mu.Lock()
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	c.mu.Unlock()
	return c.http.Do(req)
}

func (c *httpClient) request(t testing.TB, method, params string) reply {
	t.Helper()
	c.mu.Lock()
	c.lastID++
	id := c.lastID
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.ctx, callLimit)
	defer cancel()
	res, err := c.do(ctx, http.MethodPost, envelope(id, method, token(params, id)))
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		t.Fatalf("%s: HTTP %s: %s", method, res.Status, body)
	}
	if s := res.Header.Get("Mcp-Session-Id"); s != "" && method == "initialize" {
		c.mu.Lock()
		c.session = s
		c.mu.Unlock()
	}
	var got reply
	err = messages(res, func(raw []byte) {
		m := parse(t, raw)
		if m.Method != "" {
			got.notes = append(got.notes, m)
			return
		}
		if string(m.ID) != fmt.Sprint(id) || got.raw != nil {
			t.Errorf("%s %d: unexpected answer %.200s", method, id, raw)
		}
		got.message = m
	})
	if err != nil || got.raw == nil {
		t.Fatalf("%s: the response ended without an answer: %v", method, err)
	}
	return got
}

// messages calls f with each message of a response, JSON or event stream.
func messages(res *http.Response, f func([]byte)) error {
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		body, err := io.ReadAll(res.Body)
		if err == nil {
			f(body)
		}
		return err
	}
	var data []byte
	for lines := bufio.NewReaderSize(res.Body, 1<<20); ; {
		line, err := lines.ReadBytes('\n')
		line = bytes.TrimRight(line, "\r\n")
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(data, bytes.TrimPrefix(rest, []byte(" "))...)
		} else if len(line) == 0 && len(data) > 0 {
			f(data)
			data = data[:0]
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *httpClient) notify(t testing.TB, method, params string) {
	t.Helper()
	res, err := c.do(c.ctx, http.MethodPost, envelope(0, method, params))
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		t.Errorf("%s: HTTP %s, want 202", method, res.Status)
	}
	if method == "notifications/initialized" {
		c.listen(t)
	}
}

// listen opens the GET stream and returns once the host has accepted it.
func (c *httpClient) listen(t testing.TB) {
	t.Helper()
	res, err := c.do(c.ctx, http.MethodGet, "")
	if err != nil {
		t.Fatalf("GET: %v", err)
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		t.Fatalf("GET: HTTP %s", res.Status)
	}
	c.listening.Go(func() {
		defer res.Body.Close()
		// It ends when the client closes, which shows as an error.
		_ = messages(res, func(raw []byte) { c.put(parse(t, raw)) })
	})
}

// close ends the session as a client should, and its streams.
func (c *httpClient) close(t testing.TB) {
	t.Helper()
	c.once.Do(func() {
		res, err := c.do(c.ctx, http.MethodDelete, "")
		if err != nil {
			t.Errorf("DELETE: %v", err)
		} else {
			res.Body.Close()
		}
		c.cancel()
		c.listening.Wait()
		c.http.CloseIdleConnections()
	})
}
