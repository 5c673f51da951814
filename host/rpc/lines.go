package rpc

import (
	"bytes"
	"errors"
	"io"
)

// readSize is how much is asked for at once of an input.
const readSize = 64 << 10

// ReadLines cuts in into lines and hands each message, or what is wrong with it,
// to take, until the input ends (nil) or fails. A line over the assembler's bound
// is read to its end without being kept. Blank lines are nothing, and a last line
// without an end is one. The messages are take's to close.
func ReadLines(in io.Reader, asm *Assembler, take func(*Message, error)) error {
	buf := make([]byte, readSize)
	blank := true
	finish := func() {
		if blank {
			asm.Abort()
			return
		}
		blank = true
		take(asm.Finish())
	}
	for {
		n, err := in.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			line, after, ended := bytes.Cut(rest, []byte{'\n'})
			if blank {
				blank = len(bytes.TrimSpace(line)) == 0
			}
			_, _ = asm.Write(line) // what is wrong with it Finish says too
			if ended {
				finish()
			}
			rest = after
		}
		if err != nil {
			finish()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}
