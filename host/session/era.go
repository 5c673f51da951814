package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

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

// tasksExtension is how a modern client declares, among its capabilities, that it
// can follow tasks.
var tasksExtension = []byte("io.modelcontextprotocol/tasks")

// usualCapabilities is the length up to which a client's capabilities are looked at
// before they are edited.
const usualCapabilities = 4 << 10

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
	// A task is what a server makes of a call when its client says it can follow one.
	// The host carries none yet and offers none, so a caller would never hear of it
	// again; who offers none ignores the wish (MCP 2025-11-25, basic/utilities/tasks).
	if _, ok := request.Find("params", "task"); ok {
		e.Remove("params", "task")
	}
	switch {
	case !t.modern && modernClient:
		for _, key := range perRequest {
			e.Remove("params", "_meta", key)
		}
	case t.modern && modernClient:
		// The revision is a matter between the host and the server.
		e.Set(t.version, "params", "_meta", mcp.MetaKeyProtocolVersion)
		switch at, ok := request.Find("params", "_meta", mcp.MetaKeyClientCapabilities); {
		case !ok:
			e.Set(noCapabilities, "params", "_meta", mcp.MetaKeyClientCapabilities)
		case at.Len() > usualCapabilities, bytes.Contains(request.Get("params", "_meta", mcp.MetaKeyClientCapabilities), tasksExtension):
			e.Remove("params", "_meta", mcp.MetaKeyClientCapabilities, "extensions", string(tasksExtension))
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

// maxInputRequests bounds what is read of an answer that asks for input.
const maxInputRequests = 64 << 10

// unfinished is the error for a modern server's answer that an older client would
// take for the end of its call, and that is not; nil for all others. (A result
// whose resultType is absent or "complete" is one; MCP 2026-07-28, basic/index.)
func unfinished(answer *rpc.Message) error {
	kind, there := answer.GetString("result", "resultType")
	if !there || kind == string(mcp.ResultTypeComplete) {
		return nil
	}
	defer answer.Close() //nolint:errcheck // what is told of it has been copied
	if kind != string(mcp.ResultTypeInputRequired) {
		return &Lost{Dispatched: true, Reason: MalformedAnswer, Cause: fmt.Sprintf("its server answered with a result of the type %q, which this client cannot know", kind)}
	}
	wants := "to be called again"
	if methods := inputsOf(answer); len(methods) > 0 {
		wants = "input first (" + strings.Join(methods, ", ") + ")"
	}
	return &Lost{Dispatched: true, Reason: InputRequired, Cause: "its server wants " + wants + ", which takes a client of MCP 2026-07-28"}
}

// inputsOf are the methods of what a server asks for.
func inputsOf(answer *rpc.Message) []string {
	at, there := answer.Find("result", "inputRequests")
	if !there || at.Len() > maxInputRequests {
		return nil
	}
	var asked map[string]struct {
		Method string `json:"method"`
	}
	if json.Unmarshal(answer.Get("result", "inputRequests"), &asked) != nil {
		return nil
	}
	var methods []string
	for _, known := range inputMethods {
		for _, a := range asked {
			if a.Method == known {
				methods = append(methods, known)
				break
			}
		}
	}
	return methods
}

// inputMethods are what a server may ask for (MCP 2026-07-28, basic/patterns/mrtr).
var inputMethods = []string{"elicitation/create", "sampling/createMessage", methodListRoots}
