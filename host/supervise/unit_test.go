package supervise

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/containment"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// fakeTree ends when told, endsAfter its Release.
type fakeTree struct {
	once sync.Once
	done chan struct{}
	exit containment.Exit
}

func (t *fakeTree) end(e containment.Exit) {
	t.once.Do(func() { t.exit = e; close(t.done) })
}
func (t *fakeTree) PID() int               { return 1 }
func (t *fakeTree) Release()               {}
func (t *fakeTree) Kill()                  { t.end(containment.Exit{Code: -1, Signal: 9}) }
func (t *fakeTree) Done() <-chan struct{}  { return t.done }
func (t *fakeTree) Exit() containment.Exit { return t.exit }

// fakeRemote's Stop takes a while, and then the tree has ended.
type fakeRemote struct {
	provider.Remote
	tree  *fakeTree
	takes time.Duration
	grace func(time.Duration) // hears what Stop was asked with; nil for nobody
}

func (r *fakeRemote) Stop(ctx context.Context, req provider.StopRequest) (provider.ExitStatus, error) {
	if r.grace != nil {
		r.grace(req.Grace)
	}
	select {
	case <-time.After(r.takes):
		r.tree.end(containment.Exit{})
		return provider.ExitStatus{Signal: 15}, nil
	case <-ctx.Done():
		return provider.ExitStatus{}, ctx.Err()
	}
}

// host is a fake launcher and opener with a script.
type host struct {
	t *testing.T
	// open is asked for the nth start, from 1; nil opens at once.
	open func(ctx context.Context, n int, p *Process) error
	// launch fails the nth start.
	launch func(n int) error
	// takes is how long a stop takes, cleanup what follows the end of the tree.
	takes, cleanup time.Duration

	mu     sync.Mutex
	trees  []*fakeTree
	graces map[int]time.Duration
	states []State
	alive  atomic.Int32
}

// asked is the grace with which the nth process was asked to stop its server.
func (h *host) asked(n int) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.graces[n]
}

func (h *host) tree(n int) *fakeTree {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trees[n-1]
}

func (h *host) starts() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.trees)
}

func (h *host) unit(spec Spec) *Unit[int] {
	spec.Provider, spec.Label = "files", "files"
	return NewUnit(spec, func(_ context.Context, spec Spec) (*Process, error) {
		tree := &fakeTree{done: make(chan struct{})}
		h.mu.Lock()
		h.trees = append(h.trees, tree)
		n := len(h.trees)
		h.mu.Unlock()
		if h.launch != nil {
			if err := h.launch(n); err != nil {
				return nil, err
			}
		}
		if h.alive.Add(1) != 1 {
			h.t.Error("two processes at once")
		}
		grace := func(d time.Duration) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.graces == nil {
				h.graces = map[int]time.Duration{}
			}
			h.graces[n] = d
		}
		return attach(spec, fmt.Sprintf("h/files/%d", n), &fakeRemote{tree: tree, takes: h.takes, grace: grace}, tree,
			func() { time.Sleep(h.cleanup); h.alive.Add(-1) }), nil
	}, func(ctx context.Context, p *Process) (int, error) {
		n := h.starts()
		if h.open != nil {
			if err := h.open(ctx, n, p); err != nil {
				return 0, err
			}
		}
		return n, nil
	}, func(s Snapshot) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.states = append(h.states, s.State)
	}, nil)
}

func spec() Spec {
	return Spec{StartTimeout: 10 * time.Second, StopGrace: time.Second, Restart: testPolicy()}
}

// bubble runs a test whose time is its own; what it leaves running fails it.
func bubble(t *testing.T, test func(t *testing.T, h *host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, &host{t: t}) })
}

func get(t *testing.T, u *Unit[int], want int) {
	t.Helper()
	if n, err := u.Get(t.Context()); err != nil || n != want {
		t.Fatalf("got %d, %v; want start %d", n, err, want)
	}
}

func state(t *testing.T, u *Unit[int], want State) Snapshot {
	t.Helper()
	synctest.Wait()
	s := u.Snapshot()
	if s.State != want {
		t.Fatalf("state %+v, want %s", s, want)
	}
	return s
}

func TestManyFirstCallsStartOnce(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		h.open = func(context.Context, int, *Process) error { time.Sleep(time.Second); return nil }
		u := h.unit(spec())
		state(t, u, Cold)
		leaves, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := u.Get(leaves); !errors.Is(err, context.Canceled) {
				t.Errorf("who left got %v", err)
			}
		})
		for range 20 {
			all.Go(func() { get(t, u, 1) })
		}
		state(t, u, Starting)
		cancel() // the start lives on
		all.Wait()
		if s := state(t, u, Ready); s.Mark != "h/files/1" || s.Failure != nil || s.Restarts != 0 {
			t.Errorf("%+v", s)
		}
		get(t, u, 1)
		u.Stop(t.Context())
		if _, err := u.Get(t.Context()); err == nil || !strings.Contains(err.Error(), "it was stopped") {
			t.Errorf("after the stop: %v", err)
		}
		if got := fmt.Sprint(h.states); got != "[cold starting ready draining stopped]" {
			t.Errorf("states %s", got)
		}
	})
}

func TestFailedStartAnswersAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		h.takes = 2 * time.Second
		mine := &Failure{Provider: "files", Phase: PhaseInitialize, Cause: "no"}
		h.open = func(_ context.Context, n int, _ *Process) error {
			time.Sleep(time.Second)
			if n == 1 {
				return fmt.Errorf("handshake: %w", mine)
			}
			return nil
		}
		u := h.unit(spec())
		defer u.Stop(t.Context())
		began := time.Now()
		_, err := u.Get(t.Context())
		if d := time.Since(began); err != mine || d != time.Second {
			t.Fatalf("%v after %v", err, d)
		}
		// Its process is still ending; the next start waits for that, and who comes
		// now waits for the next start.
		if s := state(t, u, Backoff); s.Failure != mine || !s.Next.IsZero() {
			t.Errorf("%+v", s)
		}
		get(t, u, 2)
		if d := time.Since(began); d < 1*time.Second+2*time.Second+800*time.Millisecond+time.Second {
			t.Errorf("ready again after %v", d)
		}
		if s := state(t, u, Ready); s.Restarts != 1 || s.Failure != nil {
			t.Errorf("%+v", s)
		}
	})
}

func TestLaunchThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		h.launch = func(n int) error {
			if n == 1 {
				return errors.New("no such plugin")
			}
			return nil
		}
		u := h.unit(spec())
		defer u.Stop(t.Context())
		if _, err := u.Get(t.Context()); err == nil || err.Error() != `provider "files": plugin: no such plugin` {
			t.Fatalf("%v", err)
		}
		s := state(t, u, Backoff)
		if d := time.Until(s.Next); d < 800*time.Millisecond || d > 1200*time.Millisecond {
			t.Errorf("next in %v", d)
		}
		get(t, u, 2)
	})
}

func TestCallerInBackoffKeepsItsDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		h.launch = func(int) error { return errors.New("never") }
		u := h.unit(spec())
		defer u.Stop(t.Context())
		_, _ = u.Get(t.Context())
		state(t, u, Backoff)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := u.Get(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

func TestIntensityThenCooldown(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		broken := true
		h.launch = func(n int) error {
			if broken {
				return fmt.Errorf("broken %d", n)
			}
			return nil
		}
		u := h.unit(spec())
		defer u.Stop(t.Context())
		_, _ = u.Get(t.Context())
		time.Sleep(20 * time.Second) // 1 + 2 + 4 s, jitter aside
		s := state(t, u, Failed)
		if s.Restarts != 3 || h.starts() != 4 {
			t.Errorf("%d restarts, %d starts", s.Restarts, h.starts())
		}
		began := time.Now()
		if _, err := u.Get(t.Context()); err == nil || !strings.Contains(err.Error(), "broken 4") || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		time.Sleep(time.Until(s.Next) - time.Millisecond)
		if _, err := u.Get(t.Context()); err == nil || h.starts() != 4 {
			t.Errorf("before the cooldown: %v, %d starts", err, h.starts())
		}
		time.Sleep(time.Millisecond)
		if h.starts() != 4 {
			t.Error("started without a use")
		}
		broken = false
		get(t, u, 5)
	})
}

// Nobody asked for it, so a clean exit is a crash too.
func TestCleanExitIsACrash(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		u := h.unit(spec())
		defer u.Stop(t.Context())
		get(t, u, 1)
		h.tree(1).end(containment.Exit{})
		s := state(t, u, Backoff)
		if s.Failure == nil || !strings.Contains(s.Failure.Error(), "running: the plugin exited with code 0") {
			t.Errorf("%v", s.Failure)
		}
		get(t, u, 2)
	})
}

func TestStableClearsTheCount(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		u := h.unit(spec())
		defer u.Stop(t.Context())
		crash := func(n int, after time.Duration) {
			t.Helper()
			get(t, u, n)
			time.Sleep(after)
			h.tree(n).end(containment.Exit{Code: 1})
			synctest.Wait()
		}
		for n := 1; n <= 3; n++ {
			crash(n, time.Second)
		}
		if s := u.Snapshot(); s.State != Backoff || time.Until(s.Next) < 3*time.Second {
			t.Fatalf("third crash: %+v", s)
		}
		crash(4, 30*time.Second) // healthy long enough
		if d := time.Until(u.Snapshot().Next); d > 1200*time.Millisecond {
			t.Errorf("the delay is %v", d)
		}
		for n := 5; n <= 6; n++ {
			crash(n, time.Second)
		}
		crash(7, 29*time.Second)
		state(t, u, Failed)
	})
}

func TestStartTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		h.open = func(ctx context.Context, _ int, _ *Process) error { <-ctx.Done(); return ctx.Err() }
		u := h.unit(spec())
		defer u.Stop(t.Context())
		began := time.Now()
		_, err := u.Get(t.Context())
		if err == nil || !strings.Contains(err.Error(), "it was not ready within 10s") || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// The context of a start ends with the start and takes nothing along.
func TestReadyOutlivesItsStart(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		u := h.unit(spec())
		defer u.Stop(t.Context())
		get(t, u, 1)
		time.Sleep(time.Hour)
		get(t, u, 1)
		state(t, u, Ready)
	})
}

func TestProcessDiesWhileItOpens(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		h.open = func(ctx context.Context, n int, p *Process) error {
			if n > 1 {
				return nil
			}
			h.tree(n).end(containment.Exit{Code: 3})
			<-ctx.Done()
			return ctx.Err()
		}
		u := h.unit(spec())
		defer u.Stop(t.Context())
		if _, err := u.Get(t.Context()); err == nil || !strings.Contains(err.Error(), "start: the plugin exited with code 3") {
			t.Errorf("%v", err)
		}
		get(t, u, 2)
	})
}

func TestCondemnedIsNotServed(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		h.takes = time.Second
		var first *Process
		h.open = func(_ context.Context, n int, p *Process) error {
			if n == 1 {
				first = p
			}
			return nil
		}
		u := h.unit(spec())
		defer u.Stop(t.Context())
		get(t, u, 1)
		f := &Failure{Provider: "files", Phase: PhaseRunning, Cause: "the server closed its output"}
		first.Condemn(f, time.Second)
		get(t, u, 2)
		if s := state(t, u, Ready); s.Mark != "h/files/2" || s.Restarts != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// Between the end of a tree and the end of what served it in the host.
func TestEndedIsNotServed(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		h.cleanup = 100 * time.Millisecond
		u := h.unit(spec())
		defer u.Stop(t.Context())
		get(t, u, 1)
		h.tree(1).end(containment.Exit{Code: 5})
		get(t, u, 2)
	})
}

func TestCondemnedFailureIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, h *host) {
		var p *Process
		h.open = func(_ context.Context, _ int, q *Process) error { p = q; return nil }
		u := h.unit(spec())
		defer u.Stop(t.Context())
		get(t, u, 1)
		f := &Failure{Provider: "files", Phase: PhaseRunning, Cause: "unhealthy"}
		p.Condemn(f, 0)
		if s := state(t, u, Backoff); s.Failure != f {
			t.Errorf("%v", s.Failure)
		}
	})
}

// TestAFailedStartShowsNoSecret, also where the server itself has repeated it in
// its answer.
func TestAFailedStartShowsNoSecret(t *testing.T) {
	for name, err := range map[string]error{
		"a failure": &Failure{Provider: "files", Phase: PhaseInitialize, Cause: "the server answered with error 1: bad key s3cret-key"},
		"an error":  errors.New("bad key s3cret-key"),
	} {
		tree := &fakeTree{done: make(chan struct{})}
		u := NewUnit(spec(), func(_ context.Context, s Spec) (*Process, error) {
			p := Attach(s, "h/files/1", &fakeRemote{tree: tree}, tree)
			p.redact = func(text string) string { return strings.ReplaceAll(text, "s3cret-key", "[redacted]") }
			return p, nil
		}, func(context.Context, *Process) (int, error) { return 0, err }, nil, nil)
		if _, err := u.Get(t.Context()); err == nil || !strings.Contains(err.Error(), "bad key [redacted]") {
			t.Errorf("%s: who waited got %v", name, err)
		}
		u.Stop(t.Context())
	}
}

func BenchmarkGetReady(b *testing.B) {
	tree := &fakeTree{done: make(chan struct{})}
	u := NewUnit(spec(), func(_ context.Context, s Spec) (*Process, error) {
		return Attach(s, "h/files/1", &fakeRemote{tree: tree}, tree), nil
	}, func(context.Context, *Process) (int, error) { return 1, nil }, nil, nil)
	defer u.Stop(b.Context())
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := u.Get(b.Context()); err != nil {
				b.Error(err)
			}
		}
	})
}
