package supervise

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

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
	exits       []Exit
	// asked says that the process there is was of use until somebody wanted it ended,
	// farewell is how.
	asked    bool
	farewell farewell[S]
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
		case a := <-o.u.asks:
			a.answer <- o.serve(a)
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
			stop, o.farewell = nil, o.u.stopEnd
			o.step(evStop)
		}
	}
}

// serve is what a Get or a Restart has to wait for; it may be over already.
func (o *owner[S]) serve(ask ask[S]) *attempt[S] {
	if o.now != nil && o.m.state == Ready && !o.now.p.usable() {
		// Its end is not in the loop yet: the caller is not to have it any more.
		o.failure = o.now.p.Failure(PhaseRunning)
		o.step(evBroken)
	}
	if o.waiting == nil {
		o.waiting = &attempt[S]{done: make(chan struct{})}
	}
	a := o.waiting
	if ask.restart {
		o.farewell = farewell[S]{began: time.Now(), drain: ask.drain}
		o.step(evRestart)
	} else {
		o.step(evGet)
	}
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
	case evGone:
		o.u.process.Store(nil)
		if r.exit != nil {
			o.ended(*r.exit, o.asked && !r.own)
		}
	}
	o.step(r.ev)
}

func (o *owner[S]) gone() {
	if !o.asked {
		o.failure = o.now.p.Failure(PhaseRunning)
	}
	o.ended(*o.now.p.exit(), o.asked)
	o.now = nil
	o.u.process.Store(nil)
	o.step(evGone)
}

// ended records the end of the process. The step that follows publishes it.
func (o *owner[S]) ended(e Exit, asked bool) {
	e.Asked = asked
	o.exits = remember(o.exits, e)
	level := slog.LevelInfo
	if asked {
		level = slog.LevelDebug
	}
	o.u.logger.Log(context.Background(), level, "instance ended", "provider", o.u.spec.Provider, "instance", e.Instance,
		"code", e.Code, "signal", e.Signal, "asked", e.Asked)
}

// step moves the machine and does what it says.
func (o *owner[S]) step(ev event) {
	before := o.m.state
	if ev == evStop || ev == evRestart {
		o.asked = o.asked || before == Starting || before == Ready && o.now.p.usable()
	}
	next, actions := o.m.step(ev, time.Now())
	o.m = next
	if before == Backoff && ev == evTimer {
		o.restarts++
	}
	if o.m.state == Ready {
		o.u.live.Store(o.now)
	} else {
		o.u.live.Store(nil)
	}
	if before != o.m.state {
		o.publish() // first: who is answered by an action may ask at once where it stands
	}
	for _, a := range actions {
		o.do(a)
	}
}

func (o *owner[S]) do(a action) {
	switch a {
	case actLaunch:
		o.start()
	case actEnd:
		o.cancelStart()
		if o.now != nil {
			l, how := o.now, o.farewell
			o.work.Go(func() { o.u.end(l, how) })
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
	o.asked, o.farewell = false, farewell[S]{}
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

// publish tells where the unit stands.
func (o *owner[S]) publish() {
	s := Snapshot{State: o.m.state.shown(), Since: o.m.since, Restarts: o.restarts, InRow: o.m.inRow, Exits: o.exits}
	switch o.m.state {
	case Ready, Draining, restarting:
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
