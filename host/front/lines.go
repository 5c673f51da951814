package front

import (
	"bytes"
	"errors"
	"io"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// readSize is how much is asked for at once of a client's input.
const readSize = 64 << 10

// readLines cuts in into lines and hands each message, or what is wrong with it,
// to take, until the input ends (nil) or fails. A line over the assembler's bound
// is read to its end without being kept. Blank lines are nothing, and a last line
// without an end is one.
func readLines(in io.Reader, asm *rpc.Assembler, take func(*rpc.Message, error)) error {
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
