package containment

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes gives the plugin its own group and a SIGTERM when the host
// dies. Not a SIGKILL: that would end the plugin before it has ended its server
// (measured: more was left than without any signal).
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// imagePath names the open file in the child between fork and exec, when it still
// has the host's descriptors. The descriptor itself is close-on-exec.
func imagePath(f *os.File, _ string) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// thread is the one thread that forks: the parent-death signal belongs to the
// thread that forked, not to the process. Its goroutine lives as long as a
// process that it started.
var thread struct {
	mu   sync.Mutex
	live int
	work chan func()
}

// startOnHeldThread starts cmd. release is to be called once the process has ended.
func startOnHeldThread(cmd *exec.Cmd) (release func(), err error) {
	work := holdThread()
	done := make(chan error)
	work <- func() { done <- cmd.Start() }
	if err := <-done; err != nil {
		releaseThread()
		return nil, err
	}
	return releaseThread, nil
}

func holdThread() chan<- func() {
	thread.mu.Lock()
	defer thread.mu.Unlock()
	if thread.live == 0 {
		work := make(chan func())
		thread.work = work
		go func() {
			// Never unlocked: the thread ends with the goroutine.
			runtime.LockOSThread()
			for f := range work {
				f()
			}
		}()
	}
	thread.live++
	return thread.work
}

func releaseThread() {
	thread.mu.Lock()
	defer thread.mu.Unlock()
	if thread.live--; thread.live == 0 {
		close(thread.work)
	}
}

// awaitExit returns when the process has ended, and leaves it to be reaped: as
// long as it is not, its pid names it and its group.
func awaitExit(pid int) (held bool) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil
		}
	}
}
