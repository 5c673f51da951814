package hosttest

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Run is a process that a test has started. What it says on stderr becomes part of
// a failed test's output.
type Run struct {
	cmd   *exec.Cmd
	said  buffer
	ended chan struct{}
	err   error // set before ended is closed
	// killed says that the test did not let it end by itself.
	killed atomic.Bool
}

// start starts a command. The caller reads its stdout, if it is a pipe, to the end
// and then calls finish.
func start(t testing.TB, cmd *exec.Cmd) *Run {
	t.Helper()
	r := &Run{cmd: cmd, ended: make(chan struct{})}
	cmd.Stderr = &r.said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if text := r.Said(); t.Failed() && text != "" {
			t.Logf("stderr of %s:\n%s", strings.Join(cmd.Args, " "), text)
		}
	})
	return r
}

func (r *Run) finish() {
	r.err = r.cmd.Wait()
	close(r.ended)
}

// PID is the process's id.
func (r *Run) PID() int { return r.cmd.Process.Pid }

// Said is what it has said on stderr so far.
func (r *Run) Said() string { return r.said.String() }

// Signal sends a signal to it alone.
func (r *Run) Signal(t testing.TB, sig os.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		t.Errorf("signal %v: %v", sig, err)
	}
}

// Ended is closed once it has ended and was waited for.
func (r *Run) Ended() <-chan struct{} { return r.ended }

// Running says whether it has not ended.
func (r *Run) Running() bool {
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

// CPU is the processor time that it took, once it has ended.
func (r *Run) CPU() time.Duration {
	<-r.ended
	return r.cmd.ProcessState.UserTime() + r.cmd.ProcessState.SystemTime()
}

// Wait waits for its end, which comes within StopLimit or by force, and returns
// how it ended.
func (r *Run) Wait(t testing.TB) error {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(StopLimit):
		_ = r.cmd.Process.Signal(syscall.SIGKILL)
		<-r.ended
		t.Errorf("%s still ran after %v; killed, it ended with %v", r.cmd.Path, StopLimit, r.err)
	}
	return r.err
}

// buffer may be written to and read at the same time.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
