package front

import (
	"context"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// era is a way of speaking the protocol, or several of them.
type era uint8

const (
	// legacy clients begin with `initialize` and keep a session (to 2025-11-25).
	legacy era = 1 << iota
	// modern clients say in each request all it takes to serve it (2026-07-28).
	modern

	both = legacy | modern
)

// method is what the host does with one method of a client's.
type method struct {
	// eras are those whose clients have it; to others it is not found.
	eras era
	// named is the member of params that the header Mcp-Name must repeat.
	named string
	// cached says that its result tells a modern client how long it keeps.
	cached bool
	// serve answers the request and returns nil; or it returns an *rpc.Error to
	// answer with, or that the client could not be written to.
	serve func(*Server, context.Context, *request) error
}

// methods is everything a client may ask.
var methods = map[string]*method{
	// Control: the host's own matters.
	"initialize":       {eras: legacy, serve: (*Server).initialize},
	"ping":             {eras: legacy, serve: (*Server).ping},
	"logging/setLevel": {eras: legacy, serve: (*Server).setLevel},
	"server/discover":  {eras: modern, serve: (*Server).discover, cached: true},
	// Streams.
	"subscriptions/listen": {eras: modern, serve: (*Server).listen},
	// Data: the bytes of clients and servers.
	"tools/list": {eras: both, serve: (*Server).listTools, cached: true},
	"tools/call": {eras: both, serve: (*Server).call, named: "name"},
	// The host's own resources: artifacts.
	"resources/list":           {eras: both, serve: (*Server).listResources, cached: true},
	"resources/templates/list": {eras: both, serve: (*Server).listTemplates, cached: true},
	"resources/read":           {eras: both, serve: (*Server).readResource, cached: true, named: "uri"},
}

// notifications are those of a client that mean something here. They are handled
// where they are read, so that none waits behind a request. All others are
// accepted and dropped: there is nobody to tell.
var notifications = map[string]func(*session, *rpc.Message){
	"notifications/cancelled": (*session).cancelled,
	// A client is served from its `initialize` on; that it got the answer changes nothing.
	"notifications/initialized": func(*session, *rpc.Message) {},
}

// route finds a request's era and its line in the table. header is the revision
// that its HTTP header names, if there is one.
func route(m *rpc.Message, header string) *request {
	r := &request{Message: m, method: methods[m.Method]}
	r.version, _ = m.GetString("params", "_meta", mcp.MetaKeyProtocolVersion)
	r.era = eraOf(r.version, header)
	if r.method != nil && r.method.eras == modern {
		r.era = modern // so that a client which forgot its `_meta` is told so
	}
	return r
}

// admit says why a request cannot be served, or nil.
func (r *request) admit() *rpc.Error {
	if r.era == modern {
		if err := r.readModernMeta(); err != nil {
			return err
		}
	}
	if r.method == nil || r.method.eras&r.era == 0 {
		return methodNotFound(r.Method)
	}
	r.token = progressToken(r.Message)
	return nil
}

// eraOf is the era of a request that declares a revision in its `_meta`, in its
// HTTP header, or in neither. A revision that is none of the handshake's is
// modern, known or not: its client expects to be told which ones there are.
func eraOf(declared, header string) era {
	if declared != "" && (mcp.IsModernProtocol(declared) || !mcp.IsValidProtocolVersion(declared)) {
		return modern
	}
	if mcp.IsModernProtocol(header) {
		return modern
	}
	return legacy
}

func methodNotFound(name string) *rpc.Error {
	return &rpc.Error{Code: rpc.CodeMethodNotFound, Message: fmt.Sprintf("method not found: %q", name)}
}

func missingMeta(key string) *rpc.Error {
	return &rpc.Error{Code: rpc.CodeInvalidParams, Message: fmt.Sprintf("invalid params: _meta lacks %q, or it is of the wrong type", key)}
}

// unsupportedVersion names all we speak, so that the client can choose
// (MCP 2026-07-28, basic/versioning).
func unsupportedVersion(version string) *rpc.Error {
	return &rpc.Error{
		Code:    mcp.UNSUPPORTED_PROTOCOL_VERSION,
		Message: fmt.Sprintf("unsupported protocol version %q", version),
		Data:    encode(mcp.UnsupportedProtocolVersionData{Supported: mcp.ValidProtocolVersions, Requested: version}),
	}
}
