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

// The `_meta` keys that the host puts into results.
const (
	// metaReport, in a call, asks for the four after it in its result.
	metaReport   = metaPrefix + "report"
	metaOutcome  = metaPrefix + "outcome"
	metaInstance = metaPrefix + "instance"
	metaDigest   = metaPrefix + "digest"
	metaCall     = metaPrefix + "call"
	// metaReplaced names the instance that the caller used before, where another has
	// taken its place.
	metaReplaced = metaPrefix + "replaced"
	// metaRevisions and metaDigests tell, with a list, what exactly was shown.
	metaRevisions = metaPrefix + "revisions"
	metaDigests   = metaPrefix + "digests"
)

// call carries a request through the broker and the answer back. Whose method it
// is, and what it means, is the broker's business.
func (s *Server) call(ctx context.Context, r *request) error {
	if name, _ := r.GetString("params", "name"); name == ReadArtifact && s.artifacts(r.caller) {
		return s.readArtifactCall(r)
	}
	c := broker.Call{Caller: r.caller, Request: r.Message, Identified: r.identified, Notify: r.notify}
	if r.header != nil {
		c.Admit = r.argumentsMirrored
	}
	reply := s.broker.Call(ctx, c)
	return reply.Deliver(func() error { return s.pass(r, reply) })
}

// pass writes the answer of a call.
func (s *Server) pass(r *request, reply broker.Reply) error {
	if reply.Err != nil {
		return r.fail(reply.Err)
	}
	answer := reply.Message
	defer func() { _ = answer.Close() }()
	e := answer.Edit().SetID(r.ID)
	_, kind, there := answer.FindKind("result", "_meta")
	if there {
		e.RemovePrefix(metaPrefix, "result", "_meta")
	}
	for _, name := range answer.Alike("_meta", "result") { // which many a client takes for it
		e.RemovePrefix(metaPrefix, "result", name)
	}
	if answer.Kind == rpc.Failure {
		r.flag(string(answer.Get("error", "code")))
		return r.answer(e.Payload())
	}
	// A `_meta` that is no object is the server's fault, and stays what it is.
	if !there || kind == '{' {
		r.report(e, reply)
	}
	if r.era == modern {
		s.modernize(e, answer, r.method)
	}
	return r.answer(e.Payload())
}

// report adds to a result what its caller asked to be told, and what it must be.
func (r *request) report(e *rpc.Editor, reply broker.Reply) {
	add := func(key, value string) {
		if value != "" {
			e.SetString(value, "result", "_meta", key)
		}
	}
	add(metaReplaced, reply.Replaced)
	if reply.Redacted {
		e.Set([]byte("true"), "result", "_meta", broker.MetaRedacted)
	}
	if string(r.Get("params", "_meta", metaReport)) != "true" {
		return
	}
	add(metaOutcome, string(reply.Outcome))
	add(metaInstance, reply.Instance)
	add(metaDigest, reply.Digest)
	add(metaCall, reply.ID)
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
