package broker

import (
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/internal/shape"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// Results looks at what servers answer. What it finds changes nothing of what the
// caller gets. *shape.Watch is one.
type Results interface {
	// Answered is told of the structuredContent of a result, and of the outputSchema
	// that it is to fit. It returns at once, and keeps nothing of value.
	Answered(provider, tool, digest string, schema, value []byte)
}

// look shows a result of a tool that has an outputSchema to who compares the two. It
// is the server's own: a secret that is taken out may be what made it fit.
func (b *Broker) look(tool *catalog.Tool, answer *rpc.Message) {
	if b.opts.Results == nil || tool.OutputSchema == nil || answer.Kind != rpc.Result {
		return
	}
	found := answer.FindAll("result", "structuredContent")
	if len(found) != 1 { // of several, readers may take any
		return
	}
	if value := found[0]; value.Kind == 'n' || value.At.Len() > shape.MaxValue {
		return
	}
	if _, kind, there := answer.FindKind("result", "isError"); there && kind != 'f' {
		return
	}
	// Of 2026-07-28: what asks for input, or is a task, is no result yet.
	if typ, there := answer.GetString("result", "resultType"); there && typ != "complete" {
		return
	}
	b.opts.Results.Answered(tool.Provider, tool.Name, tool.Digest, tool.OutputSchema, answer.Get("result", "structuredContent"))
}
