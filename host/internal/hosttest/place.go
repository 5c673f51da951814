package hosttest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// ReadyLimit bounds the host's start, which starts no server.
	ReadyLimit = 20 * time.Second
	// StopLimit bounds a stop: the budget of a host is 15 seconds.
	StopLimit = 30 * time.Second
	// goneLimit is how long after a stop what a browser left may still be ending by itself.
	goneLimit = 10 * time.Second
)

// Place is a test's folder for everything its processes write. As their TMPDIR
// it also marks them, so that what is left of them can be found. Its path is
// short, for some of them put sockets into it.
type Place struct{ Dir, Home string }

// NewPlace makes a place. The test's end looks for processes that are left and
// removes the folder.
func NewPlace(t testing.TB) Place {
	t.Helper()
	dir, err := os.MkdirTemp("", "db")
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	p := Place{dir, home}
	t.Cleanup(func() {
		p.nobodyLeft(t)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Path is a path inside the place.
func (p Place) Path(name string) string { return filepath.Join(p.Dir, name) }

// Write writes a file into the place and returns its path.
func (p Place) Write(t testing.TB, name, text string) string {
	t.Helper()
	if err := os.WriteFile(p.Path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p.Path(name)
}

// Env is what processes of a test get instead of the environment of the test.
func (p Place) Env(more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.Home, "TMPDIR=" + p.Dir, "LANG=C.UTF-8"}, more...)
}

// nobodyLeft fails the test if a process of this place still runs, and ends it.
func (p Place) nobodyLeft(t testing.TB) {
	t.Helper()
	var left map[int]string
	for deadline := time.Now().Add(goneLimit); ; time.Sleep(50 * time.Millisecond) {
		if left = p.processes(); len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			break
		}
	}
	for pid, command := range left {
		t.Errorf("process %d is left: %.200s", pid, command)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// processes finds the processes with our TMPDIR.
func (p Place) processes() map[int]string {
	found := map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(append([]byte{0}, env...), []byte("\x00TMPDIR="+p.Dir+"\x00")) {
			continue
		}
		dir := filepath.Dir(file)
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			found[pid] = strings.ReplaceAll(string(command), "\x00", " ")
		}
	}
	return found
}

// Start starts a process and makes its stderr part of a failed test's output.
func Start(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	var said buffer
	if cmd.Stderr == nil {
		cmd.Stderr = &said
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if text := said.String(); t.Failed() && text != "" {
			t.Logf("stderr of %s:\n%s", strings.Join(cmd.Args, " "), text)
		}
	})
}

// buffer may be written to and read at the same time.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
