package fakeserver

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// noise is what --noise prints before each frame: four lines that are no
// message, and an empty one, which is nothing at all.
const noise = "Server v1 ready\n\n[INFO] x\n-----\n{\"level\":\"info\"}\n"

// pipe is the one stdout of the process.
type pipe struct {
	mu     sync.Mutex
	out    *os.File
	before string
	end    string
}

func (p *pipe) line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.out.WriteString(p.before + text + p.end)
}

// raw writes bytes as they are, between two frames.
func (p *pipe) raw(text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.out.Write(text)
}

// stdio is the process's standard streams; nil when it serves HTTP.
var stdio struct {
	in      *os.File
	out     *pipe
	stopped atomic.Bool
}

func (s *server) serveStdio(in, out *os.File) int {
	in = pollable(in)
	p := &pipe{out: out, end: "\n"}
	if s.opt.crlf {
		p.end = "\r\n"
	}
	if s.opt.noise {
		p.before = noise
		p.raw([]byte(noise))
	}
	stdio.in, stdio.out = in, p
	n := s.newSession(p.line)
	time.Sleep(s.opt.startDelay)
	if s.opt.noRead {
		block()
	}
	lines := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if stdio.stopped.Load() {
			block()
		}
		if text := bytes.TrimRight(line, "\r\n"); len(line) > 0 {
			s.log.add(DirIn, string(text))
			n.handle(text, stream{write: p.line, done: func() {}})
		}
		if err != nil {
			return s.stdinEnded(err)
		}
	}
}

func (s *server) stdinEnded(err error) int {
	if !errors.Is(err, io.EOF) {
		s.log.add(DirNote, "stdin: "+err.Error())
	}
	s.log.add(DirEOF, "")
	if s.opt.ignoreEOF || errors.Is(err, os.ErrClosed) {
		block()
	}
	time.Sleep(s.opt.eofDelay)
	return 0
}

// block waits for a signal, or --life, to end the process.
func block() {
	for {
		time.Sleep(time.Hour)
	}
}
