//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// hangups are the SIGHUPs of this process.
type hangups struct {
	got chan os.Signal
	// had is set where the host was started in a terminal whose end is to be its own.
	had bool
}

// onHangup begins to take SIGHUPs. Under nohup the end of the terminal is not to be
// the host's.
func onHangup() hangups {
	h := hangups{got: make(chan os.Signal, 1), had: hasTerminal() && !signal.Ignored(syscall.SIGHUP)}
	signal.Notify(h.got, syscall.SIGHUP)
	return h
}

// terminalGone says whether the terminal that the host was started in is no more.
func (h hangups) terminalGone() bool { return h.had && !hasTerminal() }

// forget takes no more of them.
func (h hangups) forget() { signal.Stop(h.got) }

// hasTerminal says whether this process has a controlling terminal: one that hung up
// cannot be opened.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}
