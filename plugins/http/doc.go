// Package http is the built-in provider plugin for MCP servers that speak HTTP on
// this machine (MCP 2025-11-25, basic/transports, streamable HTTP, and the older
// transport with server-sent events): one that runs already, at a url, or one that
// the plugin is to start, by its command.
//
// So far it holds the config: its schema, and what can be said of one without a
// server. Start refuses, and says so; Validate warns of it. What a url names has to
// be on this machine, for a provider stands for a server that is here.
//
// It starts no goroutine and opens no connection.
package http
