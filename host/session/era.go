package session

import (
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// Era is how a peer says which revision it speaks.
type Era uint8

// The eras.
const (
	// Legacy servers agree on a revision once, by initialize (up to 2025-11-25).
	Legacy Era = iota + 1
	// Modern servers are told it with each request, in its _meta (from 2026-07-28).
	Modern
)

func (e Era) String() string {
	switch e {
	case Legacy:
		return "legacy"
	case Modern:
		return "modern"
	}
	return "unknown"
}

// Server is what a server said of itself.
type Server struct {
	Era Era
	// Version is the protocol revision that is spoken with it.
	Version string
	// Capabilities and Info are as the server sent them; nil where it sent none.
	Capabilities, Info json.RawMessage
	Instructions       string
}

// Declares says whether the server has a capability, given by its path:
// "logging", or "tools", "listChanged". A capability is an object or true.
func (s Server) Declares(path ...string) bool {
	value := s.Capabilities
	for _, name := range path {
		var members map[string]json.RawMessage
		if json.Unmarshal(value, &members) != nil {
			return false
		}
		value = members[name]
	}
	return len(value) > 0 && (value[0] == '{' || string(value) == "true")
}

// identity is what the host says of itself to servers. It declares no client
// capabilities: nothing of a server's is passed to a client as a request.
type identity struct {
	info json.RawMessage // Implementation
}

func newIdentity(version string) identity {
	info, _ := json.Marshal(mcp.Implementation{Name: "drawbridge", Version: version}) // cannot fail
	return identity{info: info}
}

// noCapabilities are the host's own as a client.
var noCapabilities = json.RawMessage("{}")

// meta is the _meta of a request of the session's own to a modern server.
func (id identity) meta(version string) json.RawMessage {
	quoted, _ := json.Marshal(version) // cannot fail
	raw, _ := json.Marshal(map[string]json.RawMessage{
		mcp.MetaKeyProtocolVersion:    quoted,
		mcp.MetaKeyClientInfo:         id.info,
		mcp.MetaKeyClientCapabilities: noCapabilities,
	}) // cannot fail
	return raw
}

// perRequest are the keys of _meta by which the modern era says with each request
// what the older one agrees on once.
var perRequest = []string{
	mcp.MetaKeyProtocolVersion, mcp.MetaKeyClientInfo, mcp.MetaKeyClientCapabilities, mcp.MetaKeyLogLevel,
}

// translator puts those keys in, or takes them out, as a server's era asks.
type translator struct {
	modern        bool
	logs          bool
	version, info json.RawMessage
}

func newTranslator(s Server, id identity) translator {
	quoted, _ := json.Marshal(s.Version) // cannot fail
	return translator{modern: s.Era == Modern, logs: s.Declares("logging"), version: quoted, info: id.info}
}

// edit changes a caller's request. What a modern client says to a modern server
// passes; level is for a client that could not say one.
func (t *translator) edit(e *rpc.Editor, request *rpc.Message, modernClient bool, level string) {
	switch {
	case !t.modern && modernClient:
		for _, key := range perRequest {
			e.Remove("params", "_meta", key)
		}
	case t.modern && modernClient:
		// The revision is a matter between the host and the server.
		e.Set(t.version, "params", "_meta", mcp.MetaKeyProtocolVersion)
		if _, ok := request.Find("params", "_meta", mcp.MetaKeyClientCapabilities); !ok {
			e.Set(noCapabilities, "params", "_meta", mcp.MetaKeyClientCapabilities)
		}
	case t.modern:
		e.Set(t.version, "params", "_meta", mcp.MetaKeyProtocolVersion)
		e.Set(t.info, "params", "_meta", mcp.MetaKeyClientInfo)
		e.Set(noCapabilities, "params", "_meta", mcp.MetaKeyClientCapabilities)
		if t.logs && level != "" {
			quoted, _ := json.Marshal(level) // cannot fail
			e.Set(quoted, "params", "_meta", mcp.MetaKeyLogLevel)
		}
	}
}
