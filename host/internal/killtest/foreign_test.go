//go:build linux

package killtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pid that a dead host's record names, and that is another's by now, ends nobody:
// not a program of the user's, not the user's own server of the same command, not
// the guard or the host of another on the same state dir or on another.
func TestRecordedPidIsAnothersNow(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p place, flags ...string) {
		server := []string{"--life", "5m"}
		same := p.serve(t, p.config(t, "same.hcl", provider{"p", server, restarts}), flags...).ready(t, p)
		elsewhere := p.serve(t, p.configAt(t, "elsewhere.hcl", "elsewhere", provider{"p", server, restarts}), flags...)
		elsewhere.await(t, "initialize", elsewhere.hello())
		own := p.command(fake(), server...)
		if _, err := own.StdinPipe(); err != nil { // which stays open
			t.Fatal(err)
		}
		spared := []entry{
			p.stranger(t, "a program", p.command("/bin/sleep", "300")),
			p.stranger(t, "the user's own server", own),
		}
		for _, h := range []*host{same, elsewhere} {
			h.echo(t)
			spared = append(spared, entry{pid: h.pid(), start: h.start, role: "host"})
			tree := childrenOf(h)
			if len(tree) != 3 {
				t.Fatalf("of a host there are %v", tree)
			}
			spared = append(spared, tree...)
		}
		config := p.config(t, "c.hcl", provider{"p", server, restarts})
		dead := p.serve(t, config, flags...).ready(t, p, same)
		dead.echo(t)
		dead.kill(t)
		if !within(orphanLimit, func() bool { return len(twice(dead.id)) == 0 }) {
			t.Fatalf("left: %v", marked(dead.id))
		}
		p.forge(t, dead.id, spared)

		next := p.serve(t, config, flags...).ready(t, p, same, dead)
		next.echo(t)
		for _, e := range spared {
			if !e.lives() {
				t.Errorf("%v was touched", e)
			}
			for _, why := range []string{"started at another time", "does not carry the mark"} {
				if !said(next, fmt.Sprintf("pid=%d ", e.pid), why) {
					t.Errorf("of %v the log does not say that it %s", e, why)
				}
			}
		}
		if runs := p.runs(); len(runs) != 2 {
			t.Errorf("runs: %v", runs)
		}
		for _, h := range []*host{next, same, elsewhere} {
			h.echo(t)
			h.stop(t)
		}
	})
}

// forge puts into a dead run what it would have left, had its guards' pids been used
// again since: each of these with the time of start that was recorded, and with the
// time of its own.
func (p place) forge(t *testing.T, run string, others []entry) {
	t.Helper()
	dir := filepath.Join(p.path("state/runs"), run)
	text, err := os.ReadFile(filepath.Join(dir, "p-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	var real map[string]any
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	if err := numbers.Decode(&real); err != nil {
		t.Fatal(err)
	}
	if real["guard_pid"] == nil || real["guard_start"] == nil {
		t.Fatalf("a record is %s", text)
	}
	for i, other := range others {
		for j, start := range []any{real["guard_start"], json.Number(other.start)} {
			forged := maps.Clone(real)
			forged["guard_pid"], forged["guard_start"] = other.pid, start
			text, err := json.Marshal(forged)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, fmt.Sprintf("p-%d.json", 10*(i+1)+j))
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// stranger starts a process that no host knows of, for as long as the test lasts.
func (p place) stranger(t *testing.T, role string, cmd *exec.Cmd) entry {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
	})
	return entry{pid: cmd.Process.Pid, start: readStat(cmd.Process.Pid).start, role: role}
}

// childrenOf are the processes of a host's instances, found by the guards that are
// its children.
func childrenOf(h *host) (tree []entry) {
	for _, e := range marked("") {
		if e.role == "guard" && readStat(e.pid).parent == h.pid() {
			tree = append(tree, instance(e.mark)...)
		}
	}
	return tree
}

// said says whether a line of a host's log has all of these.
func said(h *host, parts ...string) bool {
line:
	for line := range strings.Lines(h.stderr()) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue line
			}
		}
		return true
	}
	return false
}
