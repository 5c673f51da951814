package stdio

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

const (
	// maxTail bounds what is kept of standard error.
	maxTail = provider.MaxStderrTail
	// headKept and endKept are what is kept of a line: its beginning says where it
	// is from, its end what went wrong. Together they make at most 4 KiB a line.
	headKept = 3 << 10
	endKept  = 1 << 10
	// maxQueue bounds the lines that wait to be passed on: 1 MiB at most.
	maxQueue = 256
	// maxWrite is when lines that wait are no longer put together into one write.
	maxWrite = 64 << 10
)

// stderrLog takes what the server writes to standard error, in pieces as they
// come, at any rate and with or without newlines: it never blocks and never
// holds more than a fixed amount. It keeps the last lines, and passes all of
// them on as long as the other side takes them.
//
// It is a Writer for one goroutine; tail may be called from any.
type stderrLog struct {
	mu    sync.Mutex
	lines [][]byte // finished, without newline
	kept  int      // bytes in lines
	line  openLine
	// hide is set before the first Write.
	hide secrets

	queue   chan []byte
	dropped atomic.Int64
	flushed chan struct{}
}

// newStderrLog passes lines on to a writer, which may block; nil for none.
func newStderrLog(to io.Writer) *stderrLog {
	l := &stderrLog{queue: make(chan []byte, maxQueue), flushed: make(chan struct{})}
	go l.forward(to)
	return l
}

// openLine is a line that has no newline yet, cut in the middle.
type openLine struct {
	head, end []byte
	size      int64
}

func (o *openLine) add(p []byte) {
	o.size += int64(len(p))
	if room := headKept - len(o.head); room > 0 {
		n := min(room, len(p))
		o.head = append(o.head, p[:n]...)
		p = p[n:]
	}
	if len(p) >= endKept {
		o.end = append(o.end[:0], p[len(p)-endKept:]...)
		return
	}
	if over := len(o.end) + len(p) - endKept; over > 0 {
		o.end = append(o.end[:0], o.end[over:]...)
	}
	o.end = append(o.end, p...)
}

// text returns the line as far as it is kept, in memory of its own, and without
// secrets.
func (o *openLine) text(hide secrets) []byte {
	cut := o.size - int64(len(o.head)+len(o.end))
	if cut == 0 {
		return []byte(hide.from(strings.TrimSuffix(string(o.head)+string(o.end), "\r")))
	}
	return fmt.Appendf(nil, "%s …(%d bytes)… %s", hide.beforeCut(string(o.head)), cut, hide.afterCut(string(o.end)))
}

func (o *openLine) reset() { o.head, o.end, o.size = o.head[:0], o.end[:0], 0 }

// Write never fails.
func (l *stderrLog) Write(p []byte) (int, error) {
	n := len(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(p) > 0 {
		at := bytes.IndexByte(p, '\n')
		if at < 0 {
			l.line.add(p)
			break
		}
		l.line.add(p[:at])
		l.finish()
		p = p[at+1:]
	}
	return n, nil
}

func (l *stderrLog) finish() {
	text := l.line.text(l.hide)
	l.line.reset()
	l.lines = append(l.lines, text)
	l.kept += len(text) + 1
	drop := 0
	for l.kept > maxTail {
		l.kept -= len(l.lines[drop]) + 1
		l.lines[drop] = nil
		drop++
	}
	l.lines = l.lines[drop:]
	select {
	case l.queue <- text:
	default:
		l.dropped.Add(1)
	}
}

// tail returns the last lines, the unfinished one included, at most maxTail and
// that line.
func (l *stderrLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, line := range l.lines {
		b.Write(line)
		b.WriteByte('\n')
	}
	b.Write(l.line.text(l.hide))
	return strings.TrimRight(b.String(), "\n")
}

// close ends the log after the last Write; what waits may take limit to leave.
// A reader of ours that takes nothing for good keeps the forwarder until
// the plugin exits.
func (l *stderrLog) close(limit time.Duration) {
	l.mu.Lock()
	if l.line.size > 0 {
		l.finish()
	}
	l.mu.Unlock()
	close(l.queue)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-l.flushed:
	case <-timer.C:
	}
}

// forward is the one that may block.
func (l *stderrLog) forward(to io.Writer) {
	defer close(l.flushed)
	var batch []byte
	for line := range l.queue {
		if to == nil {
			continue
		}
		batch = append(append(batch[:0], line...), '\n')
		for len(batch) < maxWrite {
			more, waiting := l.waiting()
			if !waiting {
				break
			}
			batch = append(append(batch, more...), '\n')
		}
		if n := l.dropped.Swap(0); n > 0 {
			batch = fmt.Appendf(batch, "[%d lines of the server's stderr were dropped: they came faster than they were taken]\n", n)
		}
		_, _ = to.Write(batch)
	}
}

func (l *stderrLog) waiting() ([]byte, bool) {
	select {
	case line, open := <-l.queue:
		return line, open
	default:
		return nil, false
	}
}
