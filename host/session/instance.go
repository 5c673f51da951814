package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// endGrace is how long a server that closed its output, or whose plugin ended
// the stream, may take to end by itself.
const endGrace = 500 * time.Millisecond

// exitPatience is how long a start that failed waits to learn how its plugin ended.
const exitPatience = 500 * time.Millisecond

// Instance is one running server and the session with it. It is ready: the
// handshake is done and the tools were listed. It ends with its stream.
type Instance struct {
	spec     *Spec
	proc     *supervise.Process
	id       identity
	server   Server
	link     *link
	era      translator
	level    func() string
	listener Listener
	log      *slog.Logger
	redact   func(string) string
	// list says how current the list is that the Listener has.
	list freshness
	// relist and relevel have room for one signal: the tools are to be read again,
	// the log level that is wanted has changed.
	relist, relevel chan struct{}
	// listening has room for one signal: a subscription was acknowledged.
	listening chan struct{}
	// told is the level that an older server was told last, and telling the request
	// that told it. The start has them, then keep.
	told    string
	telling *call
	// kept is closed when keep has ended: the instance says nothing any more.
	kept chan struct{}
}

// Call is a client's request on its way to a server.
type Call struct {
	// Request is the client's request; its method and params go to the server.
	Request *rpc.Message
	// Edit makes the broker's changes. Nil: none.
	Edit func(*rpc.Editor)
	// Modern is the client's era. The keys of _meta by which the modern era says
	// with each request who asks are put in, passed or taken out as the server's
	// era asks.
	Modern bool
	// Silence and Max limit the wait (call_timeout, call_timeout_max); 0 means the
	// provider's.
	Silence, Max time.Duration
	// Begin is called before the request is handed over; an error means that
	// nothing is sent, and is what Do returns. Nil: not called.
	Begin func() error
	// Last is called when it is the request's turn, which may be long after Begin
	// where the server does not read: the last moment to see that it is still to be
	// sent. Others wait meanwhile, so it must not. An error means that nothing is
	// sent, and is what Do returns. Nil: not called.
	Last func() error
	// Notify gets the progress and messages of this call, in order, on the
	// goroutine of Do; params.progressToken is the host's own. The message is valid
	// until Notify returns. After an error it is not called again. Nil: they are
	// dropped.
	Notify func(*rpc.Message) error
}

// Mark returns the instance's mark.
func (i *Instance) Mark() string { return i.proc.Mark() }

// Server returns what the server said of itself.
func (i *Instance) Server() Server { return i.server }

// Do sends a request to the server and returns its response, of Kind Result or
// Failure, which the caller closes. Without a usable one the error is a *Lost;
// if nothing was sent, it may also be that of Begin or Last, or ctx's.
//
// When ctx ends, or the time is over, the server is told, and an answer that
// arrives within a moment is still the answer. Do may be called concurrently.
func (i *Instance) Do(ctx context.Context, c Call) (*rpc.Message, error) {
	out := i.link.newCall(true)
	defer i.link.release(out)
	out.last = c.Last
	id := rpc.Number(out.id)
	edit := c.Request.Edit()
	if c.Edit != nil {
		c.Edit(edit)
	}
	edit.SetID(id).Set(json.RawMessage(id), "params", "_meta", "progressToken")
	i.era.edit(edit, c.Request, c.Modern, i.level())
	t := terms{
		silence: c.Silence, max: c.Max,
		borrowed: c.Request.Size() > rpc.SpoolOver,
		begin:    c.Begin, notify: c.Notify,
	}
	if t.silence == 0 {
		t.silence = i.spec.CallTimeout
	}
	if t.max == 0 {
		t.max = i.spec.CallTimeoutMax
	}
	answer, err := i.link.run(ctx, out, edit.Payload(), t)
	if err == nil && i.era.modern && !c.Modern {
		err = unfinished(answer)
	}
	if err != nil {
		return nil, i.withoutSecrets(err)
	}
	return answer, nil
}

// opening is the start of an instance, until it is ready.
type opening struct {
	m    *Manager
	e    *entry
	proc *supervise.Process
}

// open starts the server of a fresh plugin process and brings the session with it
// to the point where calls can be made. ctx bounds that and nothing after it. The
// error is a *supervise.Failure.
func (o *opening) open(ctx context.Context) (*Instance, error) {
	spec := o.e.spec
	// A list of the instance before must not come after this one's.
	if before := o.e.current.Load(); before != nil {
		select {
		case <-before.kept:
		case <-ctx.Done():
			return nil, o.failure(supervise.PhaseStart, ctx.Err(), nil)
		}
	}
	diags, err := o.proc.Remote().Start(ctx, provider.StartRequest{
		Config: spec.Config, Mark: o.proc.Mark(), MaxMessage: spec.MaxMessage,
	})
	if err == nil && diags.HasErrors() {
		err = errors.New(diagnosed(diags))
	}
	if err != nil {
		return nil, o.failure(supervise.PhaseStart, err, nil)
	}
	// The exchange lives as long as the instance, which is longer than ctx.
	life, hang := context.WithCancel(context.WithoutCancel(ctx))
	conn, err := o.proc.Remote().Exchange(life)
	if err != nil {
		hang()
		return nil, o.failure(supervise.PhaseStart, err, nil)
	}
	i := &Instance{
		spec: spec, proc: o.proc, id: o.m.id,
		level: o.m.wantedLevel, listener: o.m.opts.Listener, redact: o.m.opts.Redact,
		log:     o.m.opts.Logger.With("provider", spec.Provider, "instance", o.proc.Mark()),
		relist:  make(chan struct{}, 1),
		relevel: make(chan struct{}, 1),
		kept:    make(chan struct{}),

		listening: make(chan struct{}, 1),
	}
	i.link = newLink(conn, hang, linkOptions{
		dir: o.m.opts.SpoolDir, maxMessage: spec.MaxMessage, peer: i, noise: &o.e.noise, logger: i.log,
	})
	i.link.start()
	if err := o.greetAndList(ctx, i); err != nil {
		i.link.close()
		return nil, err
	}
	o.e.current.Store(i)
	wake(i.relevel) // it may have changed since it was told, as may
	wake(i.relist)
	o.m.work.Go(i.keep)
	if spec.HealthInterval > 0 && i.server.Era == Legacy {
		o.m.work.Go(i.watchHealth)
	}
	return i, nil
}

// greetAndList does the handshake and reads the first list.
func (o *opening) greetAndList(ctx context.Context, i *Instance) error {
	g := greeting{link: i.link, id: i.id, patience: o.patience(ctx), known: o.e.known.Load()}
	server, err := g.run(ctx)
	if err != nil {
		return o.failure(supervise.PhaseInitialize, err, i.link)
	}
	i.server, i.era = server, newTranslator(server, i.id)
	i.log.Info("session opened", "era", server.Era, "version", server.Version)
	i.listener.Opened(i.spec.Provider, i.Mark(), server)
	o.subscribe(ctx, i)
	i.setLevel(ctx)
	if err := o.firstList(ctx, i); err != nil {
		return o.failure(supervise.PhaseList, err, i.link)
	}
	return nil
}

// patience is how long a server that says nothing at all is waited for before
// initialize is tried: half of what a start may take.
func (o *opening) patience(ctx context.Context) time.Duration {
	half := o.e.spec.StartTimeout / 2
	if deadline, ok := ctx.Deadline(); ok {
		if left := time.Until(deadline) / 2; half <= 0 || left < half {
			half = left
		}
	}
	if half <= 0 {
		half = probeLimit
	}
	return half
}

// firstList reads the tools, again and again while the server lives and the time
// for the start is not over.
func (o *opening) firstList(ctx context.Context, i *Instance) error {
	defer o.e.listFailed(nil)
	for {
		a := i.list.begin()
		defs, err := i.listTools(ctx, 0)
		if err == nil {
			i.hand(a, defs, false)
		}
		i.list.end(a, err)
		if err == nil || i.link.ended() {
			return err
		}
		if ctx.Err() != nil {
			if last := o.e.listFailure.Load(); last != nil {
				return fmt.Errorf("%s (and %w)", last.Cause, errStartOver)
			}
			return ctx.Err()
		}
		f := o.failure(supervise.PhaseList, err, nil)
		i.log.Warn("tools/list failed", "error", err, "again_in", o.e.spec.listPause())
		o.e.listFailed(f)
		select {
		case <-time.After(o.e.spec.listPause()):
		case <-i.link.done:
		case <-ctx.Done():
		}
	}
}

// failure says why a start failed.
func (o *opening) failure(phase supervise.Phase, err error, l *link) *supervise.Failure {
	f := o.e.failure(phase, err.Error())
	switch {
	case errors.Is(err, errServerEnded), o.ending() && (l == nil || errors.Is(err, context.Canceled)):
		if l == nil || !l.ended() || l.over.status == nil {
			// The plugin went down with its server, and is about to be gone.
			select {
			case <-o.proc.Done():
			case <-time.After(exitPatience):
			}
		}
		return o.proc.Failure(phase)
	case errors.Is(err, context.DeadlineExceeded):
		f.Cause = fmt.Sprintf("timed out after %s", o.e.spec.StartTimeout)
	case errors.Is(err, context.Canceled):
		f.Cause = "the start was called off"
	}
	return f
}

// ending says whether the process is gone, or as good as gone.
func (o *opening) ending() bool {
	select {
	case <-o.proc.Done():
		return true
	case <-o.proc.Condemned():
		return true
	default:
		return false
	}
}

// diagnosed puts what a plugin found into one line.
func diagnosed(diags provider.Diagnostics) string {
	text := ""
	for _, d := range diags {
		if d.Severity != provider.Error {
			continue
		}
		if text != "" {
			text += "; "
		}
		text += d.Summary
		if d.Detail != "" {
			text += ": " + d.Detail
		}
	}
	return text
}

// setLevel tells an older server which messages are wanted. A modern one is told
// with each request.
func (i *Instance) setLevel(ctx context.Context) {
	level := i.level()
	if level == "" || level == i.told || i.server.Era != Legacy || !i.server.Declares("logging") {
		return
	}
	if i.telling != nil {
		// Nobody waits for the answer, and a server may never give one.
		i.link.release(i.telling)
	}
	i.told = level
	i.telling = i.link.newCall(false)
	quoted, _ := json.Marshal(level) // cannot fail
	params := json.RawMessage(`{"level":` + string(quoted) + `}`)
	if err := i.link.send(ctx, i.telling, rpc.NewRequest(rpc.Number(i.telling.id), methodSetLevel, params)); err != nil {
		i.log.Debug("request not sent", "method", methodSetLevel, "error", err)
	}
}

// keep serves a ready instance until its stream ends, and then ends its process.
func (i *Instance) keep() {
	defer close(i.kept)
	var lister sync.WaitGroup
	lister.Go(i.keepList)
	defer lister.Wait()
	for open := true; open; {
		select {
		case <-i.relevel:
			i.setLevel(context.Background())
		case <-i.link.done:
			open = false
		}
	}
	i.log.Info("session ended", "cause", i.link.over.String(), "count", &i.link.counts)
	i.condemn()
	i.link.close()
	if i.telling != nil {
		i.link.release(i.telling)
	}
}

// condemn gives up a process whose stream has ended: the stream is the session,
// and without it what is left of the server is of no use.
func (i *Instance) condemn() {
	over := i.link.over
	i.proc.Condemn(&supervise.Failure{
		Provider: i.spec.Provider, Label: i.spec.Label, Where: i.spec.Where,
		Phase: supervise.PhaseRunning, Cause: over.who(), Exit: over.status,
	}, endGrace)
}
