package broker

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/journal"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
)

// metaCallID is the caller's own id of a call, with which it may be repeated and
// runs once.
const metaCallID = metaPrefix + "call_id"

// CallIDs remembers the calls that carry an id of their caller's; *journal.CallIDs
// does, and says how it is used.
type CallIDs interface {
	// Hash is the keyed hash of arguments.
	Hash() hash.Hash
	// Lookup says what is known of an id, Claim takes it if nothing is.
	Lookup(ctx context.Context, id string, b journal.Binding) (journal.Known, error)
	Claim(ctx context.Context, id string, b journal.Binding, journalID string) (journal.Known, error)
	// Release gives a claimed id back, Finish says how its call ended.
	Release(ctx context.Context, id, journalID string) error
	Finish(ctx context.Context, id, journalID string, end journal.End, answer []byte) error
}

// Reasons of calls that were not run because of their id.
const (
	// reasonRepeated: the answer is that of the first call with the id.
	reasonRepeated = "repeated"
	// reasonNotHeld: how the first ended is known, and its answer is not held.
	reasonNotHeld = "answer_not_held"
	// reasonSettledOK, reasonSettledNotRun: its outcome was unknown, and a person has
	// found it out.
	reasonSettledOK     = "settled_ok"
	reasonSettledNotRun = "settled_not_run"
	// reasonUnreadable: whether the id was used cannot be told.
	reasonUnreadable = "call_id_unreadable"
)

// advSameID is what to do about a call whose id may be taken by an earlier one.
const advSameID = "Repeat it later, with the same id and the same arguments: it does not run twice."

// advPerhapsBefore is for a call of which it was not found out whether its id was used.
const advPerhapsBefore = "Nothing was sent this time, but it may have run before. " + advSameID

// maxCanonical is the size, in bytes, up to which arguments are compared by what they
// mean.
const maxCanonical = 1 << 20

// repeat is a call that was not sent since its id is not free. Its text never
// reaches anyone: the reply does.
type repeat struct{ reply Reply }

func (*repeat) Error() string { return "the call id is not free" }

// numbered says whether the call has an id that is to be remembered.
func (x *crossing) numbered() bool { return x.entry.CallID != "" && x.opts.CallIDs != nil }

// repeated is the reply to a call whose id is not free, nil for all others. It is
// asked once it is settled which tool is meant and that the caller may have it, and
// before the fence: what ran under another definition has run all the same.
func (x *crossing) repeated(ctx context.Context, t *catalog.Tool) *Reply {
	if !x.numbered() {
		return nil
	}
	known, err := x.lookUp(ctx, t)
	return x.notFree(ctx, t, known, err)
}

func (x *crossing) lookUp(ctx context.Context, t *catalog.Tool) (journal.Known, error) {
	b, err := x.binding(t)
	if err != nil {
		return journal.Known{}, err
	}
	return x.opts.CallIDs.Lookup(ctx, x.entry.CallID, b)
}

// repeatedOfGone is repeated for a tool that the caller does not see any more: what ran
// has run, and its caller may hear how it ended as long as he is granted the tool. Nil
// for every call that is no repeat; it ends as one of a tool that is not there.
func (x *crossing) repeatedOfGone(ctx context.Context) *Reply {
	if !x.numbered() {
		return nil
	}
	t := new(catalog.Tool)
	if was := x.was.find(x.exposed); was != nil {
		t.Provider, t.Name = was.Provider, was.Name
	} else if slug, name, ok := strings.Cut(x.exposed, "_"); ok { // another client of his may have been shown it
		t.Provider, t.Name = slug, name
	}
	if !x.worlds.world().admits(x.call.Caller, t.Provider, t.Name) {
		return nil
	}
	known, err := x.lookUp(ctx, t)
	if errors.Is(err, journal.ErrCallIDReused) {
		return nil
	}
	reply := x.notFree(ctx, t, known, err)
	if reply != nil {
		x.entry.Digest, x.audit = "", "" // of the refusal that it would have been
	}
	return reply
}

// claim takes the id for this call, which is about to be sent.
func (x *crossing) claim(ctx context.Context, t *catalog.Tool) error {
	if !x.numbered() {
		return nil
	}
	b, err := x.binding(t)
	if err != nil {
		return &repeat{*x.notFree(ctx, t, journal.Known{}, err)}
	}
	known, err := x.opts.CallIDs.Claim(ctx, x.entry.CallID, b, x.entry.ID)
	if reply := x.notFree(ctx, t, known, err); reply != nil {
		return &repeat{*reply}
	}
	x.claimed = true
	return nil
}

// unclaim says of a claimed id what became of its call, once that is written down and
// before the caller hears of it. It is done also where the caller is gone.
func (x *crossing) unclaim(ctx context.Context, reply *Reply, end journal.End) {
	if !x.claimed {
		return
	}
	ctx = context.WithoutCancel(ctx)
	var err error
	if reply.Dispatched {
		err = x.opts.CallIDs.Finish(ctx, x.entry.CallID, x.entry.ID, end, held(reply))
	} else {
		err = x.opts.CallIDs.Release(ctx, x.entry.CallID, x.entry.ID)
	}
	if err != nil {
		x.opts.Logger.Error("how a call with an id ended could not be remembered yet", "call", x.entry.ID, "outcome", reply.Outcome, "error", err)
	}
}

// held is a server's answer as it is kept for a repeat, nil where it is too large or
// there is none.
func held(reply *Reply) []byte {
	m := reply.Message
	if m == nil || m.Size() > journal.MaxHeld {
		return nil
	}
	p := m.Payload()
	if _, kind, there := m.FindKind("result", "_meta"); there && kind == '{' && !reply.Redacted {
		p = m.Edit().RemovePrefix(metaPrefix, "result", "_meta").Payload() // the mark of redaction is the host's
	}
	text, err := p.Append(nil)
	if err != nil { // a spool that cannot be read: the caller will not get it either
		return nil
	}
	return text
}

// binding is what an id is bound to.
func (x *crossing) binding(t *catalog.Tool) (journal.Binding, error) {
	b := journal.Binding{Principal: x.entry.Principal, Project: x.entry.Project, Provider: t.Provider, Tool: t.Name, Arguments: x.sum}
	if b.Arguments != nil {
		return b, nil
	}
	h := x.opts.CallIDs.Hash()
	if at, there := x.call.Request.Find("params", "arguments"); there {
		if err := writeArguments(h, x.call.Request.Section(at)); err != nil {
			return b, err
		}
	}
	x.sum = h.Sum(nil)
	b.Arguments = x.sum
	return b, nil
}

// writeArguments writes what the arguments of a call with an id mean to a hash: a client
// that repeats a call may write it anew, with its members in another order. Of large
// ones it writes the bytes: the canonical form of many members takes many times their
// memory.
func writeArguments(h hash.Hash, arguments rpc.Payload) error {
	const raw = "raw:" // no canonical form begins so
	if arguments.Len() > maxCanonical {
		_, _ = h.Write([]byte(raw)) // a hash takes everything
		_, err := arguments.WriteTo(h)
		return err
	}
	text, err := arguments.Append(nil)
	if err != nil {
		return err
	}
	prefix, form := catalog.Canonical(text)
	_, _ = h.Write([]byte(prefix))
	_, _ = h.Write(form)
	return nil
}

// notFree is the reply to a call whose id is not free, nil where it is.
func (x *crossing) notFree(ctx context.Context, t *catalog.Tool, known journal.Known, err error) *Reply {
	if err == nil && known.State == journal.IDFree {
		return nil
	}
	x.entry.Provider, x.entry.Tool = t.Provider, t.Name
	end := ending{provider: t.Provider, tool: t.Name, annotations: t.Annotations}
	switch {
	case errors.Is(err, journal.ErrCallIDReused):
		end = ending{outcome: Denied, reason: journal.ReasonCallIDReused, tool: x.exposed, retry: RetryNever,
			cause:  "its " + metaCallID + " was used before, for another call",
			advice: "Nothing was run. Give each call an id of its own, and repeat one only with what it was first used for."}
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		end.outcome, end.reason, end.retry, end.cause = Cancelled, string(session.Cancelled), RetrySafe, causeCancelled
		end.advice = advPerhapsBefore
	case err != nil:
		x.opts.Logger.Error("call ids cannot be used", "call", x.entry.ID, "error", err)
		end.outcome, end.reason, end.retry = Unavailable, reasonUnreadable, RetrySafe
		end.cause = "whether its " + metaCallID + " was used before cannot be told now"
		end.advice = advPerhapsBefore
	case known.State == journal.IDInFlight:
		end.outcome, end.reason, end.retry = Unavailable, journal.ReasonCallIDInFlight, RetrySafe
		end.cause = "the call with its " + metaCallID + " is in flight"
		end.advice = advSameID
	default:
		if reply := again(known); reply != nil {
			return reply
		}
		end.before(known)
	}
	reply := end.reply()
	return &reply
}

// again is the answer of the first call with the id, nil where it is not held.
func again(known journal.Known) *Reply {
	if known.Answer == nil {
		return nil
	}
	m, err := rpc.Parse(rpc.FromServer, known.Answer)
	if err != nil {
		return nil
	}
	_, marked := m.Find("result", "_meta", MetaRedacted)
	return &Reply{Outcome: Outcome(known.Outcome), Reason: reasonRepeated, Message: m, Redacted: marked}
}

// before ends a repeat with what is known of the first call, which has ended and
// whose answer is not at hand.
func (end *ending) before(known journal.Known) {
	at := known.Ended.UTC().Format(time.RFC3339)
	end.outcome, end.reason, end.retry = Outcome(known.Outcome), reasonNotHeld, RetryNever
	end.cause = fmt.Sprintf("it was called before with its %s (call %s), and that ended as %s at %s", metaCallID, known.JournalID, known.Outcome, at)
	end.advice = "Its answer is no longer held. It was not run again; to run it again, give it a new id."
	if end.outcome != Unknown {
		return
	}
	end.reason, end.retry = known.Reason, RetryAfterLook
	end.cause = fmt.Sprintf("it was called before with its %s (call %s), and gave no usable answer (%s, %s)", metaCallID, known.JournalID, known.Reason, at)
	end.advice = "It may have had its effect, and was not run again. Look at the state before you call it with a new id."
	switch known.Settled {
	case journal.SettledOK:
		end.reason, end.retry = reasonSettledOK, RetryNever
		end.advice = "The owner has found out that it ran. It was not run again."
	case journal.SettledNotRun:
		end.outcome, end.reason, end.retry = Unavailable, reasonSettledNotRun, RetrySafe
		end.advice = "The owner has found out that it did not run, so it had no effect; it is safe to call again, with a new id."
	}
}
