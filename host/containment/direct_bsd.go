//go:build unix && !linux

package containment

import (
	"os"
	"os/exec"
	"syscall"
)

func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// imagePath is the path: there is no way to run an open file here.
func imagePath(_ *os.File, path string) string { return path }

func startOnHeldThread(cmd *exec.Cmd) (release func(), err error) {
	return func() {}, cmd.Start()
}

// awaitExit cannot wait without reaping here: between the end of the plugin and
// the kill of its group lies a moment in which an empty group's id is free.
func awaitExit(int) (held bool) { return false }
