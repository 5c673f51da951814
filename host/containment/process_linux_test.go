package containment

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The name of a process is what it likes.
func TestParseStat(t *testing.T) {
	const rest = " S 7 8 9 34816 8 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4711 1 2"
	want := process{pid: 42, parent: 7, group: 8, session: 9, state: 'S', start: 4711}
	for _, name := range []string{"sh", "a b", ") R 1 1 1 (", "", "((", "a\nb"} {
		got, err := parseStat(42, []byte("42 ("+name+")"+rest+"\n"))
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
	}
	for _, text := range []string{"", "42", "42 (sh", "42 (sh) S 7", "42 (sh)" + strings.Replace(rest, "4711", "x", 1)} {
		if got, err := parseStat(42, []byte(text)); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
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
		if got := markOf(c.Process.Pid); got != "" {
			t.Errorf("%v: %q", env, got)
		}
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	if got := markOf(stranger(t, "a/b/1").Process.Pid); got != "a/b/1" {
		t.Errorf("mark %q", got)
	}
}
