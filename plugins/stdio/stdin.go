package stdio

import (
	"bytes"
	"errors"
	"os"
	"syscall"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// Why a message was not handed over, or not whole.
const (
	whyExited   = "the server has exited"
	whyStopping = "the server's standard input has been closed, to end it"
	whyRefused  = "the server has closed its standard input"
	whyBreak    = "a line break in the message: it would be two"
	whyChunk    = "a chunk over the limit of the contract"
	whyEmpty    = "an empty message"
	whyMixed    = "the message was not finished before the next one began"
	whyPartial  = "an earlier message was cut short, and what follows would be glued to it"
)

// inbound writes the host's frames to standard input. One goroutine uses it.
//
// A message counts as handed over when its last byte was written, with or
// without the newline: a server may take the last line of a closed pipe. Once a
// message was cut short, nothing may follow it, or the server would read
// the two as one line.
type inbound struct {
	s *server
	// undelivered tells the host, once a message.
	undelivered func(seq uint64, reason string)

	seq     uint64 // the message under way
	open    bool
	refused bool // the rest of its chunks are dropped
	written int64
	dead    string // why nothing can be written any more
	buf     []byte
}

func (in *inbound) frame(f provider.Frame) {
	if in.open && f.Seq != in.seq {
		in.refuse(whyMixed)
		in.open = false
	}
	if !in.open {
		in.seq, in.open, in.refused, in.written = f.Seq, true, false, 0
	}
	if !in.refused {
		if reason := in.write(f); reason != "" {
			in.refuse(reason)
		}
	}
	if f.Last {
		in.open = false
	}
}

// refuse gives up the message under way.
func (in *inbound) refuse(reason string) {
	if in.refused {
		return
	}
	in.refused = true
	in.undelivered(in.seq, reason)
	if in.written > 0 && in.dead == "" {
		in.dead = whyPartial
		in.s.hangup()
	}
}

// write writes one chunk, the last one with its newline in a single call, and
// says why the message is not handed over.
func (in *inbound) write(f provider.Frame) string {
	switch {
	case in.dead != "":
		return in.dead
	case in.s.hasExited():
		// A descendant may hold the pipe open, so that writing would succeed.
		in.dead = whyExited
		return in.dead
	case bytes.IndexByte(f.Data, '\n') >= 0 || bytes.IndexByte(f.Data, '\r') >= 0:
		return whyBreak
	case len(f.Data) > provider.MaxChunk:
		return whyChunk
	case f.Last && in.written == 0 && len(f.Data) == 0:
		return whyEmpty
	}
	data := f.Data
	if f.Last {
		in.buf = append(append(in.buf[:0], data...), '\n')
		data = in.buf
	}
	n, err := in.s.stdin.Write(data)
	in.written += int64(n)
	if err == nil {
		return ""
	}
	in.dead = in.s.writeFailed(err)
	if f.Last && n >= len(f.Data) {
		return ""
	}
	return in.dead
}

// writeFailed says why standard input takes nothing any more. Unless we closed
// it, the server did, and can be given nothing to do again.
func (s *server) writeFailed(err error) string {
	switch {
	case s.hasExited():
		return whyExited
	case errors.Is(err, os.ErrClosed):
		return whyStopping
	}
	s.hangup()
	if errors.Is(err, syscall.EPIPE) {
		return whyRefused
	}
	return cause(err)
}
