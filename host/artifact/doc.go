// Package artifact keeps results that are too large for a context window, so that
// whoever called can read them in parts. Read store.go first.
//
//	store.go   what is kept, who may read it, how much fits
//	writer.go  one artifact while it is written
//	range.go   which part of an artifact a reader asks for
//
// Several hosts may share a folder: an artifact is two files, its bytes and its
// record, and it is there once the record is. Room is made under a file lock.
//
// The package starts no goroutine but that of Run, which its caller owns. It
// does not know MCP: which parts of a result become artifacts is the broker's.
package artifact
