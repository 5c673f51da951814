package supervise

import "time"

// State is where a provider stands.
type State string

// The states of a provider, in words that `status` shows.
const (
	Cold     State = "cold"     // nothing runs, nobody has asked
	Starting State = "starting" // from the plugin's process to the first complete list
	Ready    State = "ready"
	Draining State = "draining" // asked to stop; its process is ending
	Stopped  State = "stopped"  // for good
	Backoff  State = "backoff"  // waits for its next start
	Failed   State = "failed"   // not started again before a cooldown is over
)

// ending is the beginning of Backoff or Failed: the process of the last start is
// not gone yet, and a restart begins only when it is.
const ending State = "ending"

// restarting is Draining with a start to follow: somebody asked for a new process,
// and the old one is not gone yet.
const restarting State = "restarting"

// shown is the state for people.
func (s State) shown() State {
	switch s {
	case ending:
		return Backoff
	case restarting:
		return Draining
	}
	return s
}

// event is what a machine reacts to.
type event int

const (
	evGet     event = iota // somebody needs it
	evReady                // the start under way succeeded
	evBroken               // it failed, or is of no use any more; its process may still be there
	evGone                 // its process and all it started is gone
	evTimer                // the timer that was armed last
	evRestart              // somebody wants a new process
	evStop                 // end it for good
)

// action is what the owner of a machine does after a step, in the order given.
type action int

const (
	actLaunch  action = iota // start, and send evReady or evBroken, and evGone in the end
	actEnd                   // end the process, or the start under way; evGone comes when it is gone
	actTimer                 // arm the timer for next, in place of any other
	actNoTimer               // no timer any more
	actServe                 // those who wait get the process
	actFail                  // those who wait get the failure
)

// machine is a provider's restart policy as a value. step is its only method that
// decides anything, and a pure function.
type machine struct {
	policy Policy
	// delay is the pause before the nth restart in a row, from 0.
	delay func(n int) time.Duration

	state State
	since time.Time
	// restarts of the last period, and how many there were in a row: both end with
	// StableAfter of Ready, or with a Cooldown.
	restarts []time.Time
	inRow    int
	// next is when a Backoff ends, when Ready counts as stable, and from when on a
	// Failed provider may be started again.
	next time.Time
}

// step returns the machine after ev at now, and what is to be done. The receiver
// stays as it was.
func (m machine) step(ev event, now time.Time) (machine, []action) {
	switch {
	case m.state == Stopped:
		return m, nil
	case ev == evStop:
		return m.stop(now)
	case ev == evRestart:
		return m.restart(now)
	case m.state == Cold && ev == evGet:
		return m.enter(Starting, now), []action{actLaunch}
	case m.state == Failed && ev == evGet && !now.Before(m.next):
		m.restarts, m.inRow = nil, 0
		return m.enter(Starting, now), []action{actLaunch}
	case m.state == Starting && ev == evReady:
		m = m.enter(Ready, now)
		m.next = now.Add(m.policy.StableAfter)
		return m, []action{actServe, actTimer}
	case m.state == Ready && ev == evTimer:
		m.restarts, m.inRow, m.next = nil, 0, time.Time{}
		return m, nil
	case m.state == Starting && ev == evBroken:
		return m.enter(ending, now), []action{actFail}
	case m.state == Ready && ev == evBroken:
		return m.enter(ending, now), []action{actNoTimer}
	case (m.state == Ready || m.state == ending) && ev == evGone:
		return m.again(now)
	case m.state == Backoff && ev == evTimer:
		m.restarts = append(recent(m.restarts, now.Add(-m.policy.Period)), now)
		m.inRow++
		return m.enter(Starting, now), []action{actLaunch}
	case (m.state == Draining || m.state == restarting) && ev == evReady:
		return m, []action{actEnd}
	case m.state == restarting && ev == evGone:
		return m.enter(Starting, now), []action{actLaunch}
	case m.state == Draining && ev == evGone:
		return m.enter(Stopped, now), nil
	}
	return m, nil
}

// again decides between a restart and none.
func (m machine) again(now time.Time) (machine, []action) {
	m.restarts = recent(m.restarts, now.Add(-m.policy.Period))
	if len(m.restarts) >= m.policy.Intensity {
		m = m.enter(Failed, now)
		m.next = now.Add(m.policy.Cooldown)
		return m, []action{actNoTimer, actFail}
	}
	m = m.enter(Backoff, now)
	m.next = now.Add(m.delay(m.inRow))
	return m, []action{actTimer}
}

// restart is what a person asks for, who has looked at it: the count starts anew,
// and no Backoff and no Cooldown is waited for.
func (m machine) restart(now time.Time) (machine, []action) {
	m.restarts, m.inRow = nil, 0
	switch m.state {
	case Starting, Ready:
		return m.enter(restarting, now), []action{actNoTimer, actEnd}
	case ending: // its process is ending already
		return m.enter(restarting, now), nil
	case Draining, restarting:
		return m, nil
	}
	return m.enter(Starting, now), []action{actNoTimer, actLaunch}
}

func (m machine) stop(now time.Time) (machine, []action) {
	switch m.state {
	case Starting, Ready, ending, restarting:
		return m.enter(Draining, now), []action{actNoTimer, actFail, actEnd}
	case Draining:
		return m, nil
	}
	return m.enter(Stopped, now), []action{actNoTimer, actFail}
}

func (m machine) enter(s State, now time.Time) machine {
	m.state, m.since, m.next = s, now, time.Time{}
	return m
}

// recent returns a copy of what is after since.
func recent(times []time.Time, since time.Time) []time.Time {
	var out []time.Time
	for _, t := range times {
		if t.After(since) {
			out = append(out, t)
		}
	}
	return out
}
