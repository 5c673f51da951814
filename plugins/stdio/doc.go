// Package stdio is the built-in provider plugin for MCP servers that speak over
// standard input and output (MCP 2025-11-25, basic/transports, stdio): it
// starts the server's process, carries messages to and from its pipes, and
// ends it. Read stdio.go first.
//
// It knows JSON and lines, and of MCP only that a message is a JSON object with
// "jsonrpc": "2.0". It never decides what a message means, and it starts its
// server once: a restart is a new plugin process.
//
// What ends where:
//
//   - The owner (server.own) holds an OS thread for the whole life of the
//     process it started, because PDEATHSIG hangs on the thread that forked. It
//     waits for the process, lets the pipes run dry, kills what is left of its
//     process group and only then reaps it, so that the group's number cannot have become
//     somebody else's.
//   - Standard error is read by a goroutine of its own from the start to the
//     end, whatever else happens. What it forwards goes through a queue that
//     drops rather than waits.
//   - Standard output is read by one goroutine from Exchange on, into the
//     stream; once the stream is gone, into nothing.
//   - Standard input is written by the goroutine that receives frames. A server
//     that reads nothing blocks that goroutine and nothing else: closing the
//     pipe ends a write under way. It outlives Exchange by as long as
//     Recv takes to fail, which it does as the stream ends with Exchange.
//
// Every one of them ends when the process does. What this package does not do
// is find descendants that left the process group: that is the guard's work.
package stdio
