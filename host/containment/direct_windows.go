package containment

import (
	"os"
	"os/exec"
	"syscall"
)

// processAttributes keeps the console's Ctrl-C away from the plugin.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// imagePath is the path: there is no way to run an open file here.
func imagePath(_ *os.File, path string) string { return path }

func startOnHeldThread(cmd *exec.Cmd) (release func(), err error) {
	return func() {}, cmd.Start()
}

// There are no process groups to kill here; a job object will end the tree.

func awaitExit(int) (held bool) { return false }

func killGroup(p *os.Process) { _ = p.Kill() }

func awaitEmptyGroup(int) {}

func exitStatus(s *os.ProcessState) Exit {
	return Exit{Code: s.ExitCode()}
}
