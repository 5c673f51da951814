package front

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// maxInFlight bounds the requests of one session that are under way at once, and
// so its goroutines. It is far over what a model or its user keeps waiting for.
const maxInFlight = 1024

// unsetLevel is the level of a client that sets none, where others do: what a server
// sends by itself is for it to choose (MCP 2025-11-25, server/utilities/logging).
const unsetLevel = mcp.LoggingLevelInfo

// Why a session's requests are cancelled.
var (
	errSessionEnded = errors.New("the client's session has ended")
	errCancelled    = errors.New("the client cancelled the request")
)

// session is what the host keeps of one client: of the whole pipe on stdio, of
// one Mcp-Session-Id on HTTP. Modern requests on HTTP have none.
type session struct {
	server *Server
	id     string
	// whose it is; nobody else's requests find it.
	party
	notices *notices
	// resumed says that the client goes on with a session that it had with another host.
	resumed bool
	// ready is closed when `initialize` has been answered: what belongs to no
	// request may follow, and nothing of it may come before.
	ready chan struct{}

	// ctx ends with the session.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// calls counts the requests in flight; none is added once ended is set.
	calls sync.WaitGroup

	mu       sync.Mutex
	version  string        // what `initialize` agreed on, "" before
	client   broker.Client // as it called itself then
	level    mcp.LoggingLevel
	inFlight map[rpc.ID]*request
	ended    bool
}

// party is who asks: a principal, in one of the projects that it is granted in.
type party struct{ principal, project string }

func (s *Server) newSession(who party) *session {
	n := &session{server: s, id: newSessionID(), party: who, ready: make(chan struct{}), inFlight: make(map[rpc.ID]*request)}
	n.notices = s.newNotices(broker.Caller{Principal: who.principal, Project: who.project, Session: n.id}, n.admits)
	n.ctx, n.cancel = context.WithCancelCause(s.base)
	return n
}

// newSessionID makes an id that cannot be guessed, of visible ASCII
// (MCP 2025-11-25, basic/transports, "Session Management").
func newSessionID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime ends the process first
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// begin takes in a request: from here on it can be cancelled, and its id is in use
// until it is answered. The error is the answer to give.
func (n *session) begin(r *request) (context.Context, *rpc.Error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.ended:
		return nil, unavailable("session_ended", "the session has ended")
	case n.inFlight[r.ID] != nil:
		return nil, &rpc.Error{Code: rpc.CodeInvalidRequest, Message: fmt.Sprintf("invalid request: id %s is in use by a request in flight", r.ID)}
	case len(n.inFlight) >= maxInFlight:
		return nil, unavailable("too_many_requests", fmt.Sprintf("%d requests of this session are in flight", maxInFlight))
	}
	ctx, cancel := context.WithCancelCause(n.ctx)
	r.cancel = cancel
	r.session = n
	r.caller = broker.Caller{Principal: n.principal, Project: n.project, Session: n.id, Client: n.client, Resumed: n.resumed, Modern: r.era == modern}
	if r.era == modern {
		r.caller.Client = clientOf(r.Message, "params", "_meta", mcp.MetaKeyClientInfo)
	}
	n.inFlight[r.ID] = r
	n.calls.Add(1)
	return ctx, nil
}

// free gives the request's id back to the client.
func (n *session) free(r *request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.inFlight[r.ID] == r {
		delete(n.inFlight, r.ID)
	}
}

// finish gives back all that begin took.
func (n *session) finish(r *request) {
	r.cancel(nil)
	n.free(r)
	n.leaveIfEnded() // it may have made itself known again
	n.calls.Done()
}

// cancelled handles notifications/cancelled. A request that is unknown or over
// is no error: the two may have crossed. `initialize` cannot be cancelled.
func (n *session) cancelled(m *rpc.Message) {
	id := rpc.ID(m.Get("params", "requestId"))
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.inFlight[id]; r != nil && r.Method != "initialize" {
		r.stopped.Store(true)
		r.cancel(errCancelled)
	}
}

// open notes what `initialize` agreed on; from here on the client hears what is
// said to all.
func (n *session) open(version string, client broker.Client) {
	n.mu.Lock()
	n.version, n.client = version, client
	n.mu.Unlock()
	n.server.audience.join(n.notices)
	n.leaveIfEnded()
}

// announce says that `initialize` has been answered.
func (n *session) announce() {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.ready: // a client may initialize again
	default:
		close(n.ready)
	}
}

func (n *session) opened() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.version != ""
}

func (n *session) setLevel(level mcp.LoggingLevel) {
	n.mu.Lock()
	n.level = level
	n.mu.Unlock()
	n.server.leveled.Store(true)
	n.server.broker.SetLogLevel(n.id, string(level))
	n.leaveIfEnded()
}

// admits says whether the client wants log messages of this level. Until it says
// which, it gets what the servers send by themselves, as it would without a host;
// but once another client has set theirs, the servers may say far more than they
// would, and it gets no more than unsetLevel.
func (n *session) admits(level mcp.LoggingLevel) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.level != "" {
		return atLeast(level, n.level)
	}
	return !n.server.leveled.Load() || atLeast(level, unsetLevel)
}

// refuse takes no more requests; those in flight go on.
func (n *session) refuse() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
}

// end takes no more requests and cancels those in flight. It does not wait for
// them, and doing it twice does nothing more.
func (n *session) end() {
	n.refuse()
	n.cancel(errSessionEnded)
	n.leaveIfEnded()
}

// leaveIfEnded takes the session out of what knows it by itself. Who puts it there
// calls it afterwards: the session may have ended in between.
func (n *session) leaveIfEnded() {
	n.mu.Lock()
	ended := n.ended
	n.mu.Unlock()
	if ended {
		n.server.audience.leave(n.notices)
		n.server.broker.Forget(n.id)
	}
}

// unavailable is the answer to a request that goes nowhere, in the words of the
// broker's own: nothing was sent, so it is safe to ask again.
func unavailable(reason, cause string) *rpc.Error {
	return &rpc.Error{
		Code:    broker.CodeUnavailable,
		Message: "the request was not taken: " + cause + ". Nothing was sent, so it had no effect; it is safe to ask again.",
		Data: encode(map[string]any{
			"outcome": broker.Unavailable, "reason": reason, "dispatched": false, "retry": broker.RetrySafe,
		}),
	}
}
