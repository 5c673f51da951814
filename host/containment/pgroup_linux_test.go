package containment

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// inGroup is a process in the group of that number, 0 for one of its own, with a mark
// or without one.
func inGroup(t *testing.T, group int, mark string) *exec.Cmd {
	t.Helper()
	return startStranger(t, mark, &syscall.SysProcAttr{Setpgid: true, Pgid: group})
}

// dies waits until a process that was killed has ended.
func dies(t *testing.T, c *exec.Cmd) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); lives(c.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d lives", c.Process.Pid)
		}
	}
}

// TestAGroupIsKilledWhoeverIsInIt at first, and also where its leader has been reaped.
func TestAGroupIsKilledWhoeverIsInIt(t *testing.T) {
	const mark = "h/x/1"
	leader := inGroup(t, 0, mark)
	unmarked := inGroup(t, leader.Process.Pid, "")
	if err := leader.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = leader.Wait()
	g := &processGroup{mark: mark}
	if g.empty(leader.Process.Pid) {
		t.Error("a group with somebody in it counts as empty")
	}
	g.signal(leader.Process.Pid, syscall.SIGKILL)
	dies(t, unmarked)
	if !g.empty(leader.Process.Pid) {
		t.Error("a group with nobody in it does not count as empty")
	}
}

// TestAGroupOfTheSameNumberIsNotKilled: once nobody whom we know is in the group that
// was killed, its number is another's, whoever uses it next.
func TestAGroupOfTheSameNumberIsNotKilled(t *testing.T) {
	const mark = "h/x/1"
	next := inGroup(t, 0, "")
	pid := next.Process.Pid
	for name, g := range map[string]*processGroup{
		"that was seen empty":            {mark: mark, over: true},
		"that was empty between passes":  {mark: mark, killed: true},
		"of a process of the same pid":   {mark: mark, killed: true, known: []process{{pid: pid}}},
		"of which another one was known": {mark: mark, killed: true, known: []process{{pid: pid + 1}}},
	} {
		g.signal(pid, syscall.SIGKILL)
		if !g.empty(pid) {
			t.Errorf("a group %s: another's of that number is waited for", name)
		}
	}
	if !lives(pid) {
		t.Fatal("another's group was killed")
	}
	// One who bears the mark is ours, whenever it came.
	ours := inGroup(t, next.Process.Pid, mark)
	g := &processGroup{mark: mark, killed: true}
	if g.gone(pid) {
		t.Error("a group with a process of ours in it is left alone")
	}
	g.signal(pid, syscall.SIGKILL)
	dies(t, ours)
}

// TestAGroupThatIsGoneStaysGone, also where its number is used again.
func TestAGroupThatIsGoneStaysGone(t *testing.T) {
	gone, next := inGroup(t, 0, "h/x/1"), inGroup(t, 0, "")
	if err := gone.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = gone.Wait()
	g := &processGroup{mark: "h/x/1"}
	if !g.empty(gone.Process.Pid) {
		t.Error("a group with nobody in it does not count as empty")
	}
	g.signal(next.Process.Pid, syscall.SIGKILL)
	if !lives(next.Process.Pid) {
		t.Error("another's group was killed")
	}
}
