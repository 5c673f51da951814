package supervise

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStopInEveryState(t *testing.T) {
	blocked := func(ctx context.Context, _ int, _ *Process) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		open   func(context.Context, int, *Process) error
		launch func(int) error
		before func(t *testing.T, u *Unit[int], h *host)
	}{
		"cold":     {before: func(t *testing.T, u *Unit[int], _ *host) { state(t, u, Cold) }},
		"starting": {open: blocked, before: func(t *testing.T, u *Unit[int], _ *host) { state(t, u, Starting) }},
		"ready":    {before: func(t *testing.T, u *Unit[int], _ *host) { state(t, u, Ready) }},
		"ending": {
			open: func(context.Context, int, *Process) error { return errors.New("no") },
			before: func(t *testing.T, u *Unit[int], _ *host) {
				if s := state(t, u, Backoff); !s.Next.IsZero() {
					t.Error("its process is gone already")
				}
			},
		},
		"backoff": {
			launch: func(int) error { return errors.New("no") },
			before: func(t *testing.T, u *Unit[int], _ *host) { state(t, u, Backoff) },
		},
		"failed": {
			launch: func(int) error { return errors.New("no") },
			before: func(t *testing.T, u *Unit[int], _ *host) { time.Sleep(time.Minute); state(t, u, Failed) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *host) {
				h.open, h.launch, h.takes = c.open, c.launch, 100*time.Millisecond
				u := h.unit(spec())
				if name != "cold" {
					go func() { _, _ = u.Get(t.Context()) }()
				}
				c.before(t, u, h)
				waits := make(chan error, 1)
				if name != "cold" && name != "ready" && name != "failed" {
					go func() { _, err := u.Get(t.Context()); waits <- err }()
					synctest.Wait()
				} else {
					waits <- errors.New("it was stopped")
				}
				u.Stop(t.Context())
				u.Stop(t.Context())
				if err := <-waits; err == nil || !strings.Contains(err.Error(), "it was stopped") {
					t.Errorf("who waited got %v", err)
				}
				state(t, u, Stopped)
				if h.alive.Load() != 0 {
					t.Error("a process is left")
				}
			})
		})
	}
}

// A start that succeeds although it was told to end.
func TestStopWhileItComesUp(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		h.open = func(context.Context, int, *Process) error { time.Sleep(time.Second); return nil }
		u := h.unit(spec())
		go func() { _, _ = u.Get(t.Context()) }()
		state(t, u, Starting)
		u.Stop(t.Context())
		state(t, u, Stopped)
		if h.alive.Load() != 0 {
			t.Error("a process is left")
		}
	})
}

func TestStopInAHurry(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		h.takes = time.Hour
		s := spec()
		s.StopGrace = 2 * time.Hour
		u := h.unit(s)
		get(t, u, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		u.Stop(ctx)
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("stopped after %v", d)
		}
		if e := h.tree(1).exit; e.Signal != 9 {
			t.Errorf("it ended with %+v", e)
		}
	})
}

// The ladder, step by step, against a plugin that helps with none of them.
func TestLadderIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, _ *host) {
		tree := &fakeTree{done: make(chan struct{})}
		p := Attach(spec(), "h/files/1", &fakeRemote{tree: tree, takes: time.Hour}, tree)
		began := time.Now()
		st := p.Stop(t.Context(), time.Second)
		if d := time.Since(began); d != time.Second+stopSlack+wedgedBudget || st.Signal != 9 {
			t.Errorf("%+v after %v", st, d)
		}
	})
}
