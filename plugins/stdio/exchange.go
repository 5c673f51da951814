package stdio

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

var errOver = errors.New("the exchange is over")

// exchange is the one stream of the process.
type exchange struct {
	s    *server
	conn provider.Conn
	// spoke sends Spoke before whatever else the server says.
	spoke sync.Once
	// over lets nothing be sent after Exited or ctx's end. mu keeps the order; it
	// is held while a Send waits for the host, so an end that cannot wait only sets over.
	mu   sync.Mutex
	over atomic.Bool
}

// run carries messages until the server has ended, then sends Exited; or until
// ctx is done.
func (x *exchange) run(ctx context.Context) error {
	// Recv, and a Send under way when ctx ends, return at the latest when the
	// stream ends, which is after this.
	go x.receive()
	said := make(chan struct{})
	go func() { // a server may speak on stderr alone
		defer close(said)
		select {
		case <-x.s.spoke:
		case <-x.s.gone:
		case <-ctx.Done():
			return
		}
		select {
		case <-x.s.spoke:
			x.sayFirst()
		default:
		}
	}()
	for _, ended := range []<-chan struct{}{x.s.outDone, x.s.gone} {
		select {
		case <-ended:
		case <-ctx.Done():
			x.over.Store(true)
			x.s.closeStdin()
			return ctx.Err()
		}
	}
	<-said
	return x.end(provider.Exited{Status: x.s.status})
}

// end sends the last event.
func (x *exchange) end(last provider.Event) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over.Store(true)
	return x.conn.Send(last)
}

func (x *exchange) send(event provider.Event) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over.Load() {
		return errOver
	}
	return x.conn.Send(event)
}

func (x *exchange) sayFirst() {
	x.spoke.Do(func() { _ = x.send(provider.Spoke{}) })
}

// fromServer passes an event of standard output on.
func (x *exchange) fromServer(event provider.Event) error {
	x.sayFirst()
	if n, ok := event.(provider.Noise); ok {
		line := x.s.errs.hide.from(string(n.Line))
		if len(n.Line) == provider.MaxNoise { // it may be cut
			line = x.s.errs.hide.beforeCut(string(n.Line))
		}
		event = provider.Noise{Line: []byte(line)}
	}
	return x.send(event)
}

// receive writes the host's messages until the host has no more.
func (x *exchange) receive() {
	in := &inbound{s: x.s, undelivered: func(seq uint64, reason string) {
		_ = x.send(provider.Undelivered{Seq: seq, Reason: reason})
	}}
	for {
		frame, err := x.conn.Recv()
		if err != nil {
			return
		}
		in.frame(frame)
	}
}
