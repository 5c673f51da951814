package stdio

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// The limits of an end. None of them is a setting: stop_grace is.
const (
	// minGrace is the least time a server has once its stdin is closed: Node and
	// Python servers take some 100 ms to leave.
	minGrace = 500 * time.Millisecond
	// termWait is the time between SIGTERM and SIGKILL.
	termWait = 500 * time.Millisecond
	// killWait bounds the wait for a process that SIGKILL does not end at once,
	// because the kernel is busy with it (disk, core dump).
	killWait = 10 * time.Second
	// hangupWait is both of these for a server that has closed a pipe and so can
	// serve nobody any more; its callers should know within a second.
	hangupWait = 250 * time.Millisecond
	// drainGrace is how long a descendant that still holds the pipes may delay the
	// news that the server has exited.
	drainGrace = 250 * time.Millisecond
	// flushWait bounds the wait for the last lines of stderr to be passed on.
	flushWait = 100 * time.Millisecond
)

var errUnkillable = errors.New("the server has not ended after SIGKILL")

// server is the process, from its start to its burial.
type server struct {
	cmd                   *exec.Cmd
	stdin, stdout, stderr *os.File // our ends
	errs                  *stderrLog

	// spoke is closed at the first byte on stdout or stderr, exited when the
	// process has ended, gone when it is reaped and status is set.
	spoke, exited, gone chan struct{}
	status              provider.ExitStatus
	// reading is set once somebody reads stdout; outDone and errDone are closed at
	// the end of the pipes.
	reading          atomic.Bool
	outDone, errDone chan struct{}

	spokeOnce, stdinOnce, hangupOnce sync.Once
	stopping                         atomic.Bool
	// mu keeps a signal from being sent to a group whose number is free again.
	mu     sync.Mutex
	reaped bool
}

// start runs l. The error is the system's own.
func start(l launch, errTo io.Writer) (*server, error) {
	s := &server{
		cmd:   &exec.Cmd{Path: l.path, Args: l.args, Env: l.env, Dir: l.dir},
		spoke: make(chan struct{}), exited: make(chan struct{}), gone: make(chan struct{}),
		outDone: make(chan struct{}), errDone: make(chan struct{}),
	}
	theirs, err := s.pipes()
	if err != nil {
		return nil, err
	}
	keepDescriptors()
	ownGroup(s.cmd)
	started, complete := make(chan error, 1), make(chan struct{})
	go s.own(theirs, started, complete)
	if err := <-started; err != nil {
		closeAll(s.stdin, s.stdout, s.stderr)
		return nil, err
	}
	s.errs = newStderrLog(errTo)
	s.errs.hide = l.hide
	go s.readStderr()
	close(complete)
	return s, nil
}

// pipes makes the three pipes and returns the server's ends of them. The
// server gets nothing else: never the plugin's own descriptors.
func (s *server) pipes() (theirs []*os.File, err error) {
	var all []*os.File
	pipe := func() (r, w *os.File) {
		if err != nil {
			return nil, nil
		}
		r, w, err = os.Pipe()
		all = append(all, r, w)
		return r, w
	}
	inR, inW := pipe()
	outR, outW := pipe()
	errR, errW := pipe()
	if err != nil {
		closeAll(all...)
		return nil, err
	}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = inR, outW, errW
	s.stdin, s.stdout, s.stderr = inW, outR, errR
	return []*os.File{inR, outW, errW}, nil
}

func closeAll(files ...*os.File) {
	for _, file := range files {
		if file != nil {
			_ = file.Close()
		}
	}
}

// own starts the process, waits for it and, once s is complete, buries it.
func (s *server) own(theirs []*os.File, started chan<- error, complete <-chan struct{}) {
	// PDEATHSIG is sent when the thread that forked ends, not the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := s.cmd.Start()
	closeAll(theirs...)
	started <- err
	if err != nil {
		return
	}
	<-complete
	waitExit(s.cmd)
	close(s.exited)
	s.bury()
}

// bury gives what the server has written the time to arrive, ends its process
// group and reaps it.
func (s *server) bury() {
	s.closeStdin()
	// Readers that wait for the end of a pipe which a descendant holds go on past
	// the deadline as long as there is something to read; see pipe.
	late := time.Now().Add(drainGrace)
	_ = s.stdout.SetReadDeadline(late)
	_ = s.stderr.SetReadDeadline(late)
	timer := time.NewTimer(drainGrace)
	defer timer.Stop()
	out := s.outDone
	if !s.reading.Load() {
		out = nil // whoever comes to read later finds it in the pipe
	}
	for errs := s.errDone; errs != nil || out != nil; {
		select {
		case <-errs:
			errs = nil
		case <-out:
			out = nil
		case <-timer.C:
			errs, out = nil, nil
		}
	}
	killGroup(s.cmd.Process.Pid)
	<-s.errDone
	s.errs.close(flushWait)

	s.mu.Lock()
	s.reaped = true
	reap(s.cmd)
	s.mu.Unlock()
	s.status = exitStatus(s.cmd.ProcessState)
	s.status.StderrTail = strings.ToValidUTF8(s.errs.tail(), "\ufffd")
	close(s.gone)
}

// exitStatus: a server that died of a signal has no exit code, which reads as -1.
func exitStatus(state *os.ProcessState) provider.ExitStatus {
	if state == nil {
		return provider.ExitStatus{Code: -1}
	}
	status := provider.ExitStatus{Code: state.ExitCode()}
	if wait, ok := state.Sys().(syscall.WaitStatus); ok && wait.Signaled() {
		status.Code, status.Signal = -1, int(wait.Signal())
	}
	return status
}

// signal sends to the server's process group, unless it is gone.
func (s *server) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.reaped {
		signalGroup(s.cmd.Process.Pid, sig)
	}
}

func (s *server) closeStdin() { s.stdinOnce.Do(func() { _ = s.stdin.Close() }) }

func (s *server) markSpoke() { s.spokeOnce.Do(func() { close(s.spoke) }) }

func (s *server) hasExited() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// end is the ladder: close stdin, wait grace, SIGTERM, wait step, SIGKILL. It
// returns when the server is gone; when hurry is closed it skips to SIGKILL.
func (s *server) end(hurry <-chan struct{}, grace, step time.Duration) error {
	s.closeStdin()
	if s.waitGone(hurry, grace) {
		return nil
	}
	select {
	case <-hurry:
	default:
		s.signal(syscall.SIGTERM)
		if s.waitGone(hurry, step) {
			return nil
		}
	}
	s.signal(syscall.SIGKILL)
	if s.waitGone(nil, killWait) {
		return nil
	}
	return errUnkillable
}

func (s *server) waitGone(hurry <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.gone:
		return true
	case <-hurry:
	case <-timer.C:
	}
	return false
}

// hangup ends a server that has closed one of its pipes while it lives on. A
// server that is just exiting closes them too: it is given the time, and all of
// its grace if it was asked to.
func (s *server) hangup() {
	if s.stopping.Load() {
		return
	}
	s.hangupOnce.Do(func() {
		go func() { _ = s.end(nil, hangupWait, hangupWait) }()
	})
}

// readStdout starts reading standard output, once: with read until it returns,
// then into nothing, so that the server can always write and leave.
func (s *server) readStdout(read func(io.Reader)) bool {
	if s.reading.Swap(true) {
		return false
	}
	go func() {
		from := &pipe{file: s.stdout, first: s.markSpoke}
		if read != nil {
			read(from)
		}
		_, _ = io.Copy(io.Discard, from)
		_ = s.stdout.Close()
		close(s.outDone)
		if !s.hasExited() {
			s.hangup()
		}
	}()
	return true
}

func (s *server) readStderr() {
	_, _ = io.Copy(s.errs, &pipe{file: s.stderr, first: s.markSpoke})
	_ = s.stderr.Close()
	close(s.errDone)
}

// Of a pipe whose read deadline has passed because the server has exited, what
// is already in it is still read: until nothing comes for lateIdle, or lateMax
// bytes came (more than a pipe holds: a descendant is writing).
const (
	lateIdle = 20 * time.Millisecond
	lateMax  = 1 << 20
)

// pipe reads one of the server's pipes and calls first before it returns the
// first byte. Every error ends it like EOF.
type pipe struct {
	file  *os.File
	first func()
	late  bool
	left  int
}

func (p *pipe) Read(b []byte) (int, error) {
	for {
		if p.late {
			if p.left <= 0 {
				return 0, io.EOF
			}
			_ = p.file.SetReadDeadline(time.Now().Add(lateIdle))
		}
		n, err := p.file.Read(b)
		if n > 0 {
			if p.first != nil {
				p.first()
				p.first = nil
			}
			p.left -= n
			return n, nil
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && !p.late {
			p.late, p.left = true, lateMax
			continue
		}
		return 0, io.EOF
	}
}
