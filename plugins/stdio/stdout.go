package stdio

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/drawbridge-mcp/drawbridge/shared/jsonscan"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// defaultMaxMessage is the limit of a message when the host gives none.
const defaultMaxMessage = 64 << 20

// lineReader turns standard output into events: a line that is a JSON object
// with "jsonrpc": "2.0" into chunks, an empty one into nothing, every other into
// Noise (a batch too: no revision that has them is spoken here). A line is
// checked as it comes, so a long one is passed on before its end is there, and
// costs no memory but one chunk.
//
// One thing of a message is lost: of white space that stands before its object, what
// fills a whole chunk. Until the object begins the line may be a blank one, of which
// nothing is passed on, and no server has a reason to write 256 KiB of it.
type lineReader struct {
	from *bufio.Reader
	max  int64
	scan *jsonscan.Scanner
	send func(provider.Event) error
}

// scanOptions keep what decides whether a line is a message, and its id.
var scanOptions = jsonscan.Options{
	Keep:    func(depth int, name string) bool { return depth == 1 && (name == "jsonrpc" || name == "id") },
	Capture: func(int, string) bool { return true }, MaxCapture: provider.MaxID,
}

// newLineReader sends each event before it reads on; what an event holds is
// valid until send returns.
func newLineReader(from io.Reader, maxMessage int64, send func(provider.Event) error) *lineReader {
	if maxMessage <= 0 {
		maxMessage = defaultMaxMessage
	}
	return &lineReader{
		from: bufio.NewReaderSize(from, provider.SendChunk),
		max:  maxMessage, scan: jsonscan.New(scanOptions), send: send,
	}
}

// run reads to the end, which is no error; an error is send's.
func (l *lineReader) run() error {
	for {
		piece, err := l.from.ReadSlice('\n')
		switch {
		case err == nil:
			err = l.line(piece[:len(piece)-1])
		case errors.Is(err, bufio.ErrBufferFull):
			err = l.long(piece)
		default:
			// The last line needs no newline.
			return l.line(piece)
		}
		if err != nil {
			return err
		}
	}
}

// line takes a whole line that is in the buffer, without its newline.
func (l *lineReader) line(text []byte) error {
	blank := len(blanks(text))
	switch {
	case blank == len(text):
		return nil
	case text[blank] != '{':
		return l.noise(text)
	}
	l.scan.Reset()
	if l.scan.Feed(text) != nil || l.scan.End() != nil || !l.isMessage() {
		return l.noise(text)
	}
	if size := lineSize(text); size > l.max {
		return l.send(provider.TooLarge{ID: l.id(), Size: size})
	}
	return l.send(provider.Chunk{Data: withoutCR(text), Last: true})
}

// long takes a line whose first piece fills the buffer.
func (l *lineReader) long(piece []byte) error {
	l.scan.Reset()
	var size int64
	var wrong, over, crAtEnd bool
	begin := bytes.Clone(piece[:min(len(piece), provider.MaxNoise)])
	for last := false; ; {
		if text, whole := bytes.CutSuffix(piece, []byte("\n")); whole {
			piece, last = text, true
		}
		size += int64(len(piece))
		if len(piece) > 0 {
			crAtEnd = piece[len(piece)-1] == '\r'
		}
		if !wrong {
			wrong = l.scan.Feed(piece) != nil || l.scan.Root() != 0 && l.scan.Root() != '{'
			if wrong {
				// Said at once: the other side is holding what was sent of it.
				if err := l.noise(begin); err != nil {
					return err
				}
			}
		}
		if last {
			break
		}
		over = over || size > l.max
		if !wrong && !over && l.scan.Root() != 0 {
			if err := l.send(provider.Chunk{Data: withoutCR(piece)}); err != nil {
				return err
			}
		}
		var err error
		piece, err = l.from.ReadSlice('\n')
		last = err != nil && !errors.Is(err, bufio.ErrBufferFull)
	}
	if crAtEnd {
		size--
	}
	switch {
	case wrong || l.scan.Root() == 0:
		return nil
	case l.scan.End() != nil || !l.isMessage():
		return l.noise(begin)
	case over || size > l.max:
		return l.send(provider.TooLarge{ID: l.id(), Size: size})
	}
	return l.send(provider.Chunk{Data: withoutCR(piece), Last: true})
}

// isMessage asks the scanner after a whole object.
func (l *lineReader) isMessage() bool {
	for _, m := range l.scan.Members() {
		if m.Name == "jsonrpc" && string(m.Captured) == `"2.0"` {
			return true
		}
	}
	return false
}

// id is the top-level id in memory of its own; nil where there is none that
// JSON-RPC allows. Of two, which make a message malformed, it is the last, as
// most parsers have it.
func (l *lineReader) id() json.RawMessage {
	var id json.RawMessage
	for _, m := range l.scan.Members() {
		if m.Name != "id" || len(m.Captured) > provider.MaxID {
			continue
		}
		if m.Kind == '"' || m.Kind == '0' || m.Kind == 'n' {
			id = bytes.Clone(m.Captured)
		}
	}
	return id
}

func (l *lineReader) noise(text []byte) error {
	return l.send(provider.Noise{Line: text[:min(len(text), provider.MaxNoise)]})
}

// blanks returns the white space that text begins with.
func blanks(text []byte) []byte {
	for i, c := range text {
		if c != ' ' && c != '\t' && c != '\r' {
			return text[:i]
		}
	}
	return text
}

// lineSize is the length of a line without the CR that may stand before its newline.
func lineSize(text []byte) int64 {
	return int64(len(bytes.TrimSuffix(text, []byte("\r"))))
}

// withoutCR removes, in place, every CR of a text that is known to be valid JSON:
// in such a text they stand outside of strings.
func withoutCR(text []byte) []byte {
	at := bytes.IndexByte(text, '\r')
	if at < 0 {
		return text
	}
	out := text[:at]
	for _, c := range text[at:] {
		if c != '\r' {
			out = append(out, c)
		}
	}
	return out
}
