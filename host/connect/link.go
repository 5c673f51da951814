package connect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// greetLimit bounds how long a host takes to answer the session's `initialize` when it
// is said again. It starts nothing for that.
const greetLimit = 20 * time.Second

// link is one connection to one host. The goroutine of Run writes to it, its own
// goroutine reads.
type link struct {
	bridge *bridge
	// number counts the session's links from 1.
	number int
	stream Stream
	out    *bufio.Writer
	// dead, under the ledger's lock: what is in flight has been answered.
	dead bool
	// greeted gets the answer to the session's `initialize`.
	greeted chan *rpc.Message
	// lost is closed when the link is dead and its reader has ended; then err says why.
	lost chan struct{}
	err  error
}

// attach looks for a host once, with start starts one where there is none, and gives it
// the session.
func (b *bridge) attach(start bool) error {
	stream, err := b.Dial(b.alive, How{Start: start, Again: b.links > 0})
	if err != nil {
		if b.alive.Err() == nil && err.Error() != b.told {
			b.told = err.Error()
			b.Logger.Warn("not connected", "why", err)
		}
		return err
	}
	b.links++
	l := &link{
		bridge: b, number: b.links, stream: stream, out: bufio.NewWriterSize(stream, 64<<10),
		greeted: make(chan *rpc.Message, 1), lost: make(chan struct{}),
	}
	unhook := context.AfterFunc(b.alive, func() { _ = stream.Close() })
	b.readers.Go(func() {
		defer unhook()
		l.read()
	})
	if err := l.greet(); err != nil {
		_ = stream.Close()
		<-l.lost
		b.Logger.Warn("not connected", "why", err)
		return err
	}
	b.link, b.told = l, ""
	return nil
}

// greet says to a host what the session has agreed on with another, and to the client
// that what it knows of tools may be of yesterday.
func (l *link) greet() error {
	session := l.bridge.ledger.session()
	if session.hello == nil || !session.agreed {
		return nil
	}
	l.send(session.hello.Edit().SetID(helloID).Payload())
	var answer *rpc.Message
	limit := time.NewTimer(greetLimit)
	defer limit.Stop()
	select {
	case answer = <-l.greeted:
	case <-l.lost:
		return fmt.Errorf("the host ended as it began: %w", l.err)
	case <-limit.C:
		return errors.New("the host does not answer; see its log, or restart it")
	}
	defer closeMessage(answer)
	if version, _ := answer.GetString("result", "protocolVersion"); version != session.version {
		return fmt.Errorf("%w (%q, it has %q)", ErrRevision, session.version, version)
	}
	if !session.initialized {
		return nil
	}
	l.send(rpc.NewNotification("notifications/initialized", nil))
	if session.level != nil {
		l.send(session.level.Edit().SetID(levelID).Payload())
	}
	_ = l.bridge.out.Answer(rpc.NewNotification("notifications/tools/list_changed", nil))
	return nil
}

// send writes one message. When it cannot, the link is lost, and its reader says so.
func (l *link) send(p rpc.Payload) {
	_, err := p.WriteTo(l.out)
	if err == nil {
		err = l.out.WriteByte('\n')
	}
	if err == nil {
		err = l.out.Flush()
	}
	if err != nil {
		_ = l.stream.Close()
	}
}

// read carries what the host says to the client until it is gone, and then answers
// what it has left unanswered.
func (l *link) read() {
	b := l.bridge
	defer close(l.lost)
	l.err = rpc.ReadLines(l.stream, rpc.NewAssembler(rpc.FromServer, b.SpoolDir, 0), l.take)
	_ = l.stream.Close()
	answers := b.ledger.lose(l)
	if b.alive.Err() != nil {
		return
	}
	for _, id := range inOrder(answers) {
		_ = b.out.Answer(rpc.NewFailure(id, answers[id]))
	}
}

// take carries one message of the host's.
func (l *link) take(m *rpc.Message, err error) {
	b := l.bridge
	if err != nil {
		b.Logger.Error("the host said what is no message; what waits for it is told that it is lost", "why", err)
		_ = l.stream.Close()
		return
	}
	switch {
	case m.ID == helloID:
		select {
		case l.greeted <- m:
		default:
			_ = m.Close()
		}
		return
	case m.ID == levelID:
		_ = m.Close()
		return
	case m.Kind == rpc.Result || m.Kind == rpc.Failure:
		b.ledger.settle(m)
	default:
	}
	_ = b.out.Answer(l.inward(m)) // one that cannot be written to ends the session
	_ = m.Close()
}

// why says how a link that is lost was lost.
func (l *link) why() string {
	if l.err == nil {
		return "it closed the connection"
	}
	return l.err.Error()
}
