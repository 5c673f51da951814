package front

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// pipeClient is a raw client on stdio.
type pipeClient struct {
	t     testing.TB
	in    *os.File // what the server reads
	lines chan message
	done  chan error // ServeStdio's
}

func connect(t testing.TB, s *Server) *pipeClient {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := &pipeClient{t: t, in: inW, lines: make(chan message, 4096), done: make(chan error, 1)}
	var all sync.WaitGroup
	all.Go(func() {
		c.done <- s.ServeStdio(context.Background(), inR, outW)
		_, _ = inR.Close(), outW.Close()
	})
	all.Go(func() {
		defer close(c.lines)
		r := bufio.NewReaderSize(outR, 1<<20)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				if len(line) > 0 {
					t.Errorf("half a line: %.200q", line)
				}
				return
			}
			c.lines <- parse(t, line)
		}
	})
	t.Cleanup(func() {
		_ = inW.Close()
		for range c.lines { // unread
		}
		all.Wait()
		_ = outR.Close()
	})
	return c
}

func (c *pipeClient) send(lines ...string) {
	c.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(c.in, l+"\n"); err != nil {
			c.t.Fatal(err)
		}
	}
}

// next returns the next message of the server.
func (c *pipeClient) next() message {
	c.t.Helper()
	select {
	case m, ok := <-c.lines:
		if !ok {
			c.t.Fatal("the server's output has ended")
		}
		return m
	case <-time.After(patience):
		c.t.Fatal("no message in time")
	}
	return message{}
}

// ask sends a request and returns its answer, which must be what comes next.
func (c *pipeClient) ask(line string) message {
	c.t.Helper()
	c.send(line)
	return c.next()
}

func (c *pipeClient) initialize(version string) message {
	c.t.Helper()
	m := c.ask(initializeLine(version))
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return m
}

func initializeLine(version string) string {
	return `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"raw","version":"0"}}}`
}

// site is a server on HTTP.
type site struct {
	*httptest.Server
	t      testing.TB
	front  *Server
	client *http.Client
}

const testToken = "secret"

func newSite(t testing.TB, s *Server, adjust ...func(*HTTPOptions)) *site {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	opts := HTTPOptions{Listen: srv.Listener.Addr().String(), Gate: newFakeGate()}
	for _, f := range adjust {
		f(&opts)
	}
	srv.Config = HTTPServer(s.Handler(opts), slog.New(slog.DiscardHandler))
	srv.Start()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		s.Close(ctx) // ends the streams that Close of srv would wait for
		srv.Close()
	})
	return &site{Server: srv, t: t, front: s, client: &http.Client{Transport: transport}}
}

// response is an HTTP response, read whole.
type response struct {
	*http.Response
	body   []byte
	events []message // of a stream
}

// headers are alternating keys and values; an empty value takes one out.
func (s *site) request(ctx context.Context, method, body string, headers ...string) *http.Request {
	s.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+"/mcp", r)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		if key, value := headers[i], headers[i+1]; value == "" {
			req.Header.Del(key)
		} else if key == "Host" {
			req.Host = value
		} else {
			req.Header.Set(key, value)
		}
	}
	return req
}

func (s *site) do(method, body string, headers ...string) response {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := s.client.Do(s.request(ctx, method, body, headers...))
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	out := response{Response: res, body: text}
	if res.Header.Get("Content-Type") == "text/event-stream" {
		for event := range bytes.SplitSeq(text, []byte("\n\n")) {
			if _, data, ok := bytes.Cut(event, []byte("data: ")); ok {
				out.events = append(out.events, parse(s.t, data))
			}
		}
	}
	return out
}

func (s *site) post(body string, headers ...string) response {
	s.t.Helper()
	return s.do(http.MethodPost, body, headers...)
}

// last is the answer of a POST, whatever form it came in.
func (r response) last(t testing.TB) message {
	t.Helper()
	if len(r.events) > 0 {
		return r.events[len(r.events)-1]
	}
	return parse(t, r.body)
}

// open initializes a session and returns its id.
func (s *site) open(headers ...string) string {
	s.t.Helper()
	res := s.post(initializeLine("2025-11-25"), headers...)
	id := res.Header.Get("Mcp-Session-Id")
	if res.StatusCode != http.StatusOK || id == "" {
		s.t.Fatalf("initialize: %d, session %q: %s", res.StatusCode, id, res.body)
	}
	return id
}

// stream is an open stream of events.
type stream struct {
	t      testing.TB
	events chan message
	cancel context.CancelFunc
	status int
	header http.Header
	ended  chan struct{}
}

// listen opens a stream and reads it until it ends or close is called.
func (s *site) listen(method, body string, headers ...string) *stream {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	res, err := s.client.Do(s.request(ctx, method, body, headers...))
	if err != nil {
		cancel()
		s.t.Fatal(err)
	}
	out := &stream{t: s.t, events: make(chan message, 64), cancel: cancel, status: res.StatusCode, header: res.Header, ended: make(chan struct{})}
	go func() {
		defer close(out.ended)
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok {
				out.events <- parse(s.t, bytes.Clone(data))
			}
		}
	}()
	s.t.Cleanup(out.close)
	return out
}

func (s *stream) next() message {
	s.t.Helper()
	select {
	case m := <-s.events:
		return m
	case <-time.After(patience):
		s.t.Fatal("no event in time")
	}
	return message{}
}

func (s *stream) none() {
	s.t.Helper()
	select {
	case m := <-s.events:
		s.t.Fatalf("unexpected event %s", m.text)
	default:
	}
}

func (s *stream) close() {
	s.cancel()
	<-s.ended
}
