package supervise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/containment"
)

func restart(t *testing.T, u *Unit[int], want int) {
	t.Helper()
	if n, err := u.Restart(t.Context(), nil); err != nil || n != want {
		t.Fatalf("restarted to %d, %v; want start %d", n, err, want)
	}
}

func TestRestartInEveryState(t *testing.T) {
	for name, c := range map[string]struct {
		// before brings the unit there with its first start.
		before func(t *testing.T, u *Unit[int], h *host)
		open   func(ctx context.Context, n int, p *Process) error
		launch func(n int) error
		want   int // the start that is of use
		states string
	}{
		"cold": {
			before: func(t *testing.T, u *Unit[int], _ *host) { state(t, u, Cold) },
			want:   1, states: "[cold starting ready]",
		},
		"starting": {
			before: func(t *testing.T, u *Unit[int], _ *host) {
				go func() { get(t, u, 2) }() // who waits gets the new one
				state(t, u, Starting)
			},
			open: func(ctx context.Context, n int, _ *Process) error {
				if n == 1 {
					<-ctx.Done()
				}
				return ctx.Err()
			},
			want: 2, states: "[cold starting draining starting ready]",
		},
		"ready": {
			before: func(t *testing.T, u *Unit[int], _ *host) { get(t, u, 1) },
			want:   2, states: "[cold starting ready draining starting ready]",
		},
		"ending": {
			before: func(t *testing.T, u *Unit[int], _ *host) {
				_, _ = u.Get(t.Context())
				if s := state(t, u, Backoff); !s.Next.IsZero() {
					t.Error("its process is gone already")
				}
			},
			open: func(_ context.Context, n int, _ *Process) error {
				if n == 1 {
					return errors.New("no")
				}
				return nil
			},
			want: 2, states: "[cold starting backoff draining starting ready]",
		},
		"backoff": {
			before: func(t *testing.T, u *Unit[int], _ *host) { _, _ = u.Get(t.Context()); state(t, u, Backoff) },
			launch: func(n int) error {
				if n == 1 {
					return errors.New("no")
				}
				return nil
			},
			want: 2, states: "[cold starting backoff backoff starting ready]",
		},
		"failed": {
			before: func(t *testing.T, u *Unit[int], _ *host) {
				_, _ = u.Get(t.Context())
				time.Sleep(time.Minute)
				state(t, u, Failed)
			},
			launch: func(n int) error {
				if n <= 4 {
					return errors.New("no")
				}
				return nil
			},
			want: 5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *host) {
				h.open, h.launch, h.takes = c.open, c.launch, 100*time.Millisecond
				u := h.unit(spec())
				defer u.Stop(t.Context())
				c.before(t, u, h)
				before := u.Snapshot().Restarts
				began := time.Now()
				restart(t, u, c.want)
				if d := time.Since(began); d > 100*time.Millisecond {
					t.Errorf("it took %v, with more than the stop of the old one", d)
				}
				if s := state(t, u, Ready); s.Restarts != before || s.Failure != nil {
					t.Errorf("%+v", s)
				}
				if got := fmt.Sprint(h.states); c.states != "" && got != c.states {
					t.Errorf("states %s, want %s", got, c.states)
				}
			})
		})
	}
}

func TestRestartOfAStoppedUnit(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		u := h.unit(spec())
		u.Stop(t.Context())
		if _, err := u.Restart(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "it was stopped") {
			t.Errorf("%v", err)
		}
	})
}

func TestRestartThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		h.launch = func(n int) error {
			if n == 2 {
				return errors.New("not again")
			}
			return nil
		}
		u := h.unit(spec())
		defer u.Stop(t.Context())
		get(t, u, 1)
		if _, err := u.Restart(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "not again") {
			t.Errorf("%v", err)
		}
		get(t, u, 3) // by the policy, as after any start that fails
	})
}

// The count of restarts begins anew: the provider may fail as often as at first.
func TestRestartClearsTheCount(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		u := h.unit(spec()) // intensity 3
		defer u.Stop(t.Context())
		crash := func(n int) {
			t.Helper()
			get(t, u, n)
			h.tree(n).end(containment.Exit{Code: 1})
			synctest.Wait()
		}
		for n := 1; n <= 3; n++ {
			crash(n)
		}
		restart(t, u, 4)
		for n := 4; n <= 6; n++ {
			crash(n)
			if s := state(t, u, Backoff); n == 4 && time.Until(s.Next) > 1200*time.Millisecond {
				t.Errorf("the first delay is %v", time.Until(s.Next))
			}
		}
		crash(7)
		state(t, u, Failed)
	})
}

// While it drains nobody gets the old one, and the drain's time is part of the grace.
func TestRestartDrains(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		s := spec()
		s.StopGrace = 3 * time.Second
		u := h.unit(s)
		defer u.Stop(t.Context())
		get(t, u, 1)
		drained := make(chan int, 1)
		began := time.Now()
		go func() {
			_, _ = u.Restart(t.Context(), func(ctx context.Context, n int) {
				<-ctx.Done()
				drained <- n
			})
		}()
		synctest.Wait()
		state(t, u, Draining)
		get(t, u, 2)
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("the new one is there after %v", d)
		}
		if n := <-drained; n != 1 {
			t.Errorf("drained %d", n)
		}
		if asked := h.asked(1); asked != leastGrace {
			t.Errorf("the server had %v to end by itself", asked)
		}
	})
}

// A stop that comes during a restart does not wait for the drain.
func TestStopDuringRestart(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		s := spec()
		s.StopGrace = time.Hour
		u := h.unit(s)
		get(t, u, 1)
		failed := make(chan error, 1)
		leave := make(chan struct{})
		go func() {
			_, err := u.Restart(t.Context(), func(context.Context, int) { <-leave })
			failed <- err
		}()
		synctest.Wait()
		stopped := make(chan struct{})
		go func() { u.Stop(t.Context()); close(stopped) }()
		if err := <-failed; err == nil || !strings.Contains(err.Error(), "it was stopped") {
			t.Errorf("%v", err)
		}
		close(leave)
		<-stopped
		if h.starts() != 1 {
			t.Errorf("%d starts", h.starts())
		}
	})
}

func TestEveryExitIsRecorded(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		opens := errors.New("no")
		h.open = func(_ context.Context, n int, _ *Process) error {
			if n == 2 {
				return opens
			}
			return nil
		}
		u := h.unit(spec())
		get(t, u, 1)
		if p := u.Process(); p == nil || p.Mark() != "h/files/1" {
			t.Errorf("the process is %v", p)
		}
		if got := state(t, u, Ready).Exits; len(got) != 0 {
			t.Errorf("%+v", got)
		}
		h.tree(1).end(containment.Exit{Code: 3})
		synctest.Wait()
		at := time.Now()
		if u.Process() != nil {
			t.Error("there is a process")
		}
		if got := state(t, u, Backoff).Exits; len(got) != 1 || got[0] != (Exit{Instance: "h/files/1", Time: at, Code: 3}) {
			t.Errorf("%+v", got)
		}
		time.Sleep(2 * time.Second) // the second start fails: its process is ended, and nobody asked for that
		if got := state(t, u, Backoff).Exits; len(got) != 2 || got[1].Asked || got[1].Instance != "h/files/2" || got[1].Signal != 15 {
			t.Errorf("%+v", got)
		}
		get(t, u, 3)
		restart(t, u, 4)
		u.Stop(t.Context())
		got := state(t, u, Stopped).Exits
		if len(got) != 4 || !got[2].Asked || !got[3].Asked || got[3].Instance != "h/files/4" {
			t.Errorf("%+v", got)
		}
	})
}

// What ended before somebody asked ended by itself.
func TestStopOfWhatHadEndedIsNotAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		h.open = func(context.Context, int, *Process) error { return errors.New("no") }
		h.takes = time.Minute
		u := h.unit(spec())
		_, _ = u.Get(t.Context())
		state(t, u, Backoff) // its process is still there
		u.Stop(t.Context())
		if got := u.Snapshot().Exits; len(got) != 1 || got[0].Asked {
			t.Errorf("%+v", got)
		}
	})
}

func TestOnlyTheLastExitsAreKept(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		s := spec()
		s.Restart.Intensity = 100
		u := h.unit(s)
		defer u.Stop(t.Context())
		for n := 1; n <= keptExits+2; n++ {
			get(t, u, n)
			h.tree(n).end(containment.Exit{Code: n})
			synctest.Wait()
		}
		got := u.Snapshot().Exits
		if len(got) != keptExits || got[0].Code != 3 || got[keptExits-1].Code != keptExits+2 {
			t.Errorf("%d exits, from %d to %d", len(got), got[0].Code, got[len(got)-1].Code)
		}
	})
}

func TestLastLines(t *testing.T) {
	long := strings.Repeat("x", exitBytes)
	lines := make([]string, 30)
	for i := range lines {
		lines[i] = fmt.Sprint(i)
	}
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"one\ntwo\n", "one\ntwo"},
		{"one\n\ntwo\r\n\n", "one\n\ntwo"},
		{strings.Join(lines, "\n"), strings.Join(lines[10:], "\n")},
		{"first\n" + long[4:], long[4:]},
		{"first\n" + long + "y", long[1:] + "y"},
		{long + "\nlast", "last"},
		{"a\xffb", "a\uFFFDb"},
	} {
		if got := lastLines(c.text); got != c.want {
			t.Errorf("of %.40q: %.40q, want %.40q", c.text, got, c.want)
		}
	}
}

func TestRememberLeavesWhatWasGivenOut(t *testing.T) {
	var exits []Exit
	for n := range keptExits + 1 {
		exits = remember(exits, Exit{Code: n})
	}
	before := slices.Clone(exits)
	_, _ = remember(exits, Exit{Code: 100}), remember(exits, Exit{Code: 200})
	if !slices.Equal(exits, before) {
		t.Errorf("%v", exits)
	}
}
