package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

const (
	// cancelGrace is how long an answer may still arrive after a call was given up.
	cancelGrace = 250 * time.Millisecond
	// finishGrace is how long a call that was given up waits for the rest of its
	// message to go out, where that rest is in a file which the caller closes. Then
	// the stream ends: half a message cannot be left on it.
	finishGrace = 5 * time.Second
)

// call is one request on its way. The link's mutex guards the fields below it.
type call struct {
	id    int64
	q     queue
	timer *time.Timer
	// caller says that it is a caller's call, and not the session's own request.
	caller bool
	// last is called when the stream is free for it; see Call.
	last func() error

	seq  uint64
	upTo int64 // link.sent after it
	// dispatched says that its last chunk was handed over, or is about to be.
	dispatched bool
	// noted: the reader has put notifications in the queue, and may be putting one.
	noted bool
	// pushed is not nil when a goroutine of its own sends the message, and closed
	// when that has ended.
	pushed chan struct{}
}

// newCall prepares a request of the next id. release must be called.
func (l *link) newCall(caller bool) *call {
	c, ok := l.free.Get().(*call)
	if !ok {
		timer := time.NewTimer(time.Hour)
		timer.Stop()
		c = &call{q: queue{wake: make(chan struct{}, 1)}, timer: timer}
	}
	c.caller, c.id = caller, l.lastID.Add(1)
	return c
}

// release ends the caller's interest in c: what still comes is dropped.
func (l *link) release(c *call) {
	c.timer.Stop()
	l.mu.Lock()
	l.forget(c)
	again := !c.noted && c.pushed == nil
	l.mu.Unlock()
	if !again {
		// The reader, or the goroutine that sends it, may still have it in hand.
		c.q.close()
		return
	}
	_ = closed(c.q.answer)
	*c = call{timer: c.timer, q: queue{wake: c.q.wake}}
	select {
	case <-c.q.wake:
	default:
	}
	l.free.Put(c)
}

// forget takes c from those that wait for an answer. The lock is held.
func (l *link) forget(c *call) {
	if l.calls[c.id] != c {
		return
	}
	delete(l.calls, c.id)
	if c.caller {
		l.inFlight--
		l.settle()
	}
}

// terms are what a call is done under.
type terms struct {
	// silence is extended by progress, max is not; 0 is no limit.
	silence, max time.Duration
	// borrowed says that the message reads from a file which the caller closes.
	borrowed bool
	begin    func() error
	notify   func(*rpc.Message) error
}

// run sends c's message and waits for what becomes of it. The error is a *Lost,
// or, when nothing was sent, begin's, last's or ctx's.
func (l *link) run(ctx context.Context, c *call, p rpc.Payload, t terms) (*rpc.Message, error) {
	if limit := l.opts.maxMessage; limit > 0 && p.Len() > limit {
		return nil, &Lost{Reason: MessageTooLarge, Cause: fmt.Sprintf(
			"the request has %d bytes, which is over max_message (%d bytes)", p.Len(), limit)}
	}
	if t.begin != nil {
		if err := t.begin(); err != nil {
			return nil, err
		}
	}
	w := wait{link: l, call: c, terms: t, started: time.Now()}
	w.last = w.started
	w.arm()
	switch err := l.send(ctx, c, p); {
	case err == nil:
		return w.forAnswer(ctx)
	case errors.Is(err, errEnded):
		return nil, &Lost{Reason: NotSent, Cause: l.ending().String()}
	case errors.Is(err, errExpiry):
		return nil, &Lost{Reason: NotSent, Cause: "the server did not read its input in time"}
	default:
		return nil, err
	}
}

// ending waits for the link's end, which is at hand, and returns it.
func (l *link) ending() *ending {
	<-l.done
	return l.over
}

// wait is a call's own goroutine waiting for its answer.
type wait struct {
	terms
	link          *link
	call          *call
	started, last time.Time // last: of progress
	deaf          bool      // notify has failed: there is nobody to tell
}

// arm sets the timer to the end of the call's time.
func (w *wait) arm() {
	if end, ok := w.end(); ok {
		w.call.timer.Reset(time.Until(end))
	}
}

// end is when the time of the call is over; false where it never is.
func (w *wait) end() (time.Time, bool) {
	var end time.Time
	if w.silence > 0 {
		end = w.last.Add(w.silence)
	}
	if w.max > 0 && (end.IsZero() || w.started.Add(w.max).Before(end)) {
		end = w.started.Add(w.max)
	}
	return end, !end.IsZero()
}

// forAnswer returns the answer, or why there is none.
func (w *wait) forAnswer(ctx context.Context) (*rpc.Message, error) {
	late := false // the time is over, but the reader is about to bring something
	for {
		// What has arrived comes first, but a server that never stops talking does
		// not keep a call from its end.
		if t, ok := w.next(); ok {
			if t.ended {
				return t.result()
			}
			w.pass(t.message)
			switch {
			case ctx.Err() != nil:
				return w.abandoned(ctx)
			case w.expired():
				return w.giveUp(ctx, Timeout, w.overtime())
			}
			late = false
			continue
		}
		if late && !w.call.q.any() {
			return w.giveUp(ctx, Timeout, w.overtime())
		}
		select {
		case <-w.call.q.wake:
		case <-w.link.done:
			return w.atEnd()
		case <-ctx.Done():
			return w.abandoned(ctx)
		case <-w.call.timer.C:
			// The timer is not set again for what is over: the queue wakes this
			// goroutine when what is in it can be taken, or has come to nothing.
			if late = w.expired(); !late {
				w.arm()
			}
		}
	}
}

// expired says whether the time of the call is over.
func (w *wait) expired() bool {
	end, ok := w.end()
	return ok && !time.Now().Before(end)
}

// next takes what has arrived next; false where nothing has.
func (w *wait) next() (taken, bool) {
	for {
		t, ok, err := w.call.q.take()
		if err == nil {
			return t, ok
		}
		w.link.count(&w.link.counts.dropped)
		w.link.opts.logger.Warn("notifications for a call are lost", "error", err)
	}
}

// rest passes on what has arrived; true where that ends the call. It is for when
// nothing more arrives.
func (w *wait) rest() (taken, bool) {
	for {
		t, ok := w.next()
		if !ok || t.ended {
			return t, ok
		}
		w.pass(t.message)
	}
}

// pass hands a notification to the caller.
func (w *wait) pass(m *rpc.Message) {
	if m.Method == methodProgress {
		w.last = time.Now()
		w.arm()
	}
	if w.notify != nil && !w.deaf {
		// A caller that cannot be told any more ends the call by its context.
		w.deaf = w.notify(m) != nil
	}
	_ = m.Close()
}

func (t taken) result() (*rpc.Message, error) {
	if t.lost != nil {
		return nil, t.lost
	}
	return t.answer, nil
}

// overtime says which limit is over, and names both.
func (w *wait) overtime() string {
	switch {
	case w.max <= 0:
		return fmt.Sprintf("no answer within %s", w.silence)
	case w.silence > 0 && time.Since(w.last) >= w.silence:
		return fmt.Sprintf("neither answer nor progress for %s (call_timeout; with progress a call may take %s, call_timeout_max)", w.silence, w.max)
	}
	return fmt.Sprintf("no answer within %s (call_timeout_max), for all its progress (which extends call_timeout, %s)", w.max, w.silence)
}

// atEnd returns what a call has when the link has ended.
func (w *wait) atEnd() (*rpc.Message, error) {
	if t, ok := w.rest(); ok {
		return t.result()
	}
	w.link.mu.Lock()
	defer w.link.mu.Unlock()
	lost := &Lost{Dispatched: w.call.dispatched, Reason: NotSent, Cause: w.link.over.String()}
	if lost.Dispatched {
		lost.Reason = Crashed
	}
	return nil, lost
}

// abandoned gives up a call whose context has ended.
func (w *wait) abandoned(ctx context.Context) (*rpc.Message, error) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		cause := "the caller's deadline has passed"
		if set := context.Cause(ctx); !errors.Is(set, context.DeadlineExceeded) { // whoever set it says which it was
			cause = set.Error()
		}
		return w.giveUp(ctx, Timeout, cause)
	}
	w.deaf = true
	return w.giveUp(ctx, Cancelled, "the caller cancelled it")
}

// giveUp tells the server, and takes an answer that still comes.
func (w *wait) giveUp(ctx context.Context, reason Reason, cause string) (*rpc.Message, error) {
	l, c := w.link, w.call
	w.silence, w.max = 0, 0 // progress extends nothing any more
	if c.q.answered() {
		t, _ := w.rest()
		return t.result()
	}
	l.notify(cancelled(c.id, cause))
	if c.caller { // of the session's own requests nobody minds
		if answer, err, ok := w.forLateAnswer(); ok {
			return answer, err
		}
	}
	if w.borrowed && c.pushed != nil {
		c.timer.Reset(finishGrace)
		select {
		case <-c.pushed:
		case <-c.timer.C:
			l.breakOff("the server does not read its input, and a caller left with half a request on its way")
			<-c.pushed
			<-l.done
		}
	}
	l.mu.Lock()
	l.forget(c)
	// What has begun will be completed, so it counts as if it were.
	dispatched := c.dispatched || l.over == nil && !l.broken
	l.mu.Unlock()
	if c.q.answered() { // it came in the last moment
		t, _ := w.rest()
		return t.result()
	}
	return nil, &Lost{Dispatched: dispatched, Reason: reason, Cause: cause}
}

// forLateAnswer waits for cancelGrace; true where the call has its end.
func (w *wait) forLateAnswer() (*rpc.Message, error, bool) {
	w.call.timer.Reset(cancelGrace)
	for {
		t, ok := w.next()
		switch {
		case ok && t.ended:
			answer, err := t.result()
			return answer, err, true
		case ok:
			w.pass(t.message)
			select {
			case <-w.call.timer.C:
				return nil, nil, false
			default:
			}
			continue
		}
		select {
		case <-w.call.q.wake:
		case <-w.link.done:
			answer, err := w.atEnd()
			return answer, err, true
		case <-w.call.timer.C:
			return nil, nil, false
		}
	}
}

// cancelled is the notification that gives up a request (MCP, basic/utilities/cancellation).
func cancelled(id int64, why string) rpc.Payload {
	params, _ := json.Marshal(struct {
		RequestID int64  `json:"requestId"`
		Reason    string `json:"reason"`
	}{id, why}) // cannot fail
	return rpc.NewNotification(methodCancelled, params)
}
