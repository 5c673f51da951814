//go:build linux

package crossing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// hostStatus is what `status --json` prints. It is declared here once more: programs
// rely on these names.
type hostStatus struct {
	Host struct {
		ID          string    `json:"id"`
		PID         int       `json:"pid"`
		Version     string    `json:"version"`
		Started     time.Time `json:"started"`
		Containment string    `json:"containment"`
	} `json:"host"`
	Providers []providerStatus `json:"providers"`
}

type providerStatus struct {
	Name       string     `json:"name"`
	State      string     `json:"state"`
	Since      time.Time  `json:"since"`
	Reason     string     `json:"reason"`
	Restarts   int        `json:"restarts"`
	Noise      int        `json:"noise"`
	Generation int        `json:"generation"`
	NextStart  *time.Time `json:"next_start"`
	Instances  []struct {
		ID            string    `json:"id"`
		GuardPID      int       `json:"guard_pid"`
		PluginPID     int       `json:"plugin_pid"`
		Started       time.Time `json:"started"`
		Scope         string    `json:"scope"`
		Owner         string    `json:"owner"`
		CallsInFlight int       `json:"calls_in_flight"`
	} `json:"instances"`
	Exits []struct {
		Instance string    `json:"instance"`
		Time     time.Time `json:"time"`
		Code     int       `json:"code"`
		Signal   int       `json:"signal"`
		Asked    bool      `json:"asked"`
		Stderr   string    `json:"stderr"`
	} `json:"exits"`
}

// cli runs a command of the host to its end.
func cli(t testing.TB, p hosttest.Place, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := p.Command(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	err := cmd.Start()
	if err == nil {
		err = cmd.Wait()
	}
	timer.Stop()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// statusOf asks the host of a configuration.
func statusOf(t testing.TB, p hosttest.Place, path string) hostStatus {
	t.Helper()
	out, errs, code := cli(t, p, "status", "--json", "--config", path)
	if code != 0 {
		t.Fatalf("status: exit %d: %s", code, errs)
	}
	var s hostStatus
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		t.Fatalf("status: %v: %s", err, out)
	}
	return s
}

func (s hostStatus) provider(t testing.TB, name string) providerStatus {
	t.Helper()
	for _, p := range s.Providers {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("status names no provider %q: %+v", name, s)
	return providerStatus{}
}

// awaitStatus asks until a provider is as it should be.
func awaitStatus(t testing.TB, p hosttest.Place, path, name, what string, ok func(providerStatus) bool) providerStatus {
	t.Helper()
	var last providerStatus
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if last = statusOf(t, p, path).provider(t, name); ok(last) {
			return last
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v not %s: %+v", patience, what, last)
		}
	}
}

func isReady(s providerStatus) bool { return s.State == "ready" }

// serverOf is the fake server's process of the instance that is ready, as the
// machine's process table has it.
func serverOf(t testing.TB, p hosttest.Place, s providerStatus) hosttest.Process {
	t.Helper()
	for _, one := range p.Processes() {
		if len(s.Instances) == 1 && one.Mark == s.Instances[0].ID && strings.HasPrefix(one.Command, fakeserver.Build(t)) {
			return one
		}
	}
	t.Fatalf("no server of %+v", s)
	return hosttest.Process{}
}

// signal signals a process if it still is the one that carries the mark.
func signal(t testing.TB, p hosttest.Place, one hosttest.Process, sig syscall.Signal) {
	t.Helper()
	held, err := os.FindProcess(one.PID) // a pidfd: the pid cannot become another's
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Release() }()
	for _, again := range p.Processes() {
		if again.PID == one.PID && again.Mark == one.Mark {
			if err := held.Signal(sig); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("process %d of %s is gone", one.PID, one.Mark)
}

// zombies are the descendants of a process that nobody has waited for.
func zombies(t testing.TB, root int) []string {
	t.Helper()
	dir, err := os.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	entries, err := dir.Readdirnames(-1)
	if err != nil {
		t.Fatal(err)
	}
	parents, dead := map[int]int{}, map[int]string{}
	for _, name := range entries {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		parents[pid], _ = strconv.Atoi(fields[1])
		if fields[0] == "Z" {
			dead[pid] = string(text)
		}
	}
	var found []string
	for pid, text := range dead {
		for up := parents[pid]; up > 1; up = parents[up] {
			if up == root {
				found = append(found, text)
				break
			}
		}
	}
	return found
}

// TestC003_ExitsAreReapedAndRecorded: a server that is signalled from outside leaves
// no zombie, and status says how each one ended.
func TestC003_ExitsAreReapedAndRecorded(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		path := config(t, p, "", provider{name: "fake", body: `
  restart {
    intensity   = 20
    backoff     = "50ms"
    backoff_max = "50ms"
  }`})
		c := open(path)
		hosttest.CallTool(t, c, "fake_echo", "{}")
		for round := 1; round <= 10; round++ {
			ready := awaitStatus(t, p, path, "fake", "ready anew", func(s providerStatus) bool {
				return isReady(s) && len(s.Exits) == round-1
			})
			signal(t, p, serverOf(t, p, ready), syscall.SIGTERM)
			after := awaitStatus(t, p, path, "fake", "one exit more", func(s providerStatus) bool { return len(s.Exits) == round })
			exit := after.Exits[round-1]
			if exit.Signal != int(syscall.SIGTERM) || exit.Code != -1 || exit.Asked || exit.Instance != ready.Instances[0].ID {
				t.Errorf("round %d: %+v", round, exit)
			}
			gone := time.Now().Add(2 * 2 * time.Second)
			for left := zombies(t, c.host().PID()); len(left) > 0; left = zombies(t, c.host().PID()) {
				if time.Now().After(gone) {
					t.Fatalf("round %d: zombies: %v", round, left)
				}
			}
		}
		last := awaitStatus(t, p, path, "fake", "ready", isReady)
		if last.Restarts != 10 || last.Reason != "" || last.Generation != 1 {
			t.Errorf("%+v", last)
		}
	})
}

// TestC014_NoRespawnStorm: a slow start is waited for, and what exits at once comes
// back at pauses that double. The case counts six spawns in 30 s at a first pause of
// a second; here a second is a fifth of one.
func TestC014_NoRespawnStorm(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	path := config(t, p, "",
		provider{name: "slow", args: []string{"--init-delay", "3s"}, body: "  start = \"eager\"\n  limits {\n    start_timeout = \"10s\"\n  }"},
		provider{name: "exits", args: []string{"--exit-at-start", "1", "--stderr", "no licence"}, body: `
  start = "eager"
  restart {
    intensity   = 100
    backoff     = "200ms"
    backoff_max = "1h"
  }`})
	h := p.ServeHTTP(t, path)
	c := dial(t, h)
	spawns := func(name string) []fakeserver.Entry {
		return fakeserver.Dir(logged(t, p, name), fakeserver.DirStart)
	}
	awaitStatus(t, p, path, "exits", "in a crash loop", func(s providerStatus) bool {
		return s.State == "backoff" && s.Restarts >= 3 && s.NextStart != nil && time.Until(*s.NextStart) > 0 &&
			len(s.Exits) == s.Restarts+1 && s.Exits[0].Code == 1 && s.Exits[0].Stderr == "no licence" &&
			strings.HasPrefix(s.Reason, fmt.Sprintf("crash loop, %d restarts in a row: ", s.Restarts)) &&
			strings.Contains(s.Reason, "no licence")
	})
	out, _, code := cli(t, p, "status", "--config", path)
	if code != 0 || !strings.Contains(out, "crash loop") || !strings.Contains(out, "restarts in a row") {
		t.Errorf("exit %d: %s", code, out)
	}
	hosttest.CallTool(t, c, "slow_echo", "{}")
	first := spawns("exits")[0].T
	eventually(t, "six seconds are not over", func() bool { return time.Since(first) > 6*time.Second })
	in := 0
	for _, spawn := range spawns("exits") {
		if spawn.T.Sub(first) <= 6*time.Second {
			in++
		}
	}
	if in > 6 || in < 3 {
		t.Errorf("%d spawns in six seconds, want at most 6, and some", in)
	}
	if n := len(spawns("slow")); n != 1 {
		t.Errorf("the slow server was spawned %d times", n)
	}
	if s := statusOf(t, p, path).provider(t, "slow"); s.State != "ready" || s.Restarts != 0 || len(s.Exits) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestC016_ReadyMeansListed: a server that came back is ready when it has listed its
// tools again.
func TestC016_ReadyMeansListed(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		path := config(t, p, "", provider{name: "fake", args: []string{"--tools", "echo,inc,get", "--list-delay", "300ms"}})
		c := open(path)
		if got := names(t, c); len(got) != 3 {
			t.Fatalf("listed %v", got)
		}
		before := awaitStatus(t, p, path, "fake", "ready", isReady)
		signal(t, p, serverOf(t, p, before), syscall.SIGKILL)
		after := awaitStatus(t, p, path, "fake", "ready anew", func(s providerStatus) bool {
			return isReady(s) && s.Instances[0].ID != before.Instances[0].ID
		})
		if got := names(t, c); len(got) != 3 {
			t.Errorf("listed %v", got)
		}
		if n := len(after.Exits); n != 1 || after.Exits[0].Signal != int(syscall.SIGKILL) {
			t.Errorf("%+v", after.Exits)
		}
		log := logged(t, p, "fake")
		nonce := log[len(log)-1].Nonce
		var got []string
		for _, e := range fakeserver.Dir(log, fakeserver.DirIn) {
			if m := e.Message().Method; e.Nonce == nonce && m != "server/discover" {
				got = append(got, m)
				if m == "tools/list" && !e.T.Before(after.Since) {
					t.Errorf("ready at %v, and tools/list came at %v", after.Since, e.T)
				}
			}
		}
		want := []string{"initialize", "notifications/initialized", "tools/list"}
		if len(got) < len(want) || strings.Join(got[:3], " ") != strings.Join(want, " ") {
			t.Errorf("the new server got %v, want %v first", got, want)
		}
	})
}

// TestC018_CleanExitIsACrash: (a) an exit with code 0 that nobody asked for.
func TestC018_CleanExitIsACrash(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		path := config(t, p, "", provider{name: "fake", args: []string{"--exit-after-calls", "3"}})
		c := open(path)
		for range 3 {
			hosttest.CallTool(t, c, "fake_echo", "{}")
		}
		s := awaitStatus(t, p, path, "fake", "restarted", func(s providerStatus) bool { return isReady(s) && s.Restarts == 1 })
		if len(s.Exits) != 1 || s.Exits[0].Code != 0 || s.Exits[0].Signal != 0 || s.Exits[0].Asked {
			t.Errorf("%+v", s.Exits)
		}
		hosttest.CallTool(t, c, "fake_echo", "{}")
	})
}

// TestC037_CallEndsWithItsServer: a call whose answer can never come ends at once.
func TestC037_CallEndsWithItsServer(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		tool, args string
		// cause is what the error says of it.
		cause string
		// kill takes the plugin away under the call; stubborn is a server that does
		// not leave by itself.
		kill, stubborn bool
	}{
		"the server exits":      {tool: "fake_exit", args: `{"code":1,"stderr":"out of memory"}`, cause: "exited with code 1"},
		"it closes its output":  {tool: "fake_close_stdout", args: `{}`, cause: "killed by signal 9", stubborn: true},
		"the plugin is killed":  {tool: "fake_slow", args: `{"ms":60000}`, cause: "the plugin", kill: true},
		"the server is too":     {tool: "fake_exit", args: `{"kill":true}`, cause: "killed by signal 9"},
		"it exits with a child": {tool: "fake_exit", args: `{"code":4}`, cause: "exited with code 4"},
	}
	for name, one := range cases {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
				var args []string
				if one.stubborn {
					args = []string{"--ignore-eof", "--ignore-term"}
				}
				if name == "it exits with a child" {
					args = []string{"--child", "child", "--child-pipes"}
				}
				path := config(t, p, "", provider{name: "fake", args: args, body: "  limits {\n    call_timeout = \"60s\"\n    stop_grace = \"1s\"\n  }"})
				c := open(path)
				hosttest.CallTool(t, c, "fake_echo", "{}")
				before := awaitStatus(t, p, path, "fake", "ready", isReady)
				wait := c.begin(t, `"k"`, called(`"k"`, one.tool, one.args))
				waitCalls(t, p, "fake", 2)
				began := time.Now()
				if one.kill {
					if err := syscall.Kill(before.Instances[0].PluginPID, syscall.SIGKILL); err != nil {
						t.Error(err)
					}
				}
				e := errorOf(t, wait())
				ended := time.Now()
				if took := ended.Sub(began); took > 2*time.Second {
					t.Errorf("the call ended after %v", took)
				}
				if e.Data.Outcome != "unknown" || !e.Data.Dispatched || !strings.Contains(e.Message, `"fake"`) || !strings.Contains(e.Message, one.cause) {
					t.Errorf("%+v, want the cause %q", e, one.cause)
				}
				after := awaitStatus(t, p, path, "fake", "ready anew", func(s providerStatus) bool {
					return isReady(s) && s.Instances[0].ID != before.Instances[0].ID
				})
				if len(after.Exits) != 1 || after.Exits[0].Asked {
					t.Errorf("%+v", after.Exits)
				}
				for _, left := range p.Processes() {
					if left.Mark == before.Instances[0].ID {
						t.Errorf("of the old instance there is %d: %s", left.PID, left.Command)
					}
				}
				hosttest.CallTool(t, c, "fake_echo", "{}")
				want := []string{strings.TrimPrefix(one.tool, "fake_") + " unknown crashed sent"}
				if got := endings(t, p, path, "echo"); !slices.Equal(got, want) {
					t.Errorf("the journal has %q, want %q", got, want)
				}
			})
		})
	}
}

// TestC120_StatusSaysWhy: what the server said of itself is there within a second.
func TestC120_StatusSaysWhy(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		path := config(t, p, "", provider{
			name: "fake", args: []string{"--stderr", "Error: API_KEY is not set", "--exit-after", "200ms", "--exit-at-start", "3"},
			body: "  start = \"eager\"\n  limits {\n    start_timeout = \"30s\"\n  }",
		})
		open(path)
		s := awaitStatus(t, p, path, "fake", "failing", func(s providerStatus) bool { return s.Reason != "" && len(s.Exits) > 0 })
		for _, part := range []string{`"fake"`, "initialize", "code 3", "Error: API_KEY is not set", "providers.hcl:"} {
			if !strings.Contains(s.Reason, part) {
				t.Errorf("the reason does not say %q: %s", part, s.Reason)
			}
		}
		started := logged(t, p, "fake")[0].T
		if took := s.Exits[0].Time.Sub(started); took > 2*time.Second || s.Exits[0].Stderr != "Error: API_KEY is not set" {
			t.Errorf("after %v: %+v", took, s.Exits[0])
		}
	})
}

// TestFrozenServerIsUnhealthy: a server that lives and says nothing is ended like one
// that crashed, and the next call finds a new one.
func TestFrozenServerIsUnhealthy(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		path := config(t, p, "", provider{name: "fake", body: "  limits {\n    health_interval = \"1s\"\n  }\n  restart {\n    backoff = \"3s\"\n  }"})
		c := open(path)
		hosttest.CallTool(t, c, "fake_echo", "{}")
		waitLog(t, p, "fake", func(log []fakeserver.Entry) bool { return len(fakeserver.Method(log, "ping")) > 0 })
		before := awaitStatus(t, p, path, "fake", "ready", isReady)
		if before.Restarts != 0 {
			t.Fatalf("restarted while it answered: %+v", before)
		}
		signal(t, p, serverOf(t, p, before), syscall.SIGSTOP)
		after := awaitStatus(t, p, path, "fake", "unhealthy", func(s providerStatus) bool {
			return strings.Contains(s.Reason, "running: unhealthy: ") && strings.Contains(s.Reason, "providers.hcl:")
		})
		if len(after.Exits) > 1 || len(after.Exits) == 1 && after.Exits[0].Asked {
			t.Errorf("%+v", after.Exits)
		}
		hosttest.CallTool(t, c, "fake_echo", "{}")
	})
}

// TestStatusOfAReadyProvider: whose processes there are, and what goes on.
func TestStatusOfAReadyProvider(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		path := config(t, p, "", provider{name: "fake", args: []string{"--noise"}}, provider{name: "cold"})
		c := open(path)
		s := statusOf(t, p, path)
		if s.Host.PID != c.host().PID() || len(s.Host.ID) != 32 || s.Host.Started.IsZero() || s.Host.Containment == "" || s.Host.Version == "" {
			t.Errorf("%+v", s.Host)
		}
		hosttest.CallTool(t, c, "fake_echo", "{}")
		wait := c.begin(t, `"s"`, called(`"s"`, "fake_slow", `{"ms":60000}`))
		got := awaitStatus(t, p, path, "fake", "busy", func(s providerStatus) bool {
			return len(s.Instances) == 1 && s.Instances[0].CallsInFlight == 1
		})
		i := got.Instances[0]
		if !strings.HasPrefix(i.ID, s.Host.ID+"/fake/") || i.Scope != "principal" || i.Owner != "local" || got.Noise == 0 || got.NextStart != nil {
			t.Errorf("%+v", got)
		}
		pids := map[int]bool{}
		for _, one := range p.Processes() {
			pids[one.PID] = one.Mark == i.ID
		}
		if !pids[i.PluginPID] || i.GuardPID != 0 && !pids[i.GuardPID] || i.PluginPID == serverOf(t, p, got).PID {
			t.Errorf("guard %d, plugin %d, among %v", i.GuardPID, i.PluginPID, pids)
		}
		c.Notify(t, "notifications/cancelled", `{"requestId":"s"}`)
		if _, stdio := c.(overStdio); !stdio {
			wait() // over HTTP the cancelled request is answered; over stdio it is not
		}
	})
}
