package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// errQueueFull is for a call that finds no room to wait.
var errQueueFull = errors.New("queue is full")

// admission lets calls to one provider in: so many at a time, and so many more
// that wait. It is fair between principals: the one whose turn was longest ago is
// next, however many calls another has waiting, and when there is no more room to
// wait, the newest call of whoever has most of them makes way for a principal that
// has fewer. No goroutine is its own: who leaves wakes who is next.
type admission struct {
	limit, room int

	mu      sync.Mutex
	running int
	waiting int
	// lines are the principals that have calls waiting, the next to be served first.
	lines []*line
}

// line is what waits for one principal, the first to come first.
type line struct {
	principal string
	calls     []*waiter
}

// waiter is one call that waits. turn gets its one word: nil when it is let in,
// or why it is not.
type waiter struct{ turn chan error }

func newAdmission(limit, room int) *admission { return &admission{limit: max(limit, 1), room: room} }

// enter waits until a principal's call may run. Whoever got no error calls leave
// afterwards. The error wraps errQueueFull, or is ctx's.
func (a *admission) enter(ctx context.Context, principal string) error {
	a.mu.Lock()
	if a.running < a.limit && a.waiting == 0 {
		a.running++
		a.mu.Unlock()
		return nil
	}
	w, err := a.line(principal)
	a.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case err := <-w.turn:
		return err
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case err := <-w.turn: // its turn came in the same moment
		if err == nil {
			a.next()
		}
	default:
		a.drop(principal, w)
	}
	return ctx.Err()
}

// leave ends a call that was let in.
func (a *admission) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next()
}

// next gives a place that is free to whoever is next. The lock is held.
func (a *admission) next() {
	if len(a.lines) == 0 {
		a.running--
		return
	}
	l := a.lines[0]
	w := l.calls[0]
	l.calls = l.calls[1:]
	a.waiting--
	a.lines = a.lines[1:]
	if len(l.calls) > 0 {
		a.lines = append(a.lines, l)
	}
	w.turn <- nil
}

// line puts a call at the end of its principal's line. The lock is held.
func (a *admission) line(principal string) (*waiter, error) {
	at := slices.IndexFunc(a.lines, func(l *line) bool { return l.principal == principal })
	if a.waiting >= a.room && !a.makeWay(at) {
		return nil, fmt.Errorf("%d calls are running and %d are waiting: the %w", a.running, a.waiting, errQueueFull)
	}
	w := &waiter{turn: make(chan error, 1)}
	if at < 0 {
		a.lines = append(a.lines, &line{principal: principal})
		at = len(a.lines) - 1
	}
	a.lines[at].calls = append(a.lines[at].calls, w)
	a.waiting++
	return w, nil
}

// makeWay sends the newest call of the longest line away, if that line stays
// longer than, or as long as, the one at index will be; false if there is none.
// It never empties a line, so indexes stay as they are. The lock is held.
func (a *admission) makeWay(index int) bool {
	own := 0
	if index >= 0 {
		own = len(a.lines[index].calls)
	}
	longest := 0
	var of *line
	for i, l := range a.lines {
		if i != index && len(l.calls) > longest {
			longest, of = len(l.calls), l
		}
	}
	if longest-1 < own+1 {
		return false
	}
	last := of.calls[longest-1]
	of.calls = of.calls[:longest-1]
	a.waiting--
	last.turn <- fmt.Errorf("it had to make way for a principal with fewer calls: the %w", errQueueFull)
	return true
}

// drop takes a call out that no longer waits. The lock is held.
func (a *admission) drop(principal string, w *waiter) {
	for i, l := range a.lines {
		if l.principal != principal {
			continue
		}
		l.calls = slices.DeleteFunc(l.calls, func(c *waiter) bool { return c == w })
		a.waiting--
		if len(l.calls) == 0 {
			a.lines = slices.Delete(a.lines, i, i+1)
		}
		return
	}
}
