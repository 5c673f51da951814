package hosttest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// HTTP is a client with a session over streamable HTTP, its GET stream open.
type HTTP struct {
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
	version string
}

// DialHTTP makes a client of a URL; bearer "" sends no token. It connects with
// its first request.
func DialHTTP(url, bearer string) *HTTP { return DialVia(&http.Transport{}, url, bearer) }

// DialVia is DialHTTP with a transport of the test's own.
func DialVia(via *http.Transport, url, bearer string) *HTTP {
	ctx, cancel := context.WithCancel(context.Background())
	return &HTTP{url: url, bearer: bearer, http: &http.Client{Transport: via}, ctx: ctx, cancel: cancel}
}

// Bearer replaces the token that the client sends.
func (c *HTTP) Bearer(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bearer = token
}

// Do sends one HTTP request of the session, as far as it has begun. The caller
// closes the response's body.
func (c *HTTP) Do(ctx context.Context, method, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodGet {
		req.Header.Set("Accept", "text/event-stream")
	}
	req.Header.Set("Content-Type", "application/json")
	c.mu.Lock()
	if c.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("Mcp-Protocol-Version", c.version)
	}
	c.mu.Unlock()
	return c.http.Do(req)
}

func (c *HTTP) nextID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	return c.lastID
}

// Request implements Client.
func (c *HTTP) Request(t testing.TB, method, params string) Reply {
	t.Helper()
	id := c.nextID()
	r, status := c.send(t, method, Envelope(id, method, token(params, id)))
	if status != http.StatusOK {
		t.Errorf("%s: HTTP %d: %s", method, status, r.Raw)
	}
	if r.Method == "" && r.ID != nil && string(r.ID) != fmt.Sprint(id) {
		t.Errorf("%s %d: answered as %s", method, id, r.ID)
	}
	return r
}

// Raw posts a body that holds the text $ID where the request's id belongs, and
// returns the answer and the status it came with.
func (c *HTTP) Raw(t testing.TB, body string) (Reply, int) {
	t.Helper()
	return c.send(t, body, withID(body, c.nextID()))
}

// withID puts a request's id in where text says $ID.
func withID(text string, id int) string { return strings.ReplaceAll(text, "$ID", fmt.Sprint(id)) }

func (c *HTTP) send(t testing.TB, what, body string) (Reply, int) {
	t.Helper()
	failed := Reply{Message: Message{Error: json.RawMessage(`"no answer"`)}}
	ctx, cancel := context.WithTimeout(c.ctx, CallLimit)
	defer cancel()
	res, err := c.Do(ctx, http.MethodPost, body)
	if err != nil {
		t.Errorf("%.80s: %v", what, err)
		return failed, 0
	}
	defer res.Body.Close()
	var got Reply
	err = messages(res, func(raw []byte) {
		m := Message{Raw: bytes.Clone(raw)}
		// An HTTP error may be plain text.
		if err := json.Unmarshal(raw, &m); err != nil && res.StatusCode == http.StatusOK {
			t.Errorf("no JSON-RPC message: %v: %.200s", err, raw)
		}
		if m.Method != "" {
			got.Notes = append(got.Notes, m)
			return
		}
		if got.Raw != nil {
			t.Errorf("%.80s: a second answer: %.200s", what, raw)
		}
		got.Message = m
	})
	if err != nil || got.Raw == nil {
		t.Errorf("%.80s: the response ended without an answer: %v", what, err)
		return failed, res.StatusCode
	}
	if s := res.Header.Get("Mcp-Session-Id"); s != "" && what == "initialize" {
		c.begun(s, got.Result)
	}
	return got, res.StatusCode
}

// begun notes the session that an answer to initialize opened.
func (c *HTTP) begun(session string, result json.RawMessage) {
	var r struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	_ = json.Unmarshal(result, &r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session, c.version = session, r.ProtocolVersion
}

// Session is the session's id, "" before initialize.
func (c *HTTP) Session() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
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

// Notify implements Client. After notifications/initialized it opens the GET stream.
func (c *HTTP) Notify(t testing.TB, method, params string) {
	t.Helper()
	res, err := c.Do(c.ctx, http.MethodPost, Envelope(0, method, params))
	if err != nil {
		t.Errorf("%s: %v", method, err)
		return
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
func (c *HTTP) listen(t testing.TB) {
	t.Helper()
	res, err := c.Do(c.ctx, http.MethodGet, "")
	if err != nil {
		t.Errorf("GET: %v", err)
		return
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		t.Errorf("GET: HTTP %s", res.Status)
		return
	}
	c.listening.Go(func() {
		defer res.Body.Close()
		// It ends when the client closes, which shows as an error.
		_ = messages(res, func(raw []byte) { c.put(parse(t, raw)) })
	})
}

// Close ends the session as a client should, and its streams.
func (c *HTTP) Close(t testing.TB) {
	t.Helper()
	c.once.Do(func() {
		if res, err := c.Do(c.ctx, http.MethodDelete, ""); err != nil {
			t.Errorf("DELETE: %v", err)
		} else {
			_ = res.Body.Close()
		}
		c.drop()
	})
}

// Abandon ends the streams and nothing else: its host has ended, or shall not hear
// that the client has.
func (c *HTTP) Abandon() { c.once.Do(c.drop) }

func (c *HTTP) drop() {
	c.cancel()
	c.listening.Wait()
	c.http.CloseIdleConnections()
}
