//go:build linux

package crossing

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// definitionsOf writes what a server lists: each tool with its description.
func definitionsOf(t testing.TB, p hosttest.Place, tools ...string) string {
	t.Helper()
	var list []string
	for _, tool := range tools {
		name, says, _ := strings.Cut(tool, "=")
		list = append(list, `{"name":"`+name+`","description":"`+says+`","inputSchema":{"type":"object"}}`)
	}
	return p.Write(t, "tools.json", "["+strings.Join(list, ",")+"]")
}

// TestLocked: with locked = true, what nobody approved is neither listed nor run,
// a caller that was shown the approved definition is told that it is gone, and
// every attempt is written down. What is approved goes on while all runs.
func TestLocked(t *testing.T) {
	p := hosttest.NewPlace(t)
	file := definitionsOf(t, p, "pay=one", "get=one")
	fake := provider{name: "fake", args: []string{"--tools", "notify", "--tools-file", file}}
	path := config(t, p, "locked = true", fake)

	// Without a lock file a host that needs one does not start.
	if _, err := hosttest.Output(t, p.Command(t, "tools", "--config", path)); err == nil {
		t.Fatal("it started without the lock file that it needs")
	}
	if out, err := hosttest.Output(t, p.Command(t, "lock", "--config", path)); err != nil {
		t.Fatalf("lock: %v\n%s", err, out)
	}
	first, err := os.ReadFile(p.Path("providers.lock.hcl"))
	if err != nil {
		t.Fatal(err)
	}

	h := setting{}.http(t, p, path)
	c, other := dial(t, h), dial(t, h)
	if got := sees(t, c); got != "fake_get fake_notify fake_pay" {
		t.Fatalf("at first it sees %s", got)
	}

	// A definition changes, and a tool comes.
	definitionsOf(t, p, "pay=two", "get=one", "steal=one")
	hosttest.CallTool(t, other, "fake_notify", `{}`)
	eventually(t, "what is not approved is gone", func() bool { return sees(t, other) == "fake_get fake_notify" })

	// To who was not shown it, it is a tool that there is not.
	gone := other.Request(t, "tools/call", `{"name":"fake_steal","arguments":{}}`)
	none := other.Request(t, "tools/call", `{"name":"fake_nosuch","arguments":{}}`)
	if strings.ReplaceAll(string(gone.Error), "steal", "nosuch") != string(none.Error) {
		t.Errorf("quarantined: %s\nno such tool: %s", gone.Error, none.Error)
	}
	// To who was shown the approved definition it is gone, which is said once.
	for i, want := range []string{`"reason":"tool_gone"`, `"reason":"unknown_tool"`} {
		if r := c.Request(t, "tools/call", `{"name":"fake_pay","arguments":{}}`); !strings.Contains(string(r.Error), want) {
			t.Errorf("call %d of what was shown: %s, want %s", i+1, r.Error, want)
		}
	}
	hosttest.CallTool(t, c, "fake_get", `{}`) // what is approved runs
	if n := len(received(t, p, "fake")); n != 2 {
		t.Errorf("the server received %d calls, want those of notify and get", n)
	}
	if n := strings.Count(journalOf(t, p), `"quarantined"`); n < 3 {
		t.Errorf("%d quarantined attempts are in the journal, want 3:\n%s", n, journalOf(t, p))
	}

	// Approving does not need a restart.
	if out, err := hosttest.Output(t, p.Command(t, "lock", "--config", path)); err != nil {
		t.Fatalf("lock: %v\n%s", err, out)
	}
	hangUp(t, h.Run, taken)
	eventually(t, "the approved tools are there", func() bool {
		return sees(t, c) == "fake_get fake_notify fake_pay fake_steal"
	})

	// A lock file that is no good changes nothing, and the host says so.
	if err := os.WriteFile(p.Path("providers.lock.hcl"), first[:len(first)-4], 0o600); err != nil {
		t.Fatal(err)
	}
	hangUp(t, h.Run, refused)
	if got := sees(t, c); got != "fake_get fake_notify fake_pay fake_steal" {
		t.Errorf("after a lock file that is no good it sees %s", got)
	}
}

// sees are the names that a client is shown, in order.
func sees(t testing.TB, c hosttest.Client) string {
	t.Helper()
	all := names(t, c)
	slices.Sort(all)
	return strings.Join(all, " ")
}

// journalOf is all that the journals of a place's hosts hold.
func journalOf(t testing.TB, p hosttest.Place) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(p.Path("state"), "journal", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// TestRefusalsAreOnRecordWithoutArguments: who was refused what, and why, and nothing of
// what he wanted to hand over, whether denied, stale or quarantined.
func TestRefusalsAreOnRecordWithoutArguments(t *testing.T) {
	const marker = "argument-0123456789"
	for _, host := range []string{"locked = false", "locked = true"} {
		p := hosttest.NewPlace(t)
		file := definitionsOf(t, p, "pay=one")
		path := config(t, p, host, provider{name: "fake", args: []string{"--tools", "notify", "--tools-file", file}})
		if out, err := hosttest.Output(t, p.Command(t, "lock", "--config", path)); err != nil {
			t.Fatalf("lock: %v\n%s", err, out)
		}
		h := setting{flags: []string{"--log-level", "debug"}}.http(t, p, path)
		c := dial(t, h)
		shown := sees(t, c)
		definitionsOf(t, p, "pay=two", "steal=one")
		hosttest.CallTool(t, c, "fake_notify", `{}`)
		for _, name := range []string{"fake_pay", "fake_steal", "fake_nosuch", "nosuch"} {
			if name == "fake_steal" && host == "locked = false" {
				continue // there it is granted
			}
			r := c.Request(t, "tools/call", `{"name":"`+name+`","arguments":{"`+marker+`":"`+marker+`"},"_meta":{"x":"`+marker+`"}}`)
			if r.Error == nil {
				t.Errorf("%s: %s ran, where %s was shown: %s", host, name, shown, r.Result)
			}
		}
		var recorded []string
		for _, r := range denials(t, p) {
			if r.Outcome != "ok" {
				recorded = append(recorded, strings.Join([]string{r.Principal, r.Provider, r.Tool, r.Outcome, r.Reason}, " "))
			}
		}
		want := []string{"local fake pay stale definition_changed", "local  fake_nosuch denied unknown_tool", "local  nosuch denied unknown_tool"}
		if host == "locked = true" {
			want = []string{"local fake pay stale quarantined", "local fake steal denied quarantined", "local  fake_nosuch denied unknown_tool", "local  nosuch denied unknown_tool"}
		}
		if !slices.Equal(recorded, want) {
			t.Errorf("%s: on record are\n%s\nwant\n%s", host, strings.Join(recorded, "\n"), strings.Join(want, "\n"))
		}
		leave(t, c)
		for where, text := range map[string]string{"the journal": journalOf(t, p), "the log": h.Said()} {
			if strings.Contains(text, marker) {
				t.Errorf("%s: %s has an argument", host, where)
			}
		}
	}
}

// TestRefusedFilesLeaveTheLockFileOutToo: what is refused is refused whole, also where the
// lock file beside it is good and another.
func TestRefusedFilesLeaveTheLockFileOutToo(t *testing.T) {
	p := hosttest.NewPlace(t)
	file := definitionsOf(t, p, "pay=one")
	fake := provider{name: "fake", args: []string{"--tools", "notify", "--tools-file", file}}
	path := config(t, p, "locked = true", fake)
	lock := func() {
		if out, err := hosttest.Output(t, p.Command(t, "lock", "--config", path)); err != nil {
			t.Fatalf("lock: %v\n%s", err, out)
		}
	}
	lock()
	h := setting{}.http(t, p, path)
	c := dial(t, h)
	if got := sees(t, c); got != "fake_notify fake_pay" {
		t.Fatalf("at first it sees %s", got)
	}
	definitionsOf(t, p, "pay=one", "get=one")
	hosttest.CallTool(t, c, "fake_notify", `{}`)
	lock()
	config(t, p, "locked = true\n  page_size = 5", fake)
	hangUp(t, h.Run, refused)
	if got := sees(t, c); got != "fake_notify fake_pay" {
		t.Errorf("after files that were refused it sees %s", got)
	}
	// A lock file that is gone approves nothing, and changes nothing.
	config(t, p, "locked = true", fake)
	kept, err := os.ReadFile(p.Path("providers.lock.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []func() error{
		func() error { return os.Remove(p.Path("providers.lock.hcl")) },
		func() error { return os.Symlink("nowhere", p.Path("providers.lock.hcl")) },
	} {
		if err := gone(); err != nil {
			t.Fatal(err)
		}
		hangUp(t, h.Run, refused)
		if got := sees(t, c); got != "fake_notify fake_pay" {
			t.Errorf("without a lock file it sees %s", got)
		}
	}
	if err := os.Remove(p.Path("providers.lock.hcl")); err != nil {
		t.Fatal(err)
	}
	p.Write(t, "providers.lock.hcl", string(kept))
	hangUp(t, h.Run, taken)
	if got := sees(t, c); got != "fake_get fake_notify fake_pay" {
		t.Errorf("after files that were taken it sees %s", got)
	}
}
