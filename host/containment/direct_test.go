//go:build unix

package containment

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// limit bounds every wait of a test; nothing waits for it that goes well.
const limit = time.Minute

const roleEnv = "CONTAINMENT_TEST_ROLE"

// rolePrefix begins argv[0] of the processes of the guards' tests, and play is what
// they do; nil where there are no such tests.
const rolePrefix = "role-"

var play func(role string) int

func TestMain(m *testing.M) {
	if IsGuard(os.Args) {
		os.Exit(Guard(os.Args[2:]))
	}
	if role, ok := strings.CutPrefix(os.Args[0], rolePrefix); ok && play != nil {
		os.Exit(play(role))
	}
	if role := os.Getenv(roleEnv); role != "" {
		child(role)
		os.Exit(0)
	}
	for _, variable := range raceEnv { // for those that have this process's environment
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// child is what the test starts: it tells pids on standard output, one a line,
// then "ready".
func child(role string) {
	in := bufio.NewReader(os.Stdin)
	token, _ := in.ReadString('\n')
	tell := func(v any) { _, _ = fmt.Println(v) }
	sleep := func(args ...string) {
		cmd := exec.Command("sleep", "1000")
		if len(args) > 0 {
			cmd = exec.Command(args[0], args[1:]...)
		}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		tell(cmd.Process.Pid)
	}
	switch role {
	case "token":
		tell(strings.TrimSpace(token))
		rest, err := io.ReadAll(in)
		tell(fmt.Sprintf("%q %v", rest, err))
		os.Exit(7)
	case "family":
		sleep()
		sleep("sh", "-c", "trap '' TERM INT HUP; sleep 1000 & wait")
		tell("ready")
		_, _ = io.ReadAll(in)
	case "stuck":
		sleep()
		tell("ready")
		forever()
	case "host":
		// A host: it starts a plugin that sleeps and passes its output on.
		c := command("sleeper")
		c.Stdout = os.Stdout
		tr, err := Direct{}.Spawn(c)
		if err != nil {
			panic(err)
		}
		tell(tr.PID())
		tell("ready")
		forever()
	case "sleeper":
		// Deaf to its lifeline: only the signal of its host's death ends it.
		forever()
	case "wait":
		_, _ = io.ReadAll(in)
	}
}

// forever waits without being a deadlock to the runtime.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

func command(role string) Command {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Command{
		Path: exe, Args: []string{"plugin-" + role}, Token: "secret",
		Env: append(os.Environ(), roleEnv+"="+role),
	}
}

// spawn starts role and returns a reader of its standard output.
func spawn(t *testing.T, c Command) (Tree, *bufio.Reader) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stdout, c.Stderr = w, os.Stderr
	tr, err := Direct{}.Spawn(c)
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tr.Kill()
		await(t, tr)
		_ = r.Close()
	})
	return tr, bufio.NewReader(r)
}

func await(t *testing.T, tr Tree) {
	t.Helper()
	select {
	case <-tr.Done():
	case <-time.After(limit):
		t.Fatal("the tree is not empty")
	}
}

// pids reads what child tells until "ready".
func pids(t *testing.T, r *bufio.Reader) []int {
	t.Helper()
	var out []int
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		if line = strings.TrimSpace(line); line == "ready" {
			return out
		}
		pid, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, pid)
	}
}

func alive(pid int) bool {
	if runtime.GOOS != "linux" {
		return syscall.Kill(pid, 0) == nil
	}
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func waitGone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(limit); alive(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d lives on", pid)
		}
	}
}

func TestTokenThenLifeline(t *testing.T) {
	tr, out := spawn(t, command("token"))
	if line, err := out.ReadString('\n'); err != nil || line != "secret\n" {
		t.Fatalf("first line %q, %v", line, err)
	}
	if !alive(tr.PID()) {
		t.Error("ended while the lifeline is open")
	}
	tr.Release()
	if line, err := out.ReadString('\n'); err != nil || line != "\"\" <nil>\n" {
		t.Errorf("after the token: %q, %v", line, err)
	}
	await(t, tr)
	if got := tr.Exit(); got.Code != 7 || got.Signal != 0 {
		t.Errorf("exit %+v", got)
	}
}

// However the plugin ends, its group goes with it, and Done comes after that.
func TestGroupEndsWithThePlugin(t *testing.T) {
	for name, end := range map[string]func(Tree){
		"killed by us":     func(tr Tree) { tr.Kill() },
		"killed by others": func(tr Tree) { _ = syscall.Kill(tr.PID(), syscall.SIGKILL) },
		"by itself":        func(tr Tree) { tr.Release() },
		"stopped":          func(tr Tree) { _ = syscall.Kill(tr.PID(), syscall.SIGSTOP); tr.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			tr, out := spawn(t, command("family"))
			family := pids(t, out)
			if tr.Exit() != (Exit{}) {
				t.Error("an exit status while it runs")
			}
			end(tr)
			await(t, tr)
			for _, pid := range append(family, tr.PID()) {
				if alive(pid) {
					t.Errorf("process %d is alive after Done", pid)
				}
			}
			if name != "by itself" && tr.Exit().Signal != int(syscall.SIGKILL) {
				t.Errorf("exit %+v", tr.Exit())
			}
			tr.Kill() // harmless now: the pid may be another's
			tr.Release()
		})
	}
}

func TestOwnGroup(t *testing.T) {
	tr, _ := spawn(t, command("wait"))
	pgid, err := syscall.Getpgid(tr.PID())
	if err != nil || pgid != tr.PID() {
		t.Errorf("group %d, %v", pgid, err)
	}
}

func TestHostKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no signal at the parent's death")
	}
	// The host's spawning goroutine is long done with its thread when it is killed;
	// the plugin must have lived until then.
	tr, out := spawn(t, command("host"))
	plugin := pids(t, out)[0]
	if !alive(plugin) {
		t.Fatal("the plugin died before its host")
	}
	_ = syscall.Kill(tr.PID(), syscall.SIGKILL)
	await(t, tr)
	waitGone(t, plugin)
}

// A plugin must survive the thread that happened to run the goroutine that asked
// for it.
func TestThreadThatAskedMayEnd(t *testing.T) {
	type result struct {
		tr  Tree
		out *bufio.Reader
	}
	ch := make(chan result)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		tr, out := spawn(t, command("stuck"))
		ch <- result{tr, out}
	}()
	r := <-ch
	_ = pids(t, r.out)
	if !alive(r.tr.PID()) {
		t.Error("the plugin died with a thread")
	}
}

func TestImageRunsWhatWasOpened(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no way to run an open file")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plugin")
	if err := os.Link(exe, path); err != nil {
		body, err := os.ReadFile(exe)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, body, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	// The path now means something else.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho replaced\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := command("token")
	c.Path, c.Image = path, f
	_, out := spawn(t, c)
	if line, err := out.ReadString('\n'); err != nil || line != "secret\n" {
		t.Errorf("ran another file: %q, %v", line, err)
	}
}

func TestSpawnErrorsAreTheSystems(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("just text\n"), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, want := range map[string]error{
		write("not-executable", 0o600): syscall.EACCES,
		write("not-a-program", 0o700):  syscall.ENOEXEC,
		filepath.Join(dir, "nothing"):  syscall.ENOENT,
	} {
		c := command("wait")
		c.Path = path
		tr, err := Direct{}.Spawn(c)
		if tr != nil || !errors.Is(err, want) {
			t.Errorf("%s: %v, %v", path, tr, err)
		}
	}
}
