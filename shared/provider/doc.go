// Package provider is the contract between the host and a provider plugin, in Go.
//
// Read provider.go first: [Provider] is what a plugin implements, [Remote] is
// what the host sees of it. provider.proto says the same for other languages.
//
// The package holds the interface without any protobuf type in it (provider.go),
// the numbers of the contract (contract.go), and what puts the interface on the
// wire: pure conversions (convert.go), the rules of a stream of frames
// (framing.go), the adapters of both ends (server.go, client.go) and go-plugin's
// view of them (plugin.go, wire.go, token.go).
//
// It starts no process and no goroutine of its own. It knows nothing of MCP's
// methods and imports nothing of the host. What a plugin's main function needs is
// in package sdk.
package provider
