package supervise

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
)

const (
	// maxLine bounds a line of a plugin's output in memory. What is longer is cut.
	maxLine = 64 << 10
	// margin is dropped from the end of a line that was cut, after redaction, where
	// nobody can say how much of a secret the cut went through.
	margin = 4 << 10

	// tailLines and tailBytes bound what is kept of a plugin's standard error.
	tailLines = 100
	tailBytes = 16 << 10
)

// eachLine calls f with each line of r, without its end, until r ends. cut is set
// where a line was longer than maxLine; the rest of it is read and dropped. The
// slice is f's only until it returns.
func eachLine(r io.Reader, f func(line []byte, cut bool)) {
	br := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := br.ReadSlice('\n')
		cut := errors.Is(err, bufio.ErrBufferFull)
		if len(line) > 0 {
			f(trimEnd(line), cut)
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = br.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

func trimEnd(line []byte) []byte {
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	return line
}

// redactLine removes secrets from a line of output; head, if there is one, from a
// line that was cut.
func redactLine(line []byte, cut bool, redact, head func(string) string) string {
	switch {
	case !cut:
		return redact(string(line))
	case head != nil:
		return strings.ToValidUTF8(head(string(line)), "\uFFFD") + "… (cut)"
	}
	text := redact(string(line))
	return strings.ToValidUTF8(text[:max(0, len(text)-margin)], "\uFFFD") + "… (cut)"
}

// tail keeps the last lines that were written to it.
type tail struct {
	mu    sync.Mutex
	lines []string
	bytes int
}

func (t *tail) add(line string) {
	if len(line) > tailBytes/2 {
		line = strings.ToValidUTF8(line[:tailBytes/2], "\uFFFD") + "…"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
	t.bytes += len(line) + 1
	for len(t.lines) > tailLines || t.bytes > tailBytes {
		t.bytes -= len(t.lines[0]) + 1
		t.lines[0] = ""
		t.lines = t.lines[1:]
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}

// lineWriter makes lines of what go-plugin passes on in pieces (what a plugin
// prints after its handshake).
type lineWriter struct {
	line func(line []byte, cut bool)

	mu   sync.Mutex
	part []byte
	cut  bool
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		piece, rest, whole := bytes.Cut(p, []byte("\n"))
		p = rest
		if room := maxLine - len(w.part); len(piece) > room {
			piece, w.cut = piece[:room], true
		}
		w.part = append(w.part, piece...)
		if whole {
			w.line(trimEnd(w.part), w.cut)
			w.part, w.cut = w.part[:0], false
		}
	}
	return n, nil
}
