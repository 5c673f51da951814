//go:build unix

package main

import "golang.org/x/sys/unix"

// mayWrite says whether this user may make something in a folder.
func mayWrite(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }
