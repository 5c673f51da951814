package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// unjournaled is a call that could not be written down, and so was not sent.
type unjournaled struct{ err error }

func (u *unjournaled) Error() string { return u.err.Error() }
func (u *unjournaled) Unwrap() error { return u.err }

// errLate is for a call that was written down when what it was judged by changed.
var errLate = errors.New("the definitions changed in the moment it was to be sent")

// classify says how a call ended that has no usable answer.
func (end *ending) classify(err error, tool *catalog.Tool) {
	var lost *session.Lost
	var unwritten *unjournaled
	if !errors.As(err, &lost) {
		lost = &session.Lost{Reason: session.NotSent, Cause: err.Error()}
		switch {
		case errors.As(err, &unwritten):
			lost.Reason = "journal"
		case errors.Is(err, errLate):
			lost.Reason = "unsettled"
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
}

// forged is the error for an answer with one of the host's own error codes, which
// a caller would take for the host's word that nothing was sent; nil for all
// others. Readers differ in which of several members they take for the code, so none
// of them may be one of the host's. It closes the answer that it refuses.
func forged(answer *rpc.Message) error {
	if answer.Kind != rpc.Failure {
		return nil
	}
	var cause string
	codes := slices.DeleteFunc(answer.Names("error"), func(name string) bool { return !strings.EqualFold(name, "code") })
	code := strings.Trim(string(answer.Get("error", "code")), `"`) // some read a number out of a string
	switch {
	case len(codes) > 1 || len(codes) == 1 && codes[0] != "code":
		cause = fmt.Sprintf("the server answered with an error whose code stands in it in %d ways", len(codes))
		if len(codes) == 1 {
			cause = fmt.Sprintf("the server answered with an error that has %q for its code", codes[0])
		}
	case hostCode(code):
		cause = fmt.Sprintf("the server answered with error %s, a code that is the host's own", code)
	default:
		return nil
	}
	_ = answer.Close()
	return &session.Lost{Dispatched: true, Reason: session.MalformedAnswer, Cause: cause}
}

// hostCode says whether an error code, as it stands in a message, is one of the host's own.
func hostCode(literal string) bool {
	code, err := strconv.ParseFloat(strings.TrimSpace(literal), 64)
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

// notCurrent is the ending of a call for which the tools could not be read again.
func notCurrent(ctx context.Context, t *catalog.Tool, in Instance, err error) Reply {
	end := ending{outcome: Unavailable, reason: "not_current", retry: RetrySafe, advice: advSafe,
		cause:    "its definition may have changed, and the server's tools could not be read again: " + err.Error(),
		provider: t.Provider, tool: t.Name, instance: in.Mark(), annotations: t.Annotations}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		end.outcome, end.reason, end.cause = Cancelled, string(session.Cancelled), causeCancelled
	case errors.Is(err, context.DeadlineExceeded):
		end.reason, end.cause = string(session.Timeout), "the server's tools, which may have changed, were not read again in time"
	}
	return end.reply()
}

// told is a reply as its caller may have it. Why something does not run is put together of
// what servers and the system say, so that it is looked through once more for secrets; and
// it may name files, which are the business of who runs the host, and of nobody who calls
// from elsewhere. A definition that a refusal shows stays as it is.
func (x *crossing) told(reply Reply) Reply {
	switch reply.Outcome {
	case Unavailable, Unknown, Cancelled:
		if reply.Err == nil {
			return reply
		}
		own := *reply.Err
		own.Message = x.opts.Redact(own.Message)
		if x.call.Caller.Principal != access.Local {
			own.Message = x.opts.Places(own.Message)
		}
		reply.Err = &own
	}
	return reply
}

// malformed is the ending of a call that says too little, or something else.
func (x *crossing) malformed(problem string) Reply {
	return Reply{Outcome: Denied, Reason: "invalid_params", Err: &rpc.Error{Code: rpc.CodeInvalidParams, Message: problem}}
}

// unknownTool is one and the same for a tool that is not there and one that is
// not the caller's.
func unknownTool(exposed string) Reply {
	return ending{outcome: Denied, reason: "unknown_tool", tool: exposed, advice: advUnknownTool, retry: RetryNever}.reply()
}

// withLimit ends with the time of a call to p that arrived then, which may be without
// a limit. Its cause names both limits: either may be the one to raise.
func withLimit(ctx context.Context, arrived time.Time, p Provider) (context.Context, context.CancelFunc) {
	most := p.CallTimeoutMax
	if most <= 0 {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, arrived.Add(most),
		fmt.Errorf("no answer within %s of its arrival (call_timeout_max; the limit of silence, call_timeout, is %s)", most, p.CallTimeout))
}
