//go:build unix

package stdio

import "syscall"

// signalGroup sends to every process of the group that pid leads.
func signalGroup(pid int, sig syscall.Signal) { _ = syscall.Kill(-pid, sig) }

func killGroup(pid int) { signalGroup(pid, syscall.SIGKILL) }
