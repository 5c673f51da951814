//go:build unix

package main

import (
	"os"
	"syscall"
)

// pollable makes a pipe or socket that this process got one that the runtime waits
// for by its poller: a read then holds no thread (the scheduler would take the
// processor from it at every pause of a client, and wake others to no end), and a
// write can have a deadline. What other processes may share, such as a terminal,
// stays as it is.
func pollable(f *os.File) *os.File {
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return f
	}
	fd := f.Fd()
	if err := syscall.SetNonblock(int(fd), true); err != nil {
		return f
	}
	return os.NewFile(fd, f.Name())
}
