// Package hosttest runs the real binary for tests and speaks to it as a plain
// client: JSON-RPC written by hand, with no SDK that could hide a fault.
//
// place.go gives a test a folder that marks every process below it, and looks
// for what is left of them; host.go builds and starts hosts, run.go is what a test
// knows of one that it started; client.go is the interface of a client, stdio.go
// and http.go are the two of them. A client's reader goroutine ends with Close,
// which waits for it; a process is waited for by the goroutine that reads its
// output.
//
// It knows nothing of what stands behind the host.
package hosttest
