// Package sdk is what a plugin's main function needs: [Serve].
//
//	func main() {
//		sdk.Serve(myProvider{})
//	}
//
// Serve owns the process from then on. It reads the token from standard input,
// keeps standard input as its lifeline (its end means that the host is gone),
// serves the provider through go-plugin, refuses every RPC without the token,
// and stops the provider however the process is asked to end. A plugin logs to
// [Stderr], which the host writes to the provider's log; nothing may be printed
// on standard output before Serve.
//
// The package does not start or frame MCP servers; plugins/stdio shows how.
package sdk
