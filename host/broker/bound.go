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

// bound keeps what of an answer is over the provider's inline_result, and says in the
// reply what is passed on and what was kept. What cannot be kept costs the call
// nothing: it is done, and the result says what it lacks.
func (x *crossing) bound(reply *Reply, tool *catalog.Tool) {
	p, answer := x.providers[tool.Provider], reply.Message
	if x.opts.Artifacts == nil || p.InlineResult <= 0 || answer.Kind != rpc.Result || answer.Size() <= p.InlineResult {
		return
	}
	bounds := artifact.Bounds{Inline: p.InlineResult, KeepStructured: tool.Structured, SpoolDir: x.opts.SpoolDir}
	if !p.KeepSecrets {
		bounds.Secrets = x.opts.Cleaner.set()
	}
	short, err := x.opts.Artifacts.Shorten(answer, artifact.Origin{
		Principal: x.call.Caller.Principal, Project: x.call.Caller.Project,
		Provider: tool.Provider, Tool: tool.Name, Digest: tool.Digest, Call: x.entry.ID,
	}, bounds)
	if err != nil {
		x.opts.Logger.Warn("a large result is passed as it is", "call", x.entry.ID, "provider", tool.Provider, "tool", tool.Name, "error", err)
		return
	}
	if short == nil {
		return
	}
	if short.Lost != nil {
		x.opts.Logger.Warn("a part of a large result could not be kept", "call", x.entry.ID, "provider", tool.Provider, "tool", tool.Name, "error", short.Lost)
	}
	_ = answer.Close() // the short one does not depend on it
	reply.Message = short.Message
	if short.Redacted && !reply.Redacted {
		reply.Redacted = true
		if marked, err := x.opts.Cleaner.mark(short.Message); err == nil { // else what is held for a repeat is not marked
			reply.Message = marked
		}
	}
	for _, r := range short.Kept {
		reply.artifacts = append(reply.artifacts, r.ID)
	}
}
