// Package lock reads and writes the lock file: what of plugins and of tools'
// definitions someone has looked at and approved. Read file.go first.
//
//	file.go   what a lock file holds, and where it stands
//	read.go   a lock file's text, checked whole
//	write.go  the same back, sorted, so that a review sees what has changed
//
// The file holds checksums and digests and nothing else that depends on a
// machine, so the one made here fits there. It is meant for version control.
//
// The package does not know what a digest is of, starts no goroutine and asks no
// server; package catalog makes digests, and the command compares.
package lock
