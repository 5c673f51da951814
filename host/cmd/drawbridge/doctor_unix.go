//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// isForeign says whether a file is another user's.
func isForeign(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) != os.Geteuid()
}

// mayWrite says whether this user may make something in a folder.
func mayWrite(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }
