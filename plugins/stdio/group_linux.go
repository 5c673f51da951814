package stdio

import (
	"errors"
	"math"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup gives the process a group of its own and lets it die with the plugin.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// keepDescriptors lets no descriptor of ours reach the server that whoever
// started us left open for us: Go marks its own, not those. Kernels before 5.11 have no such call.
func keepDescriptors() { _ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) }

// waitExit returns when the process has exited and leaves it to be reaped: as
// long as it is not, its number and its group's are not given to anybody else.
func waitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func reap(cmd *exec.Cmd) { _ = cmd.Wait() }
