package main

import (
	"os/exec"
	"syscall"
)

// detach keeps a console's Ctrl-C from a command (CREATE_NEW_PROCESS_GROUP).
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: 0x00000200} }
