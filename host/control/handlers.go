package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// The paths of version 1. A host and a command of different releases meet here.
const (
	pathStatus  = "/v1/status"
	pathTools   = "/v1/tools" // ?project=NAME
	pathCall    = "/v1/call"
	pathRestart = "/v1/restart/" // and the provider
	pathLogs    = "/v1/logs/"    // and the provider; ?lines=N&follow=true
	pathAttach  = "/v1/connect"  // ?project=NAME&resumed=true; then the connection is the client's
)

// defaultLines is how much of a log is given where nobody says.
const defaultLines = 100

// pieceSize is in what pieces a result is written.
const pieceSize = 256 << 10

// failure is the body of every answer but 200.
type failure struct {
	Error string `json:"error"`
}

// maxFailure bounds what a client reads of one: a *supervise.Failure has a few KiB.
const maxFailure = 1 << 20

func (c *Control) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathStatus, func(w http.ResponseWriter, _ *http.Request) { answer(w, c.Status()) })
	mux.HandleFunc("GET "+pathTools, c.serveTools)
	mux.HandleFunc("POST "+pathCall, c.serveCall)
	mux.HandleFunc("POST "+pathRestart+"{provider}", c.serveRestart)
	mux.HandleFunc("GET "+pathLogs+"{provider}", c.serveLogs)
	mux.HandleFunc("POST "+pathAttach, c.serveAttach)
	return mux
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // who asked may be gone
}

// refuse answers with an error: 404 for what there is not, 400 and 413 for a wrong
// request, 503 for a provider that does not start.
func (c *Control) refuse(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, ErrNoProvider), errors.Is(err, ErrNoTool), errors.Is(err, fs.ErrNotExist):
		status = http.StatusNotFound
	case errors.Is(err, ErrArguments), errors.Is(err, ErrProject):
		status = http.StatusBadRequest
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(failure{Error: c.opts.Redact(err.Error())})
}

func (c *Control) serveTools(w http.ResponseWriter, r *http.Request) {
	list, err := c.Tools(r.Context(), r.URL.Query().Get("project"))
	if err != nil {
		c.refuse(w, err)
		return
	}
	answer(w, list)
}

// named is the provider in the path; false where the answer was given.
func (c *Control) named(w http.ResponseWriter, r *http.Request) (Provider, bool) {
	slug := r.PathValue("provider")
	p, ok := c.provider(slug)
	if !ok {
		c.refuse(w, fmt.Errorf("%w %q in %s", ErrNoProvider, slug, c.opts.Info.Config))
	}
	return p, ok
}

func (c *Control) serveRestart(w http.ResponseWriter, r *http.Request) {
	p, ok := c.named(w, r)
	if !ok {
		return
	}
	if err := c.opts.Sessions.Restart(r.Context(), p.Slug); err != nil {
		c.refuse(w, err)
		return
	}
	status, _ := c.providerStatus(p)
	answer(w, status)
}

func (c *Control) serveCall(w http.ResponseWriter, r *http.Request) {
	var req CallRequest
	body := r.Body
	if c.opts.MaxRequest > 0 {
		body = http.MaxBytesReader(w, body, c.opts.MaxRequest)
	}
	if err := json.NewDecoder(body).Decode(&req); err != nil {
		c.refuse(w, fmt.Errorf("%w: %w", ErrArguments, err))
		return
	}
	reply, err := c.call(r.Context(), req)
	if err != nil {
		c.refuse(w, err)
		return
	}
	if reply.Message == nil {
		text, err := json.Marshal(reply.Err)
		if err != nil {
			c.refuse(w, err)
			return
		}
		answer(w, CallReply{Outcome: reply.Outcome, Error: text})
		return
	}
	defer reply.Message.Close() //nolint:errcheck // it is written, or who asked is gone
	writeReply(w, reply.Outcome, reply.Message)
}

// writeReply writes a CallReply of a server's answer, which may be large, as it came.
func writeReply(w http.ResponseWriter, outcome broker.Outcome, m *rpc.Message) {
	name := "result"
	at, ok := m.Find(name)
	if !ok {
		name = "error"
		if at, ok = m.Find(name); !ok {
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"outcome":%q,%q:`, outcome, name)
	err := m.Section(at).Chunks(pieceSize, func(piece []byte, _ bool) error {
		_, err := w.Write(piece)
		return err
	})
	if err != nil {
		panic(http.ErrAbortHandler) // half an answer must not look like a whole one
	}
	_, _ = fmt.Fprint(w, "}\n")
}

func (c *Control) serveLogs(w http.ResponseWriter, r *http.Request) {
	p, ok := c.named(w, r)
	if !ok {
		return
	}
	lines := defaultLines
	if n, err := strconv.Atoi(r.URL.Query().Get("lines")); err == nil {
		lines = n
	}
	follow := r.URL.Query().Get("follow") == "true"
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	out := &stream{to: w, flush: http.NewResponseController(w)}
	if follow {
		_ = out.flush.Flush() // who follows hears at once that there is somebody to follow
	}
	if err := supervise.TailLog(r.Context(), c.opts.LogDir, p.Slug, lines, follow, out); err != nil && !out.begun && !follow {
		c.refuse(w, err)
	}
}

// stream passes on what is written to it at once.
type stream struct {
	to    http.ResponseWriter
	flush *http.ResponseController
	begun bool
}

func (s *stream) Write(p []byte) (int, error) {
	s.begun = true
	n, err := s.to.Write(p)
	if err == nil {
		err = s.flush.Flush()
	}
	return n, err
}
