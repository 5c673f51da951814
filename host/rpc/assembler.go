package rpc

import (
	"fmt"
	"os"

	"github.com/drawbridge-mcp/drawbridge/shared/jsonscan"
)

// Assembler builds one message after the other from chunks, scanning and, above
// SpoolOver, spooling them as they arrive. One goroutine uses it.
type Assembler struct {
	origin Origin
	dir    string
	max    int64
	scan   *jsonscan.Scanner

	// fed counts the bytes of the current message, size those without breaks.
	fed, size int64
	// buf holds the message, or, in block, what is not yet written of a spooled one.
	buf   []byte
	file  *os.File
	block *[blockSize]byte
	err   *Error
	// ended says that not even the scan goes on.
	ended bool
}

// NewAssembler spools to unlinked files in dir ("" is the system's directory for
// temporary files) and refuses messages over max bytes; max 0 is no bound.
func NewAssembler(origin Origin, dir string, max int64) *Assembler {
	return &Assembler{origin: origin, dir: dir, max: max, scan: jsonscan.New(scanOptions(origin))}
}

// Write adds a chunk, which it copies. An error ends the message: it has been
// dropped, and what follows until Finish is ignored, though a message that is
// too large (ErrTooLarge) is still read for the id that Finish's error carries.
// The error is an *Error, the same until Finish, which returns it too.
func (a *Assembler) Write(p []byte) (int, error) {
	a.fed += int64(len(p))
	if a.err == nil && a.max > 0 && a.fed > a.max {
		a.drop()
		a.err = invalid(fmt.Sprintf("message is longer than %d bytes", a.max))
		a.err.cause = ErrTooLarge
	}
	if !a.ended {
		if err := a.scan.Feed(p); err != nil {
			a.ended = true
			if a.err == nil {
				a.err = a.scanError(err)
				a.drop()
			}
		}
	}
	if a.err == nil {
		if err := a.keep(p); err != nil {
			a.drop()
			a.err = spoolError(err)
		}
	}
	if a.err != nil {
		return len(p), a.err
	}
	return len(p), nil
}

// keep adds a valid chunk to the message.
func (a *Assembler) keep(p []byte) error {
	if !a.scan.Breaks() || !hasBreaks(p) {
		return a.add(p)
	}
	for len(p) > 0 {
		var run []byte
		run, p = cutBreak(p)
		if err := a.add(run); err != nil {
			return err
		}
	}
	return nil
}

// add adds bytes that hold no break.
func (a *Assembler) add(p []byte) error {
	a.size += int64(len(p))
	if a.file == nil {
		if a.size <= SpoolOver {
			a.grow(len(p))
			a.buf = append(a.buf, p...)
			return nil
		}
		if err := a.spool(); err != nil {
			return err
		}
	}
	for len(p) > 0 {
		if len(a.buf) == 0 && len(p) >= blockSize {
			_, err := a.file.Write(p)
			return err
		}
		n := copy(a.block[len(a.buf):], p)
		a.buf = a.block[:len(a.buf)+n]
		p = p[n:]
		if len(a.buf) == blockSize {
			if err := a.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// grow makes room for n bytes more of a message in memory. Most messages are one
// chunk, and take just that; one of several is given room for as much again and
// more, so that few copies are made of it.
func (a *Assembler) grow(n int) {
	if cap(a.buf)-len(a.buf) >= n && a.buf != nil {
		return
	}
	room := len(a.buf) + n
	if a.buf != nil {
		room = max(room, min(4*cap(a.buf), SpoolOver))
	}
	a.buf = append(make([]byte, 0, room), a.buf...)
}

// spool moves the message to a file, and gathers what follows in blocks.
func (a *Assembler) spool() error {
	file, err := unlinked(a.dir)
	if err != nil {
		return err
	}
	a.file = file
	if err := a.flush(); err != nil {
		return err
	}
	a.block, _ = blocks.Get().(*[blockSize]byte)
	a.buf = a.block[:0]
	return nil
}

func (a *Assembler) flush() error {
	if len(a.buf) == 0 {
		return nil
	}
	_, err := a.file.Write(a.buf)
	a.buf = a.buf[:0]
	return err
}

// scanError makes the error of a chunk, or of the end, that the scanner refused.
func (a *Assembler) scanError(err error) *Error {
	e := scanError(err)
	if e.Code == CodeInvalidRequest {
		e.ID, e.Response = glimpse(a.origin, a.scan)
	}
	return e
}

// Finish returns the message that the chunks made and makes the assembler ready
// for the next. The error is an *Error.
func (a *Assembler) Finish() (*Message, error) {
	defer a.Abort()
	if !a.ended {
		if err := a.scan.End(); err != nil && a.err == nil {
			a.err = a.scanError(err)
		}
	}
	if a.err != nil {
		if a.err.cause != nil && a.err.Code != CodeParse {
			a.err.ID, a.err.Response = glimpse(a.origin, a.scan)
		}
		return nil, a.err
	}
	b := memory(a.buf)
	if a.file != nil {
		if err := a.flush(); err != nil {
			return nil, spoolError(err)
		}
		b = body{file: a.file, size: a.size}
	}
	m, err := classify(a.origin, a.scan, b)
	if err != nil {
		return nil, err
	}
	a.file = nil // the message's now
	return m, nil
}

// Abort drops what was written of the current message.
func (a *Assembler) Abort() {
	a.drop()
	a.scan.Reset()
	a.fed, a.err, a.ended = 0, nil, false
}

// drop frees what is kept of the message.
func (a *Assembler) drop() {
	if a.block != nil {
		blocks.Put(a.block)
		a.block = nil
	}
	a.buf, a.size = nil, 0
	if a.file != nil {
		a.file.Close() // unlinked, and nothing in it is wanted
		a.file = nil
	}
}

// unlinked makes a file that has no name any more: its space is free as soon as
// it is closed, however this process ends.
func unlinked(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, "message-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		file.Close() // the error above is the one to report
		return nil, err
	}
	return file, nil
}
