//go:build unix

package main

import (
	"os/exec"
	"syscall"

	"github.com/drawbridge-mcp/drawbridge/host/containment"
)

// detach gives a command a session of its own: neither the terminal's signals nor those
// to the client's process group reach it. Nor does it get any file of the client's: who
// waits for the end of one would wait for as long as the command lives.
func detach(cmd *exec.Cmd) {
	containment.KeepFiles()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}
