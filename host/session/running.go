package session

import (
	"context"
	"time"
)

// Running is a plugin's process with the server below it: starting, ready or ending.
type Running struct {
	// Mark is the instance's.
	Mark string
	// GuardPID and PluginPID are process ids as the host sees them, 0 where there is
	// none.
	GuardPID, PluginPID int
	Started             time.Time
	// Calls are the callers' calls in flight.
	Calls int
}

// Instances returns the processes that a provider has.
func (m *Manager) Instances(slug string) []Running {
	e := (*m.entries.Load())[slug]
	if e == nil || e.unit == nil {
		return nil
	}
	p := e.unit.Process()
	if p == nil {
		return nil
	}
	r := Running{Mark: p.Mark(), GuardPID: p.GuardPID(), PluginPID: p.PID(), Started: p.Started()}
	if i := e.current.Load(); i != nil && i.proc == p {
		r.Calls = i.link.callsInFlight()
	}
	return []Running{r}
}

// Start is Get for who wants no instance, but wants one to be there.
func (m *Manager) Start(ctx context.Context, slug string) error {
	_, err := m.Get(ctx, slug)
	return err
}

// Restart ends a provider's instance, if there is one, and returns when a new one
// is ready, from whatever state; the count of its restarts begins anew. New calls
// wait for the new instance; those in flight may end within stop_grace. The
// error is a *supervise.Failure or ctx's.
func (m *Manager) Restart(ctx context.Context, slug string) error {
	e, err := m.entry(slug)
	if err != nil {
		return err
	}
	_, err = e.unit.Restart(ctx, e.drain)
	return err
}

// callsInFlight counts the callers' calls that were sent and have no end.
func (l *link) callsInFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight
}
