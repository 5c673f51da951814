package hosttest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
// and HOME it also marks them, so that what is left of them can be found. Its path
// is short, for some of them put sockets into it.
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
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.Home, "TMPDIR=" + p.Dir, "LANG=C.UTF-8"}
	if Race { // else every host and every command sleeps for a second before it exits
		env = append(env, "GORACE=atexit_sleep_ms=0")
	}
	return append(env, more...)
}

// nobodyLeft fails the test if a process of this place still runs, and ends it.
func (p Place) nobodyLeft(t testing.TB) {
	t.Helper()
	for _, one := range p.left(goneLimit) {
		t.Errorf("process %d is left: %.200s", one.PID, one.Command)
		if p, err := os.FindProcess(one.PID); err == nil {
			_ = p.Kill()
		}
	}
}

// left are the processes of this place that still run after limit.
func (p Place) left(limit time.Duration) []Process {
	for deadline := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		if left := p.Processes(); len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}

// Process is one that a test finds in the process table.
type Process struct {
	PID     int
	Command string
	Env     []string
	// Mark is the instance that it belongs to, "" for the host.
	Mark string
}

// Processes are those with our TMPDIR or HOME: hosts, and all below them.
func (p Place) Processes() []Process {
	var found []Process
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(text, []byte(p.Dir)) {
			continue
		}
		env := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
		if !slices.Contains(env, "TMPDIR="+p.Dir) && !slices.Contains(env, "HOME="+p.Home) {
			continue
		}
		dir := filepath.Dir(file)
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		one := Process{PID: pid, Command: strings.ReplaceAll(string(command), "\x00", " "), Env: env}
		for _, entry := range env {
			if mark, ok := strings.CutPrefix(entry, "DRAWBRIDGE_INSTANCE="); ok {
				one.Mark = mark
			}
		}
		found = append(found, one)
	}
	return found
}
