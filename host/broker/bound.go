package broker

import (
	"github.com/drawbridge-mcp/drawbridge/host/artifact"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// Artifacts keeps the large parts of results. *artifact.Store is one.
type Artifacts interface {
	// Shorten puts links in the place of the large parts of a result; nil means that
	// it is to be passed as it is.
	Shorten(m *rpc.Message, o artifact.Origin, b artifact.Bounds) (*artifact.Shortened, error)
}

// bound keeps what of an answer is over the provider's inline_result, and returns
// what is passed on, and the ids of what was kept. What cannot be kept costs the call
// nothing: it is done, and the result says what it lacks.
func (x *crossing) bound(answer *rpc.Message, tool *catalog.Tool) (*rpc.Message, []string) {
	limit := x.providers[tool.Provider].InlineResult
	if x.opts.Artifacts == nil || limit <= 0 || answer.Kind != rpc.Result || answer.Size() <= limit {
		return answer, nil
	}
	short, err := x.opts.Artifacts.Shorten(answer, artifact.Origin{
		Principal: x.call.Caller.Principal, Project: x.call.Caller.Project,
		Provider: tool.Provider, Tool: tool.Name, Digest: tool.Digest, Call: x.entry.ID,
	}, artifact.Bounds{Inline: limit, KeepStructured: tool.Structured, SpoolDir: x.opts.SpoolDir})
	if err != nil {
		x.opts.Logger.Warn("a large result is passed as it is", "call", x.entry.ID, "provider", tool.Provider, "tool", tool.Name, "error", err)
		return answer, nil
	}
	if short == nil {
		return answer, nil
	}
	if short.Lost != nil {
		x.opts.Logger.Warn("a part of a large result could not be kept", "call", x.entry.ID, "provider", tool.Provider, "tool", tool.Name, "error", short.Lost)
	}
	_ = answer.Close() // the short one does not depend on it
	var ids []string
	for _, r := range short.Kept {
		ids = append(ids, r.ID)
	}
	return short.Message, ids
}
