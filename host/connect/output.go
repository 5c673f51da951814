package connect

import (
	"bufio"
	"io"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// output writes whole lines to the client. Who writes while the client reads nothing
// waits, and with it the host.
type output struct {
	to io.Writer
	mu sync.Mutex // held while a line is written
	// buf holds what is not yet a whole line.
	buf *bufio.Writer
	// lost is closed when the client cannot be written to any more; why says why.
	lost chan struct{}
	why  error
}

func newOutput(to io.Writer) *output {
	return &output{to: to, buf: bufio.NewWriterSize(to, 64<<10), lost: make(chan struct{})}
}

// Answer writes one message as a line.
func (o *output) Answer(p rpc.Payload) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why != nil {
		return o.why
	}
	_, err := p.WriteTo(o.buf)
	if err == nil {
		err = o.buf.WriteByte('\n')
	}
	if err == nil {
		err = o.buf.Flush()
	}
	if err != nil { // half a line may have been written: nothing can follow it
		o.why = err
		close(o.lost)
	}
	return err
}

// broken says whether the client was lost.
func (o *output) broken() bool {
	select {
	case <-o.lost:
		return true
	default:
		return false
	}
}

// interrupt ends a write that may be under way, and all that come.
func (o *output) interrupt() {
	if d, ok := o.to.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = d.SetWriteDeadline(time.Unix(1, 0))
	}
}
