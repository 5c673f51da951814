package front

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// Writer carries the messages of one request to the client that sent it: its
// notifications in order, then one answer. One goroutine uses it. An error means
// that the client cannot be reached any more.
type Writer interface {
	Notify(p rpc.Payload) error
	Answer(p rpc.Payload) error
}

// request is one request of a client on its way through the host.
type request struct {
	*rpc.Message
	method *method
	era    era
	// version is the revision that a modern client declares.
	version string
	caller  broker.Caller
	// session is nil for a modern request over HTTP.
	session *session
	writer  Writer
	// header is that of a modern request over HTTP, nil for others.
	header http.Header
	// token is the literal of the progress token that the client gave, nil for none.
	token json.RawMessage
	// level is the least severe log message that a modern client wants of this
	// request, "" for none. A legacy client's stands in its session.
	level mcp.LoggingLevel

	// cancel ends the request; stopped says that the client asked for it.
	cancel  context.CancelCauseFunc
	stopped atomic.Bool
	// silent says that a client which cancelled gets nothing more, not even an
	// answer. Over HTTP each request must be answered somehow.
	silent bool
}

// serve runs the request's handler and answers what the handler did not. The
// message is its reader's, who closes it afterwards.
func (s *Server) serve(ctx context.Context, r *request) {
	defer s.survive(r)
	err := r.method.serve(s, ctx, r)
	var own *rpc.Error
	if errors.As(err, &own) {
		err = r.fail(own)
	}
	if err != nil {
		s.log.Debug("answer not delivered", "method", r.Method, "error", err)
	}
}

// survive answers a request whose handler panicked. The fault is ours, and the
// other clients shall not pay for it.
func (s *Server) survive(r *request) {
	if cause := recover(); cause != nil {
		s.log.Error("fault in the host", "method", r.Method, "panic", cause, "stack", string(debug.Stack()))
		_ = r.answer(rpc.NewFailure(r.ID, &rpc.Error{Code: rpc.CodeInternal, Message: "internal error of the host; its log says more"}))
	}
}

// result answers with a result of the host's own.
func (r *request) result(v any) error { return r.answer(rpc.NewResult(r.ID, encode(v))) }

// fail answers with an error of the host's own.
func (r *request) fail(own *rpc.Error) error {
	r.flag(strconv.Itoa(own.Code))
	return r.answer(rpc.NewFailure(r.ID, own))
}

// errUnsaid is for an answer that a client which cancelled is not to get.
var errUnsaid = errors.New("the client cancelled the request and gets no answer")

// answer sends the response. It is the last that the client hears of the request.
// The error says that it was not written.
func (r *request) answer(p rpc.Payload) error {
	if r.session != nil {
		r.session.free(r) // before the client can know: it may use the id again at once
	}
	if r.silent && r.stopped.Load() {
		return errUnsaid
	}
	if p.Len() == 0 { // its file could not be read; nothing has been written yet
		p = rpc.NewFailure(r.ID, answerLost())
	}
	return r.writer.Answer(p)
}

// flag tells the writer, if it has a use for that, which error code the answer to
// a modern client will carry: some, 2026-07-28 wants to see in HTTP's status.
func (r *request) flag(code string) {
	if w, ok := r.writer.(interface{ Flag(code string) }); ok && r.era == modern {
		w.Flag(code)
	}
}

// identified tells the writer the journal's id of a call, where it has a use for
// that: over HTTP it stands in a header.
func (r *request) identified(id string) {
	if w, ok := r.writer.(interface{ Identify(id string) }); ok && id != "" {
		w.Identify(id)
	}
}

// notify passes on what a server said in the course of this request. It always
// returns nil: a client that is gone ends a call by its context, or not at all.
func (r *request) notify(m *rpc.Message) error {
	p := m.Payload()
	switch {
	case r.stopped.Load():
		return nil
	case m.Method == "notifications/progress":
		if r.token == nil {
			return nil // the host asked the server for progress, the client did not
		}
		p = m.Edit().Set(r.token, "params", "progressToken").Payload()
	case m.Method == "notifications/message" && !r.admits(m):
		return nil
	}
	if p.Len() > 0 {
		_ = r.writer.Notify(p)
	}
	return nil
}

// answerLost tells of an answer that the host has and cannot pass on.
func answerLost() *rpc.Error {
	return &rpc.Error{
		Code:    broker.CodeUnknown,
		Message: "the server answered, and the host lost the answer; look at the state before you call again",
		Data: encode(map[string]any{
			"outcome": broker.Unknown, "reason": "answer_lost", "dispatched": true, "retry": broker.RetryAfterLook,
		}),
	}
}

// admits says whether the client wants a log message of this request.
func (r *request) admits(m *rpc.Message) bool {
	level, _ := m.GetString("params", "level")
	if r.era == modern {
		return r.level != "" && atLeast(mcp.LoggingLevel(level), r.level)
	}
	return r.session.admits(mcp.LoggingLevel(level))
}

// progressToken is the literal of a request's progress token. What is neither
// string nor number is none.
func progressToken(m *rpc.Message) json.RawMessage {
	_, kind, ok := m.FindKind("params", "_meta", "progressToken")
	if !ok || kind != '"' && kind != '0' {
		return nil
	}
	return m.Get("params", "_meta", "progressToken")
}

// readModernMeta checks what 2026-07-28 requires in the `_meta` of each request
// (basic/index, "Per-request protocol fields").
func (r *request) readModernMeta() *rpc.Error {
	if r.version == "" {
		return missingMeta(mcp.MetaKeyProtocolVersion)
	}
	if !mcp.IsValidProtocolVersion(r.version) {
		return unsupportedVersion(r.version)
	}
	if _, kind, _ := r.FindKind("params", "_meta", mcp.MetaKeyClientCapabilities); kind != '{' {
		return missingMeta(mcp.MetaKeyClientCapabilities)
	}
	if _, there := r.Find("params", "_meta", mcp.MetaKeyLogLevel); there {
		level, _ := r.GetString("params", "_meta", mcp.MetaKeyLogLevel)
		if !knownLevel(level) {
			return missingMeta(mcp.MetaKeyLogLevel)
		}
		r.level = mcp.LoggingLevel(level)
	}
	return nil
}
