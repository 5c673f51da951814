// Package rpc is the JSON-RPC envelope: it parses messages strictly, knows where
// their parts stand, and changes named parts of them on the way out while every
// other byte stays as it came. Read message.go first.
//
//	parse.go     one text to one Message, and what is refused
//	strict.go    which members of a client's message may not be doubled or look-alike
//	assembler.go the same for a message that arrives in chunks, spooled when large;
//	             lines.go for one message a line
//	edit.go      changes, collected as a tree; splice.go lays them over the text
//	payload.go   a message on its way out: pieces of memory and of spool files
//	build.go     messages of our own
//
// A Message is immutable and may be read by many goroutines. The package starts
// no goroutine. It does not know what a method means, and it decodes no
// arguments, results or numbers: an integer beyond 2^53 passes as its digits.
package rpc
