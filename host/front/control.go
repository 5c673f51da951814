package front

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// initialize opens a legacy session under the revision that the client asks for,
// if it is one of the handshake's, else under the newest of those.
func (s *Server) initialize(_ context.Context, r *request) error {
	asked, ok := r.GetString("params", "protocolVersion")
	if !ok {
		return &rpc.Error{Code: rpc.CodeInvalidParams, Message: `invalid params: "protocolVersion" must be a string`}
	}
	version := mcp.NegotiateLegacyVersion(asked)
	client := clientOf(r.Message, "params", "clientInfo")
	r.session.open(version, client)
	r.caller.Client = client
	err := r.result(mcp.InitializeResult{
		ProtocolVersion: version,
		Capabilities:    s.capabilities(r.caller),
		ServerInfo:      implementation(s.opts.Version),
	})
	r.session.announce()
	return err
}

// discover is to modern clients what initialize is to legacy ones, and opens
// nothing (MCP 2026-07-28, server/discover).
func (s *Server) discover(_ context.Context, r *request) error {
	result := mcp.DiscoverResult{
		SupportedVersions: mcp.ValidProtocolVersions,
		Capabilities:      s.capabilities(r.caller),
	}
	result.ResultType = mcp.ResultTypeComplete
	result.SetCacheHints(cacheTTL, mcp.CacheScopePrivate)
	result.EnsureResultMeta().SetServerInfo(implementation(s.opts.Version))
	return r.result(result)
}

// capabilities are what the providers have for this caller, and nothing else.
func (s *Server) capabilities(caller broker.Caller) mcp.ServerCapabilities {
	var c mcp.ServerCapabilities
	c.Tools = &struct {
		ListChanged bool `json:"listChanged,omitempty"`
	}{ListChanged: true}
	if s.artifacts(caller) {
		c.Resources = &struct {
			Subscribe   bool `json:"subscribe,omitempty"`
			ListChanged bool `json:"listChanged,omitempty"`
		}{}
	}
	if s.broker.Capabilities(caller).Logging {
		c.Logging = &struct{}{}
	}
	return c
}

// maxClientName bounds what a client calls itself; longer names are cut.
const maxClientName = 256

// clientOf reads who a client says that it is, at a path. What is no string is not
// there: it decides nothing but what is remembered under it.
func clientOf(m *rpc.Message, path ...string) broker.Client {
	// The envelope's parser does not look into it.
	var info struct {
		Name    jsontext.Value `json:"name"`
		Version jsontext.Value `json:"version"`
	}
	if raw := m.Get(path...); raw == nil || json.Unmarshal(raw, &info) != nil {
		return broker.Client{}
	}
	text := func(value jsontext.Value) string {
		if value.Kind() != jsontext.KindString {
			return ""
		}
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return ""
		}
		return string(text[:min(len(text), maxClientName)])
	}
	return broker.Client{Name: text(info.Name), Version: text(info.Version)}
}

func (s *Server) ping(_ context.Context, r *request) error { return r.result(struct{}{}) }

// setLevel sets the level below which this session gets no log messages. The
// broker hears it too, so that servers say as much as the most curious client
// wants and no more.
func (s *Server) setLevel(_ context.Context, r *request) error {
	if !s.broker.Capabilities(r.caller).Logging {
		return methodNotFound(r.Method)
	}
	level, _ := r.GetString("params", "level")
	if !knownLevel(level) {
		return &rpc.Error{Code: rpc.CodeInvalidParams, Message: fmt.Sprintf("invalid params: %q is no log level", level)}
	}
	r.session.setLevel(mcp.LoggingLevel(level))
	return r.result(struct{}{})
}

// knownLevel says whether level is one of RFC 5424's, as MCP spells them.
func knownLevel(level string) bool {
	l := mcp.LoggingLevel(level)
	return l.ShouldSendTo(l)
}

// atLeast says whether a message of this level is to pass where least is wanted.
// One whose level nobody knows is passed: better too much than lost.
func atLeast(level, least mcp.LoggingLevel) bool {
	return level.ShouldSendTo(least) || !knownLevel(string(level))
}
