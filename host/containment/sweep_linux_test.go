package containment

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// deadID is the id of a run that died before the tests began.
const deadID = "0123456789abcdef0123456789abcdef"

// bury puts a dead run with these records into a state dir.
func bury(t *testing.T, state string, records ...record) {
	t.Helper()
	dir := filepath.Join(state, runsDir, deadID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (runInfo{ID: deadID}).write(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+lockSuffix, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, r := range records {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("x-%d.json", i)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func buried(state string) []string {
	left, _ := filepath.Glob(filepath.Join(state, runsDir, deadID+"*"))
	return left
}

// deadRecord is a record of the dead run that names this process.
func deadRecord(t *testing.T, pid int) record {
	t.Helper()
	boot, namespace, err := system()
	if err != nil {
		t.Fatal(err)
	}
	r := record{
		Boot: boot, Namespace: namespace, Host: deadID, Instance: "x/1", Mark: deadID + "/x/1", Tier: TierSubreaper,
	}
	if pid > 0 {
		p, err := readProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		r.GuardPid, r.GuardStart = pid, p.start
	}
	return r
}

// stranger is a process that is not ours but for the test; with a mark it is a
// plugin of somebody.
func stranger(t *testing.T, mark string) *exec.Cmd {
	t.Helper()
	return startStranger(t, mark, nil)
}

func startStranger(t *testing.T, mark string, attributes *syscall.SysProcAttr) *exec.Cmd {
	t.Helper()
	c := &exec.Cmd{Path: "/proc/self/exe", Args: []string{rolePrefix + "child"}, Env: []string{"A=1"}, SysProcAttr: attributes}
	if mark != "" {
		c.Env = append(c.Env, MarkEnv+"="+mark)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c
}

func lives(pid int) bool {
	p, err := readProcess(pid)
	return err == nil && p.alive()
}

func sweepIt(t *testing.T, state string) Report {
	t.Helper()
	report, err := Sweep(context.Background(), state)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestSweepEndsWhatADeadRunLeft(t *testing.T) {
	state := t.TempDir()
	guard, below := stranger(t, deadID+"/x/1"), stranger(t, deadID+"/x/1")
	other := stranger(t, deadID+"/y/7") // its record was being written when the machine lost power, say
	bury(t, state, deadRecord(t, guard.Process.Pid))
	report := sweepIt(t, state)
	for _, c := range []*exec.Cmd{guard, below, other} {
		// It has its SIGKILL; on a busy machine it takes a moment to be over.
		for end := time.Now().Add(limit); lives(c.Process.Pid); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("process %d lives", c.Process.Pid)
			}
		}
	}
	if len(report.Ended) != 3 || len(report.Left) != 0 || !slices.Equal(report.Runs, []string{deadID}) {
		t.Errorf("report %+v", report)
	}
	if left := buried(state); len(left) > 0 {
		t.Errorf("on disk: %v", left)
	}
	if again := sweepIt(t, state); !cmp.Equal(again, Report{}) {
		t.Errorf("a second sweep finds %+v", again)
	}
}

// What does not match in every respect is nobody of ours.
func TestSweepLeavesStrangersAlone(t *testing.T) {
	for name, test := range map[string]struct {
		mark   string // the process's
		change func(*record)
		why    string // in the report; "" if there is nothing to report
		kept   bool   // the run stays on disk
	}{
		"recycled pid":      {change: func(r *record) { r.GuardStart-- }, why: "started at another time"},
		"without the mark":  {why: "does not carry the mark"},
		"another's mark":    {mark: "ffffffffffffffffffffffffffffffff/x/1", why: "does not carry the mark"},
		"another boot":      {change: func(r *record) { r.Boot = "another" }},
		"another namespace": {change: func(r *record) { r.Namespace = "pid:[1]" }, why: "another PID namespace", kept: true},
		"another run": {
			change: func(r *record) {
				r.Mark, r.Host = "ffffffffffffffffffffffffffffffff/x/1", "ffffffffffffffffffffffffffffffff"
			},
			why: "of another run",
		},
		"no guard yet": {change: func(r *record) { r.GuardPid = 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			c := stranger(t, test.mark)
			r := deadRecord(t, c.Process.Pid)
			if test.change != nil {
				test.change(&r)
			}
			bury(t, state, r)
			report := sweepIt(t, state)
			if !lives(c.Process.Pid) {
				t.Error("the stranger was killed")
			}
			var why []string
			for _, f := range report.Left {
				why = append(why, f.Why)
			}
			if len(report.Ended) > 0 || !strings.Contains(strings.Join(why, "\n"), test.why) || (test.why == "") != (len(why) == 0) {
				t.Errorf("report %+v", report)
			}
			if kept := len(buried(state)) > 0; kept != test.kept {
				t.Errorf("on disk: %v", buried(state))
			}
		})
	}
}

// A mark of another boot names nobody: the ids of runs are never used again, but
// the record says that nothing of it can be there.
func TestSweepOfAnotherBootLooksForNobody(t *testing.T) {
	state := t.TempDir()
	c := stranger(t, deadID+"/x/1")
	r := deadRecord(t, c.Process.Pid)
	r.Boot = "another"
	bury(t, state, r)
	if report := sweepIt(t, state); len(report.Ended) > 0 || !lives(c.Process.Pid) {
		t.Errorf("report %+v", report)
	}
}

func TestSweepReportsWhatItCannotRead(t *testing.T) {
	state := t.TempDir()
	bury(t, state)
	if err := os.WriteFile(filepath.Join(state, runsDir, deadID, "x-1.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	report := sweepIt(t, state)
	if len(report.Left) != 1 || !strings.Contains(report.Left[0].Why, "x-1.json") {
		t.Errorf("report %+v", report)
	}
}

// A host that runs below a server of a dead host does not end itself.
func TestSweepSparesItself(t *testing.T) {
	p := newPlace(t, os.Getuid())
	bury(t, p.state, deadRecord(t, 0))
	h := p.host(t, func(c *hostConfig) { c.Tier, c.Plugin, c.mark = TierPGroup, []string{"wait"}, deadID+"/x/1" })
	h.expect("spawned")
	h.end(p)
}

func TestSweepLeavesLivingRunsAlone(t *testing.T) {
	run := newRun(t)
	state := filepath.Dir(filepath.Dir(run.dir))
	c := stranger(t, run.ID()+"/x/1")
	f, err := run.begin(run.ID()+"/x/1", TierSubreaper)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.started(c.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if report := sweepIt(t, state); !cmp.Equal(report, Report{}) || !lives(c.Process.Pid) {
		t.Errorf("report %+v", report)
	}
	if _, err := os.Stat(f.path); err != nil {
		t.Error(err)
	}
	if err := f.remove(); err != nil {
		t.Error(err)
	}
}

// A run that died while it was created leaves a directory without a lock, or a lock
// with its first name.
func TestSweepOfHalfARun(t *testing.T) {
	state := t.TempDir()
	bury(t, state)
	if err := os.Rename(filepath.Join(state, runsDir, deadID+lockSuffix), filepath.Join(state, runsDir, deadID+lockSuffix+newSuffix)); err != nil {
		t.Fatal(err)
	}
	if report := sweepIt(t, state); !slices.Equal(report.Runs, []string{deadID}) {
		t.Errorf("report %+v", report)
	}
	if left := buried(state); len(left) > 0 {
		t.Errorf("on disk: %v", left)
	}
}

// C008: a host that dies and starts again does not touch the plugins of another,
// on the same state dir or on another.
func TestC008_AnotherHostsPluginsAreUntouched(t *testing.T) {
	for _, tier := range []Tier{TierPIDNS, TierSubreaper} {
		t.Run(string(tier), func(t *testing.T) {
			needTier(t, tier)
			p, q := newPlace(t, os.Getuid()), newPlace(t, os.Getuid())
			use := func(c *hostConfig) { c.Tier = tier }
			same, other, victim := p.host(t, use), q.host(t, use), p.host(t, use)
			for _, h := range []*testHostProcess{same, other, victim} {
				h.expect("spawned")
				h.wholeTree(p, false)
			}
			before := append(withMark(same.id), withMark(other.id)...)
			guard := roles(victim.id)["guard"][0]
			guard.send(t, syscall.SIGKILL)
			victim.kill()
			again := p.host(t, use)
			again.expect("spawned")
			again.wholeTree(p, false)
			if left := p.survivors(victim.id, false); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			after := append(withMark(same.id), withMark(other.id)...)
			if diff := cmp.Diff(before, after, cmp.AllowUnexported(entry{})); diff != "" {
				t.Errorf("another host's processes (-before +after):\n%s", diff)
			}
			for _, h := range []*testHostProcess{same, again} {
				h.end(p)
			}
			other.end(q)
		})
	}
}

// Hosts that start and die at once on one state dir sweep what is dead and nothing
// that lives. The tier is the one that leaves something to sweep.
func TestHostsThatStartAndDieAtOnce(t *testing.T) {
	needTier(t, TierSubreaper)
	const hosts = 3
	p := newPlace(t, os.Getuid())
	var ids []string
	for range 5 * rounds(t) {
		var started [hosts]*testHostProcess
		var wait sync.WaitGroup
		for i := range hosts {
			wait.Go(func() {
				started[i] = p.host(t, func(c *hostConfig) { c.Tier, c.Plugin = TierSubreaper, []string{"family"} })
				started[i].expect("spawned")
			})
		}
		wait.Wait()
		if t.Failed() {
			t.FailNow()
		}
		var guards []entry
		for _, h := range started {
			for _, f := range h.swept.Ended {
				if host, _ := splitMark(f.Mark); !slices.Contains(ids, host) {
					t.Errorf("a host that lives was swept: %+v", f)
				}
			}
			waitFor(t, "a living host's family", func() bool { return len(withMark(h.id)) == 3 })
			guards = append(guards, roles(h.id)["guard"]...)
		}
		for i, h := range started {
			guards[i].send(t, syscall.SIGKILL)
			_ = h.cmd.Process.Kill()
		}
		for _, h := range started {
			h.kill()
			ids = append(ids, h.id)
		}
	}
	last := p.host(t, func(c *hostConfig) { c.Trees = 0 })
	for _, id := range ids {
		if left := p.survivors(id, false); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
	last.end(p)
	left, _ := os.ReadDir(filepath.Join(p.state, runsDir))
	if len(left) != 1 {
		t.Errorf("on disk: %v", left)
	}
	if left, _ := os.ReadDir(p.sockets); len(left) > 0 {
		t.Errorf("sockets: %v", left)
	}
}
