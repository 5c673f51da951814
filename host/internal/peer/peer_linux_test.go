package peer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

const (
	roleEnv = "PEER_TEST_ROLE"
	mark    = "PEER_TEST_MARK"
	limit   = 20 * time.Second
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		child(role, os.Args[1])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child connects, or lets a child of its own connect, and ends with its input.
func child(role, socket string) {
	switch role {
	case "connects", "connects and goes":
		conn, err := net.Dial("unix", socket)
		if err != nil {
			panic(err)
		}
		fmt.Println("connected")
		if role == "connects" {
			_, _ = io.Copy(io.Discard, os.Stdin)
		}
		_ = conn.Close()
	case "lets a scrubbed child connect":
		cmd := exec.Command(os.Args[0], socket)
		cmd.Env = []string{roleEnv + "=connects"}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			panic(err)
		}
	}
}

// connected starts a child of that role and returns the connection that comes of it.
func connected(t *testing.T, role string) (conn *net.UnixConn, pid int, end func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "peer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	cmd := exec.Command(os.Args[0], filepath.Join(dir, "s"))
	cmd.Env = append(os.Environ(), roleEnv+"="+role, mark+"=h/p/1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			_ = in.Close()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(end)
	if err := l.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "connected\n" {
		t.Fatalf("the child said %q, %v", line, err)
	}
	if conn, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, cmd.Process.Pid, end
}

func pids(line []Process) []int {
	var out []int
	for _, p := range line {
		out = append(out, p.PID)
	}
	return out
}

func TestPeerAndItsLineage(t *testing.T) {
	conn, pid, _ := connected(t, "connects")
	p, err := Of(conn)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.PID != pid || p.UID != os.Geteuid() {
		t.Errorf("peer %d of user %d, want %d of %d", p.PID, p.UID, pid, os.Geteuid())
	}
	line, err := p.Lineage(mark)
	if err != nil {
		t.Fatal(err)
	}
	if got := pids(line); len(got) < 2 || got[0] != pid || got[1] != os.Getpid() {
		t.Errorf("lineage %v, want %d, %d, …", got, pid, os.Getpid())
	}
	if line[0].Mark != "h/p/1" || line[0].Hidden != nil {
		t.Errorf("the peer: %+v", line[0])
	}
	if line[1].Mark != "" {
		t.Errorf("we: %+v", line[1])
	}
}

// What takes the mark off itself still descends from what has it.
func TestScrubbedChildDescendsFromItsParent(t *testing.T) {
	conn, pid, _ := connected(t, "lets a scrubbed child connect")
	p, err := Of(conn)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	line, err := p.Lineage(mark)
	if err != nil {
		t.Fatal(err)
	}
	if line[0].PID == pid || line[0].Mark != "" {
		t.Errorf("the peer: %+v", line[0])
	}
	at := slices.IndexFunc(line, func(p Process) bool { return p.Mark == "h/p/1" })
	if at != 1 || line[at].PID != pid {
		t.Errorf("lineage %+v, want the mark on %d", line, pid)
	}
}

// The pid of a peer that has ended says nothing.
func TestPeerThatHasEnded(t *testing.T) {
	conn, _, end := connected(t, "connects and goes")
	end()
	p, err := Of(conn)
	if err == nil {
		defer p.Close()
		_, err = p.Lineage(mark)
	}
	if !errors.Is(err, ErrGone) {
		t.Errorf("%v, want ErrGone", err)
	}
}

// Who connects learns who listens.
func TestPIDOf(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := PIDOf(conn); got != os.Getpid() {
		t.Errorf("pid %d, want %d", got, os.Getpid())
	}
	if got := PIDOf(nil); got != 0 {
		t.Errorf("of nothing: %d", got)
	}
}

// A process that runs another program, again and again, has no environment for a
// moment each time. It does not pass for one without the mark then.
func TestMarkDuringExec(t *testing.T) {
	script := filepath.Join(t.TempDir(), "again.sh")
	if err := os.WriteFile(script, []byte("[ -e \"$0\" ] || exit\nexec /bin/sh \"$0\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", script}, Env: []string{mark + "=h/p/1"}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	unseen := 0
	for deadline := time.Now().Add(2 * time.Second); unseen < 5 && time.Now().Before(deadline); {
		p, err := look(cmd.Process.Pid, mark)
		if err != nil {
			t.Fatal(err)
		}
		if p.Hidden != nil {
			unseen++
		} else if p.Mark != "h/p/1" {
			t.Fatalf("it passes for one without the mark: %+v", p)
		}
	}
	t.Logf("%d times it was not to be seen", unseen)
}

// What was started without an environment has none to hide.
func TestNoEnvironment(t *testing.T) {
	cmd := &exec.Cmd{Path: "/bin/sleep", Args: []string{"sleep", "60"}, Env: []string{}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var p Process
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		var err error
		if p, err = look(cmd.Process.Pid, mark); err == nil && p.Hidden == nil && p.Mark == "" {
			return
		}
	}
	t.Errorf("%+v", p)
}
