package containment

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// eachTier runs a test in every tier that works here, as this user.
func eachTier(t *testing.T, test func(t *testing.T, g *Guarded, run *Run)) {
	for _, tier := range []Tier{TierPIDNS, TierSubreaper, TierPGroup} {
		t.Run(string(tier), func(t *testing.T) {
			needTier(t, tier)
			run := newRun(t)
			g := open(t, tier, run)
			test(t, g, run)
		})
	}
}

// open opens a container in this process, which is what it was again when the test
// ends: as a subreaper it would take in what hosts of later tests leave.
func open(t *testing.T, tier Tier, run *Run) *Guarded {
	t.Helper()
	g, err := Open(Options{Use: tier, Run: run})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); err != nil {
			t.Error(err)
		}
	})
	return g
}

func needTier(t *testing.T, tier Tier) {
	t.Helper()
	if _, err := ProbeTier(tier); err != nil {
		if !errors.Is(err, ErrUnsupported) {
			t.Fatal(err)
		}
		t.Skip(err) // TestProbeAgreesWithTheKernel fails if that is not so
	}
}

func newRun(t *testing.T) *Run {
	t.Helper()
	run, err := NewRun(context.Background(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
		left, _ := filepath.Glob(filepath.Join(filepath.Dir(run.dir), "*"))
		if len(left) > 1 { // runs.lock
			t.Errorf("a closed run leaves %v", left)
		}
	})
	return run
}

// roleCommand is the command of a role.
func roleCommand(run *Run, role string) Command {
	return Command{
		Path: "/proc/self/exe", Args: []string{rolePrefix + role}, Token: "secret",
		Env: []string{MarkEnv + "=" + run.ID() + "/test/1", "PATH=" + os.Getenv("PATH")},
	}
}

// spawnRole starts a role in a container.
func spawnRole(t *testing.T, g *Guarded, run *Run, role string, change ...func(*Command)) (GuardTree, *bufio.Reader) {
	t.Helper()
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := roleCommand(run, role)
	c.Stdout, c.Stderr = w, os.Stderr
	for _, f := range change {
		f(&c)
	}
	tree, err := g.Spawn(c)
	w.Close()
	if err != nil {
		out.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tree.Kill()
		await(t, tree)
		out.Close()
	})
	return tree.(GuardTree), bufio.NewReader(out)
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	text, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("read %q: %v", text, err)
	}
	return strings.TrimSuffix(text, "\n")
}

func TestTokenComesFirstAndInputStaysOpen(t *testing.T) {
	eachTier(t, func(t *testing.T, g *Guarded, run *Run) {
		tree, out := spawnRole(t, g, run, "token")
		if got := line(t, out); got != `"secret\n"` {
			t.Errorf("first line %s", got)
		}
		select {
		case <-tree.Done():
			t.Error("the plugin's input ended by itself")
		default:
		}
	})
}

func TestExitStatusIsThePlugins(t *testing.T) {
	for role, want := range map[string]Exit{
		"exit7": {Code: 7},
		"abort": {Code: -1, Signal: int(syscall.SIGTERM)},
		"heir":  {Code: 0},
	} {
		t.Run(role, func(t *testing.T) {
			eachTier(t, func(t *testing.T, g *Guarded, run *Run) {
				tree, out := spawnRole(t, g, run, role)
				await(t, tree)
				if got := tree.Exit(); got != want {
					t.Errorf("exit %+v, want %+v", got, want)
				}
				if tree.Lost() {
					t.Error("the guard counts as killed")
				}
				// The output ends with the tree: nobody holds it who should not.
				if rest, err := out.ReadString('\n'); rest != "" || err == nil {
					t.Errorf("output goes on: %q, %v", rest, err)
				}
				if left := withMark(run.ID()); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
				if err := tree.Terminate(); !errors.Is(err, ErrGone) {
					t.Errorf("terminate after the end: %v", err)
				}
				tree.Kill()
			})
		})
	}
}

func TestTerminateReachesTheWholeTree(t *testing.T) {
	eachTier(t, func(t *testing.T, g *Guarded, run *Run) {
		tree, out := spawnRole(t, g, run, "polite")
		if got := line(t, out); got != "ready" {
			t.Fatalf("the plugin's child says %q", got)
		}
		if err := tree.Terminate(); err != nil {
			t.Fatal(err)
		}
		if got := line(t, out); got != "told 6" {
			t.Errorf("the plugin says %q", got)
		}
		await(t, tree)
		if got := tree.Exit(); got.Code != 5 {
			t.Errorf("exit %+v", got)
		}
	})
}

func TestGuardIsDeafToSignals(t *testing.T) {
	eachTier(t, func(t *testing.T, g *Guarded, run *Run) {
		tree, out := spawnRole(t, g, run, "wait")
		if got := line(t, out); got != "ready" {
			t.Fatal(got)
		}
		guard, err := os.FindProcess(tree.GuardPID())
		if err != nil {
			t.Fatal(err)
		}
		defer guard.Release()
		for _, sig := range []syscall.Signal{
			syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGALRM,
			syscall.SIGTSTP, syscall.SIGPIPE, syscall.SIGCHLD,
		} {
			if err := guard.Signal(sig); err != nil {
				t.Fatalf("%v: %v", sig, err)
			}
		}
		// It still does its work, and the plugin was not reached.
		select {
		case <-tree.Done():
			t.Error("a signal ended the guard")
		case <-time.After(50 * time.Millisecond):
		}
		tree.Kill()
		await(t, tree)
		if got := tree.Exit(); got.Signal != int(syscall.SIGKILL) || tree.Lost() {
			t.Errorf("exit %+v, lost %v", got, tree.Lost())
		}
	})
}

// birth is what a plugin finds.
type birth struct {
	Status     map[string]string
	Pid, UID   int
	Self       string
	Files      map[string]string // number to what it is
	Env, Args  []string
	Visible    int
	Executable string
}

func TestWhatAPluginIsBornWith(t *testing.T) {
	inherited := filepath.Join(t.TempDir(), "inherited")
	if err := os.WriteFile(inherited, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Open(inherited, syscall.O_RDONLY, 0) // without close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	eachTier(t, func(t *testing.T, g *Guarded, run *Run) {
		_, out := spawnRole(t, g, run, "show", func(c *Command) { c.Env = append(c.Env, "A=1") })
		var b birth
		if err := json.Unmarshal([]byte(line(t, out)), &b); err != nil {
			t.Fatal(err)
		}
		checkBirth(t, b, g.Support(), run)
	})
}

func checkBirth(t *testing.T, b birth, support Support, run *Run) {
	t.Helper()
	// Besides its three a Go program opens files of /proc and /sys: not the lifeline,
	// not the status pipe, nothing of what the host was started with.
	for number, file := range b.Files {
		if number > "2" && (strings.Contains(file, "pipe:") || strings.Contains(file, "inherited")) {
			t.Errorf("open file %s: %s", number, file)
		}
	}
	wantEnv := append([]string{"PATH=" + os.Getenv("PATH"), "A=1"}, raceEnv...)
	wantEnv = append(wantEnv, MarkEnv+"="+run.ID()+"/test/1")
	if diff := cmp.Diff(wantEnv, b.Env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if b.UID != os.Getuid() {
		t.Errorf("uid %d", b.UID)
	}
	// What the guard is deaf to, the plugin hears. What this process was started deaf
	// to (a parent that uses posix_spawn ignores two of the C library's own signals)
	// everything below it is, but for what the guard catches (SIGHUP, of nohup).
	own, err := strconv.ParseUint(ownStatus(t, "SigIgn"), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	const hangup = 1 << (syscall.SIGHUP - 1)
	if b.Status["SigIgn"] != fmt.Sprintf("%016x", own&^hangup) || b.Status["SigBlk"] != "0000000000000000" {
		t.Errorf("signals ignored %s, blocked %s", b.Status["SigIgn"], b.Status["SigBlk"])
	}
	if support.userns {
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			if b.Status[set] != "0000000000000000" {
				t.Errorf("%s %s", set, b.Status[set])
			}
		}
	}
	if support.Tier == TierPIDNS && support.NoProc == nil {
		if b.Self != b.Status["Pid"] || b.Pid > 10 || b.Visible != 2 {
			t.Errorf("own /proc: pid %d, /proc/self %s, %d processes", b.Pid, b.Self, b.Visible)
		}
	}
}

// The mounts of a namespace's guard are not seen outside.
func TestMachineKeepsItsProc(t *testing.T) {
	needTier(t, TierPIDNS)
	before, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	run := newRun(t)
	g := open(t, TierPIDNS, run)
	_, out := spawnRole(t, g, run, "wait")
	line(t, out)
	after, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(before), string(after)); diff != "" {
		t.Errorf("mounts (-before +after):\n%s", diff)
	}
}

func TestPIDIsTheMachines(t *testing.T) {
	eachTier(t, func(t *testing.T, g *Guarded, run *Run) {
		tree, out := spawnRole(t, g, run, "wait")
		line(t, out)
		plugins := roles(run.ID())["wait"]
		if len(plugins) != 1 || plugins[0].pid != tree.PID() {
			t.Errorf("PID() is %d, the process table has %v", tree.PID(), plugins)
		}
		guards := roles(run.ID())["guard"]
		if len(guards) != 1 || guards[0].pid != tree.GuardPID() {
			t.Errorf("GuardPID() is %d, the process table has %v", tree.GuardPID(), guards)
		}
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", tree.GuardPID()))
		if string(name) != guardName+"\n" {
			t.Errorf("the guard is called %q, %v", name, err)
		}
	})
}

func TestWhatCannotStart(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("just text\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(dir, "locked")
	if err := os.WriteFile(locked, []byte("just text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	eachTier(t, func(t *testing.T, g *Guarded, run *Run) {
		for path, want := range map[string]error{
			filepath.Join(dir, "nothing"): fs.ErrNotExist,
			text:                          syscall.ENOEXEC,
			locked:                        fs.ErrPermission,
		} {
			tree, err := g.Spawn(Command{
				Path: path, Args: []string{"x"}, Env: []string{MarkEnv + "=" + run.ID() + "/test/1"},
			})
			if tree != nil || !errors.Is(err, want) {
				t.Errorf("%s: %v, %v", path, tree, err)
			}
		}
		if records, _ := filepath.Glob(filepath.Join(run.dir, "test-*")); len(records) > 0 {
			t.Errorf("records of what never started: %v", records)
		}
		if left := withMark(run.ID()); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

func TestCommandsThatAreRefused(t *testing.T) {
	needTier(t, TierSubreaper)
	run := newRun(t)
	g := open(t, TierSubreaper, run)
	mark := MarkEnv + "=" + run.ID() + "/test/1"
	for name, c := range map[string]Command{
		"no mark":         {Path: "/bin/true", Args: []string{"true"}},
		"another's mark":  {Path: "/bin/true", Args: []string{"true"}, Env: []string{MarkEnv + "=0/test/1"}},
		"nothing to run":  {Args: []string{"true"}, Env: []string{mark}},
		"no arguments":    {Path: "/bin/true", Env: []string{mark}},
		"two-line token":  {Path: "/bin/true", Args: []string{"true"}, Env: []string{mark}, Token: "a\nb"},
		"oversized token": {Path: "/bin/true", Args: []string{"true"}, Env: []string{mark}, Token: strings.Repeat("a", maxToken)},
	} {
		if tree, err := g.Spawn(c); err == nil {
			t.Errorf("%s: started", name)
			tree.Kill()
			await(t, tree)
		}
	}
}

func TestGuardOptionsRoundTrip(t *testing.T) {
	for _, want := range []guardOptions{
		{tier: TierPIDNS, userns: true, mark: "a/b/1", path: "/x", argv: []string{"x", "-y", "--", ""}},
		{tier: TierSubreaper, image: true, status: 17, mark: "a/b/1", path: "-x", argv: []string{"-tier=pgroup"}},
	} {
		args := want.args()
		if !IsGuard(args) {
			t.Fatalf("%v does not ask for a guard", args)
		}
		got, err := parseGuard(args[2:])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(guardOptions{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	for _, args := range [][]string{nil, {"-tier=none", "--", "m", "/x", "x"}, {"-tier=pidns", "m", "/x"}, {"-what"}} {
		if o, err := parseGuard(args); err == nil {
			t.Errorf("%v: %+v", args, o)
		}
	}
}

// Many starts and ends at once lose nothing and leave nothing.
func TestManyAtOnce(t *testing.T) {
	eachTier(t, func(t *testing.T, g *Guarded, run *Run) {
		before, _ := readNames("/proc/self/fd")
		var wait sync.WaitGroup
		for i := range 8 {
			wait.Go(func() {
				mark := run.ID() + "/many/" + string(rune('a'+i))
				tree, err := g.Spawn(Command{
					Path: "/proc/self/exe", Args: []string{rolePrefix + "token"},
					Env: []string{MarkEnv + "=" + mark},
				})
				if err != nil {
					t.Error(err)
					return
				}
				tree.Kill()
				await(t, tree)
			})
		}
		wait.Wait()
		after, _ := readNames("/proc/self/fd")
		if len(after) > len(before) {
			t.Errorf("open files: %d, then %d", len(before), len(after))
		}
		if left := withMark(run.ID()); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// ownStatus is a field of this process's /proc/self/status.
func ownStatus(t *testing.T, field string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("no %s in /proc/self/status", field)
	return ""
}
