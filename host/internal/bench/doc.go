// Command bench measures what the host costs: one scripted MCP server, asked
// directly and through the host, over stdio and over HTTP, in one run on one
// machine. Only ratios of the two mean anything, so only they are held against a
// limit; absolute times are printed on request.
//
// Both sides are asked by the same plain clients, which decode nothing that they
// need not, and the server is the same program with the same flags. Rounds are
// interleaved, so that a busy moment of the machine meets both sides, and each
// figure is the median of its rounds.
//
// A third side is measured for comparison: the bare gateway of bench/bare, which
// has the same hops and does nothing on them. What it costs, no host can save.
//
// Two are of the host against itself, built without access and fence, and without
// the journal (without.go): what those cost a call.
//
// One figure is of the host alone: its first list with the catalogs of all servers
// on disk, against that of a host that has none (firstlist.go).
//
// Start with main.go (what is measured) and report.go (what it is held against).
package main
