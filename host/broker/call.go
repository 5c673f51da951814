package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/journal"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
)

const (
	// metaPrefix marks the `_meta` keys that are between a caller and the host.
	metaPrefix = "drawbridge/"
	// metaDigest and metaInstance name the definition and the process that a call is
	// meant for.
	metaDigest   = metaPrefix + "digest"
	metaInstance = metaPrefix + "instance"

	// causeCancelled is the caller's own doing, before anything was sent.
	causeCancelled = "the caller cancelled before it was sent"
	// maxTries is how often a call is taken to an instance whose list changes under
	// its eyes, before it is given up.
	maxTries = 8
)

// Call is a caller's request to a tool.
type Call struct {
	Caller Caller
	// Request is the `tools/call` as it came.
	Request *rpc.Message
	// Admit looks at the request once more when it is settled which definition it
	// is a call of, before anything is sent. Its error is then the answer. Nil: none.
	Admit func(*catalog.Tool) *rpc.Error
	// Identified is told the journal's id of the call before anything else happens.
	// Nil: nobody is.
	Identified func(id string)
	// Notify gets what the server says on behalf of this call, in order, before
	// Call returns, on the goroutine of Call.
	Notify func(*rpc.Message) error
}

// Reply is how a call ended: the server's own response, or the host's own error.
type Reply struct {
	Outcome Outcome
	// Reason is a word for programs, "" where the server has answered.
	Reason string
	// Dispatched says that the request was sent, or may have been.
	Dispatched bool
	// Message is the server's response as it came; nil with Err.
	Message *rpc.Message
	// Redacted says that secrets were taken out of it.
	Redacted bool
	Err      *rpc.Error
	// ID is the journal's of the call. Instance and Digest are what took it, or
	// would have, as far as that is known.
	ID, Instance, Digest string
	// Replaced is the instance that the caller used before, where another has taken
	// its place and the result has to say so; else "".
	Replaced string
	// size is that of the server's answer, artifacts are what was kept of it.
	size      int64
	artifacts []string
	// delivered notes what the caller knows once it has the answer. Nil: nothing.
	delivered func()
	// writing is where calls wait that arrive while the answer is written.
	writing *memory
}

// Deliver runs what writes the answer to the caller, whose error says that it could
// not be written. An answer that changes what the caller counts as having been
// shown does so when it has been written, and calls that arrive while it is wait
// for that. Every reply must be delivered so, once.
func (r Reply) Deliver(write func() error) error {
	if r.delivered == nil {
		return write()
	}
	return r.writing.write(func() error {
		err := write()
		if err == nil {
			r.delivered()
		}
		return err
	})
}

// errMoved is why a call that was about to be sent must be looked at again: what
// it was judged by is no longer so. Nothing was sent.
var errMoved = errors.New("the definitions have changed")

// crossing is one call on its way.
type crossing struct {
	*Broker
	call    Call
	arrived time.Time
	exposed string
	// memory is where what the caller is shown is noted, was what it had been shown
	// when the call arrived: that is what the call was made for, whatever the caller
	// is shown meanwhile.
	memory recollection
	was    *remembered
	// digest and instance are what the call names, "" for nothing.
	digest, instance string

	entry journal.Entry
	begun bool
	// sum is the hash of the arguments of a call with an id, once it is made; claimed
	// says that the id is this call's.
	sum     []byte
	claimed bool
	// audit is why a call was refused, where its caller is told something else.
	audit string
}

// Call takes a caller's request to its tool's server and returns how it ended.
// Ending ctx is the caller's cancel.
func (b *Broker) Call(ctx context.Context, c Call) Reply {
	x := &crossing{Broker: b, call: c, arrived: time.Now()}
	x.entry = journal.Entry{
		ID: b.opts.Journal.NewID(), Time: x.arrived,
		Principal: c.Caller.Principal, Project: c.Caller.Project, RequestBytes: c.Request.Size(),
	}
	if c.Identified != nil {
		c.Identified(x.entry.ID)
	}
	ended := false
	defer func() {
		if !ended {
			x.fault(ctx)
		}
	}()
	reply := x.take(ctx)
	ended = true
	x.record(ctx, &reply)
	return x.told(reply)
}

// take is Call without the journal's last line.
func (x *crossing) take(ctx context.Context) Reply {
	if reply, done := x.bypass(ctx); done {
		return reply
	}
	if problem := x.read(); problem != "" {
		return x.malformed(problem)
	}
	x.memory = x.shown.of(x.call.Caller)
	x.was = x.memory.own.arrive(ctx)
	tool, end := x.resolve(ctx)
	if tool == nil {
		if reply := x.repeatedOfGone(ctx); reply != nil {
			return *reply
		}
		return end
	}
	if reply := x.repeated(ctx, tool); reply != nil {
		return *reply
	}
	w := x.worlds.world()
	// What a server listed that does not run any more may be of long ago: then it is
	// for the one that takes the call to say what there is.
	if _, refused := x.judge(w, tool); refused != nil && x.current(w, tool.Provider) {
		return *refused
	}
	p := x.providers[tool.Provider]
	if size := x.call.Request.Size(); p.MaxMessage > 0 && size > p.MaxMessage {
		return ending{outcome: Unavailable, reason: string(session.MessageTooLarge), retry: RetryNever, advice: advNever,
			cause:    fmt.Sprintf("the request has %d bytes, over max_message = %d of this provider", size, p.MaxMessage),
			provider: tool.Provider, tool: tool.Name}.reply()
	}
	ctx, cancel := withLimit(ctx, x.arrived, p)
	defer cancel()
	leave, refused := x.admit(ctx, w, tool)
	if refused != nil {
		return *refused
	}
	defer leave()
	var (
		unread error  // why the tools of an instance could not be read again
		on     string // that instance
	)
	for range maxTries {
		in, err := x.opts.Sessions.Get(ctx, tool.Provider)
		if err != nil {
			return notStarted(ctx, tool.Provider, tool.Name, err)
		}
		if unread != nil && in.Mark() == on {
			return notCurrent(ctx, tool, in, unread)
		}
		epoch, err := in.Current(ctx, p.age(tool, in))
		if err != nil {
			if ctx.Err() != nil {
				return notCurrent(ctx, tool, in, err)
			}
			unread, on = err, in.Mark() // another may be there already
			continue
		}
		reply, moved := x.cross(ctx, in, epoch, &tool)
		if !moved {
			return reply
		}
	}
	return ending{outcome: Unavailable, reason: "unsettled", retry: RetrySafe, advice: advSafe,
		cause: "its definition kept changing while it was looked at", provider: tool.Provider, tool: tool.Name}.reply()
}

// read takes from the request what the broker goes by; what is wrong with it is a
// clause for people.
func (x *crossing) read() (problem string) {
	r := x.call.Request
	var ok bool
	if x.exposed, ok = r.GetString("params", "name"); !ok {
		return `params.name is missing or no string: say which tool to call`
	}
	for key, to := range map[string]*string{metaDigest: &x.digest, metaInstance: &x.instance, metaCallID: &x.entry.CallID} {
		if _, kind, there := r.FindKind("params", "_meta", key); there && kind != 'n' {
			if *to, ok = r.GetString("params", "_meta", key); !ok || *to == "" {
				return fmt.Sprintf(`_meta[%q] must be a string that is not empty`, key)
			}
		}
	}
	if x.entry.CallID != "" {
		if err := journal.CheckCallID(x.entry.CallID); err != nil {
			return err.Error()
		}
		if x.opts.Cleaner.text(x.entry.CallID) != x.entry.CallID { // it would be on record, and cannot be shortened
			x.entry.CallID = ""
			return fmt.Sprintf("_meta[%q] must be an id that was made up for this call, and hold nothing else", metaCallID)
		}
	}
	return ""
}

// resolve finds the tool of the exposed name in what the caller sees. A name that
// no catalog knows starts the provider whose slug it carries, if the caller has
// anything to do with it and it has listed nothing since the host runs: what is
// remembered of it may be of long ago. Bare names carry no slug, so they start all
// that have no catalog. Without a tool, the reply says how the call ends.
func (x *crossing) resolve(ctx context.Context) (*catalog.Tool, Reply) {
	c := x.call.Caller
	w := x.worlds.world()
	if t, ok := w.see(c).view.Find(x.exposed); ok {
		return t, Reply{}
	}
	if w.bare(c) {
		x.warm(ctx, x.unlisted(w, c), x.opts.ListWait)
		w = x.worlds.world()
		if t, ok := w.see(c).view.Find(x.exposed); ok {
			return t, Reply{}
		}
		if len(x.unlisted(w, c)) > 0 { // it may be one of theirs
			return nil, notStarted(ctx, "", x.exposed, errNotListed)
		}
		return nil, x.absent(w)
	}
	slug, _, ok := strings.Cut(x.exposed, "_")
	p, declared := x.providers[slug]
	mark, _ := w.snapshot.Instance(slug)
	if !ok || !declared || mark != "" || !w.sees(c, slug) {
		return nil, x.absent(w)
	}
	ctx, cancel := withLimit(ctx, x.arrived, p)
	defer cancel()
	if _, err := x.opts.Sessions.Get(ctx, slug); err != nil {
		x.entry.Provider = slug
		return nil, notStarted(ctx, slug, x.exposed, err)
	}
	w = x.worlds.world()
	if t, ok := w.see(c).view.Find(x.exposed); ok {
		return t, Reply{}
	}
	return nil, x.absent(w)
}

// errNotListed is for a name that no catalog knows while there are providers that
// have none.
var errNotListed = errors.New("no tool of this name is known yet, and not all providers have listed theirs")

// absent ends a call of a tool that the caller does not see: stale where it was
// shown it and it is no longer there, and else one and the same answer for what
// never was, what it was told is gone, and what it may not have.
func (x *crossing) absent(w *world) Reply {
	if t, ok := w.quarantined(x.call.Caller, x.exposed); ok {
		// The journal has what the caller is not told.
		x.entry.Provider, x.entry.Tool, x.entry.Digest, x.audit = t.Provider, t.Name, t.Digest, auditQuarantined
	}
	was := x.was.find(x.exposed)
	if was == nil || was.Gone || !w.admits(x.call.Caller, was.Provider, was.Name) {
		return unknownTool(x.exposed)
	}
	return x.stale(w, reasonToolGone, was, nil)
}

// judge takes a tool that the caller sees to the fence. It returns the reply of a
// call that does not pass.
func (x *crossing) judge(w *world, t *catalog.Tool) (Fence, *Reply) {
	was := x.was.findTool(t)
	fence, reason := terms{was: was, lossy: x.was.lossy, named: x.digest, required: x.providers[t.Provider].Required}.judge(t)
	if reason != "" {
		reply := x.stale(w, reason, was, t)
		return "", &reply
	}
	x.entry.Provider, x.entry.Tool, x.entry.Digest, x.entry.Fence = t.Provider, t.Name, t.Digest, string(fence)
	return fence, nil
}

// stale refuses a call because of its tool's definition, and shows the one that is
// there, or that there is none.
func (x *crossing) stale(w *world, reason string, was *item, t *catalog.Tool) Reply {
	view := w.see(x.call.Caller).view
	var slug string
	if t != nil {
		slug, x.entry.Tool, x.entry.Digest = t.Provider, t.Name, t.Digest
	} else {
		slug, x.entry.Tool, x.entry.Digest = was.Provider, was.Name, ""
	}
	x.entry.Provider = slug
	end := stale(reason, was, t, view.Revisions()[slug])
	mark, _ := view.Instance(slug)
	end.instance = mark
	// Where its process is another one too, that is told in the same breath.
	again := t != nil && mark != "" && x.process(slug).judges(mark) == reasonInstanceReplaced && x.instance == ""
	if again {
		end.advice += " The server process is another one as well. " + stateLost
	}
	reply := end.reply()
	reply.writing = x.memory.own
	reply.delivered = func() {
		shown := was
		if t != nil {
			shown = itemOf(t)
		} else {
			shown = was.gone()
		}
		x.memory.change(func(r *remembered) *remembered { return r.with(x.exposed, shown) })
		if again {
			x.memory.met(slug, mark)
		}
	}
	return reply
}

// current says whether a provider's list is that of the instance which is ready.
func (x *crossing) current(w *world, slug string) bool {
	mark, _ := w.snapshot.Instance(slug)
	s, ok := x.opts.Sessions.State(slug)
	return ok && mark != "" && mark == s.Instance
}

func (x *crossing) process(slug string) process {
	return process{last: x.was.instances[slug], named: x.instance, stateful: x.providers[slug].Stateful}
}

// cross decides once more, on the instance that takes the call and by what it has
// just listed, and sends the call. moved says that what was decided is no longer
// so and nothing was sent; tool is then the one to try next.
func (x *crossing) cross(ctx context.Context, in Instance, epoch uint64, tool **catalog.Tool) (reply Reply, moved bool) {
	w := x.worlds.world()
	view := w.see(x.call.Caller).view
	slug := (*tool).Provider
	mark := in.Mark()
	if from, _ := view.Instance(slug); from != mark {
		return Reply{}, true // another instance has listed since
	}
	t, ok := view.Find(x.exposed)
	if !ok {
		return x.absent(w), false
	}
	*tool = t
	if t.Provider != slug {
		return Reply{}, true
	}
	fence, refused := x.judge(w, t)
	if refused != nil {
		return *refused, false
	}
	reason, other := x.process(slug).judge(mark)
	if reason != "" {
		return x.replaced(view, t, mark), false
	}
	if x.call.Admit != nil {
		if err := x.call.Admit(t); err != nil {
			return Reply{Outcome: Denied, Reason: "invalid_request", Err: err, Instance: mark, Digest: t.Digest}, false
		}
	}
	x.entry.Instance, x.entry.Generation = mark, x.opts.Generation(slug)
	still := func() bool { return in.Epoch() == epoch && x.opts.Policy() == w.policy && x.opts.Lock() == w.lock }
	reply, err := x.dispatch(ctx, in, t, func() error { return x.begin(ctx, t, fence, still) }, func() error {
		if !still() { // the server did not read for a while
			return errLate
		}
		return nil
	})
	if errors.Is(err, errMoved) {
		return Reply{}, true
	}
	reply.Instance, reply.Digest = mark, t.Digest
	if other && reply.Message != nil && reply.Message.Kind == rpc.Result {
		reply.Replaced = x.was.instances[slug]
		reply.writing = x.memory.own
		reply.delivered = func() {
			x.memory.met(slug, mark)
		}
	}
	return reply, false
}

// replaced refuses a call because of the process that would take it.
func (x *crossing) replaced(view *catalog.View, t *catalog.Tool, mark string) Reply {
	before := x.was.instances[t.Provider]
	if x.instance != "" {
		before = x.instance
	}
	reply := replaced(t, before, mark, view.Revisions()[t.Provider]).reply()
	reply.writing = x.memory.own
	reply.delivered = func() {
		x.memory.met(t.Provider, mark)
	}
	return reply
}

// begin is the last step before a call is sent: it looks whether all is still as
// it was decided, writes the call down, and binds a first use. After an error
// nothing is sent.
func (x *crossing) begin(ctx context.Context, t *catalog.Tool, fence Fence, still func() bool) error {
	if !still() {
		return errMoved
	}
	if err := x.claim(ctx, t); err != nil {
		return err
	}
	if err := x.opts.Journal.Begin(&x.entry); err != nil {
		return &unjournaled{err}
	}
	x.begun = true
	if !still() { // writing took its time
		return errLate
	}
	if fence == FirstUse {
		x.memory.change(func(r *remembered) *remembered {
			if r.find(x.exposed) != nil {
				return r
			}
			return r.with(x.exposed, itemOf(t))
		})
	}
	meet := func(r *remembered) *remembered {
		if r.instances[t.Provider] != "" && x.instance == "" {
			return r // the caller is told first
		}
		return r.met(t.Provider, x.entry.Instance)
	}
	if now := x.memory.own.now.Load(); meet(now) != now { // mostly it is not, and takes no lock
		x.memory.own.change(meet)
		x.memory.metInSession(t.Provider, x.entry.Instance)
	}
	return nil
}

// dispatch hands the call to an instance and classifies what comes back. It is
// the only place that does either, and it sends once. The error is begin's
// errMoved, or nil.
func (x *crossing) dispatch(ctx context.Context, in Instance, tool *catalog.Tool, begin, last func() error) (Reply, error) {
	answer, err := in.Do(ctx, session.Call{
		Request: x.call.Request,
		Modern:  x.call.Caller.Modern,
		Begin:   begin,
		Last:    last,
		Notify:  x.cleanNotify(tool.Provider, x.call.Notify),
		Edit: func(e *rpc.Editor) {
			e.SetString(tool.Name, "params", "name").RemovePrefix(metaPrefix, "params", "_meta")
		},
	})
	if errors.Is(err, errMoved) {
		return Reply{}, errMoved
	}
	if taken := (*repeat)(nil); errors.As(err, &taken) {
		return taken.reply, nil
	}
	if err == nil {
		err = forged(answer)
	}
	if err == nil {
		outcome, redacted := classify(answer), false
		x.look(tool, answer)
		if answer, redacted, err = x.cleanAnswer(tool.Provider, answer); err == nil {
			reply := Reply{Outcome: outcome, Dispatched: true, Message: answer, Redacted: redacted, size: answer.Size()}
			x.bound(&reply, tool)
			return reply, nil
		}
	}
	end := ending{provider: tool.Provider, tool: tool.Name, instance: in.Mark(), annotations: tool.Annotations}
	end.classify(err, tool)
	return end.reply(), nil
}
