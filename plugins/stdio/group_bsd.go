//go:build unix && !linux

package stdio

import (
	"os/exec"
	"syscall"
)

// ownGroup gives the process a group of its own. There is no death signal here:
// the guard ends the group when the plugin dies.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// waitExit reaps at once: Go offers no wait that does not. The group's number
// stays taken while the group has a member, so only the kill of an empty group could
// reach a stranger, and only if the number came round within drainGrace.
func waitExit(cmd *exec.Cmd) { _ = cmd.Wait() }

// keepDescriptors lets no descriptor of ours reach the server that whoever
// started us left open for us: Go marks its own, not those.
func keepDescriptors() {
	const usual = 1024 // the soft limit that shells and services come with
	for fd := 3; fd < usual; fd++ {
		syscall.CloseOnExec(fd)
	}
}

func reap(*exec.Cmd) {}
