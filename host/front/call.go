package front

import (
	"context"
	"strconv"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// metaPrefix marks the `_meta` keys that are the host's own; a server has none.
const metaPrefix = "drawbridge/"

// call carries a request through the broker and the answer back. Whose method it
// is, and what it means, is the broker's business.
func (s *Server) call(ctx context.Context, r *request) error {
	c := broker.Call{Caller: r.caller, Request: r.Message, Notify: r.notify}
	if r.header != nil {
		c.Admit = r.argumentsMirrored
	}
	reply := s.broker.Call(ctx, c)
	if reply.Err != nil {
		return reply.Err
	}
	answer := reply.Message
	defer func() { _ = answer.Close() }()
	e := answer.Edit().SetID(r.ID)
	if _, there := answer.Find("result", "_meta"); there {
		e.RemovePrefix(metaPrefix, "result", "_meta")
	}
	if _, marked := answer.Find("result", "_meta", broker.MetaRedacted); marked && reply.Redacted {
		e.Set([]byte("true"), "result", "_meta", broker.MetaRedacted)
	}
	switch {
	case answer.Kind == rpc.Failure:
		r.flag(string(answer.Get("error", "code")))
	case r.era == modern:
		s.modernize(e, answer, r.method)
	}
	return r.answer(e.Payload())
}

// modernize adds what 2026-07-28 wants of a result and an older server does not
// give. What the server gave stays.
func (s *Server) modernize(e *rpc.Editor, answer *rpc.Message, m *method) {
	add := func(value []byte, path ...string) {
		if _, there := answer.Find(path...); !there {
			e.Set(value, path...)
		}
	}
	add([]byte(`"complete"`), "result", "resultType")
	if m.cached {
		add(strconv.AppendInt(nil, cacheTTL, 10), "result", "ttlMs")
		add([]byte(`"`+mcp.CacheScopePrivate+`"`), "result", "cacheScope")
	}
	// A `_meta` that is no object is the server's fault, and stays what it is.
	if _, kind, there := answer.FindKind("result", "_meta"); !there || kind == '{' {
		add(s.identity, "result", "_meta", mcp.MetaKeyServerInfo)
	}
}
