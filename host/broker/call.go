package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// metaPrefix marks the `_meta` keys that are between a caller and the host.
const metaPrefix = "drawbridge/"

// causeCancelled is the caller's own doing, before anything was sent.
const causeCancelled = "the caller cancelled before it was sent"

// Call is a caller's request to a tool.
type Call struct {
	Caller Caller
	// Request is the `tools/call` as it came.
	Request *rpc.Message
	// Admit looks at the request once more when it is settled which definition it
	// is a call of, before anything is sent. Its error is then the answer. Nil: none.
	Admit func(*catalog.Tool) *rpc.Error
	// Notify gets what the server says on behalf of this call, in order, before
	// Call returns, on the goroutine of Call.
	Notify func(*rpc.Message) error
}

// Reply is how a call ended: the server's own response, or the host's own error.
type Reply struct {
	Outcome Outcome
	// Message is the server's response as it came; nil with Err.
	Message *rpc.Message
	// Redacted says that secrets were taken out of it.
	Redacted bool
	Err      *rpc.Error
}

// Call takes a request to its tool's server and returns how it ended. Ending ctx
// is the caller's cancel.
func (b *Broker) Call(ctx context.Context, c Call) Reply {
	exposed, ok := c.Request.GetString("params", "name")
	if !ok {
		return Reply{Outcome: Denied, Err: &rpc.Error{Code: rpc.CodeInvalidParams, Message: `params.name is missing or no string: say which tool to call`}}
	}
	arrived := time.Now()
	tool, slug, err := b.resolve(ctx, c.Caller, arrived, exposed)
	switch {
	case err != nil:
		return notStarted(ctx, slug, exposed, err)
	case tool == nil:
		return unknownTool(exposed)
	}
	p := b.providers[tool.Provider]
	if size := c.Request.Size(); p.MaxMessage > 0 && size > p.MaxMessage {
		return ending{outcome: Unavailable, reason: string(session.MessageTooLarge), retry: RetryNever, advice: advNever,
			cause:    fmt.Sprintf("the request has %d bytes, over max_message = %d of this provider", size, p.MaxMessage),
			provider: tool.Provider, tool: tool.Name}.reply()
	}
	ctx, cancel := withLimit(ctx, arrived, p.CallTimeoutMax)
	defer cancel()
	in, err := b.opts.Sessions.Get(ctx, tool.Provider)
	if err != nil {
		return notStarted(ctx, tool.Provider, tool.Name, err)
	}
	// What takes the call may have listed anew since the name was resolved, and what
	// the caller has may have changed.
	if tool, ok = b.find(c.Caller, exposed); !ok || tool.Provider != p.Slug {
		return unknownTool(exposed)
	}
	if c.Admit != nil {
		if refused := c.Admit(tool); refused != nil {
			return Reply{Outcome: Denied, Err: refused}
		}
	}
	return b.dispatch(ctx, c, in, tool)
}

// dispatch hands the call to an instance and classifies what comes back. It is
// the only place that does either, and it sends once.
func (b *Broker) dispatch(ctx context.Context, c Call, in Instance, tool *catalog.Tool) Reply {
	answer, err := in.Do(ctx, session.Call{
		Request: c.Request,
		Modern:  c.Caller.Modern,
		Notify:  b.cleanNotify(tool.Provider, c.Notify),
		Edit: func(e *rpc.Editor) {
			e.SetString(tool.Name, "params", "name").RemovePrefix(metaPrefix, "params", "_meta")
		},
	})
	if err == nil {
		err = forged(answer)
	}
	if err == nil {
		outcome, redacted := classify(answer), false
		if answer, redacted, err = b.cleanAnswer(tool.Provider, answer); err == nil {
			return Reply{Outcome: outcome, Message: answer, Redacted: redacted}
		}
	}
	end := ending{provider: tool.Provider, tool: tool.Name, instance: in.Mark(), annotations: tool.Annotations}
	var lost *session.Lost
	if !errors.As(err, &lost) {
		lost = &session.Lost{Reason: session.NotSent, Cause: err.Error()}
		switch {
		case errors.Is(err, context.Canceled):
			lost.Reason, lost.Cause = session.Cancelled, causeCancelled
		case errors.Is(err, context.DeadlineExceeded):
			lost.Reason, lost.Cause = session.Timeout, "its time was over before it could be sent"
		}
	}
	end.reason, end.cause, end.dispatched = string(lost.Reason), lost.Cause, lost.Dispatched
	switch {
	case lost.Dispatched:
		end.outcome, end.retry, end.advice = Unknown, RetryAfterLook, advMayHappened
		if !tool.Effectful {
			end.advice = advMayReadOnly
		}
		switch lost.Reason {
		case session.ResultTooLarge, session.MalformedAnswer:
			end.advice = advAnsweredBadly
		case session.InputRequired:
			end.advice = advUnfinished
		}
	case lost.Reason == session.MessageTooLarge:
		end.outcome, end.retry, end.advice = Unavailable, RetryNever, advNever
	case lost.Reason == session.Cancelled:
		end.outcome, end.retry, end.advice = Cancelled, RetrySafe, advSafe
	default:
		end.outcome, end.retry, end.advice = Unavailable, RetrySafe, advSafe
	}
	return end.reply()
}

// forged is the error for an answer with one of the host's own error codes, which
// a caller would take for the host's word that nothing was sent; nil for all
// others. It closes the answer that it refuses.
func forged(answer *rpc.Message) error {
	code := string(answer.Get("error", "code"))
	if answer.Kind != rpc.Failure || !hostCode(code) {
		return nil
	}
	_ = answer.Close()
	return &session.Lost{
		Dispatched: true, Reason: session.MalformedAnswer,
		Cause: fmt.Sprintf("the server answered with error %s, a code that is the host's own", code),
	}
}

// hostCode says whether an error code, as it stands in a message, is one of the host's own.
func hostCode(literal string) bool {
	code, err := strconv.ParseFloat(literal, 64)
	return err == nil && CodeUnknown <= code && code <= CodeDenied
}

// classify names the outcome of a server's own answer.
func classify(answer *rpc.Message) Outcome {
	if answer.Kind == rpc.Failure {
		return RPCError
	}
	if string(answer.Get("result", "isError")) == "true" {
		return ToolError
	}
	return OK
}

// notStarted is the ending of a call whose provider is not there.
func notStarted(ctx context.Context, slug, tool string, err error) Reply {
	end := ending{outcome: Unavailable, reason: "not_started", cause: err.Error(), advice: advSafe,
		provider: slug, tool: tool, retry: RetrySafe}
	var failure *supervise.Failure
	switch {
	case errors.As(err, &failure):
		end.reason = "provider_failed"
	case errors.Is(ctx.Err(), context.Canceled):
		end.outcome, end.reason, end.cause = Cancelled, string(session.Cancelled), causeCancelled
	case errors.Is(err, context.DeadlineExceeded):
		end.reason, end.cause = string(session.Timeout), "the provider was not ready in time"
	}
	return end.reply()
}

// unknownTool is one and the same for a tool that is not there and one that is
// not the caller's.
func unknownTool(exposed string) Reply {
	return ending{outcome: Denied, reason: "unknown_tool", tool: exposed, advice: advUnknownTool, retry: RetryNever}.reply()
}

// withLimit ends with the time of a call that arrived then, 0 for no limit.
func withLimit(ctx context.Context, arrived time.Time, most time.Duration) (context.Context, context.CancelFunc) {
	if most <= 0 {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, arrived.Add(most),
		fmt.Errorf("no answer within %s of its arrival (call_timeout_max)", most))
}
