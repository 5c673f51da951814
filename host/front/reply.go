package front

import (
	"net/http"
	"strconv"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

const (
	typeJSON   = "application/json"
	typeStream = "text/event-stream"
)

// reply is the Writer of one HTTP request. An answer that nothing came before is
// plain JSON; the first notification makes the response a stream of events.
type reply struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	// session is the one that this request opens, if it does: the answer names it.
	session *session

	status    int // of a plain answer
	streaming bool
	extended  time.Time // when the client's time to take what is written was last set
	lost      error     // the client cannot be reached any more
}

func (h *web) newReply(w http.ResponseWriter) *reply {
	return &reply{ResponseWriter: w, control: http.NewResponseController(w), timeout: h.opts.WriteTimeout, status: http.StatusOK}
}

// Write writes a piece, within the time that a client has to take it. (The
// deadline stays on the connection, so whoever writes there next sets it anew.)
func (w *reply) Write(b []byte) (int, error) {
	w.extend()
	return w.ResponseWriter.Write(b)
}

// extend gives the client its time from now. A deadline that is nearly new will do.
func (w *reply) extend() {
	now := time.Now()
	if now.Sub(w.extended) < w.timeout/8 {
		return
	}
	w.extended = now
	_ = w.control.SetWriteDeadline(now.Add(w.timeout))
}

// Notify writes an event, and starts the stream if it is the first.
func (w *reply) Notify(p rpc.Payload) error {
	if err := w.startStream(); err != nil {
		return err
	}
	return w.event(p)
}

// Answer writes the response: on the stream if there is one, else as JSON.
func (w *reply) Answer(p rpc.Payload) error {
	if w.streaming {
		return w.event(p)
	}
	return w.plain(w.status, p)
}

// Flag takes the error code that an answer to a modern client will carry. That the
// client lacks a capability, or that its headers do not fit the call, stands in the
// status too (MCP 2026-07-28, basic/index, and basic/transports/streamable-http).
func (w *reply) Flag(code string) {
	switch code {
	case strconv.Itoa(mcp.MISSING_REQUIRED_CLIENT_CAPABILITY), strconv.Itoa(mcp.HEADER_MISMATCH):
		w.status = http.StatusBadRequest
	}
}

// headerCall carries the journal's id of a call.
const headerCall = "Drawbridge-Call"

// Identify puts the journal's id of a call into the header, which nothing has gone
// out of yet.
func (w *reply) Identify(id string) { w.Header().Set(headerCall, id) }

// plain answers with JSON alone.
func (w *reply) plain(status int, p rpc.Payload) error {
	if w.lost != nil {
		return w.lost
	}
	header := w.Header()
	if w.session != nil && w.session.opened() {
		header.Set(mcp.HeaderSessionID, w.session.id)
	}
	header["Content-Type"] = []string{typeJSON}
	header["Content-Length"] = []string{strconv.FormatInt(p.Len(), 10)}
	w.extend()
	w.WriteHeader(status)
	_, w.lost = p.WriteTo(w)
	return w.lost
}

// startStream begins the response as a stream of events, unless it has begun.
func (w *reply) startStream() error {
	if w.streaming || w.lost != nil {
		return w.lost
	}
	w.streaming = true
	header := w.Header()
	header.Set("Content-Type", typeStream)
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no") // of nginx, which would hold events back
	w.extend()
	w.WriteHeader(http.StatusOK)
	return nil
}

var (
	eventHead = []byte("event: message\ndata: ")
	eventEnd  = []byte("\n\n")
	comment   = []byte(":\n\n")
)

// event writes one event whole. A payload holds no line break that could end it early.
func (w *reply) event(p rpc.Payload) error {
	if w.lost != nil {
		return w.lost
	}
	if _, w.lost = w.Write(eventHead); w.lost != nil {
		return w.lost
	}
	if _, w.lost = p.WriteTo(w); w.lost != nil {
		return w.lost
	}
	if _, w.lost = w.Write(eventEnd); w.lost != nil {
		return w.lost
	}
	return w.flush()
}

// Pulse writes a comment, which a client skips and which tells whether it is there.
func (w *reply) Pulse() error {
	if w.lost != nil {
		return w.lost
	}
	if _, w.lost = w.Write(comment); w.lost != nil {
		return w.lost
	}
	return w.flush()
}

func (w *reply) flush() error {
	w.extend()
	w.lost = w.control.Flush()
	return w.lost
}

// refuse answers with an error of no request, refuseID with one of a request.
func (w *reply) refuse(status int, err *rpc.Error) { w.refuseID(status, "", err) }

func (w *reply) refuseID(status int, id rpc.ID, err *rpc.Error) {
	_ = w.plain(status, rpc.NewFailure(id, err))
}

// text answers who has not shown that he speaks MCP.
func (w *reply) text(status int, what string) {
	w.extend()
	http.Error(w, what, status)
}

// empty answers without a body.
func (w *reply) empty(code int) {
	w.extend()
	w.WriteHeader(code)
}
