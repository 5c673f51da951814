//go:build unix

package session

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
	"github.com/drawbridge-mcp/drawbridge/plugins/stdio"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
	"github.com/drawbridge-mcp/drawbridge/shared/sdk"
)

// TestMain runs the plugin `stdio` when the binary was started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "plugin" && os.Args[2] == "stdio" {
		sdk.Serve(stdio.New())
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// real is a manager over real plugin processes with the fake server below them.
type real struct {
	*house
	log string
}

// newReal makes a manager of one provider, p, whose server has these flags.
func newReal(t testing.TB, change func(*Spec), flags ...string) *real {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	r := &real{log: filepath.Join(dir, "server.log")}
	config, err := json.Marshal(map[string]any{
		"command": fakeserver.Build(t), "args": append([]string{"--log", r.log, "--life", "2m"}, flags...),
		"env": nil, "env_file": nil, "unset_env": nil, "cwd": nil,
	})
	if err != nil {
		t.Fatal(err)
	}
	spec := specOf("p")
	spec.Exec = supervise.Exec{Name: "stdio", Builtin: true}
	spec.Config = provider.Config{JSON: config, BaseDir: dir}
	if change != nil {
		change(&spec)
	}
	id := fmt.Sprintf("%x", sha256.Sum256([]byte(t.Name()+dir)))[:32]
	run, err := supervise.OpenRunDir(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	})
	logger := slog.New(slog.DiscardHandler)
	if os.Getenv("SESSION_TEST_LOG") != "" {
		logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	h := &house{t: t, starts: map[string]int{}, plugins: map[string]*plugin{}}
	launcher := &supervise.Launcher{HostID: id, RunDir: run.Path, Env: os.Environ(), Logger: logger}
	h.manager = NewManager(Options{Launcher: launcher, Listener: h, SpoolDir: dir, Logger: logger})
	h.manager.Apply([]Spec{spec})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
		defer cancel()
		h.manager.Stop(ctx)
	})
	r.house = h
	return r
}

// entries waits until the server has received n messages of a method.
func (r *real) entries(method string, n int) []fakeserver.Entry {
	r.t.Helper()
	all := fakeserver.WaitLog(r.t, r.log, patience, func(e []fakeserver.Entry) bool {
		return len(fakeserver.Method(e, method)) >= n
	})
	return fakeserver.Method(all, method)
}

func (r *real) call(i *Instance, tool, arguments string) (*rpc.Message, error) {
	return i.Do(context.Background(), Call{Request: callOf(r.t, tool, arguments)})
}

// TestReal_C022_C116_OneServerForAllCalls.
func TestReal_C022_C116_OneServerForAllCalls(t *testing.T) {
	t.Parallel()
	r := newReal(t, nil)
	for range 3 {
		r.do(r.get("p"), Call{Request: callOf(t, "inc", `{}`)})
	}
	if got := r.do(r.get("p"), Call{Request: callOf(t, "get", `{}`)}); !contains(got, `"text":"3"`) {
		t.Errorf("get: %s", got)
	}
	for n := range 200 {
		if got := r.do(r.get("p"), Call{Request: callOf(t, "echo", fmt.Sprintf(`{"n":%d}`, n))}); !contains(got, fmt.Sprintf(`%d`, n)) {
			t.Fatalf("echo: %s", got)
		}
	}
	if n := len(r.entries(methodInitialize, 1)); n != 1 {
		t.Errorf("%d initialize", n)
	}
	if n := len(r.entries(methodListTools, 1)); n != 1 {
		t.Errorf("%d tools/list", n)
	}
}

// TestReal_C030_C031_CallsSideBySide.
func TestReal_C030_C031_CallsSideBySide(t *testing.T) {
	t.Parallel()
	r := newReal(t, nil)
	i := r.get("p")
	ctx, cancel := context.WithCancel(t.Context())
	slow := make(chan error, 1)
	go func() {
		_, err := i.Do(ctx, Call{Request: callOf(t, "slow", `{"ms":60000}`)})
		slow <- err
	}()
	r.entries("tools/call", 1)
	var all sync.WaitGroup
	for n := range 32 {
		all.Go(func() {
			m, err := r.call(i, "echo", fmt.Sprintf(`{"word":"w%d"}`, n))
			if err != nil || !contains(text(t, m), fmt.Sprintf(`w%d`, n)) {
				t.Errorf("call %d: %v, %v", n, m, err)
			}
		})
	}
	all.Wait()
	cancel()
	wantLost(t, <-slow, true, Cancelled, "")
	got := r.entries(methodCancelled, 1)
	want := `"requestId":` + string(r.entries("tools/call", 1)[0].Message().ID)
	if len(got) != 1 || !contains(got[0].Raw, want) {
		t.Errorf("cancelled: %v, want %s", got, want)
	}
}

// TestReal_C042_LinesOfAnyLength, both ways, and the limit.
func TestReal_C042_LinesOfAnyLength(t *testing.T) {
	t.Parallel()
	r := newReal(t, func(sp *Spec) { sp.MaxMessage = 32 << 20 })
	i := r.get("p")
	for _, n := range []int{65400, 65536, 1 << 20, 10 << 20} {
		m, err := r.call(i, "big", fmt.Sprintf(`{"bytes":%d}`, n))
		if err != nil {
			t.Fatal(err)
		}
		if got := text(t, m); !contains(got, fakeserver.BigText(n)) {
			t.Errorf("%d bytes did not arrive as they were", n)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		arguments := `{"text":"` + fakeserver.BigText(n) + `"}`
		m, err = r.call(i, "echo", arguments)
		if err != nil {
			t.Fatal(err)
		}
		if got := text(t, m); !contains(got, fakeserver.BigText(n)) {
			t.Errorf("%d bytes of arguments did not arrive as they were", n)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := r.call(i, "big", `{"bytes":34000000}`)
	wantLost(t, err, true, ResultTooLarge, "max_message (33554432 bytes)")
	_, err = r.call(i, "echo", `{"text":"`+fakeserver.BigText(34<<20)+`"}`)
	wantLost(t, err, false, MessageTooLarge, "max_message (33554432 bytes)")
	if _, err := r.call(i, "echo", `{}`); err != nil || r.get("p") != i {
		t.Errorf("the server after it: %v", err)
	}
}

// TestReal_C037_DeathInTheMiddleOfACall.
func TestReal_C037_DeathInTheMiddleOfACall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, tool, arguments, cause string }{
		{"exits", "exit", `{"code":1,"stderr":"gave up"}`, "exited with code 1"},
		{"closes stdout", "close_stdout", `{}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newReal(t, nil)
			i := r.get("p")
			begun := time.Now()
			_, err := r.call(i, c.tool, c.arguments)
			t.Log(err)
			wantLost(t, err, true, Crashed, c.cause)
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("the call ended after %s", took)
			}
			again := r.get("p")
			if again == i {
				t.Error("the same instance is given out again")
			}
			if _, err := r.call(again, "echo", `{}`); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("plugin killed", func(t *testing.T) {
		r := newReal(t, nil)
		i := r.get("p")
		lost := make(chan error, 1)
		go func() {
			_, err := r.call(i, "slow", `{"ms":60000}`)
			lost <- err
		}()
		r.entries("tools/call", 1)
		process, err := os.FindProcess(i.proc.PID())
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := process.Kill(); err != nil {
			t.Fatal(err)
		}
		err = <-lost
		t.Log(err)
		wantLost(t, err, true, Crashed, "")
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("the call ended after %s", took)
		}
		if _, err := r.call(r.get("p"), "echo", `{}`); err != nil {
			t.Error(err)
		}
	})
}

// TestReal_C040_C120_StartsThatFail.
func TestReal_C040_C120_StartsThatFail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, cause string
		phase       supervise.Phase
		flags       []string
	}{
		{"mute", "initialize: timed out after 3s", supervise.PhaseInitialize, []string{"--mute"}},
		{"exits", "exited with code 3: Error: API_KEY is not set", supervise.PhaseInitialize,
			[]string{"--stderr", "Error: API_KEY is not set", "--exit-after", "200ms", "--exit-at-start", "3"}},
		{"unknown version", `"2099-01-01"`, supervise.PhaseInitialize, []string{"--version", "2099-01-01"}},
		{"silent list", "tools/list: timed out after 3s", supervise.PhaseList, []string{"--list-silent"}},
		{"broken page", "page", supervise.PhaseList, []string{"--tool-count", "120", "--pages", "50", "--pages-fail-at", "2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newReal(t, func(sp *Spec) {
				sp.StartTimeout, sp.Restart.Intensity, sp.StopGrace = 3*time.Second, 0, 500*time.Millisecond
			}, c.flags...)
			begun := time.Now()
			_, err := r.manager.Get(t.Context(), "p")
			t.Log(time.Since(begun).Round(time.Millisecond), err)
			wantFailure(t, err, c.phase, c.cause)
			all, err := fakeserver.ReadLog(r.log)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(fakeserver.Method(all, methodCancelled)); n > 0 && c.phase == supervise.PhaseInitialize {
				t.Errorf("%d cancellations", n)
			}
		})
	}
}

// TestReal_C115_Eras: servers of every kind, and the calls work.
func TestReal_C115_Eras(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, version string
		atMost        time.Duration
		flags         []string
	}{
		{"legacy", "2025-11-25", time.Second, nil},
		{"fixed", "2024-11-05", time.Second, []string{"--version", "2024-11-05"}},
		{"another code", "2025-11-25", time.Second, []string{"--discover-error", "-32603"}},
		{"silent on the probe", "2025-11-25", 3 * time.Second, []string{"--legacy-silent-discover"}},
		{"modern", "2026-07-28", time.Second, []string{"--modern"}},
		{"slow modern", "2026-07-28", 6 * time.Second, []string{"--modern", "--modern-slow", "3s", "--stderr", "booting"}},
		{"both", "2026-07-28", time.Second, []string{"--dual"}},
		{"both, offering the older", "2025-11-25", time.Second, []string{"--modern", "--supported", "2025-11-25"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newReal(t, nil, c.flags...)
			begun := time.Now()
			i, err := r.manager.Get(t.Context(), "p")
			if c.name == "both, offering the older" {
				if err == nil {
					t.Error("a server that has no initialize agreed to it")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > 2*c.atMost+2*time.Second {
				t.Errorf("it took %s", took)
			}
			if i.Server().Version != c.version {
				t.Errorf("version %s", i.Server().Version)
			}
			if got := r.do(i, Call{Request: callOf(t, "echo", `{"a":1}`)}); !contains(got, `{"a":1}`) && !contains(got, `\"a\":1`) {
				t.Errorf("echo: %s", got)
			}
		})
	}
}

// TestReal_C025_PingKeepsTheSession.
func TestReal_C025_PingKeepsTheSession(t *testing.T) {
	t.Parallel()
	r := newReal(t, nil, "--ping-every", "100ms", "--drop-after", "500ms", "--ask-roots")
	i := r.get("p")
	r.do(i, Call{Request: callOf(t, "inc", `{}`)})
	if _, err := r.call(i, "slow", `{"ms":1500}`); err != nil {
		t.Error(err)
	}
	if got := r.do(r.get("p"), Call{Request: callOf(t, "get", `{}`)}); !contains(got, `"text":"1"`) {
		t.Errorf("get: %s", got)
	}
	all, err := fakeserver.ReadLog(r.log)
	if err != nil {
		t.Fatal(err)
	}
	roots := false
	for _, e := range fakeserver.Dir(all, fakeserver.DirIn) {
		roots = roots || contains(string(e.Message().Result), `"roots":[]`)
	}
	if !roots {
		t.Error("roots/list was not answered")
	}
}

// TestReal_C059_ListChanged.
func TestReal_C059_ListChanged(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{"--list-changed"}, {"--modern", "--list-changed"}} {
		t.Run(flags[0], func(t *testing.T) {
			t.Parallel()
			r := newReal(t, nil, flags...)
			i := r.get("p")
			before := len(r.lists()[0].defs)
			if _, err := r.call(i, "add_tool", `{}`); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the new list is heard of", func() bool {
				lists := r.lists()
				return len(lists) == 2 && len(lists[1].defs) == before+1
			})
		})
	}
}

// TestReal_C062_Progress: each message, in order, before the answer.
func TestReal_C062_Progress(t *testing.T) {
	t.Parallel()
	r := newReal(t, nil)
	i := r.get("p")
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 5 {
				var got []string
				m, err := i.Do(context.Background(), Call{
					Request: callOf(t, "progress", `{"count":3,"n":3,"times":3}`),
					Notify: func(m *rpc.Message) error {
						got = append(got, string(m.Get("params", "progress")))
						return nil
					},
				})
				if err != nil || len(got) == 0 || !ascending(got) {
					t.Errorf("progress %v, %v, %v", got, m, err)
				}
			}
		})
	}
	all.Wait()
}

func ascending(list []string) bool {
	for n := 1; n < len(list); n++ {
		if strings.Compare(list[n-1], list[n]) >= 0 {
			return false
		}
	}
	return true
}

// TestReal_AServerThatReadsNoMore: callers leave in time, each with the truth, and
// half a message whose rest is gone ends the server.
func TestReal_AServerThatReadsNoMore(t *testing.T) {
	t.Parallel()
	r := newReal(t, nil)
	i := r.get("p")
	if _, err := r.call(i, "stop_reading", `{}`); err != nil {
		t.Fatal(err)
	}
	// The line that it was about to read is its last.
	last, leave := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer leave()
	_, err := i.Do(last, Call{Request: callOf(t, "echo", `{}`)})
	wantLost(t, err, true, Timeout, "deadline")
	small, big := callOf(t, "echo", `{}`), callOf(t, "echo", `{"text":"`+fakeserver.BigText(16<<20)+`"}`)
	defer big.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var all sync.WaitGroup
	begun := time.Now()
	all.Go(func() {
		_, err := i.Do(ctx, Call{Request: big})
		wantLost(t, err, false, Timeout, "deadline")
		if took := time.Since(begun); took > 2*(time.Second+cancelGrace+finishGrace) {
			t.Errorf("the message that was begun: left after %s", took)
		}
	})
	eventually(t, "the message is on its way", func() bool { return len(i.link.slot) == 1 })
	all.Go(func() {
		_, err := i.Do(ctx, Call{Request: small})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the call behind it: %v", err)
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("the call behind it: left after %s", took)
		}
	})
	all.Wait()
	if got := i.link.over.String(); !contains(got, "does not read its input") {
		t.Errorf("ended because %s", got)
	}
	if _, err := r.call(r.get("p"), "echo", `{}`); err != nil {
		t.Errorf("the next server: %v", err)
	}
}

// BenchmarkReal is a call through plugin and server; the fake server's own part is
// in it.
func BenchmarkReal(b *testing.B) {
	r := newReal(b, nil)
	i := r.get("p")
	call := Call{Request: callOf(b, "echo", `{"text":"hello"}`)}
	one := func() {
		if _, err := i.Do(context.Background(), call); err != nil {
			b.Error(err)
		}
	}
	b.Run("sequential", func(b *testing.B) {
		for b.Loop() {
			one()
		}
	})
	b.Run("64", func(b *testing.B) {
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				one()
			}
		})
	})
}
