package rpc

import (
	"fmt"
	"os"

	"github.com/drawbridge-mcp/drawbridge/shared/jsonscan"
)

// spoolBlock is how much of a spooled message is gathered before it is written.
const spoolBlock = 256 << 10

// Assembler builds one message after the other from chunks, scanning and, above
// SpoolOver, spooling them as they arrive. One goroutine uses it.
type Assembler struct {
	origin Origin
	dir    string
	max    int64
	scan   *jsonscan.Scanner

	// fed counts the bytes of the current message, kept those without breaks.
	fed, kept int64
	// buf holds the message, or what is not yet written of a spooled one.
	buf  []byte
	file *os.File
	// block is kept from one spooled message to the next.
	block []byte
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
	if a.buf == nil && a.file == nil {
		a.buf = make([]byte, 0, len(p))
	}
	before := len(a.buf)
	if a.scan.Breaks() && hasBreaks(p) {
		a.buf = appendUnbroken(a.buf, p)
	} else {
		a.buf = append(a.buf, p...)
	}
	a.kept += int64(len(a.buf) - before)
	if a.file == nil && a.kept > SpoolOver {
		file, err := unlinked(a.dir)
		if err != nil {
			return err
		}
		a.file = file
		if err := a.flush(); err != nil {
			return err
		}
		a.buf = a.block[:0]
	}
	if a.file != nil && len(a.buf) >= spoolBlock {
		return a.flush()
	}
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
		b = body{file: a.file, size: a.kept}
	}
	m, err := classify(a.origin, a.scan, b)
	if err != nil {
		return nil, err
	}
	// The message owns them now.
	if a.file == nil {
		a.buf = nil
	}
	a.file = nil
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
	if cap(a.buf) >= spoolBlock && cap(a.buf) <= 2*spoolBlock {
		a.block = a.buf[:0]
	}
	a.buf, a.kept = nil, 0
	if a.file != nil {
		a.file.Close() //nolint:errcheck,gosec // unlinked, and nothing in it is wanted
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
		file.Close() //nolint:errcheck,gosec // the error above is the one to report
		return nil, err
	}
	return file, nil
}
