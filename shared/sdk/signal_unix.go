//go:build unix

package sdk

import (
	"os"
	"os/signal"
	"syscall"
)

// catchSignals returns a channel that is closed by the first SIGTERM or SIGHUP.
// SIGINT and SIGPIPE are swallowed, and not ignored: what a process ignores, its
// children inherit.
func catchSignals() <-chan struct{} {
	ch := make(chan os.Signal, 8)
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	terminate := make(chan struct{})
	go func() {
		asked := false
		for sig := range ch {
			if (sig == syscall.SIGTERM || sig == syscall.SIGHUP) && !asked {
				asked = true
				close(terminate)
			}
		}
	}()
	return terminate
}

// killGroup ends the process and all that stayed in its group, if the group is
// its own.
func killGroup() {
	if pid := syscall.Getpid(); syscall.Getpgrp() == pid {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}
