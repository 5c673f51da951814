package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// ending says how an exchange ended.
type ending struct {
	// status is how the server ended, nil where the plugin did not say.
	status *provider.ExitStatus
	err    error
	// blame is why the host itself has ended it, "" where it did not.
	blame string
}

// who is half a sentence: who ended, and how.
func (e *ending) who() string {
	switch {
	case e.status != nil:
		return supervise.Ended("the server", *e.status)
	case e.blame != "":
		return e.blame
	case e.err == nil || errors.Is(e.err, io.EOF):
		return "the plugin has ended the exchange"
	}
	return "the plugin is gone: " + e.err.Error()
}

// String is who, and the last line of standard error.
func (e *ending) String() string {
	if e.status != nil {
		if line := supervise.LastLine(e.status.StderrTail); line != "" {
			return e.who() + ": " + line
		}
	}
	return e.who()
}

// readAll is the link's one reader. It never waits for a caller.
func (l *link) readAll() {
	in := incoming{
		asm: rpc.NewAssembler(rpc.FromServer, l.opts.dir, l.opts.maxMessage),
		max: l.opts.maxMessage,
	}
	over := &ending{}
	for over.status == nil && over.err == nil {
		event, err := l.conn.Recv()
		if err != nil {
			over.err = err
			break
		}
		l.take(&in, event, over)
	}
	in.drop()
	l.mu.Lock()
	over.blame = l.blame
	l.over = over
	l.mu.Unlock()
	close(l.done)
	// Nothing follows; what the stream holds is freed, and a sender that waits on
	// it comes back.
	l.hang()
}

// incoming puts messages together from chunks.
type incoming struct {
	asm  *rpc.Assembler
	max  int64
	open bool // the assembler holds the beginning of a message
}

// add takes a chunk and returns the message that it completes, if it does. The
// chunk's bytes are no longer the caller's.
func (in *incoming) add(c provider.Chunk) (*rpc.Message, error) {
	// Nearly every message is one chunk, which needs no assembling and no copy.
	if size := int64(len(c.Data)); c.Last && !in.open && size <= rpc.SpoolOver && (in.max <= 0 || size <= in.max) {
		return rpc.Parse(rpc.FromServer, c.Data)
	}
	in.open = !c.Last
	_, _ = in.asm.Write(c.Data) // Finish has the error too
	c.Free()
	if in.open {
		return nil, nil
	}
	return in.asm.Finish()
}

// drop forgets the chunks of a message that will not be completed.
func (in *incoming) drop() {
	in.asm.Abort()
	in.open = false
}

// take handles one event.
func (l *link) take(in *incoming, event provider.Event, over *ending) {
	switch e := event.(type) {
	case provider.Chunk:
		l.heard()
		switch m, err := in.add(e); {
		case err != nil:
			l.refuse(err)
		case m != nil:
			l.route(m)
		}
	case provider.Noise:
		l.heard()
		in.drop()
		l.opts.noise.Add(1)
		l.opts.logger.Debug("noise on standard output", "line", string(e.Line))
	case provider.TooLarge:
		l.heard()
		in.drop()
		l.tooLarge(e.ID, fmt.Sprintf("it has %d bytes", e.Size))
	case provider.Undelivered:
		l.undelivered(e)
	case provider.Spoke:
		l.heard()
	case provider.Exited:
		over.status = &e.Status
	}
}

// heard marks that the server has said something. Only the reader calls it.
func (l *link) heard() {
	l.heardAt.Store(int64(time.Since(l.born)))
	select {
	case <-l.spoke:
	default:
		close(l.spoke)
	}
}

// route brings a message to where it belongs.
func (l *link) route(m *rpc.Message) {
	switch m.Kind {
	case rpc.Result, rpc.Failure:
		l.answer([]byte(m.ID), m, nil)
	case rpc.Request:
		l.opts.peer.request(m)
	case rpc.Notification:
		switch m.Method {
		case methodProgress:
			l.note(l.byToken(m), m)
		case methodMessage:
			if c := l.only(); c != nil {
				l.note(c, m)
				return
			}
			l.opts.peer.notification(m)
		default:
			l.opts.peer.notification(m)
		}
	}
}

// answer ends the call of that id, if it waits. One of m and lost is set.
func (l *link) answer(id []byte, m *rpc.Message, lost *Lost) bool {
	n, ok := idOf(id)
	l.mu.Lock()
	c := l.calls[n]
	if !ok || c == nil {
		l.mu.Unlock()
		l.drop(m)
		return false
	}
	l.forget(c)
	l.read = max(l.read, c.upTo)
	// Still under the lock: once c is released, it may be another call's.
	c.q.finish(m, lost)
	l.mu.Unlock()
	return true
}

// drop counts what belongs to no call.
func (l *link) drop(m *rpc.Message) {
	l.count(&l.counts.dropped)
	_ = closed(m)
}

// note gives a notification to a call's queue.
func (l *link) note(c *call, m *rpc.Message) {
	if c == nil {
		l.drop(m)
		return
	}
	if err := c.q.put(m, l.opts.dir); err != nil {
		l.count(&l.counts.dropped)
		l.opts.logger.Warn("a notification for a call is lost", "error", err)
	}
}

// byToken returns the caller's call that a progress notification names, nil where
// none waits.
func (l *link) byToken(m *rpc.Message) *call {
	n, ok := idOf(m.Get("params", "progressToken"))
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.calls[n]
	if !ok || c == nil || !c.caller {
		return nil
	}
	c.noted = true
	return c
}

// only returns the one caller's call in flight, nil where there are none or more.
func (l *link) only() *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlight != 1 {
		return nil
	}
	for _, c := range l.calls {
		if c.caller {
			c.noted = true
			return c
		}
	}
	return nil
}

// refuse handles a message that is none. With the id of a call it is that call's
// answer; with another it is a request, and its sender is told.
func (l *link) refuse(err error) {
	var e *rpc.Error
	if !errors.As(err, &e) {
		l.count(&l.counts.malformed)
		return
	}
	if errors.Is(err, rpc.ErrTooLarge) {
		l.tooLarge(json.RawMessage(e.ID), "it is longer")
		return
	}
	l.count(&l.counts.malformed)
	l.opts.logger.Warn("message of the server refused", "error", err)
	if e.ID == "" {
		return
	}
	if l.answer([]byte(e.ID), nil, &Lost{Dispatched: true, Reason: MalformedAnswer, Cause: "the server's answer is malformed: " + err.Error()}) {
		return
	}
	if !e.Response {
		l.reply(rpc.NewFailure(e.ID, e))
	}
}

// tooLarge ends the call whose answer is over max_message.
func (l *link) tooLarge(id json.RawMessage, size string) {
	l.count(&l.counts.malformed)
	cause := fmt.Sprintf("the answer is over max_message (%d bytes): %s", l.opts.maxMessage, size)
	if !l.answer(id, nil, &Lost{Dispatched: true, Reason: ResultTooLarge, Cause: cause}) {
		l.opts.logger.Warn("message of the server is over max_message and belongs to no call", "size", size)
	}
}

// undelivered ends the call of a message that the server did not get whole.
func (l *link) undelivered(e provider.Undelivered) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if c.seq == e.Seq {
			l.forget(c)
			c.q.finish(nil, &Lost{Reason: Undelivered, Cause: "the server did not get the request: " + e.Reason})
			return
		}
	}
}
