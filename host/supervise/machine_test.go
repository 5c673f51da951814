package supervise

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func testPolicy() Policy {
	return Policy{
		Intensity: 3, Period: time.Minute, Backoff: time.Second, BackoffMax: 8 * time.Second,
		StableAfter: 30 * time.Second, Cooldown: 5 * time.Minute,
	}
}

func newMachine(p Policy, now time.Time) machine {
	return machine{policy: p, delay: delays(p), state: Cold, since: now}
}

// world is what the owner of a machine does for it, and what must hold meanwhile.
type world struct {
	m   machine
	now time.Time

	alive   bool // between actLaunch and evGone
	ready   bool // and evReady came
	broken  bool // or evBroken
	armed   bool
	waiting bool
	stopped bool
	// automatic are the restarts that nobody asked for, since the last clearing.
	automatic []time.Time
}

// possible are the events that can happen now.
func (w *world) possible() []event {
	out := []event{evGet, evRestart, evStop}
	if w.alive && !w.ready && !w.broken {
		out = append(out, evReady, evBroken)
	}
	if w.alive && w.ready && !w.broken {
		out = append(out, evBroken)
	}
	if w.alive && (w.ready || w.broken) {
		out = append(out, evGone)
	}
	if w.armed {
		out = append(out, evTimer)
	}
	return out
}

func (w *world) happen(t *rapid.T, ev event) {
	before := w.m
	if ev == evTimer {
		// A timer is late, never early.
		if w.now.Before(w.m.next) {
			w.now = w.m.next
		}
		w.armed = false
	}
	switch ev {
	case evReady:
		w.ready = true
	case evBroken:
		w.broken = true
	case evGone:
		w.alive, w.ready, w.broken = false, false, false
	case evStop:
		w.stopped = true
	}
	next, actions := w.m.step(ev, w.now)
	if ev == evGet && slices.Contains([]State{Cold, Starting, ending, Backoff, restarting}, before.state) {
		w.waiting = true
	}
	if ev == evGet && before.state == Failed && next.state == Starting {
		w.waiting = true
		w.automatic = nil
		if w.now.Before(before.next) {
			t.Fatalf("started %v before the cooldown is over", before.next.Sub(w.now))
		}
	}
	if ev == evRestart {
		w.automatic = nil
		switch {
		case slices.Contains([]State{Starting, Ready, ending}, before.state) && next.state != restarting,
			slices.Contains([]State{Cold, Backoff, Failed}, before.state) && next.state != Starting:
			t.Fatalf("a restart in %s leads to %s", before.state, next.state)
		}
		w.waiting = w.waiting || next.state == restarting || next.state == Starting
	}
	if ev == evTimer && before.state == Ready {
		w.automatic = nil
		if w.now.Sub(before.since) < before.policy.StableAfter {
			t.Fatalf("stable after %v", w.now.Sub(before.since))
		}
	}
	w.m = next
	if ev == evReady && (before.state == Draining || before.state == restarting) && !slices.Contains(actions, actEnd) {
		t.Fatal("a process that came up too late is not ended")
	}
	for _, a := range actions {
		w.act(t, ev, before, a)
	}
	w.check(t, ev, before)
}

func (w *world) act(t *rapid.T, ev event, before machine, a action) {
	switch a {
	case actLaunch:
		if w.alive {
			t.Fatalf("%v in %s starts a second process", ev, before.state)
		}
		if w.stopped {
			t.Fatal("a start after the stop")
		}
		w.alive = true
		if before.state == Backoff && ev == evTimer { // and not because somebody asked for it
			w.automatic = append(w.automatic, w.now)
			if in := recent(w.automatic, w.now.Add(-w.m.policy.Period)); len(in) > w.m.policy.Intensity {
				t.Fatalf("%d restarts in %v", len(in), w.m.policy.Period)
			}
		}
	case actEnd:
		if !w.alive {
			t.Fatal("nothing to end")
		}
	case actTimer:
		w.armed = true
		if d := w.m.next.Sub(w.now); d < 0 {
			t.Fatalf("a timer in the past: %v", d)
		}
		if d := w.m.next.Sub(w.now); w.m.state == Backoff && (d < 800*time.Millisecond || d > 9600*time.Millisecond+1) {
			t.Fatalf("a delay of %v", d)
		}
	case actNoTimer:
		w.armed = false
	case actServe:
		if w.m.state != Ready {
			t.Fatalf("served in %s", w.m.state)
		}
		w.waiting = false
	case actFail:
		w.waiting = false
	}
}

func (w *world) check(t *rapid.T, ev event, before machine) {
	switch w.m.state {
	case Ready, Failed, Stopped, Draining:
		if w.waiting {
			t.Fatalf("%v in %s leaves somebody waiting in %s", ev, before.state, w.m.state)
		}
	}
	running := slices.Contains([]State{Starting, Ready, ending, Draining, restarting}, w.m.state)
	if running != w.alive {
		t.Fatalf("%v in %s: %s, and a process %v", ev, before.state, w.m.state, w.alive)
	}
	if w.armed && w.m.state != Ready && w.m.state != Backoff {
		t.Fatalf("%v in %s leaves a timer in %s", ev, before.state, w.m.state)
	}
	if w.m.state == Backoff && !w.armed {
		t.Fatalf("%v in %s: a backoff that never ends", ev, before.state)
	}
	if w.stopped && !slices.Contains([]State{Draining, Stopped}, w.m.state) {
		t.Fatalf("%s after the stop", w.m.state)
	}
	if w.m.state != before.state && !w.m.since.Equal(w.now) {
		t.Fatalf("since %v, now %v", w.m.since, w.now)
	}
}

func TestMachineHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		w := &world{m: newMachine(testPolicy(), now), now: now}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			w.now = w.now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, "pause")) *
				time.Duration(rapid.IntRange(0, 1).Draw(t, "paused")))
			possible := w.possible()
			if rapid.IntRange(0, 30).Draw(t, "end") > 0 {
				possible = slices.DeleteFunc(possible, func(e event) bool { return e == evStop })
			}
			w.happen(t, rapid.SampledFrom(possible).Draw(t, "event"))
		}
	})
}

// A step changes nothing of the machine it is asked of.
func TestStepIsPure(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := newMachine(testPolicy(), now)
	m.state, m.restarts = Backoff, append(make([]time.Time, 0, 8), now)
	a, _ := m.step(evTimer, now.Add(time.Second))
	b, _ := m.step(evTimer, now.Add(2*time.Second))
	if len(m.restarts) != 1 || !a.restarts[1].Equal(now.Add(time.Second)) || !b.restarts[1].Equal(now.Add(2*time.Second)) {
		t.Errorf("%v, %v, %v", m.restarts, a.restarts, b.restarts)
	}
}

func TestDelaysDouble(t *testing.T) {
	d := delays(testPolicy())
	for n, nominal := range []time.Duration{1, 2, 4, 8, 8, 8} {
		nominal *= time.Second
		for range 100 {
			if got := d(n); got < nominal*8/10 || got > nominal*12/10+1 {
				t.Fatalf("restart %d after %v, nominally %v", n, got, nominal)
			}
		}
	}
	if got := delays(Policy{})(3); got != 0 {
		t.Errorf("no backoff: %v", got)
	}
}
