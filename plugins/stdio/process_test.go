//go:build unix

package stdio

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// testRole is the test binary as another process.
func testRole(role string) int {
	if role != "plugin" {
		return 2
	}
	// A plugin whose server ignores everything, until it is killed itself.
	p := New()
	config, err := json.Marshal(map[string]any{
		"command": os.Args[1], "args": []string{"--log", os.Args[2], "--ignore-eof", "--ignore-term", "--life", "2m"},
	})
	if err != nil {
		return 1
	}
	diags, err := p.Start(context.Background(), provider.StartRequest{Config: provider.Config{JSON: config}})
	if err != nil || diags.HasErrors() {
		return 1
	}
	fmt.Println("started")
	time.Sleep(2 * time.Minute)
	return 0
}

func TestServerDiesWithThePlugin(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("PDEATHSIG is Linux's")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	plugin := exec.Command(self, fakeServer, log)
	plugin.Env = append(os.Environ(), "STDIO_TEST_ROLE=plugin")
	out, err := plugin.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := plugin.Start(); err != nil {
		t.Fatal(err)
	}
	var word [7]byte
	if _, err := out.Read(word[:]); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, log: log}
	waitFor(t, "the server runs", func() bool {
		_, err := os.Stat(log)
		return err == nil && len(r.logged("start")) == 1
	})
	server := r.logged("start")[0]
	if startOf(server.Pid) != server.Start {
		t.Fatal("the server is not where it should be")
	}
	if err := plugin.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = plugin.Wait()
	waitFor(t, "the server is gone", func() bool { return startOf(server.Pid) != server.Start })
}

func TestC120_ACrashSaysWhy(t *testing.T) {
	begin := time.Now()
	r := fake(t, "--exit-at-start", "3", "--exit-after", "100ms", "--stderr", "Error: API_KEY is not set")
	if first := r.next(); first != (provider.Spoke{}) {
		t.Errorf("first came %T", first)
	}
	status := r.end(nil)
	if want := (provider.ExitStatus{Code: 3, StderrTail: "Error: API_KEY is not set"}); status != want {
		t.Errorf("got %+v, want %+v", status, want)
	}
	if took := time.Since(begin); took > soon/2 {
		t.Errorf("it took %v", took)
	}
	if got := r.errs.String(); got != "Error: API_KEY is not set\n" {
		t.Errorf("passed on: %q", got)
	}
	if again, err := r.p.Stop(t.Context(), provider.StopRequest{}); err != nil || again != status {
		t.Errorf("Stop says %+v, %v", again, err)
	}
}

func TestACrashBeforeTheExchangeLosesNothing(t *testing.T) {
	r := run(t, settings{
		config:     map[string]any{"command": "sh", "args": []string{"-c", `echo '{"jsonrpc":"2.0","method":"x"}'; echo why >&2; exit 4`}},
		noExchange: true,
	})
	<-r.p.server.gone
	r.exchange()
	if got := r.answer(); got != `{"jsonrpc":"2.0","method":"x"}` {
		t.Errorf("got %q", got)
	}
	if status := r.end(nil); status != (provider.ExitStatus{Code: 4, StderrTail: "why"}) {
		t.Errorf("exited with %+v", status)
	}
}

func TestSilentDeathSaysExitedAlone(t *testing.T) {
	r := run(t, settings{config: map[string]any{"command": "sh", "args": []string{"-c", "kill -KILL $$"}}})
	status := r.end(func(e provider.Event) { t.Errorf("%T %+v", e, e) })
	if status.Signal != int(syscall.SIGKILL) || status.Code != -1 {
		t.Errorf("exited with %+v", status)
	}
}

func TestC037_StdoutClosedEndsTheServer(t *testing.T) {
	for _, args := range [][]string{nil, {"--ignore-eof"}, {"--ignore-eof", "--ignore-term"}} {
		r := fake(t, args...)
		r.call("echo", `{}`)
		r.answer()
		begin := time.Now()
		r.call("close_stdout", `{}`)
		r.end(nil)
		if took := time.Since(begin); took > soon/2 {
			t.Errorf("%v: it took %v", args, took)
		}
	}
}

func TestSpokeComesFirstAndOnce(t *testing.T) {
	r := fake(t, "--stderr", "hello")
	if first := r.next(); first != (provider.Spoke{}) {
		t.Fatalf("first came %T", first)
	}
	r.call("echo", `{}`)
	if second, ok := r.next().(provider.Chunk); !ok {
		t.Errorf("then %T", second)
	}
}

func TestSpokeWaitsForTheFirstByte(t *testing.T) {
	r := fake(t, "--mute")
	r.send(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
	waitFor(t, "the request arrives", func() bool { return len(r.logged("in")) == 1 })
	select {
	case event := <-r.events:
		t.Errorf("%T of a server that said nothing", event)
	default:
	}
}

func TestADescendantThatHoldsThePipesDelaysNothing(t *testing.T) {
	for _, kind := range []string{"child", "setsid", "daemon"} {
		r := fake(t, "--child", kind, "--child-pipes")
		waitFor(t, kind+" runs", func() bool { return len(r.logged("child")) > 0 })
		begin := time.Now()
		r.call("exit", `{"code":7,"stderr":"last words"}`)
		status := r.end(nil)
		if status != (provider.ExitStatus{Code: 7, StderrTail: "last words"}) {
			t.Errorf("%s: exited with %+v", kind, status)
		}
		if took := time.Since(begin); took > drainGrace+soon/2 {
			t.Errorf("%s: it took %v", kind, took)
		}
		for _, child := range r.logged("child") {
			killByStart(child)
		}
	}
}

// killByStart kills a process of the test's own that left its group.
func killByStart(e entry) {
	if startOf(e.Pid) == e.Start && e.Start != "" {
		_ = syscall.Kill(e.Pid, syscall.SIGKILL)
	}
}

func TestStopLadder(t *testing.T) {
	for _, c := range []struct {
		name     string
		args     []string
		grace    time.Duration
		signal   syscall.Signal
		min, max time.Duration
	}{
		{"a polite server leaves at EOF", nil, 10 * time.Second, 0, 0, time.Second},
		{"one that cleans up has its grace", []string{"--eof-delay", "700ms"}, 10 * time.Second, 0, 700 * time.Millisecond, 2 * time.Second},
		{"and half a second at least", []string{"--eof-delay", "300ms"}, 0, 0, 300 * time.Millisecond, time.Second},
		{"one that ignores EOF gets SIGTERM", []string{"--ignore-eof"}, 0, syscall.SIGTERM, minGrace, minGrace + time.Second},
		{"one that ignores both gets SIGKILL", []string{"--ignore-eof", "--ignore-term"}, 0, syscall.SIGKILL, minGrace + termWait, minGrace + termWait + time.Second},
		{"grace is waited for", []string{"--ignore-eof"}, time.Second, syscall.SIGTERM, time.Second, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := fake(t, append([]string{"--child", "child"}, c.args...)...)
			r.call("echo", `{}`)
			r.answer()
			waitFor(t, "the child runs", func() bool { return len(r.logged("child")) == 1 })
			child := r.logged("child")[0]
			begin := time.Now()
			stopped := make(chan provider.ExitStatus, 1)
			go func() {
				status, err := r.p.Stop(t.Context(), provider.StopRequest{Grace: c.grace})
				if err != nil {
					t.Error(err)
				}
				stopped <- status
			}()
			exited := r.end(nil)
			status, took := <-stopped, time.Since(begin)
			if status != exited || status.Signal != int(c.signal) {
				t.Errorf("Stop says %+v, Exited %+v, want signal %d", status, exited, c.signal)
			}
			if took < c.min || took > c.max+soon/2 {
				t.Errorf("it took %v, want %v to %v", took, c.min, c.max)
			}
			if startOf(child.Pid) == child.Start {
				waitFor(t, "the child is gone", func() bool { return startOf(child.Pid) != child.Start })
			}
		})
	}
}

func TestStopWithoutTimeKillsAtOnce(t *testing.T) {
	r := fake(t, "--ignore-eof", "--ignore-term")
	r.call("echo", `{}`)
	r.answer()
	over, cancel := contextDone()
	defer cancel()
	begin := time.Now()
	stopped := make(chan error, 1)
	go func() {
		_, err := r.p.Stop(over, provider.StopRequest{Grace: time.Minute})
		stopped <- err
	}()
	status := r.end(nil)
	if err := <-stopped; err != nil || status.Signal != int(syscall.SIGKILL) {
		t.Errorf("%+v, %v", status, err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestStopNeedsNobodyToReadEvents(t *testing.T) {
	r := fake(t)
	r.call("big", `{"bytes":3000000}`)
	// Nobody takes the events: the reader of stdout is stuck in Send.
	waitFor(t, "the call arrives", func() bool { return len(r.logged("in")) == 1 })
	status, err := r.p.Stop(t.Context(), provider.StopRequest{})
	if err != nil || status.Signal != int(syscall.SIGTERM) && status.Code != 0 {
		t.Errorf("%+v, %v", status, err)
	}
}

func TestExchangeEndsWithItsContext(t *testing.T) {
	r := fake(t, "--no-read")
	// More than the pipe holds: the write under way must end too.
	r.frame(provider.Frame{Seq: 1, Data: []byte(strings.Repeat("x", 1<<20)), Last: true})
	r.cancel()
	select {
	case err := <-r.returned:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(soon):
		t.Fatal("the exchange went on")
	}
}

func TestOnceOnly(t *testing.T) {
	r := fake(t)
	ctx := t.Context()
	if _, err := r.p.Start(ctx, provider.StartRequest{Config: provider.Config{JSON: configJSON(t, map[string]any{"command": "true"})}}); err == nil {
		t.Error("a second Start was taken")
	}
	waitFor(t, "the exchange is open", func() bool { return r.p.server.reading.Load() })
	if err := r.p.Exchange(ctx, r.conn); err == nil {
		t.Error("a second Exchange was taken")
	}
	fresh := New()
	if err := fresh.Exchange(ctx, r.conn); err == nil {
		t.Error("an Exchange without a server was taken")
	}
	if status, err := fresh.Stop(ctx, provider.StopRequest{}); err != nil || status != (provider.ExitStatus{}) {
		t.Errorf("Stop without a server: %+v, %v", status, err)
	}
	if _, err := fresh.Start(ctx, provider.StartRequest{}); err == nil {
		t.Error("a Start after Stop was taken")
	}
}

func TestServerHasItsPipesAndNothingElse(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	// What the plugin itself inherited without close-on-exec goes no further.
	stray, err := syscall.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(stray) }()
	r := run(t, settings{config: map[string]any{"command": "ls", "args": []string{"-l", "/proc/self/fd"}}})
	links := map[string]string{}
	r.end(func(e provider.Event) {
		if noise, ok := e.(provider.Noise); ok {
			if before, link, found := strings.Cut(string(noise.Line), " -> "); found {
				links[before[strings.LastIndexByte(before, ' ')+1:]] = link
			}
		}
	})
	if len(links) != 4 || !strings.HasPrefix(links["3"], "/proc/") { // 3 is the folder that ls reads
		t.Errorf("descriptors: %v", links)
	}
	for i := range 3 {
		own, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", i))
		if err != nil {
			t.Fatal(err)
		}
		if link := links[strconv.Itoa(i)]; link == own || !strings.HasPrefix(link, "pipe:") {
			t.Errorf("descriptor %d is %s, the plugin's is %s", i, link, own)
		}
	}
}
