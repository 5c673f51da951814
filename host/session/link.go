package session

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

const (
	// firstID is where the ids of our requests begin: far from where servers begin
	// theirs, so that a broken request of a server is not taken for a broken answer.
	firstID = 1 << 20
	// inlineUnread is how much may be on its way to a server that has not shown
	// that it reads, before a send is left to a goroutine of its own: what gRPC
	// takes without waiting for the other side. Up to here a Send cannot block.
	inlineUnread = 64 << 10
	// replyBacklog is how many messages of our own may wait for the stream; answers
	// to the server's requests get half of it.
	replyBacklog = 512
)

var (
	errEnded  = errors.New("the stream has ended")
	errExpiry = errors.New("the time of the call is over")
)

// peer is what a link passes on: what the server says outside of its calls. Its
// methods run on the reader and must not block. They own the message.
type peer interface {
	request(m *rpc.Message)
	notification(m *rpc.Message)
}

// counts are what a link counts and never reports to a client. The log tells them,
// while they grow and at the end.
type counts struct {
	// dropped are answers and progress that belong to no call (any more), malformed
	// what is no message, refused what the server asked while its answers waited.
	dropped, malformed, refused atomic.Int64
}

// LogValue makes them a group in the log, of those that are not 0.
func (c *counts) LogValue() slog.Value {
	var out []slog.Attr
	for _, one := range []struct {
		name string
		n    int64
	}{{"dropped", c.dropped.Load()}, {"malformed", c.malformed.Load()}, {"refused", c.refused.Load()}} {
		if one.n > 0 {
			out = append(out, slog.Int64(one.name, one.n))
		}
	}
	return slog.GroupValue(out...)
}

// count adds one to a count, and tells the first, the tenth, the hundredth … of
// them: a server that does nothing else does not fill the log.
func (l *link) count(which *atomic.Int64) {
	n := which.Add(1)
	for n%10 == 0 {
		n /= 10
	}
	if n == 1 {
		l.opts.logger.Info("messages of the server came to nothing", "count", &l.counts)
	}
}

type linkOptions struct {
	dir        string // for spool files
	maxMessage int64
	peer       peer
	noise      *atomic.Int64
	logger     *slog.Logger
}

// link is one exchange with a server: requests under ids of its own, and one
// reader that brings what comes back to the call it belongs to. It ends once, and
// for good.
type link struct {
	conn provider.HostConn
	hang context.CancelFunc // ends the exchange; the reader then sees its end
	opts linkOptions

	// slot is held by who sends. While a message goes out it is held until its last
	// chunk is out, whoever asked for it and whether they still wait.
	slot   chan struct{}
	lastID atomic.Int64
	free   sync.Pool // of calls that were answered in the plainest way

	mu       sync.Mutex
	calls    map[int64]*call // sent, not answered
	inFlight int             // those of them that are callers' calls
	seq      uint64          // of the last message
	// sent are the bytes that went out, read those which the server has shown to
	// have read, by answering what came after them.
	sent, read int64
	over       *ending
	// broken says that the host has ended the exchange, and blame why, where it was
	// for a reason of its own.
	broken bool
	blame  string
	quiet  chan struct{} // not nil while idle is waited for

	done    chan struct{} // closed when the reader has ended; over is set
	spoke   chan struct{} // closed when the server has said anything at all
	born    time.Time
	heardAt atomic.Int64 // when the server said something last, in ns after born
	replies chan rpc.Payload
	work    sync.WaitGroup
	counts  counts
}

// newLink makes the link of a fresh exchange; start starts it.
func newLink(conn provider.HostConn, hang context.CancelFunc, opts linkOptions) *link {
	l := &link{
		conn: conn, hang: hang, opts: opts,
		slot:    make(chan struct{}, 1),
		calls:   map[int64]*call{},
		done:    make(chan struct{}),
		spoke:   make(chan struct{}),
		born:    time.Now(),
		replies: make(chan rpc.Payload, replyBacklog),
	}
	l.lastID.Store(firstID)
	return l
}

// start starts the reader, and with it what the peer hears. close must be called.
func (l *link) start() {
	l.work.Go(l.readAll)
	l.work.Go(l.sendReplies)
}

// close ends the exchange and waits for the link's goroutines.
func (l *link) close() {
	l.hang()
	l.work.Wait()
}

// ended says whether the exchange is over.
func (l *link) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// send hands c's message to the stream, or leaves that to a goroutine where it
// might have to wait for the server. The errors mean that nothing was sent:
// ctx's, errExpiry, errEnded, and that of c.last. Afterwards the link's end, and nothing else, says
// whether it went wrong.
func (l *link) send(ctx context.Context, c *call, p rpc.Payload) error {
	if err := l.acquire(ctx, c.timer.C); err != nil {
		return err
	}
	if c.last != nil {
		if err := c.last(); err != nil {
			<-l.slot
			return err
		}
	}
	l.mu.Lock()
	if l.over != nil || l.broken {
		l.mu.Unlock()
		<-l.slot
		return errEnded
	}
	l.calls[c.id] = c
	if c.caller {
		l.inFlight++
	}
	seq, inline := l.number(p)
	c.seq, c.upTo = seq, l.sent
	c.dispatched = p.Len() <= provider.SendChunk // its first chunk is its last
	if !inline {
		c.pushed = make(chan struct{})
	}
	l.mu.Unlock()
	l.transmit(seq, p, c, inline)
	return nil
}

// transmit sends a numbered message and frees the slot.
func (l *link) transmit(seq uint64, p rpc.Payload, c *call, inline bool) {
	if inline {
		l.push(seq, p, c)
		<-l.slot
		return
	}
	go func() { // number has counted it as work
		defer l.work.Done()
		l.push(seq, p, c)
		<-l.slot
		if c != nil {
			close(c.pushed)
		}
	}()
}

// tell sends a message of our own and is done when it is on the stream, in order
// with what this goroutine sends before and after. The errors are send's.
func (l *link) tell(ctx context.Context, p rpc.Payload) error {
	if err := l.acquire(ctx, nil); err != nil {
		return err
	}
	l.mu.Lock()
	if l.over != nil || l.broken {
		l.mu.Unlock()
		<-l.slot
		return errEnded
	}
	seq, inline := l.number(p)
	l.mu.Unlock()
	l.transmit(seq, p, nil, inline)
	return nil
}

// acquire takes the slot.
func (l *link) acquire(ctx context.Context, expiry <-chan time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case l.slot <- struct{}{}:
		return nil
	default:
	}
	select {
	case l.slot <- struct{}{}:
		// Both may have been ready; nothing may go out for a caller that is gone.
		if err := ctx.Err(); err != nil {
			<-l.slot
			return err
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-expiry:
		return errExpiry
	case <-l.done:
		return errEnded
	}
}

// number counts a message that is about to go out, and says whether it can be
// sent without waiting for the server. The lock is held, and the link has not
// ended, so that close waits for a goroutine that is counted here.
func (l *link) number(p rpc.Payload) (seq uint64, inline bool) {
	l.seq++
	l.sent += p.Len()
	inline = l.sent-l.read <= inlineUnread
	if !inline {
		l.work.Add(1)
	}
	return l.seq, inline
}

// push sends all chunks of a message, of which c may be nil. What was begun is
// completed, or the stream ends.
func (l *link) push(seq uint64, p rpc.Payload, c *call) {
	ended := false
	err := p.Chunks(provider.SendChunk, func(piece []byte, last bool) error {
		if last && c != nil && !c.dispatched && !l.dispatch(c) {
			ended = true
			return errEnded
		}
		err := l.conn.Send(provider.Frame{Seq: seq, Data: piece, Last: last})
		ended = err != nil
		return err
	})
	switch {
	case ended:
		l.breakOff("") // the reader knows why, or will
	case err != nil:
		l.breakOff("the host could not read the rest of a request: " + err.Error())
	}
}

// breakOff ends the exchange, for a reason of the host's own if there is one.
// Nothing is sent any more.
func (l *link) breakOff(why string) {
	if why != "" {
		l.opts.logger.Error("ending a server that got half a request", "cause", why)
	}
	l.mu.Lock()
	l.broken = true
	if l.blame == "" {
		l.blame = why
	}
	l.mu.Unlock()
	l.hang()
}

// dispatch marks that the last chunk is about to be handed over; false where the
// stream has ended before, and it must not be.
func (l *link) dispatch(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.dispatched = l.over == nil && !l.broken
	return c.dispatched
}

// notify sends a message of our own that nobody waits for, as soon as the stream
// is free. It does not block; false means that too many wait already.
func (l *link) notify(p rpc.Payload) bool {
	select {
	case l.replies <- p:
		return true
	default:
		l.opts.logger.Warn("server does not read its input; a notification to it is dropped")
		return false
	}
}

// reply answers a request of the server. It does not block: a server that asks
// and does not read gets no answer.
func (l *link) reply(p rpc.Payload) {
	if len(l.replies) >= replyBacklog/2 {
		l.count(&l.counts.refused)
		return
	}
	l.notify(p)
}

// sendReplies sends what reply and notify have collected.
func (l *link) sendReplies() {
	for {
		select {
		case p := <-l.replies:
			if l.tell(context.Background(), p) != nil {
				return
			}
		case <-l.done:
			return
		}
	}
}

// idle is closed once no caller's call is in flight.
func (l *link) idle() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.quiet == nil {
		l.quiet = make(chan struct{})
	}
	quiet := l.quiet
	l.settle()
	return quiet
}

// settle tells those who wait for idle, if it is. The lock is held.
func (l *link) settle() {
	if l.quiet != nil && l.inFlight == 0 {
		close(l.quiet)
		l.quiet = nil
	}
}

// idOf returns the number of one of our ids.
func idOf(literal []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(literal), 10, 64)
	return n, err == nil && n > firstID
}
