package broker

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// queued lets a principal's call wait, and tells by its name when it is let in.
func queued(ctx context.Context, a *admission, principal, name string, in chan<- string) {
	go func() {
		if err := a.enter(ctx, principal); err != nil {
			name += ": " + err.Error()
		}
		in <- name
	}()
	synctest.Wait()
}

func TestAdmissionBoundsWhatRunsAndWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(2, 1)
		for range 2 {
			if err := a.enter(t.Context(), "p"); err != nil {
				t.Fatal(err)
			}
		}
		in := make(chan string, 9)
		queued(t.Context(), a, "p", "third", in)
		err := a.enter(t.Context(), "p")
		if !errors.Is(err, errQueueFull) || !strings.Contains(err.Error(), "2 calls are running and 1 are waiting") {
			t.Errorf("the fourth: %v", err)
		}
		a.leave()
		if got := <-in; got != "third" {
			t.Errorf("let in: %s", got)
		}
		a.leave()
		a.leave()
		if r, w := a.inFlight(); r != 0 || w != 0 {
			t.Errorf("%d running, %d waiting at the end", r, w)
		}
	})
}

func TestAdmissionIsFairBetweenPrincipals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, 64)
		if err := a.enter(t.Context(), "greedy"); err != nil {
			t.Fatal(err)
		}
		in := make(chan string, 9)
		for _, who := range []string{"greedy 1", "greedy 2", "greedy 3", "modest 1", "greedy 4", "modest 2"} {
			principal, _, _ := strings.Cut(who, " ")
			queued(t.Context(), a, principal, who, in)
		}
		var order []string
		for range 6 {
			a.leave()
			order = append(order, <-in)
		}
		want := []string{"greedy 1", "modest 1", "greedy 2", "modest 2", "greedy 3", "greedy 4"}
		if diff := cmp.Diff(want, order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

func TestAFullQueueMakesWayForWhoHasLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, 3)
		if err := a.enter(t.Context(), "greedy"); err != nil {
			t.Fatal(err)
		}
		in := make(chan string, 9)
		for _, who := range []string{"1", "2", "3"} {
			queued(t.Context(), a, "greedy", who, in)
		}
		queued(t.Context(), a, "modest", "m", in)
		if got := <-in; !strings.HasPrefix(got, "3: ") || !strings.Contains(got, "queue is full") {
			t.Errorf("who made way: %s", got)
		}
		// Two against one: another of the modest would be no fairer.
		if err := a.enter(t.Context(), "modest"); !errors.Is(err, errQueueFull) {
			t.Errorf("a second modest call: %v", err)
		}
		var order []string
		for range 3 {
			a.leave()
			order = append(order, <-in)
		}
		if diff := cmp.Diff([]string{"1", "m", "2"}, order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

func TestWhoStopsWaitingIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, 2)
		if err := a.enter(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		in := make(chan string, 9)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		queued(ctx, a, "p", "gone", in)
		queued(t.Context(), a, "q", "stays", in)
		if got := <-in; !strings.Contains(got, "gone: context deadline exceeded") {
			t.Errorf("who gave up: %s", got)
		}
		if r, w := a.inFlight(); r != 1 || w != 1 {
			t.Errorf("%d running, %d waiting", r, w)
		}
		a.leave()
		if got := <-in; got != "stays" {
			t.Errorf("let in: %s", got)
		}
		a.leave()
		if r, w := a.inFlight(); r != 0 || w != 0 || len(a.lines) != 0 {
			t.Errorf("%d running, %d waiting, %d lines at the end", r, w, len(a.lines))
		}
	})
}

// TestAdmissionLosesNoPlace has many come, wait, give up and go at once.
func TestAdmissionLosesNoPlace(t *testing.T) {
	const limit, room = 3, 5
	a := newAdmission(limit, room)
	var all sync.WaitGroup
	var running, most, served atomic.Int64
	for i := range 8 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for range 400 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(400))*time.Microsecond)
				if err := a.enter(ctx, string(rune('a'+i%3))); err == nil {
					n := running.Add(1)
					for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
					}
					if random.IntN(4) == 0 {
						time.Sleep(time.Duration(random.IntN(100)) * time.Microsecond)
					}
					running.Add(-1)
					served.Add(1)
					a.leave()
				} else if !errors.Is(err, errQueueFull) && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if most.Load() > limit || served.Load() == 0 {
		t.Errorf("%d ran at once, %d were served", most.Load(), served.Load())
	}
	if r, w := a.inFlight(); r != 0 || w != 0 || len(a.lines) != 0 {
		t.Errorf("%d running, %d waiting, lines %v at the end", r, w, slices.Collect(slices.Values(a.lines)))
	}
}

// inFlight is how many calls are running and how many wait.
func (a *admission) inFlight() (running, waiting int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running, a.waiting
}
