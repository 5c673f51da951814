//go:build unix

package containment

import (
	"os"
	"syscall"
	"time"
)

// groupBudget bounds the wait for a killed group: a process in an uninterruptible
// system call may take longer to go, and must not hold up a restart for ever.
const groupBudget = 2 * time.Second

// killGroup kills the process and its group, of which it is the leader.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// awaitEmptyGroup waits for a group that was killed.
func awaitEmptyGroup(pgid int) {
	deadline := time.Now().Add(groupBudget)
	for pause := time.Millisecond; !groupEmpty(pgid) && time.Now().Before(deadline); pause = min(2*pause, 50*time.Millisecond) {
		time.Sleep(pause)
	}
}

func exitStatus(s *os.ProcessState) Exit {
	ws, ok := s.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		return Exit{Code: -1, Signal: int(ws.Signal())}
	}
	return Exit{Code: s.ExitCode()}
}
