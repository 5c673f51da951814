//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// detach gives a command a session of its own: neither the terminal's signals nor those
// to the client's process group reach it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
