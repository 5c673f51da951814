// Package front is the MCP server that clients see: over stdio and over
// streamable HTTP, for every protocol revision from 2024-11-05 to the stateless
// 2026-07-28, on one endpoint or pipe at once. Read methods.go first: it is the
// table of everything a client may ask.
//
//	methods.go   the table, and how a message finds its line in it
//	request.go   one request on its way through the host: its era, its writer, its end
//	control.go   initialize, server/discover, ping, logging/setLevel
//	call.go      tools/call, and what the host changes in a result
//	list.go      tools/list, and pages
//	artifacts.go large results: resources and the tool read_artifact; artifacts_web.go
//	             the same over plain HTTP
//	listen.go    subscriptions/listen
//	notices.go   what is said outside of any request
//	session.go   one client of the handshake era; sessions.go all of those on HTTP
//	stdio.go     the face on stdio, for one client or for each that is attached; pipe.go its writer
//	http.go      the face on HTTP; guard.go who may reach it, denials.go how that is
//	             logged, metadata.go where its tokens come from, headers.go what must
//	             agree with the body, arguments.go with a call's arguments,
//	             reply.go its writer
//
// A request is served on one goroutine: over stdio its own, over HTTP the
// handler's. That goroutine carries it through the broker and back, so what
// belongs to it (progress, messages, the answer) reaches its Writer in order
// without a lock. What belongs to no request waits in the client's notices, which
// the goroutine of its stream empties. ServeStdio owns its reader and waits for
// all it started; Close waits for everything. What no deadline can interrupt (a
// read or write on a terminal or an inherited pipe) is left to the end of the
// process, and only then.
//
// Two planes: the control methods encode mcp-go's types; the data methods pass
// the bytes of client and server, and never decode an envelope by reflection.
//
// What it does not do: JSON-RPC batches, which only 2025-03-26 had, are refused
// with -32600; SSE streams carry no event ids and are not resumed (a client that
// lost one asks again); requests from servers to clients do not exist yet; it
// knows no grants, providers or processes.
package front
