//go:build !unix

package stdio

import (
	"os"
	"os/exec"
	"syscall"
)

// Without process groups only the server itself is ended here; what it started
// is the guard's job object's.

func ownGroup(*exec.Cmd) {}

func waitExit(cmd *exec.Cmd) { _ = cmd.Wait() }

func keepDescriptors() {}

func reap(*exec.Cmd) {}

func signalGroup(pid int, sig syscall.Signal) {
	if sig == syscall.SIGKILL {
		killGroup(pid)
	}
}

func killGroup(pid int) {
	if process, err := os.FindProcess(pid); err == nil {
		_ = process.Kill()
		_ = process.Release()
	}
}
