// Package connect is the client's end of `drawbridge connect`: it carries the MCP
// session of one client on stdio to whatever host runs, and goes on with the next one
// when that host is gone. Read bridge.go first.
//
//	bridge.go    the value that carries, and the loop that owns it
//	link.go      one connection to one host, from its handshake to its end
//	ledger.go    what is in flight, and what a lost answer is told as
//	greeting.go  what the next host must know of the session, and the ids of hosts' requests
//	output.go    the one writer of the client's output
//
// What it promises: a request that was handed to a host is never handed to another;
// one that lost its host is answered with an error that says whether it may have had
// an effect; one for which there is no host is answered with what to do about that.
// Only `initialize` is said again, for it does nothing: the session's own to each new
// host, whose answer the client does not see.
//
// Messages pass as they came, but for the ids of requests from hosts after the first:
// two hosts number theirs alike, and an answer must not reach the wrong one.
//
// Goroutines: Run reads the client in one and owns one reader for each link; it waits
// for all of them, but for a read or write on a client's stream that has no deadlines
// and does not return. How a host is found or started is its caller's; see Options.Dial.
package connect
