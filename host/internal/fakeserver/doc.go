// Package fakeserver is the MCP server of the tests: one program whose every
// good and bad behaviour is a flag or a tool, and whose log proves what it
// received. It is FS of the failure cases, and with --http it is FH.
//
// It speaks raw JSON-RPC on purpose: an SDK would hide half of the faults that
// it is here to show.
//
// Start with options.go (the flags) and tools.go (the tools). Main runs the
// program; Build, ReadLog and WaitLog are for the tests that use it.
//
// Goroutines: each tool call runs in its own, and the process's end ends them.
// The program waits for none of them, as a server that dies does not either.
//
// A process of the fake server ends by itself after --life, so that a test that
// goes wrong leaves nothing for ever.
package fakeserver
