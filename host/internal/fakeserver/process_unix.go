//go:build unix

package fakeserver

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func newSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

func ignoreSignals() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
}

// watchSignals logs signals before they take effect: the process then dies of
// them as a program without a handler does, so that its parent sees the signal.
func watchSignals(o options, log *logger) {
	if o.ignoreEOF {
		signal.Ignore(syscall.SIGPIPE)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		for sig := range signals {
			log.add(DirSignal, sig.String())
			if o.ignoreTerm {
				continue
			}
			signal.Reset(sig)
			if number, ok := sig.(syscall.Signal); ok {
				_ = syscall.Kill(os.Getpid(), number)
			}
		}
	}()
}

// die ends the process by SIGKILL, with no chance to say anything.
func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }

// pollable returns stdin as a file whose Close ends a Read under way.
func pollable(file *os.File) *os.File {
	fd := file.Fd()
	if syscall.SetNonblock(int(fd), true) != nil {
		return file
	}
	return os.NewFile(fd, file.Name())
}
