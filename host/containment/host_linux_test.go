package containment

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nobody is the user without privileges whose hosts the tests run besides their own.
const nobody = 65534

// users are whose hosts can be run: our own, and nobody's if we are root.
func users() []int {
	if os.Getuid() != 0 {
		return []int{os.Getuid()}
	}
	return []int{0, nobody}
}

// place is a directory tree that a user's hosts can use, with a copy of the test
// binary that the user can execute.
type place struct {
	uid                    int
	binary, state, sockets string
	hydra, log             string
}

func newPlace(t *testing.T, uid int) *place {
	t.Helper()
	// Not t.TempDir, which other users cannot pass through; and short, for sockets.
	dir, err := os.MkdirTemp("", "contain")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	p := &place{
		uid: uid, binary: filepath.Join(dir, "test"), state: filepath.Join(dir, "state"),
		sockets: filepath.Join(dir, "run"), hydra: filepath.Join(dir, "hydra.sh"), log: filepath.Join(dir, "state", "log"),
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Chmod(dir, 0o755))
	must(copyFile(p.binary, "/proc/self/exe"))
	must(os.WriteFile(p.hydra, []byte(hydraScript), 0o644))
	for _, own := range []string{p.state, p.sockets} {
		must(os.Mkdir(own, 0o700))
		must(os.Chown(own, uid, uid))
	}
	return p
}

func copyFile(to, from string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer target.Close()
	_, err = io.Copy(target, source)
	return err
}

// testHostProcess is a host in a process of its own.
type testHostProcess struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	// said is everything it told, in order; closed when its output ends.
	said chan told
	id   string
	// swept is what it found at its start.
	swept *Report
}

// host starts a host that sweeps and then starts trees. Whatever happens, it and
// all of its processes are gone when the test ends.
func (p *place) host(t *testing.T, change ...func(*hostConfig)) *testHostProcess {
	t.Helper()
	config := hostConfig{State: p.state, Sockets: p.sockets, Trees: 1, Log: p.log}
	for _, f := range change {
		f(&config)
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	h := &testHostProcess{t: t, said: make(chan told, 1000)}
	h.cmd = &exec.Cmd{
		Path: p.binary, Args: []string{rolePrefix + "host"}, Dir: "/", Stderr: os.Stderr,
		Env: append([]string{hostEnv + "=" + string(text), "PATH=" + os.Getenv("PATH")}, raceEnv...),
	}
	if config.mark != "" {
		h.cmd.Env = append(h.cmd.Env, MarkEnv+"="+config.mark)
	}
	if p.uid != os.Getuid() {
		id := uint32(p.uid)
		h.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	}
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(h.said)
		lines := json.NewDecoder(out)
		for {
			var line told
			if lines.Decode(&line) != nil {
				return
			}
			h.said <- line
		}
	}()
	t.Cleanup(func() {
		_ = h.cmd.Process.Kill()
		<-read
		_ = h.cmd.Wait()
		if h.id != "" {
			sweepAway(t, h.id)
		}
	})
	swept := h.expect("swept")
	h.id, h.swept = swept.ID, swept.Report
	return h
}

// expect waits for what the host tells next, which must be this.
func (h *testHostProcess) expect(event string) told {
	h.t.Helper()
	select {
	case line, ok := <-h.said:
		switch {
		case !ok:
			h.t.Fatalf("the host ended before it told %q", event)
		case line.Unsupported:
			h.t.Skip(line.Error) // TestProbeAgreesWithTheKernel fails if that is not so
		case line.Event != event:
			h.t.Fatalf("the host tells %+v, not %q", line, event)
		}
		return line
	case <-time.After(limit):
		h.t.Fatalf("the host does not tell %q", event)
	}
	return told{}
}

func (h *testHostProcess) command(text string) {
	h.t.Helper()
	if _, err := io.WriteString(h.in, text+"\n"); err != nil {
		h.t.Fatal(err)
	}
}

// end ends the host as its client would, and it must leave nothing on disk.
func (h *testHostProcess) end(p *place) {
	h.t.Helper()
	h.in.Close()
	for line := range h.said {
		if line.Event == "failed" {
			h.t.Error(line.Error)
		}
	}
	if err := h.cmd.Wait(); err != nil {
		h.t.Errorf("the host: %v", err)
	}
	if left := p.left(h.id); len(left) > 0 {
		h.t.Errorf("on disk: %v", left)
	}
}

// kill ends the host as nobody should, and waits for that.
func (h *testHostProcess) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

// left is what a run has left on disk.
func (p *place) left(id string) []string {
	runs, _ := filepath.Glob(filepath.Join(p.state, runsDir, id+"*"))
	sockets, _ := filepath.Glob(filepath.Join(p.sockets, id[:OwnDigits]+"*"))
	return append(runs, sockets...)
}

// sweepAway ends what a failed test has left.
func sweepAway(t *testing.T, id string) {
	for range 1000 {
		left := lookFor(func(mark string) bool { return strings.HasPrefix(mark, id+"/") }, nil)
		if left.nobody() {
			return
		}
		for _, p := range left.found {
			_ = signalExactly(p.pid, func(now process) bool { return now.start == p.start }, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("processes of %s cannot be ended", id)
}

// wholeTree waits until all processes of a tree that has a server are there.
func (h *testHostProcess) wholeTree(p *place, hydra bool) {
	h.t.Helper()
	want := []string{"child", "daemon", "guard", "plugin", "server", "sidchild"}
	waitFor(h.t, "the whole tree", func() bool {
		by := roles(h.id)
		missing := slices.ContainsFunc(want, func(role string) bool { return len(by[role]) != 1 })
		return !missing && len(by["daemonize"]) == 0
	})
	if hydra {
		before := size(p.log)
		waitFor(h.t, "the hydra", func() bool { return size(p.log) > before+5 })
	}
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// still is how long a hydra's log must not grow for it to count as dead. It takes
// a step every few milliseconds.
const still = 250 * time.Millisecond

// survivors waits for a host's processes to end, for five seconds at most, and
// returns those that did not.
func (p *place) survivors(id string, hydra bool) []entry {
	left := withMark(id)
	for deadline := time.Now().Add(5 * time.Second); len(left) > 0 && time.Now().Before(deadline); left = withMark(id) {
		time.Sleep(2 * time.Millisecond)
	}
	if len(left) == 0 {
		left = withMark(id) // who was in the middle of an exec, without an environment, is not now
	}
	if !hydra {
		return left
	}
	before := size(p.log)
	time.Sleep(still)
	if size(p.log) != before {
		left = append(left, entry{role: "hydra", mark: MarkEnv})
	}
	return left
}
