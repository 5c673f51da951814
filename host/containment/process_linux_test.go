package containment

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The name of a process is what it likes.
func TestParseStat(t *testing.T) {
	const rest = " S 7 8 9 34816 8 4194304 1 2 3 4 5 6 7 8 20 0 3 0 4711 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20" +
		" 21 22 23 24 25 26 27 8100 8200 0"
	want := process{
		pid: 42, parent: 7, group: 8, session: 9, state: 'S', threads: 3, start: 4711, envStart: 8100, envEnd: 8200,
	}
	for _, name := range []string{"sh", "a b", ") R 1 1 1 (", "", "((", "a\nb"} {
		got, err := parseStat(42, []byte("42 ("+name+")"+rest+"\n"))
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
	}
	for flags, leaving := range map[string]bool{"4194304": false, "4194308": true} { // PF_EXITING
		if got, err := parseStat(42, []byte("42 (sh)"+strings.Replace(rest, "4194304", flags, 1))); err != nil || got.leaving() != leaving {
			t.Errorf("flags %s: %+v, %v", flags, got, err)
		}
	}
	for _, text := range []string{"", "42", "42 (sh", "42 (sh) S 7", "42 (sh)" + strings.Replace(rest, "4711", "x", 1)} {
		if got, err := parseStat(42, []byte(text)); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// A process that runs another program, again and again, has no environment for a
// moment each time. It must not pass for one without a mark then.
func TestMarkDuringExec(t *testing.T) {
	script := filepath.Join(t.TempDir(), "again.sh")
	if err := os.WriteFile(script, []byte("[ -e \"$0\" ] || exit\nexec /bin/sh \"$0\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", script}, Env: []string{MarkEnv + "=a/b/1"}}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	unsure := 0
	for deadline := time.Now().Add(2 * time.Second); unsure < 5 && time.Now().Before(deadline); {
		mark, sure := markOf(c.Process.Pid)
		if sure && mark != "a/b/1" {
			t.Fatalf("after %d unsure answers: mark %q", unsure, mark)
		}
		if !sure {
			unsure++
		}
	}
	t.Logf("%d times it was not to be told", unsure)
}

// A kernel without lists of children has the process table.
func TestChildrenByParent(t *testing.T) {
	c := stranger(t, "")
	for name, children := range map[string]func(int) []int{"lists": childrenOf, "table": childrenByParent} {
		if got := children(os.Getpid()); len(got) != 1 || got[0] != c.Process.Pid {
			t.Errorf("%s: %v, want %d", name, got, c.Process.Pid)
		}
	}
}

func TestMarkIsTheWholeVariable(t *testing.T) {
	for _, env := range [][]string{
		{"X" + MarkEnv + "=a/b/1"}, {MarkEnv + "S=a/b/1"}, {"A=" + MarkEnv + "=a/b/1"}, nil,
	} {
		c := &exec.Cmd{Path: "/proc/self/exe", Args: []string{rolePrefix + "child"}, Env: append(env, "B=1")}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if got, sure := markOf(c.Process.Pid); got != "" || !sure {
			t.Errorf("%v: %q, %v", env, got, sure)
		}
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	if got, sure := markOf(stranger(t, "a/b/1").Process.Pid); got != "a/b/1" || !sure {
		t.Errorf("mark %q, %v", got, sure)
	}
	bare := &exec.Cmd{Path: "/proc/self/exe", Args: []string{rolePrefix + "child"}, Env: []string{}}
	if err := bare.Start(); err != nil {
		t.Fatal(err)
	}
	if got, sure := markOf(bare.Process.Pid); got != "" || !sure {
		t.Errorf("without an environment: %q, %v", got, sure)
	}
	_ = bare.Process.Kill()
	_ = bare.Wait()
	if got, sure := markOf(2); got != "" || !sure { // the kernel's, outside of containers
		t.Errorf("process 2: %q, %v", got, sure)
	}
}
