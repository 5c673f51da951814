package stdio

import (
	"context"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// exchange is the one stream of the process.
type exchange struct {
	s    *server
	conn provider.Conn
	// spoke sends Spoke before whatever else the server says.
	spoke sync.Once
	// mu lets nothing follow Exited.
	mu   sync.Mutex
	over bool
}

// run carries messages until the server has ended, then sends Exited; or until
// ctx is done.
func (x *exchange) run(ctx context.Context) error {
	// Recv returns at the latest when the stream ends, which is after this.
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
	defer func() { <-said }()
	for _, ended := range []<-chan struct{}{x.s.outDone, x.s.gone} {
		select {
		case <-ended:
		case <-ctx.Done():
			x.s.closeStdin()
			return ctx.Err()
		}
	}
	<-said
	x.mu.Lock()
	x.over = true
	x.mu.Unlock()
	return x.conn.Send(provider.Exited{Status: x.s.status})
}

func (x *exchange) sayFirst() {
	x.spoke.Do(func() { _ = x.conn.Send(provider.Spoke{}) })
}

// fromServer passes an event of standard output on.
func (x *exchange) fromServer(event provider.Event) error {
	x.sayFirst()
	return x.conn.Send(event)
}

// receive writes the host's messages until the host has no more.
func (x *exchange) receive() {
	in := &inbound{s: x.s, undelivered: x.undelivered}
	for {
		frame, err := x.conn.Recv()
		if err != nil {
			return
		}
		in.frame(frame)
	}
}

func (x *exchange) undelivered(seq uint64, reason string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over {
		_ = x.conn.Send(provider.Undelivered{Seq: seq, Reason: reason})
	}
}
