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

	gets    chan chan<- *attempt[S]
	reports chan report[S]
	// stop is closed by the first Stop, force ends its waits, done is closed when
	// all has ended.
	stop     chan struct{}
	stopOnce sync.Once
	force    context.Context
	hurry    context.CancelFunc
	done     chan struct{}

	// live is set while Ready, for Get to read without asking.
	live     atomic.Pointer[live[S]]
	snapshot atomic.Pointer[Snapshot]
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
		gets: make(chan chan<- *attempt[S]), reports: make(chan report[S]),
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
	var none S
	answer := make(chan *attempt[S], 1)
	select {
	case u.gets <- answer:
	case <-u.done:
		return none, u.spec.stopped()
	case <-ctx.Done():
		return none, ctx.Err()
	}
	a := <-answer
	select {
	case <-a.done:
		return a.s, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// Snapshot says where the unit stands. It does not wait.
func (u *Unit[S]) Snapshot() Snapshot { return *u.snapshot.Load() }

// Stop ends the process by its ladder, answers those who wait, and returns when
// all of it is gone. When ctx ends, the ladder skips its waits.
func (u *Unit[S]) Stop(ctx context.Context) {
	u.stopOnce.Do(func() { close(u.stop) })
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

// owner is a unit's goroutine: the machine, and what its actions need.
type owner[S any] struct {
	u *Unit[S]
	m machine

	timer *time.Timer
	// now is set by a report of evReady, until its process is gone.
	now *live[S]
	// waiting is the start that those who asked wait for, nil if nobody does.
	waiting     *attempt[S]
	cancelStart context.CancelFunc
	failure     *Failure
	restarts    int
	// work are the start under way and the ladder of Stop.
	work sync.WaitGroup
}

func (o *owner[S]) run() {
	defer close(o.u.done)
	defer o.u.hurry()
	defer o.work.Wait()
	stop := o.u.stop
	for o.m.state != Stopped {
		var gone, condemned <-chan struct{}
		if o.now != nil {
			gone = o.now.p.Done()
			if o.m.state == Ready {
				condemned = o.now.p.Condemned()
			}
		}
		select {
		case answer := <-o.u.gets:
			answer <- o.get()
		case r := <-o.u.reports:
			o.report(r)
		case <-condemned:
			o.failure = o.now.p.Failure(PhaseRunning)
			o.step(evBroken)
		case <-gone:
			o.gone()
		case <-o.timer.C:
			o.step(evTimer)
		case <-stop:
			stop = nil
			o.step(evStop)
		}
	}
}

// get is what a Get has to wait for; it may be over already.
func (o *owner[S]) get() *attempt[S] {
	if o.now != nil && o.m.state == Ready && !o.now.p.usable() {
		// Its end is not in the loop yet: the caller is not to have it any more.
		o.failure = o.now.p.Failure(PhaseRunning)
		o.step(evBroken)
	}
	if o.waiting == nil {
		o.waiting = &attempt[S]{done: make(chan struct{})}
	}
	a := o.waiting
	o.step(evGet)
	switch o.m.state {
	case Ready:
		o.answer(o.now.s, nil)
	case Failed:
		o.answer(*new(S), o.failure)
	case Draining, Stopped:
		o.answer(*new(S), o.u.spec.stopped())
	}
	return a
}

func (o *owner[S]) report(r report[S]) {
	switch r.ev {
	case evReady:
		o.now = r.live
		if o.m.state == Starting {
			o.failure = nil
		}
	case evBroken:
		if o.m.state == Starting {
			o.failure = r.failure
		}
	}
	o.step(r.ev)
}

func (o *owner[S]) gone() {
	if o.m.state != Draining {
		o.failure = o.now.p.Failure(PhaseRunning)
	}
	o.now = nil
	o.step(evGone)
}

// step moves the machine and does what it says.
func (o *owner[S]) step(ev event) {
	before := o.m.state
	next, actions := o.m.step(ev, time.Now())
	o.m = next
	if before == Backoff && o.m.state == Starting {
		o.restarts++
	}
	if o.m.state == Ready {
		o.u.live.Store(o.now)
	} else {
		o.u.live.Store(nil)
	}
	for _, a := range actions {
		o.do(a)
	}
	if before != o.m.state {
		o.publish()
	}
}

func (o *owner[S]) do(a action) {
	switch a {
	case actLaunch:
		o.start()
	case actEnd:
		o.cancelStart()
		if o.now != nil {
			p := o.now.p
			o.work.Go(func() { p.Stop(o.u.force, o.u.spec.StopGrace) })
		}
	case actTimer:
		o.timer.Reset(time.Until(o.m.next))
	case actNoTimer:
		o.timer.Stop()
	case actServe:
		o.answer(o.now.s, nil)
	case actFail:
		f := o.failure
		if f == nil || o.m.state == Draining || o.m.state == Stopped {
			f = o.u.spec.stopped()
		}
		o.answer(*new(S), f)
	}
}

// answer ends the wait of those who wait.
func (o *owner[S]) answer(s S, err error) {
	if o.waiting == nil {
		return
	}
	o.waiting.s, o.waiting.err = s, err
	close(o.waiting.done)
	o.waiting = nil
}

// start runs one start in a goroutine of its own, which reports evReady, or
// evBroken and then evGone.
func (o *owner[S]) start() {
	limit := o.u.spec.StartTimeout
	if limit <= 0 {
		limit = defaultStart
	}
	ctx, cancel := context.WithTimeout(o.u.force, limit)
	o.cancelStart = cancel
	o.work.Go(func() {
		defer cancel()
		o.u.start(ctx)
	})
}

func (u *Unit[S]) start(ctx context.Context) {
	p, err := u.launch(ctx, u.spec)
	if err != nil {
		u.reports <- report[S]{ev: evBroken, failure: u.startFailure(ctx, nil, PhasePlugin, err)}
		u.reports <- report[S]{ev: evGone}
		return
	}
	s, err := u.openOn(ctx, p)
	if err != nil {
		u.reports <- report[S]{ev: evBroken, failure: u.startFailure(ctx, p, PhaseStart, err)}
		p.Stop(u.force, u.spec.StopGrace) //nolint:contextcheck // the stop outlives the start
		u.reports <- report[S]{ev: evGone}
		return
	}
	u.reports <- report[S]{ev: evReady, live: &live[S]{p: p, s: s}}
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
func (u *Unit[S]) startFailure(ctx context.Context, p *Process, phase Phase, err error) *Failure {
	var f *Failure
	switch {
	case errors.As(err, &f):
		return f
	case p != nil && !p.usable():
		return p.Failure(phase)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return u.spec.failure(phase, fmt.Sprintf("it was not ready within %v", u.spec.StartTimeout))
	}
	return u.spec.failure(phase, err.Error())
}

// publish tells where the unit stands.
func (o *owner[S]) publish() {
	s := Snapshot{State: o.m.state.shown(), Since: o.m.since, Restarts: o.restarts}
	switch o.m.state {
	case Ready, Draining:
		if o.now != nil {
			s.Mark = o.now.p.Mark()
		}
	case Backoff, Failed:
		s.Failure, s.Next = o.failure, o.m.next
	case ending, Starting:
		s.Failure = o.failure
	}
	o.u.snapshot.Store(&s)
	if s.Failure != nil && (o.m.state == Failed || o.m.state == Backoff) {
		o.u.logger.Warn("provider is not running", "provider", o.u.spec.Provider, "state", s.State, "next", s.Next, "error", s.Failure)
	}
	o.u.onState(s)
}
