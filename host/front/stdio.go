package front

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// stuckGrace is how long requests may take to notice that their client is lost,
// when one of them hangs in a write that nothing can interrupt.
const stuckGrace = time.Second

// stdioClient is the one client of a pair of pipes, of both eras at once.
type stdioClient struct {
	*Server
	session *session
	pipe    *pipe
	// workers serve requests one after the other. One that is there already has the
	// stack that a request needs; a new one would have to grow it.
	workers sync.WaitGroup
	idle    atomic.Int32
	jobs    chan job // taken by idle workers alone
}

type job struct {
	ctx context.Context
	r   *request
}

// maxIdle bounds the workers that wait for a request.
const maxIdle = 64

// ServeStdio serves the client that writes to in and reads from out, one message
// a line. It returns nil when the input has ended, and then, or when ctx is done,
// cancels what is in flight; after Close, which says how long that may take
// instead. It returns an error when the client cannot be read from or written to.
// When it returns, nothing it started is left, but for a read or a write that has
// no deadlines and does not return.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	serve, err := s.Attach(s.opts.Project, false)
	if err != nil {
		return err
	}
	return serve(ctx, in, out)
}

// Attach takes in one of several clients that have streams of their own, who works in a
// project, "" where there is none. resumed says that it goes on with a session that it had
// with another host, whose processes it relies on. What it returns is ServeStdio for that
// client, and is called once. The error says that the host is stopping.
func (s *Server) Attach(project string, resumed bool) (serve func(ctx context.Context, in io.Reader, out io.Writer) error, err error) {
	if !s.enter() {
		return nil, errClosed
	}
	return func(ctx context.Context, in io.Reader, out io.Writer) error {
		defer s.requests.Done()
		return s.serveLines(ctx, project, resumed, in, out)
	}, nil
}

// serveLines is one client's session.
func (s *Server) serveLines(ctx context.Context, project string, resumed bool, in io.Reader, out io.Writer) error {
	c := &stdioClient{
		Server: s, session: s.newSession(party{access.Local, project}), pipe: newPipe(out, s.opts.WriteTimeout),
		jobs: make(chan job),
	}
	c.session.resumed = resumed

	stream := c.session.notices.attach()
	noticed := make(chan struct{})
	go func() {
		defer close(noticed)
		c.relayNotices(stream)
	}()
	read := make(chan struct{})
	var readErr error
	go func() {
		defer close(read)
		readErr = rpc.ReadLines(in, rpc.NewAssembler(rpc.FromClient, s.opts.SpoolDir, s.opts.MaxRequest), c.take)
	}()

	var err error
	select {
	case <-read:
		err = readErr
	case <-c.pipe.lost:
		err = c.pipe.why
	case <-ctx.Done():
	case <-s.closing:
		// What is in flight may end within what Close allows; nothing new begins.
		c.session.refuse()
		c.await(c.session.calls.Wait)
	}
	c.session.end()
	c.await(func() {
		c.session.calls.Wait()
		c.workers.Wait()
		<-noticed
	})
	if interruptRead(in) {
		// The reader answers what is short itself, so it may hang in a write instead.
		c.await(func() { <-read })
	}
	return err
}

// await waits for what ends by itself once the session has ended; if a write to
// the client hangs and cannot be interrupted, only for so long.
func (c *stdioClient) await(wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	select {
	case <-done:
		return
	case <-c.pipe.lost:
	}
	c.session.end()
	if !c.pipe.stuck {
		<-done
		return
	}
	select {
	case <-done:
	case <-time.After(stuckGrace):
		c.log.Warn("a write to the client hangs and cannot be interrupted")
	}
}

// interruptRead ends a read that may be under way, and says whether it could.
func interruptRead(in io.Reader) bool {
	d, ok := in.(interface{ SetReadDeadline(time.Time) error })
	return ok && d.SetReadDeadline(time.Unix(1, 0)) == nil
}

// take handles one message, on the reader's goroutine: requests are handed to
// goroutines of their own, so that what is short (a cancel, a refusal) never
// waits for what is long.
func (c *stdioClient) take(m *rpc.Message, err error) {
	if c.session.ctx.Err() != nil {
		if err == nil {
			_ = m.Close()
		}
		return // ServeStdio has returned, or is about to; only the read could not be ended
	}
	if err != nil {
		c.refuseLine(err)
		return
	}
	switch m.Kind {
	case rpc.Request:
		c.takeRequest(m)
		return
	case rpc.Notification:
		if handle := notifications[m.Method]; handle != nil {
			handle(c.session, m)
		}
	default: // A response to something that nobody asked.
	}
	_ = m.Close()
}

func (c *stdioClient) takeRequest(m *rpc.Message) {
	r := route(m, "")
	r.writer, r.silent = c.pipe, true
	refused := r.admit()
	var ctx context.Context
	if refused == nil {
		ctx, refused = c.session.begin(r)
	}
	if refused != nil {
		_ = c.pipe.Answer(rpc.NewFailure(m.ID, refused))
		_ = m.Close()
		return
	}
	select {
	case c.jobs <- job{ctx, r}:
	default:
		c.workers.Go(func() { c.work(job{ctx, r}) })
	}
}

// work serves a request, and then others that find it idle.
func (c *stdioClient) work(j job) {
	for {
		c.serve(j.ctx, j.r)
		c.session.finish(j.r)
		_ = j.r.Close()
		if c.idle.Add(1) > maxIdle {
			c.idle.Add(-1)
			return
		}
		select {
		case j = <-c.jobs:
			c.idle.Add(-1)
		case <-c.session.ctx.Done():
			return
		}
	}
}

// refuseLine answers a line that is no message, under the id that could be read
// of it, if any. To a malformed response nobody waits for an answer.
func (c *stdioClient) refuseLine(err error) {
	var own *rpc.Error
	if !errors.As(err, &own) {
		own = &rpc.Error{Code: rpc.CodeInternal, Message: "internal error: " + err.Error()}
	}
	if own.Response {
		return
	}
	id := own.ID
	if errors.Is(err, rpc.ErrTooLarge) {
		own = c.overMaxRequest()
	}
	_ = c.pipe.Answer(rpc.NewFailure(id, own))
}

// relayNotices writes what belongs to no request, once `initialize` has been answered.
func (c *stdioClient) relayNotices(stream int) {
	select {
	case <-c.session.ready:
	case <-c.session.ctx.Done():
		return
	case <-c.closing:
		return
	}
	_ = c.relay(c.session.ctx, c.session.notices, stream, toolsChangedNotice, c.pipe)
}
