package containment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// ErrGone is returned by Terminate for a tree that is being killed, or is gone.
var ErrGone = errors.New("the process tree is gone")

const (
	// guardStart is how long a guard may take to start a plugin, its own start
	// included and the plugin's not. It does a handful of system calls; only a
	// machine that is out of memory or a frozen guard takes this long.
	guardStart = time.Minute
	// guardGrace is how long after a Kill the guard itself is killed. A guard needs
	// milliseconds. One that does not get to it is frozen by somebody, and its tree
	// is ended without it: by the kernel, or by the host.
	guardGrace = 2 * time.Second
)

// guardTree is the host's side of a guard. Besides Tree it has what only a guard
// can tell or do.
type guardTree struct {
	guard    *os.Process
	release  func()
	plugin   int // its pid as the guard sees it
	pid      int // and as this process does
	status   *os.File
	notices  *json.Decoder
	finished func() // called once, when the tree is empty, before done closes
	rescue   func() // ends the tree of a guard that was killed
	done     chan struct{}

	exit Exit // written before done closes, like lost
	lost bool

	mu       sync.Mutex
	lifeline *os.File    // nil once closed
	force    *time.Timer // kills the guard; nil until Kill
	over     bool
}

// launch starts a guard with support's means and waits until the plugin runs. The
// notice is the guard's first. On an error nothing is left, and finished has been
// called.
func launch(support Support, c Command, finished func()) (*guardTree, notice, error) {
	t, err := startGuard(support, c)
	if err != nil {
		finished()
		return nil, notice{}, err
	}
	t.finished, t.done = finished, make(chan struct{})
	t.rescue = func() { rescue(support.Tier, c.mark(), t.plugin) }
	t.notices = json.NewDecoder(io.LimitReader(t.status, maxNotices))
	first, err := t.first()
	if t.plugin = first.Pid; err == nil {
		t.pid = pluginPID(t.guard.Pid, t.plugin)
	}
	go t.watch(first)
	if err != nil {
		t.Kill()
		<-t.done
		return nil, first, err
	}
	return t, first, nil
}

// first reads the notice that says whether the plugin runs.
func (t *guardTree) first() (notice, error) {
	defer time.AfterFunc(guardStart, func() { _ = t.guard.Kill() }).Stop()
	var n notice
	if err := t.notices.Decode(&n); err != nil {
		return n, fmt.Errorf("the guard ended, or was killed, before it started anything: %w", err)
	}
	if n.Event != eventStarted {
		return n, n.err()
	}
	return n, nil
}

// watch waits for the guard, and is the one goroutine of a tree: it ends when the
// tree is empty. Until the guard says something it holds no thread. last is the
// guard's latest notice.
func (t *guardTree) watch(last notice) {
	for {
		var n notice
		if t.notices.Decode(&n) != nil {
			break // the guard is gone: it alone has the other end
		}
		last = n
	}
	collect(t.guard)
	t.release()
	t.exit = Exit{Code: last.Code, Signal: last.Signal}
	if last.Event == eventStarted || last.Event == "" {
		// The guard was killed, so nobody saw the plugin end; what killed the one ended
		// the other.
		t.lost = true
		t.exit = Exit{Code: -1, Signal: int(syscall.SIGKILL)}
		t.rescue()
	}
	t.mu.Lock()
	t.over = true
	if t.force != nil {
		t.force.Stop()
	}
	t.cut()
	t.mu.Unlock()
	t.status.Close()
	t.finished()
	close(t.done)
}

// cut ends the lifeline. t.mu is held.
func (t *guardTree) cut() {
	if t.lifeline != nil {
		t.lifeline.Close()
		t.lifeline = nil
	}
}

// PID is the plugin's, or 0 if it had ended before it was seen.
func (t *guardTree) PID() int { return t.pid }

// GuardPID is the guard's.
func (t *guardTree) GuardPID() int { return t.guard.Pid }

// Lost says, once Done is closed, that the guard was killed from outside, and that
// Exit is a guess.
func (t *guardTree) Lost() bool {
	select {
	case <-t.done:
		return t.lost
	default:
		return false
	}
}

// Done is closed when the guard has seen the last process of the tree end; or,
// when the guard was killed, the kernel or this process has.
func (t *guardTree) Done() <-chan struct{} { return t.done }

// Exit says how the plugin ended.
func (t *guardTree) Exit() Exit {
	select {
	case <-t.done:
		return t.exit
	default:
		return Exit{}
	}
}

// lifelineWrite bounds a write of one byte to a guard that may be frozen: after
// 64 KiB of such bytes the pipe would be full.
const lifelineWrite = 100 * time.Millisecond

// Terminate makes the guard send SIGTERM to every process of the tree. It does not
// wait. After Kill it is ErrGone.
func (t *guardTree) Terminate() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lifeline == nil {
		return ErrGone
	}
	_ = t.lifeline.SetWriteDeadline(time.Now().Add(lifelineWrite)) // not all pipes have one
	if _, err := t.lifeline.Write([]byte{terminateByte}); err != nil {
		return fmt.Errorf("terminate: %w", err)
	}
	return nil
}

// Release ends the lifeline. To a guard that means Kill.
func (t *guardTree) Release() { t.Kill() }

// Kill ends the tree, and does not wait. A guard that does not get to it, because
// somebody has stopped it, is woken and then killed too.
func (t *guardTree) Kill() { t.kill(guardGrace) }

// kill is Kill with a grace of its own for the guard.
func (t *guardTree) kill(grace time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.lifeline == nil {
		return
	}
	t.cut()
	thaw(t.guard)
	t.force = time.AfterFunc(grace, func() { _ = t.guard.Kill() })
}

// pipes are the files between a host and a guard.
type pipes struct {
	end, report      *os.File // the guard's: its end of the lifeline, and where it reports
	stdout, stderr   *os.File // the plugin's, the caller's or null
	lifeline, status *os.File // ours
	null             *os.File
}

func openPipes(c Command) (*pipes, error) {
	p := &pipes{stdout: c.Stdout, stderr: c.Stderr}
	var err error
	if p.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return nil, err
	}
	if p.stdout == nil {
		p.stdout = p.null
	}
	if p.stderr == nil {
		p.stderr = p.null
	}
	if p.end, p.lifeline, err = os.Pipe(); err != nil {
		p.null.Close()
		return nil, err
	}
	if p.status, p.report, err = os.Pipe(); err != nil {
		p.null.Close()
		p.end.Close()
		p.lifeline.Close()
		return nil, err
	}
	return p, nil
}

// closeTheirs closes what only the guard needs.
func (p *pipes) closeTheirs() {
	p.null.Close()
	p.end.Close()
	p.report.Close()
}

// startGuard starts the guard of c. On an error no process is left.
func startGuard(support Support, c Command) (*guardTree, error) {
	p, err := openPipes(c)
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	defer p.closeTheirs()
	guard, release, err := forkGuard(support, c, p)
	if err != nil {
		release()
		p.lifeline.Close()
		p.status.Close()
		return nil, fmt.Errorf("guard: %w", err)
	}
	// The pipe holds more than a token, so this does not wait for the guard; and a
	// guard that is dead already is found out by its status.
	_, _ = p.lifeline.WriteString(c.Token + "\n")
	return &guardTree{guard: guard, lifeline: p.lifeline, status: p.status, release: release}, nil
}
