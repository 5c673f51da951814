package front

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

const (
	// endpoint is the path of the face; below it stands one for each project.
	endpoint = "/mcp"
	// smallBody is the longest body that is read into one piece of memory of its
	// own; longer ones pass through a shared buffer, and to a file if they are large.
	smallBody = 64 << 10
	// bodyTimeout is how long a client may take to send a body it has announced,
	// headerTimeout how long for the headers, idleTimeout how long a connection
	// may wait for its next request.
	bodyTimeout   = time.Minute
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	// maxWebRequests bounds the requests over HTTP that are in flight at once, of all
	// clients together, and so goroutines and what each holds. A subscription of a
	// modern client is one of them for as long as it lasts, and so is the reading of an
	// artifact.
	maxWebRequests = 8 * maxInFlight
)

// HTTPServer makes the server that Handler's handler needs: headers are bounded in
// size and time, and bodies and responses by the handler itself. The server's own
// ReadTimeout and WriteTimeout would end streams, and calls that take their time.
func HTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// web is the face on HTTP.
type web struct {
	*Server
	guard guard
	// copies holds buffers for bodies that are not small.
	copies sync.Pool
}

// Handler serves MCP over streamable HTTP at /mcp and, by project, at /mcp/PROJECT.
// A request is checked in this order: whether it may come here at all (403), its path
// (404), whose it is (401), whether that is someone in this project (404), its form
// (405, 406, 413, 415), its envelope (400), its session (400, 404), and what its
// headers repeat (400); of the arguments of a call, that is checked when its tool is
// known. Beside it stand the documents that say where tokens come from (metadata.go),
// and at /artifacts/ID what is kept of large results (artifacts_web.go).
func (s *Server) Handler(opts HTTPOptions) http.Handler {
	h := &web{Server: s, guard: newGuard(opts, s.log)}
	h.copies.New = func() any { return new([32 << 10]byte) }
	return h
}

// ServeHTTP serves one request.
func (h *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := h.newReply(rw)
	if !h.guard.admits(r) {
		w.text(http.StatusForbidden, "this Host or Origin is not allowed here")
		return
	}
	h.guard.allowPage(w.Header(), r)
	if r.Method == http.MethodOptions {
		preflight(w, r)
		return
	}
	if h.guard.describe(w, r) {
		return
	}
	if id := h.guard.public.artifactOf(r.URL.Path); id != "" {
		h.serveArtifact(w, r, id)
		return
	}
	who, ok := h.guard.authenticate(w, r)
	if !ok {
		return
	}
	if !h.enter() {
		w.text(http.StatusServiceUnavailable, errClosed.Error())
		return
	}
	defer h.requests.Done()
	defer w.extend() // for what net/http itself writes at the end
	// GET and DELETE are about sessions, which modern clients have none of.
	session := !mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion))
	switch {
	case r.Method == http.MethodPost:
		h.post(w, r, who) //nolint:contextcheck // a legacy client's request outlives its connection
	case r.Method == http.MethodGet && session:
		h.get(w, r, who)
	case r.Method == http.MethodDelete && session:
		h.delete(w, r, who)
	case session:
		w.Header().Set("Allow", "POST, GET, DELETE")
		w.text(http.StatusMethodNotAllowed, "only POST, GET and DELETE")
	default:
		w.Header().Set("Allow", "POST")
		w.text(http.StatusMethodNotAllowed, "only POST: server messages come on subscriptions/listen")
	}
}

// post takes one message.
func (h *web) post(w *reply, req *http.Request, who party) {
	if !isJSON(req.Header) {
		w.refuse(http.StatusUnsupportedMediaType, invalid("Content-Type must be "+typeJSON))
		return
	}
	if !accepts(req.Header, typeJSON) || !accepts(req.Header, typeStream) {
		w.refuse(http.StatusNotAcceptable, invalid("Accept must list both "+typeJSON+" and "+typeStream))
		return
	}
	m, err := h.read(w, req)
	if err != nil {
		h.refuseBody(w, err)
		return
	}
	defer func() { _ = m.Close() }()
	// What is no request is not counted: a cancel must get through when all is full.
	if m.Kind == rpc.Request {
		leave, full := h.place(w)
		if leave == nil {
			w.refuseID(http.StatusServiceUnavailable, m.ID, unavailable("too_many_requests", full))
			return
		}
		defer leave()
	}
	r := route(m, req.Header.Get(mcp.HeaderProtocolVersion))
	r.writer = w
	if r.era == modern {
		h.postModern(w, req, r, who)
	} else {
		h.postLegacy(w, req, r, who)
	}
}

// place takes a place among the requests in flight, for whoever calls leave when it is
// over. Without one the client may come again, and full says why.
func (h *web) place(w *reply) (leave func(), full string) {
	select {
	case h.room <- struct{}{}:
		return func() { <-h.room }, ""
	default:
		w.Header().Set("Retry-After", "1")
		return nil, fmt.Sprintf("%d requests over HTTP are in flight", cap(h.room))
	}
}

// postModern serves a request that brings all it takes along. It ends with its
// connection: closing that is how a modern client cancels.
func (h *web) postModern(w *reply, req *http.Request, r *request, who party) {
	if r.Kind != rpc.Request {
		w.empty(http.StatusAccepted) // its notifications say nothing here, and it sends no responses
		return
	}
	refused := r.mirrored(req.Header)
	if refused == nil {
		refused = r.admit()
	}
	if refused != nil {
		w.refuseID(statusOf(modern, refused), r.ID, refused)
		return
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	defer cancel(nil)
	closed := context.AfterFunc(h.base, func() { cancel(errClosed) }) //nolint:contextcheck // two contexts end it: the connection's and the face's
	defer closed()
	r.cancel = cancel
	if r.Method == "subscriptions/listen" {
		r.writer = h.guard.while(w, req, who)
	}
	r.caller = broker.Caller{Principal: who.principal, Project: who.project, Modern: true,
		Client: clientOf(r.Message, "params", "_meta", mcp.MetaKeyClientInfo)}
	r.header = req.Header
	h.serve(ctx, r)
}

// postLegacy takes a message of a session, or the request that opens one. A
// request that was taken goes on when its connection drops: in this era that is
// no cancel (MCP 2025-11-25, basic/transports, "Sending Messages to the Server").
func (h *web) postLegacy(w *reply, req *http.Request, r *request, who party) {
	session := h.sessionFor(w, req, r, who)
	if session == nil {
		return
	}
	defer session.release()
	if r.Kind != rpc.Request {
		if handle := notifications[r.Method]; handle != nil && r.Kind == rpc.Notification {
			handle(session.session, r.Message)
		}
		w.empty(http.StatusAccepted)
		return
	}
	refused := r.admit()
	var ctx context.Context
	if refused == nil {
		ctx, refused = session.begin(r)
	}
	if refused != nil {
		w.refuseID(statusOf(legacy, refused), r.ID, refused)
		return
	}
	defer session.finish(r)
	h.serve(ctx, r)
}

// sessionFor holds the session of a legacy message: a new one for `initialize`,
// which the answer will name. If it returns nil it has answered.
func (h *web) sessionFor(w *reply, req *http.Request, r *request, who party) *webSession {
	if r.Kind != rpc.Request || r.Method != "initialize" {
		return h.sessionOf(w, req, r.ID, who)
	}
	if !h.knowsVersion(w, req, r.ID) {
		return nil
	}
	session := h.startWebSession(who)
	if session == nil {
		w.refuseID(http.StatusServiceUnavailable, r.ID, unavailable("too_many_sessions", "there are too many sessions"))
		return nil
	}
	w.session = session.session
	return session
}

// get opens the stream on which a legacy client hears what belongs to no request.
// A second one takes over from the first.
func (h *web) get(w *reply, req *http.Request, who party) {
	if !accepts(req.Header, typeStream) {
		w.refuse(http.StatusNotAcceptable, invalid("Accept must list "+typeStream))
		return
	}
	session := h.sessionOf(w, req, "", who)
	if session == nil {
		return
	}
	defer session.release()
	ctx, stream, end := session.takeStream(req.Context())
	defer end()
	if w.startStream() != nil || w.flush() != nil {
		return
	}
	_ = h.relay(ctx, session.notices, stream, toolsChangedNotice, h.guard.while(w, req, who))
}

// delete ends a session.
func (h *web) delete(w *reply, req *http.Request, who party) {
	session := h.sessionOf(w, req, "", who)
	if session == nil {
		return
	}
	h.endWebSession(session)
	session.release()
	w.empty(http.StatusNoContent)
}

// sessionOf holds the session that a request names. If there is none, it has
// answered: 400 without a name, and 404 when the client has to initialize anew.
func (h *web) sessionOf(w *reply, req *http.Request, id rpc.ID, who party) *webSession {
	names := req.Header.Values(mcp.HeaderSessionID)
	if len(names) != 1 || names[0] == "" {
		w.refuseID(http.StatusBadRequest, id, invalid(mcp.HeaderSessionID+" must be there once; initialize gives one"))
		return nil
	}
	session := h.holdWebSession(names[0], who)
	if session == nil {
		w.refuseID(http.StatusNotFound, id, invalid("this session does not exist or has ended; initialize anew"))
		return nil
	}
	if !h.knowsVersion(w, req, id) {
		session.release()
		return nil
	}
	return session
}

// knowsVersion says whether the revision that a legacy client's header names, if
// it has one, is one of ours. If not it has answered.
func (h *web) knowsVersion(w *reply, req *http.Request, id rpc.ID) bool {
	v := req.Header.Get(mcp.HeaderProtocolVersion)
	if v == "" || mcp.IsValidProtocolVersion(v) {
		return true
	}
	w.refuseID(http.StatusBadRequest, id, unsupportedVersion(v))
	return false
}

// errTooLarge is a body over max_request.
var errTooLarge = errors.New("the request is larger than max_request")

// read reads the message of a body.
func (h *web) read(w *reply, req *http.Request) (*rpc.Message, error) {
	limit := h.opts.MaxRequest
	if req.ContentLength > limit {
		return nil, errTooLarge
	}
	_ = w.control.SetReadDeadline(time.Now().Add(bodyTimeout))
	defer func() { _ = w.control.SetReadDeadline(time.Time{}) }()
	if n := req.ContentLength; n >= 0 && n <= smallBody {
		body := make([]byte, n)
		if _, err := io.ReadFull(req.Body, body); err != nil {
			return nil, err
		}
		return rpc.Parse(rpc.FromClient, body)
	}
	asm := rpc.NewAssembler(rpc.FromClient, h.opts.SpoolDir, limit)
	buf, _ := h.copies.Get().(*[32 << 10]byte)
	defer h.copies.Put(buf)
	n, err := io.CopyBuffer(asm, io.LimitReader(req.Body, limit+1), buf[:])
	if n > limit {
		asm.Abort()
		return nil, errTooLarge
	}
	if err != nil && !isRPC(err) { // of a body that ended early no message is made
		asm.Abort()
		return nil, err
	}
	return asm.Finish()
}

func isRPC(err error) bool {
	var own *rpc.Error
	return errors.As(err, &own)
}

// refuseBody answers a body that is no message.
func (h *web) refuseBody(w *reply, err error) {
	var own *rpc.Error
	switch {
	case errors.Is(err, errTooLarge) || errors.Is(err, rpc.ErrTooLarge):
		w.Header().Set("Connection", "close") // what is left of the body is not read
		w.refuse(http.StatusRequestEntityTooLarge, h.overMaxRequest())
	case errors.As(err, &own):
		w.refuseID(statusOf(legacy, own), own.ID, own)
	default:
		w.Header().Set("Connection", "close")
		w.refuse(http.StatusBadRequest, invalid("the body ended early"))
	}
}

// overMaxRequest tells the client, in the owner's words, what it ran into.
func (s *Server) overMaxRequest() *rpc.Error {
	return invalid(fmt.Sprintf("the request is larger than max_request = %d bytes", s.opts.MaxRequest))
}

func invalid(what string) *rpc.Error {
	return &rpc.Error{Code: rpc.CodeInvalidRequest, Message: "invalid request: " + what}
}
