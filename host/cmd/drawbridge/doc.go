// Command drawbridge is the gate through which MCP clients reach the MCP servers
// of this machine.
//
// This package alone knows all the others: it reads the command line, wires a
// host out of its parts (host.go), and runs the built-in plugins, which are
// processes of this same binary. It decides nothing that a part could decide.
package main
