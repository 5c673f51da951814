package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// jitter is by how much a delay differs from its nominal value at most, so that
// providers that broke together do not start together.
const jitter = 0.2

// Opener makes a process of use: it starts the server, shakes hands and reads the
// lists. ctx bounds that and nothing after it, and ends early when the process
// does. What it returns is of use until the process is Done or Condemned. A
// *Failure among its errors is reported as it is.
type Opener[S any] func(ctx context.Context, p *Process) (S, error)

// Snapshot is what a Unit tells of itself.
type Snapshot struct {
	State State
	// Since is when it entered the state.
	Since time.Time
	// Failure is why it is in Backoff or Failed, or why it is Starting again; nil else.
	Failure *Failure
	// Mark is the instance's, in Ready and Draining.
	Mark string
	// Restarts counts the starts that nobody asked for.
	Restarts int
	// InRow counts those of them that followed each other without StableAfter of
	// Ready in between.
	InRow int
	// Exits are the last ends of its processes, the oldest first. They are not to be
	// changed.
	Exits []Exit
	// Next is when a Backoff ends, or from when on a use starts a Failed provider
	// again; zero else.
	Next time.Time
}

// Unit keeps one provider going: it starts it on the first Get, restarts it by
// its policy, and ends it with Stop. It owns one process at a time; the next
// starts when the one before, and all it started, is gone.
//
// Its state belongs to one goroutine, which ends with Stop.
type Unit[S any] struct {
	spec    Spec
	launch  func(context.Context, Spec) (*Process, error)
	open    Opener[S]
	onState func(Snapshot)
	logger  *slog.Logger

	asks    chan ask[S]
	reports chan report[S]
	// stop is closed by the first Stop, force ends its waits, done is closed when
	// all has ended.
	stop     chan struct{}
	stopOnce sync.Once
	// stopEnd is set before stop is closed.
	stopEnd farewell[S]
	force   context.Context
	hurry   context.CancelFunc
	done    chan struct{}

	// live is set while Ready, for Get to read without asking.
	live     atomic.Pointer[live[S]]
	process  atomic.Pointer[Process]
	snapshot atomic.Pointer[Snapshot]
}

// ask is a Get or a Restart.
type ask[S any] struct {
	answer chan<- *attempt[S]
	// restart is set for a Restart, which drain belongs to.
	restart bool
	drain   func(context.Context, S)
}

// live is a process of use.
type live[S any] struct {
	p *Process
	s S
}

// attempt is one start that somebody waits for. s and err are set before done is
// closed.
type attempt[S any] struct {
	done chan struct{}
	s    S
	err  error
}

// report is what a start under way tells.
type report[S any] struct {
	ev      event
	live    *live[S]
	failure *Failure
	// exit is set in evGone where a process ran; own says that the end of the start
	// was its own doing.
	exit *Exit
	own  bool
}

// NewUnit makes a unit in the state Cold. launch starts its processes (a
// Launcher's Launch), open makes them of use. onState hears every change, on the
// unit's goroutine: it must not block, nor call the unit. The caller owes a Stop.
func NewUnit[S any](
	spec Spec, launch func(context.Context, Spec) (*Process, error), open Opener[S],
	onState func(Snapshot), logger *slog.Logger,
) *Unit[S] {
	u := &Unit[S]{
		spec: spec, launch: launch, open: open, onState: onState, logger: logger,
		asks: make(chan ask[S]), reports: make(chan report[S]),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	if u.logger == nil {
		u.logger = slog.New(slog.DiscardHandler)
	}
	if u.onState == nil {
		u.onState = func(Snapshot) {}
	}
	u.force, u.hurry = context.WithCancel(context.Background()) //nolint:gosec // run calls it at its end
	o := &owner[S]{
		u: u, timer: time.NewTimer(time.Hour), cancelStart: func() {},
		m: machine{policy: spec.Restart, delay: delays(spec.Restart), state: Cold, since: time.Now()},
	}
	o.timer.Stop()
	o.publish()
	go o.run()
	return u
}

// delays is the pause before the nth restart in a row: Backoff, doubled each time
// up to BackoffMax, give or take the jitter.
func delays(p Policy) func(n int) time.Duration {
	return func(n int) time.Duration {
		b := &backoff.ExponentialBackOff{
			InitialInterval: p.Backoff, RandomizationFactor: jitter, Multiplier: 2, MaxInterval: max(p.Backoff, p.BackoffMax),
		}
		b.Reset()
		for range n {
			b.NextBackOff()
		}
		return b.NextBackOff()
	}
}

// Get returns what open made of the running process. It starts a cold provider,
// joins a start under way, and in Backoff waits for the next start. Of a start
// that fails everybody who waits hears at once. A Failed provider answers with
// its failure until its cooldown is over. The error is a *Failure, or ctx's.
func (u *Unit[S]) Get(ctx context.Context) (S, error) {
	if l := u.live.Load(); l != nil && l.p.usable() {
		return l.s, nil
	}
	return u.wait(ctx, ask[S]{})
}

// Restart ends the process that there is, if there is one, and starts a new one,
// without any Backoff or Cooldown; the count of restarts begins anew. It returns
// what open made of the new process. Who waits for a start goes on waiting, for the
// new one.
//
// drain, which may be nil, is called before a process that was Ready is ended,
// with what open made of it and a context that ends with StopGrace: calls that it
// has taken may end meanwhile. Get gives it out no more by then.
//
// The restart lives on when ctx ends. The error is a *Failure, or ctx's.
func (u *Unit[S]) Restart(ctx context.Context, drain func(context.Context, S)) (S, error) {
	return u.wait(ctx, ask[S]{restart: true, drain: drain})
}

// wait asks the owner and waits for the start that it answers with.
func (u *Unit[S]) wait(ctx context.Context, a ask[S]) (S, error) {
	var none S
	answer := make(chan *attempt[S], 1)
	a.answer = answer
	select {
	case u.asks <- a:
	case <-u.done:
		return none, u.spec.stopped()
	case <-ctx.Done():
		return none, ctx.Err()
	}
	start := <-answer
	select {
	case <-start.done:
		return start.s, start.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// Snapshot says where the unit stands. It does not wait.
func (u *Unit[S]) Snapshot() Snapshot { return *u.snapshot.Load() }

// Process is the plugin process that there is: starting, of use, or ending; nil
// where there is none.
func (u *Unit[S]) Process() *Process { return u.process.Load() }

// Stop ends the process by its ladder, answers those who wait, and returns when
// all of it is gone. When ctx ends, the ladder skips its waits.
func (u *Unit[S]) Stop(ctx context.Context) { u.StopSince(ctx, time.Now(), nil) }

// StopSince is Stop of a unit whose stop_grace began to run earlier, while others
// waited for the same calls. drain, which may be nil, is called before the process
// is ended; what it takes of the grace is not the server's any more.
func (u *Unit[S]) StopSince(ctx context.Context, began time.Time, drain func(context.Context, S)) {
	u.stopOnce.Do(func() {
		u.stopEnd = farewell[S]{began: began, drain: drain}
		close(u.stop)
	})
	select {
	case <-u.done:
	case <-ctx.Done():
		u.hurry()
		<-u.done
	}
}

func (s Spec) stopped() *Failure { return s.failure(PhaseRunning, "it was stopped") }

// usable says whether the process is there and not given up.
func (p *Process) usable() bool {
	select {
	case <-p.tree.Done():
		return false
	case <-p.condemned:
		return false
	default:
		return true
	}
}

func (u *Unit[S]) start(ctx context.Context) {
	p, err := u.launch(ctx, u.spec)
	if err != nil {
		f := u.startFailure(ctx, nil, PhasePlugin, err)
		u.reports <- report[S]{ev: evBroken, failure: f}
		u.reports <- report[S]{ev: evGone, exit: f.gone}
		return
	}
	u.process.Store(p)
	s, err := u.openOn(ctx, p)
	if err != nil {
		own := ctx.Err() == nil // what failed before it was called off failed by itself
		u.reports <- report[S]{ev: evBroken, failure: u.startFailure(ctx, p, PhaseStart, err)}
		p.Stop(u.force, u.spec.StopGrace) //nolint:contextcheck // the stop outlives the start
		u.reports <- report[S]{ev: evGone, exit: p.exit(), own: own}
		return
	}
	u.reports <- report[S]{ev: evReady, live: &live[S]{p: p, s: s}}
}

// farewell is how a process that is of use is ended when somebody wants it ended:
// drain, which may be nil, comes first, and the grace runs from began on.
type farewell[S any] struct {
	began time.Time
	drain func(context.Context, S)
}

// end runs the ladder of a process that was of use.
func (u *Unit[S]) end(l *live[S], how farewell[S]) {
	l.p.Stop(u.force, u.graceAfter(how, l.s))
}

// graceAfter bids farewell and returns what is left of the grace for the server:
// what has passed of it is not the server's any more, but for the least.
func (u *Unit[S]) graceAfter(how farewell[S], s S) time.Duration {
	grace := u.spec.StopGrace
	if how.began.IsZero() {
		return grace
	}
	if how.drain != nil {
		ctx, cancel := context.WithTimeout(u.force, max(0, grace-time.Since(how.began)))
		how.drain(ctx, s)
		cancel()
	}
	return min(grace, max(grace-time.Since(how.began), leastGrace))
}

// openOn opens p with a context that ends when p does.
func (u *Unit[S]) openOn(ctx context.Context, p *Process) (S, error) {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-p.Done():
		case <-p.Condemned():
		case <-ctx.Done():
		}
		cancel()
	})
	defer watch.Wait()
	defer cancel()
	return u.open(ctx, p)
}

// startFailure is err where it is a *Failure, and else what is known of the start.
// What a server answered may be in it, and callers will read it: p, if there is
// one, removes the secrets.
func (u *Unit[S]) startFailure(ctx context.Context, p *Process, phase Phase, err error) *Failure {
	var f *Failure
	switch {
	case errors.As(err, &f):
		return p.withoutSecrets(f)
	case p != nil && !p.usable():
		return p.Failure(phase)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return u.spec.failure(phase, fmt.Sprintf("it was not ready within %v", u.spec.StartTimeout))
	}
	return p.withoutSecrets(u.spec.failure(phase, err.Error()))
}
