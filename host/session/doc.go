// Package session keeps one MCP session with each provider's server and carries
// calls to it, as the bytes they came in. Read instance.go first.
//
//	manager.go    all providers: get an instance, its state, the end
//	instance.go   one server from its start to its end; Do, a client's call
//	handshake.go  which era and revision to speak; era.go, what that changes in a call
//	lists.go      tools/list to its last page; current.go, when it is read again
//	subscribe.go  how a modern server comes to say that its tools have changed
//	serverside.go what a server asks and says outside of its calls
//	link.go       requests under ids of our own, one sender at a time; call.go, one of them
//	reader.go     what comes back, and where it belongs; queue.go, until its caller takes it
//	lost.go       why a call has no answer
//
// A call is done on its caller's goroutine, from the first byte to the last, and
// needs no other: the caller sends, and pops what the link's reader has put into
// the call's queue, notifications first, then the answer. So the order is the
// server's. Only a message that might have to wait for a server that does not
// read is left to a goroutine of its own, so that its caller can leave in time;
// the message is completed all the same, or the stream ends.
//
// Who owns what: the link owns its reader, the goroutine that sends replies, and
// those that send such messages; close waits for them. A ready instance has one
// keeper, which, when the stream has ended, gives up the process, and one lister,
// for which the keeper waits; with a modern server, one that keeps a subscription
// open. Manager.Stop waits for them. The processes are supervise's.
//
// The reader waits for nobody: not for a caller, whose messages go to its queue
// and from 4 MiB on to a file, nor for the server, whose requests are answered by
// another goroutine, nor for a Listener, which must not block.
//
// A request counts as dispatched from the call that hands its last chunk to the
// stream, whatever that call returns. Before that it was not sent. Nothing is
// ever sent twice.
//
// The package decides nothing about who may call what, keeps no catalog and
// starts no process. It passes no request of a server on to a client.
package session
