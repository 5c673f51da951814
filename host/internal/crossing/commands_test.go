//go:build linux

package crossing

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// freshNotice is what a command says that started servers of its own.
const freshNotice = "fresh servers were started"

// TestCommandsShareTheSession: `call` and `tools` go to the servers that clients use,
// and to servers of their own only where no host of this configuration runs.
func TestCommandsShareTheSession(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		path := config(t, p, "", provider{name: "fake"})
		c := open(path)
		hosttest.CallTool(t, c, "fake_inc", "{}")
		hosttest.CallTool(t, c, "fake_inc", "{}")
		out, errs, code := cli(t, p, "call", "fake", "get", "--config", path)
		if code != 0 || strings.TrimSpace(out) != "2" || strings.Contains(errs, freshNotice) {
			t.Errorf("exit %d: %q, %s", code, out, errs)
		}
		// Another name of the same configuration.
		link := p.Path("link.hcl")
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		out, errs, code = cli(t, p, "tools", "--json", "--config", link)
		var list struct {
			Tools []struct{ Name string } `json:"tools"`
		}
		if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || strings.Contains(errs, freshNotice) {
			t.Fatalf("exit %d: %v, %s", code, err, errs)
		}
		var listed []string
		for _, one := range list.Tools {
			listed = append(listed, one.Name)
		}
		if want := names(t, c); strings.Join(listed, " ") != strings.Join(want, " ") {
			t.Errorf("tools prints %v, clients see %v", listed, want)
		}
		// The answer, error or not, is the one that clients get, and so is the exit code.
		if _, _, code = cli(t, p, "call", "fake", "tool_error", "--config", path); code != 3 {
			t.Errorf("a tool's own error: exit %d", code)
		}
		if _, errs, code = cli(t, p, "call", "fake", "nothing", "--config", path); code != 1 || !strings.Contains(errs, "no such tool") {
			t.Errorf("no such tool: exit %d: %s", code, errs)
		}
		if n := starts(logged(t, p, "fake")); n != 1 {
			t.Errorf("%d servers were started", n)
		}
		// A host of another configuration is none of this one.
		other := p.Write(t, "other.hcl", hostBlock(p, "")+blocks(t, p, provider{name: "fake"}))
		out, errs, code = cli(t, p, "call", "fake", "get", "--config", other)
		if code != 0 || strings.TrimSpace(out) != "0" || !strings.Contains(errs, freshNotice) {
			t.Errorf("exit %d: %q, %s", code, out, errs)
		}
	})
}

// TestWhichHostIsMeant: the one that serves HTTP, else the only one, else the one
// that --host names.
func TestWhichHostIsMeant(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	path := config(t, p, "", provider{name: "fake"})
	_, errs, code := cli(t, p, "status", "--config", path)
	if code != 1 || !strings.Contains(errs, "no host is running") {
		t.Errorf("without a host: exit %d: %s", code, errs)
	}
	first := setting{}.stdio(t, p, path)
	one := statusOf(t, p, path)
	if one.Host.PID != first.host().PID() {
		t.Errorf("the only one is %d, asked was %d", first.host().PID(), one.Host.PID)
	}
	second := setting{}.stdio(t, p, path)
	for _, args := range [][]string{{"status"}, {"tools"}, {"call", "fake", "get"}, {"restart", "fake"}} {
		_, errs, code = cli(t, p, append(args, "--config", path)...)
		if code != 1 || !strings.Contains(errs, "--host") || !strings.Contains(errs, one.Host.ID) ||
			!strings.Contains(errs, fmt.Sprintf("pid %d", second.host().PID())) {
			t.Errorf("%v with two hosts: exit %d: %s", args, code, errs)
		}
	}
	out, errs, code := cli(t, p, "call", "fake", "inc", "--host", one.Host.ID[:8])
	if code != 0 || strings.TrimSpace(out) != "1" {
		t.Errorf("--host: exit %d: %s%s", code, out, errs)
	}
	if got := textOf(t, tool(t, first, "fake_get", "{}")); got != "1" {
		t.Errorf("the host that was named has counted to %q", got)
	}
	_, errs, code = cli(t, p, "status", "--host", "nonsense")
	if code != 1 || !strings.Contains(errs, `begins with "nonsense"`) {
		t.Errorf("no such host: exit %d: %s", code, errs)
	}
	h := p.ServeHTTP(t, path)
	if s := statusOf(t, p, path); s.Host.PID != h.PID() {
		t.Errorf("asked was %d, not the one that serves HTTP", s.Host.PID)
	}
}

// TestRestart: a provider gets a new server in whatever state it is.
func TestRestart(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		script := fmt.Sprintf("test -e %s && exec %s --life 5m; echo not yet >&2; exit 4", p.Path("ok"), fakeserver.Build(t))
		path := p.Write(t, "providers.hcl", hostBlock(p, "")+blocks(t, p, provider{name: "fake"})+fmt.Sprintf(`
provider "gated" {
  plugin = "stdio"
  config {
    command = "/bin/sh"
    args    = ["-c", %s]
  }
  restart {
    intensity = 0
    cooldown  = "1h"
  }
}
`, quote(script)))
		c := open(path)

		// Ready: a call in flight ends, and the next reaches the new server.
		hosttest.CallTool(t, c, "fake_inc", "{}")
		before := statusOf(t, p, path).provider(t, "fake")
		wait := c.begin(t, `"r"`, called(`"r"`, "fake_slow", `{"ms":500}`))
		waitCalls(t, p, "fake", 2)
		out, errs, code := cli(t, p, "restart", "fake", "--config", path)
		if code != 0 || !strings.HasPrefix(out, "fake is ready: ") {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
		textOf(t, wait())
		if got := textOf(t, tool(t, c, "fake_get", "{}")); got != "0" {
			t.Errorf("the new server has counted to %q", got)
		}
		s := statusOf(t, p, path).provider(t, "fake")
		if s.Restarts != 0 || len(s.Exits) != 1 || !s.Exits[0].Asked || s.Exits[0].Instance != before.Instances[0].ID || s.Instances[0].ID == before.Instances[0].ID {
			t.Errorf("%+v", s)
		}

		// Failed: at once, whatever the cooldown.
		errorOf(t, tool(t, c, "gated_echo", "{}"))
		failed := awaitStatus(t, p, path, "gated", "failed", func(s providerStatus) bool { return s.State == "failed" })
		if failed.NextStart == nil || time.Until(*failed.NextStart) < 50*time.Minute {
			t.Errorf("%+v", failed)
		}
		_, errs, code = cli(t, p, "restart", "gated", "--config", path)
		if code != 1 || !strings.Contains(errs, "code 4: not yet") || !strings.Contains(errs, "providers.hcl:") {
			t.Errorf("still broken: exit %d: %s", code, errs)
		}
		p.Write(t, "ok", "")
		if out, errs, code = cli(t, p, "restart", "gated", "--json", "--config", path); code != 0 {
			t.Errorf("exit %d: %s", code, errs)
		}
		var now providerStatus
		if err := json.Unmarshal([]byte(out), &now); err != nil || now.State != "ready" || now.Name != "gated" || now.Restarts != 0 || len(now.Exits) != 2 {
			t.Errorf("%v: %s", err, out)
		}
		hosttest.CallTool(t, c, "gated_echo", "{}")

		_, errs, code = cli(t, p, "restart", "nobody", "--config", path)
		if code != 1 || !strings.Contains(errs, `no such provider "nobody"`) {
			t.Errorf("exit %d: %s", code, errs)
		}
	})
}

// TestLogs: what servers wrote is there with a host and without, and can be followed
// across the end of a host and the start of the next.
func TestLogs(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	path := config(t, p, "", provider{name: "My Fake", args: []string{"--stderr", "good morning"}})
	c := setting{}.stdio(t, p, path)
	hosttest.CallTool(t, c, "my-fake_log", `{"text":"one"}`)
	hosttest.CallTool(t, c, "my-fake_log", `{"text":"two"}`)
	logs := func(args ...string) string {
		t.Helper()
		out, errs, code := cli(t, p, append([]string{"logs", "--config", path}, args...)...)
		if code != 0 {
			t.Errorf("logs %v: exit %d: %s", args, code, errs)
		}
		return out
	}
	eventually(t, "two is not in the log", func() bool { return strings.Contains(logs("my-fake"), " #1 two\n") })
	all := logs("My Fake", "-n", "-1")
	if lines := strings.Split(strings.TrimSpace(all), "\n"); len(lines) != 3 || !strings.HasSuffix(lines[0], " #1 good morning") {
		t.Errorf("%s", all)
	}
	if got := logs("my-fake", "-n", "1"); strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, " #1 two\n") {
		t.Errorf("%q", got)
	}
	file := filepath.Join(p.Path("state"), "logs", "my-fake.log")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}

	cmd := p.Command(t, "logs", "-f", "-n", "1", "my-fake", "--config", path)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(pipe)
	next := func(want string) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if strings.HasSuffix(line, want+"\n") {
				return
			}
			if err != nil {
				t.Fatalf("followed to %q, %v; want %q", line, err, want)
			}
		}
	}
	stop := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	next("two")
	hosttest.CallTool(t, c, "my-fake_log", `{"text":"three"}`)
	next("three")
	c.Close(t)
	if got := logs("my-fake", "-n", "1"); !strings.HasSuffix(got, " #1 three\n") {
		t.Errorf("without a host: %q", got)
	}
	again := setting{}.stdio(t, p, path)
	hosttest.CallTool(t, again, "my-fake_log", `{"text":"four"}`)
	next("four")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the end of -f: %v", err)
	}
	_, errs, code := cli(t, p, "logs", "nobody", "--config", path)
	if code != 1 || !strings.Contains(errs, `no log of a provider "nobody"`) {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestStrangerGivesNoCommands: a provider's server cannot use the command socket of
// its host: not as it is, not without its mark, not detached.
func TestStrangerGivesNoCommands(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]setting{
		"the best tier": {},
		"subreaper":     {flags: []string{"--containment-tier", "subreaper"}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			p := hosttest.NewPlace(t)
			command := fmt.Sprintf("%s restart other --config %s", filepath.Join(hosttest.Build(t), "drawbridge"), p.Path("providers.hcl"))
			out := func(variant string) string { return p.Path("stranger-" + variant) }
			script := strings.Join([]string{
				command + " >" + out("marked") + " 2>&1",
				"env -i " + command + " >" + out("scrubbed") + " 2>&1",
				// Started twice removed, in a session of its own, with nothing of its
				// parents left.
				fmt.Sprintf("(me=$(exec sh -c 'echo $PPID'); env -i ME=$me setsid sh -c 'while kill -0 $ME 2>/dev/null; do sleep 0.02; done; %s >%s 2>&1; echo done >>%s' &)", command, out("orphan"), out("orphan")),
				"exec " + fakeserver.Build(t) + " --life 5m",
			}, "\n")
			path := p.Write(t, "providers.hcl", hostBlock(p, "")+blocks(t, p, provider{name: "other"})+fmt.Sprintf(`
provider "stranger" {
  plugin = "stdio"
  config {
    command = "/bin/sh"
    args    = ["-c", %s]
  }
}
`, quote(script)))
			c := dial(t, s.http(t, p, path))
			hosttest.CallTool(t, c, "other_inc", "{}")
			before := statusOf(t, p, path).provider(t, "other")
			hosttest.CallTool(t, c, "stranger_echo", "{}")
			eventually(t, "the orphan is not done", func() bool {
				text, err := os.ReadFile(out("orphan"))
				return err == nil && strings.HasSuffix(string(text), "done\n")
			})
			for _, variant := range []string{"marked", "scrubbed", "orphan"} {
				text, err := os.ReadFile(out(variant))
				if err != nil || !strings.Contains(string(text), "the host takes no commands from this process") {
					t.Errorf("%s: %s, %v", variant, text, err)
				}
			}
			after := statusOf(t, p, path).provider(t, "other")
			if len(after.Exits) != 0 || after.Instances[0].ID != before.Instances[0].ID {
				t.Errorf("restarted: %+v", after)
			}
			if got := textOf(t, tool(t, c, "other_get", "{}")); got != "1" {
				t.Errorf("counted to %q", got)
			}
		})
	}
}

// TestStatusSaysWhyNoBetterTier: a host that is not held as well as it could be says
// so, with the reason.
func TestStatusSaysWhyNoBetterTier(t *testing.T) {
	p := hosttest.NewPlace(t)
	path := config(t, p, "", provider{name: "fake"})
	setting{flags: []string{"--containment-tier", "subreaper"}}.stdio(t, p, path)
	eventually(t, "the host answers", func() bool {
		out, _, code := cli(t, p, "status", "--config", path)
		if code != 0 {
			return false
		}
		says(t, "status", out, "containment subreaper\n", "no better containment: subreaper was asked for\n")
		return true
	})
}
