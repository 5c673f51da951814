// Package control is how commands reach a running host: status, tools, call,
// restart, logs. It speaks HTTP with JSON over a unix socket that only the user
// who runs the host can open. Read control.go first.
//
//	control.go   what a host hands over, and the value that answers
//	status.go    status, as `status --json` prints it
//	tools.go     the list of tools; call.go one call
//	serve.go     the socket; handlers.go what is asked over it
//	attach.go    a connection that becomes a client's MCP session
//	admit.go     who may ask
//	hosts.go     which hosts run; client.go asks one
//
// A Control answers in its own process too, without a socket: that is how `tools`
// and `call` work with servers of their own.
//
// Who may ask: this user and root, and nobody whom a host has started. A server of
// a provider is of this user as well, so the kernel is asked which process
// connected, and the process table what it descends from; see admit.go for what
// that does not see.
//
// Goroutines: Serve has one that accepts and net/http's one for each connection.
// Close waits for them. The package decides nothing about providers: it asks the
// sessions, the catalog and the broker.
package control
