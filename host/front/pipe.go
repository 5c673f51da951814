package front

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// ErrStalled says that the client read nothing for write_timeout.
var ErrStalled = errors.New("the client reads nothing")

// pipe writes whole lines to the one output of a stdio client. It is the Writer
// of all its requests: who has the turn writes one message, and nothing stands
// between a message's first byte and its last.
type pipe struct {
	buf  *bufio.Writer
	turn chan struct{} // holds one token; taking it is taking the turn
	// queued are those who want the turn. Who leaves it to another leaves the
	// flush to him too, so that a crowd costs few writes.
	queued atomic.Int32
	// lost is closed when the client cannot be written to any more; why says why.
	lost chan struct{}
	once sync.Once
	why  error
	// stuck says that a write hangs and that nothing can interrupt it.
	stuck bool
}

func newPipe(out io.Writer, timeout time.Duration) *pipe {
	p := &pipe{turn: make(chan struct{}, 1), lost: make(chan struct{})}
	dog := time.AfterFunc(timeout, func() {
		p.fail(fmt.Errorf("%w for %v", ErrStalled, timeout), func() (stuck bool) {
			d, ok := out.(interface{ SetWriteDeadline(time.Time) error })
			return !ok || d.SetWriteDeadline(time.Unix(1, 0)) != nil
		})
	})
	dog.Stop()
	p.buf = bufio.NewWriterSize(watched{out, dog, timeout}, 64<<10)
	return p
}

// watched lets a dog bark when one write takes too long.
type watched struct {
	out     io.Writer
	dog     *time.Timer
	timeout time.Duration
}

func (w watched) Write(b []byte) (int, error) {
	w.dog.Reset(w.timeout)
	defer w.dog.Stop()
	return w.out.Write(b)
}

// Notify and Answer write one message each, as a line.
func (p *pipe) Notify(m rpc.Payload) error { return p.writeLine(m) }

// Answer writes one message as a line.
func (p *pipe) Answer(m rpc.Payload) error { return p.writeLine(m) }

func (p *pipe) writeLine(m rpc.Payload) error {
	p.queued.Add(1)
	select {
	case p.turn <- struct{}{}:
	case <-p.lost:
		p.queued.Add(-1)
		return p.why
	}
	defer func() { <-p.turn }()
	others := p.queued.Add(-1) > 0
	_, err := m.WriteTo(p.buf)
	if err == nil {
		err = p.buf.WriteByte('\n')
	}
	if err == nil && !others {
		err = p.buf.Flush()
	}
	if err != nil {
		// Half a line may have been written: nothing can follow it.
		p.fail(err, nil)
	}
	return err
}

// fail says once that the client is lost, after interrupt has tried to end a write
// that hangs. (That write then fails too, and waits here to be told why.)
func (p *pipe) fail(why error, interrupt func() (stuck bool)) {
	p.once.Do(func() {
		p.why = why
		if interrupt != nil {
			p.stuck = interrupt()
		}
		close(p.lost)
	})
}
