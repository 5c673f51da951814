package rpc

import (
	"io"
	"os"
	"sync"
)

const (
	// blockSize is the length of the pooled buffers that payloads stream through,
	// and of the chunks in which the host sends them.
	blockSize = 256 << 10
	// smallSize is the length up to which an edited payload is put together in a
	// buffer of its own instead of a pooled one.
	smallSize = 8 << 10
)

var blocks = sync.Pool{New: func() any { return new([blockSize]byte) }}

// segment is a run of a payload's bytes: mem, or n bytes of file from off on.
type segment struct {
	mem    []byte
	file   *os.File
	off, n int64
}

func (s segment) size() int64 {
	if s.file != nil {
		return s.n
	}
	return int64(len(s.mem))
}

// Payload is a message on its way out: pieces of memory and of spool files. It
// holds no CR or LF. It is valid until the Message it was made of is closed, and
// may be written more than once. The zero Payload is empty.
type Payload struct {
	// one is the only segment if more is nil; a message in memory that nothing
	// changed needs no more.
	one  segment
	more []segment
	size int64
	err  error
}

func payloadOf(s segment) Payload { return Payload{one: s, size: s.size()} }

// Bytes makes a payload of bytes that are already a valid message.
func Bytes(b []byte) Payload { return payloadOf(segment{mem: unbroken(b)}) }

// unbroken returns valid JSON without CR and LF, b itself if it has none.
func unbroken(b []byte) []byte {
	if !hasBreaks(b) {
		return b
	}
	return appendUnbroken(make([]byte, 0, len(b)), b)
}

func (p *Payload) add(s segment) {
	n := s.size()
	if n == 0 {
		return
	}
	p.size += n
	p.more = append(p.more, s)
}

func (p Payload) segments() []segment {
	if p.more == nil && p.size > 0 {
		return []segment{p.one}
	}
	return p.more
}

// Len is the length in bytes.
func (p Payload) Len() int64 { return p.size }

// WriteTo writes the payload, in as few and as large writes as memory allows.
func (p Payload) WriteTo(w io.Writer) (int64, error) {
	if p.err != nil {
		return 0, p.err
	}
	if p.more == nil && p.one.file == nil {
		n, err := w.Write(p.one.mem)
		return int64(n), err
	}
	var written int64
	err := p.Chunks(blockSize, func(piece []byte, _ bool) error {
		if len(piece) == 0 {
			return nil
		}
		n, err := w.Write(piece)
		written += int64(n)
		return err
	})
	return written, err
}

// Append appends the payload to dst. It is for small ones: it takes as much
// memory as the payload is long.
func (p Payload) Append(dst []byte) ([]byte, error) {
	if p.err != nil {
		return dst, p.err
	}
	for _, s := range p.segments() {
		if s.file == nil {
			dst = append(dst, s.mem...)
			continue
		}
		at := len(dst)
		dst = append(dst, make([]byte, s.n)...)
		if _, err := s.file.ReadAt(dst[at:], s.off); err != nil {
			return dst[:at], err
		}
	}
	return dst, nil
}

// Chunks calls f with consecutive pieces of at most size bytes; last is set on
// the last. A piece is valid until f returns. What was in one piece in memory is
// not copied; what was edited is put together again, so that a small message is
// one piece. An empty payload is one empty piece. The error is f's, or that of a
// spool file that cannot be read.
func (p Payload) Chunks(size int, f func(piece []byte, last bool) error) error {
	if p.err != nil {
		return p.err
	}
	size = max(size, 1)
	if p.more == nil && p.one.file == nil {
		return inPieces(p.one.mem, size, true, f)
	}
	if p.size == 0 {
		return f(nil, true)
	}
	c := chunker{left: p.size, f: f}
	size = min(size, blockSize)
	if p.size <= smallSize {
		c.buf = make([]byte, 0, min(int64(size), p.size))
	} else {
		block, _ := blocks.Get().(*[blockSize]byte)
		defer blocks.Put(block)
		c.buf = block[:0:size]
	}
	for _, s := range p.segments() {
		if err := c.add(s); err != nil {
			return err
		}
	}
	return nil
}

// inPieces calls f with pieces of b; last says that b is the end of the payload.
func inPieces(b []byte, size int, last bool, f func([]byte, bool) error) error {
	for len(b) > size {
		if err := f(b[:size:size], false); err != nil {
			return err
		}
		b = b[size:]
	}
	return f(b, last)
}

// chunker gathers segments into pieces as long as its buffer.
type chunker struct {
	buf  []byte
	left int64 // of the payload, what f has not had
	f    func([]byte, bool) error
}

func (c *chunker) add(s segment) error {
	for s.size() > 0 {
		room := int64(cap(c.buf) - len(c.buf))
		// A long run of memory goes out as it is.
		if s.file == nil && len(c.buf) == 0 && s.size() >= room {
			if err := c.out(s.mem[:room]); err != nil {
				return err
			}
			s.mem = s.mem[room:]
			continue
		}
		n := min(room, s.size())
		at := len(c.buf)
		c.buf = c.buf[:at+int(n)]
		if s.file == nil {
			copy(c.buf[at:], s.mem)
			s.mem = s.mem[n:]
		} else {
			if _, err := s.file.ReadAt(c.buf[at:], s.off); err != nil {
				return err
			}
			s.off += n
			s.n -= n
		}
		if len(c.buf) == cap(c.buf) || int64(len(c.buf)) == c.left {
			if err := c.out(c.buf); err != nil {
				return err
			}
			c.buf = c.buf[:0]
		}
	}
	return nil
}

func (c *chunker) out(piece []byte) error {
	c.left -= int64(len(piece))
	return c.f(piece, c.left == 0)
}
