package front

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/artifact"
	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// Broker is what the face needs of the broker.
type Broker interface {
	// Prepare brings lists up to date: it starts what was never listed, and waits a
	// while for it.
	Prepare(ctx context.Context, caller broker.Caller)
	// View is what the caller sees now.
	View(caller broker.Caller) *catalog.View
	// Shown notes that the tools [from:to) of a view are being written to the caller;
	// undo is for when they could not be.
	Shown(caller broker.Caller, v *catalog.View, from, to int) (undo func())
	// Call carries a request to a server. Notifications go to c.Notify in order and
	// on the caller's goroutine, before Call returns and not after. Ending ctx is
	// the client's cancel.
	Call(ctx context.Context, c broker.Call) broker.Reply
	// SetLogLevel records the level that a session wants; the empty level forgets it.
	SetLogLevel(session, level string) bool
	// Forget drops all that is kept of a session.
	Forget(session string)
	// Sees says whether the caller has anything to do with a provider.
	Sees(caller broker.Caller, provider string) bool
	// Capabilities says what the providers have for a caller beyond tools.
	Capabilities(caller broker.Caller) broker.Capabilities
}

// Defaults of Options, those of the `host` block.
const (
	DefaultMaxRequest   = 16 << 20
	DefaultWriteTimeout = 30 * time.Second
	DefaultSessionIdle  = 30 * time.Minute
	DefaultPageSize     = 1000
)

// Options is what a Server is made of. Zero values mean the defaults.
type Options struct {
	Broker Broker
	// Version is the host's own, as clients see it.
	Version string
	// MaxRequest bounds a client's message in bytes.
	MaxRequest int64
	// WriteTimeout is how long a client may drain nothing of what is written to it
	// before it loses its connection.
	WriteTimeout time.Duration
	// SessionIdle is how long a session over HTTP outlives its last request or stream.
	SessionIdle time.Duration
	// PageSize is the most items of one page of a list.
	PageSize int
	// Project is the one that the client on stdio works in, "" where there is none.
	Project string
	// Artifacts are the large results that callers may read. Nil: none are kept.
	Artifacts *artifact.Store
	// SpoolDir is where large messages are kept in unlinked files.
	SpoolDir string
	Logger   *slog.Logger
}

// Server is the MCP server that clients see. It is safe for concurrent use.
type Server struct {
	opts   Options
	broker Broker
	log    *slog.Logger
	// identity is who we are, in the `_meta` of results to modern clients.
	identity json.RawMessage

	audience audience
	// leveled: a client has set the level of the servers' logs. They keep the last
	// that they were told, so it stays true.
	leveled  atomic.Bool
	sessions sessions
	// room has a place for each request over HTTP that may be in flight.
	room chan struct{}

	// base ends when requests in flight are to be cancelled, closing when no new
	// ones are taken and streams are to end.
	base    context.Context
	cancel  context.CancelCauseFunc
	closing chan struct{}

	mu     sync.RWMutex // guards closed against requests.Add
	closed bool
	// requests counts what Close waits for: requests, streams, and ServeStdio.
	requests sync.WaitGroup
}

// cancelGrace is how long Close waits for requests that it has cancelled. A call
// needs most of a second, for its server may still answer.
const cancelGrace = 2 * time.Second

// errClosed cancels what is in flight when a Close has waited long enough.
var errClosed = errors.New("the host is stopping")

// New makes a server that nobody has connected to yet.
func New(opts Options) *Server {
	if opts.MaxRequest <= 0 {
		opts.MaxRequest = DefaultMaxRequest
	}
	if opts.WriteTimeout <= 0 {
		opts.WriteTimeout = DefaultWriteTimeout
	}
	if opts.SessionIdle <= 0 {
		opts.SessionIdle = DefaultSessionIdle
	}
	if opts.PageSize <= 0 {
		opts.PageSize = DefaultPageSize
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: opts, broker: opts.Broker, log: opts.Logger, closing: make(chan struct{})}
	s.identity = encode(implementation(opts.Version))
	s.sessions.most = maxSessions
	s.room = make(chan struct{}, maxWebRequests)
	s.base, s.cancel = context.WithCancelCause(context.Background())
	return s
}

func implementation(version string) mcp.Implementation {
	return mcp.Implementation{Name: "drawbridge", Title: "Drawbridge", Version: version}
}

// ToolsChanged tells every client whose own view is another one than it was last
// shown or told, once. It does not block.
func (s *Server) ToolsChanged() { s.audience.changed() }

// Log passes on a provider's notifications/message that belongs to no call, to the
// sessions that have to do with the provider and whose level admits it. It does not block, and keeps nothing of a
// message in a file. Clients of the stateless era get none: since 2026-07-28 a
// message belongs to the request that asked for it, and to no other stream.
func (s *Server) Log(provider, level string, m *rpc.Message) {
	if m.Size() > rpc.SpoolOver {
		s.log.Warn("a log message of a server is too large to pass on", "bytes", m.Size())
		return
	}
	s.audience.say(provider, mcp.LoggingLevel(level), m.Payload())
}

// Close takes no more requests and ends all streams, and waits for the requests in
// flight until ctx is done; what is left then is cancelled. It returns when all
// have ended, or soon after it cancelled: what hangs longer hangs in the
// connection of a client, which is its owner's to cut.
func (s *Server) Close(ctx context.Context) {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.requests.Wait()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		s.cancel(errClosed)
		select {
		case <-ended:
		case <-time.After(cancelGrace):
			s.log.Warn("some clients' connections outlive the face")
		}
	}
	s.cancel(errClosed)
	s.sessions.endAll()
}

// enter begins something that Close waits for; false means that it is too late.
// Whoever got true calls s.requests.Done.
func (s *Server) enter() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return false
	}
	s.requests.Add(1)
	return true
}

// encode is for values of our own that cannot fail to encode.
func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("front: " + err.Error()) // a type of ours that is no JSON: a fault of this package
	}
	return b
}
