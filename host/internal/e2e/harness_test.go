//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// readyLimit bounds the host's start, which starts no server.
	readyLimit = 20 * time.Second
	// stopLimit bounds a stop: the budget of a host is 15 seconds.
	stopLimit = 30 * time.Second
	// goneLimit is how long after a stop what a browser left may still be ending by itself.
	goneLimit = 10 * time.Second
)

// root is the repository; tests run in their package's folder.
func root(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// need returns the path of a file that a test cannot do without.
func need(t testing.TB, remedy string, path ...string) string {
	t.Helper()
	file := filepath.Join(path...)
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("%v; %s", err, remedy)
	}
	return file
}

// binary is the host, as `make build` leaves it.
func binary(t testing.TB) string {
	return need(t, "run make e2e, which builds it", root(t), "bin", "drawbridge")
}

// packages is the folder of what npm installed.
func packages(t testing.TB) string {
	return need(t, "run make e2e, which installs it with npm ci", root(t), "host/internal/e2e/testdata/npm/node_modules")
}

func program(t testing.TB, name string) string {
	return need(t, "run make e2e, which installs it with npm ci", packages(t), ".bin", name)
}

// node runs servers: the system's own, since that is what people have.
func node(t testing.TB) string {
	path, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("%v; install Node 20", err)
	}
	return path
}

// place is a test's folder for everything its processes write. As their TMPDIR
// it also marks them, so that what is left of them can be found. Its path is
// short, for some of them put sockets into it.
type place struct{ dir, home string }

func newPlace(t testing.TB) place {
	t.Helper()
	dir, err := os.MkdirTemp("", "e2e")
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	p := place{dir, home}
	t.Cleanup(func() {
		p.nobodyLeft(t)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p place) path(name string) string { return filepath.Join(p.dir, name) }

func (p place) write(t testing.TB, name, text string) string {
	t.Helper()
	if err := os.WriteFile(p.path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p.path(name)
}

// env is what processes of a test get instead of the environment of the test.
func (p place) env(more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.home, "TMPDIR=" + p.dir, "LANG=C.UTF-8"}, more...)
}

// nobodyLeft fails the test if a process of this place still runs, and ends it.
func (p place) nobodyLeft(t testing.TB) {
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
func (p place) processes() map[int]string {
	found := map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(append([]byte{0}, env...), []byte("\x00TMPDIR="+p.dir+"\x00")) {
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

// start starts a process and makes its stderr part of a failed test's output.
func start(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	var said buffer
	if cmd.Stderr == nil {
		cmd.Stderr = &said
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && said.Len() > 0 {
			t.Logf("stderr of %s:\n%s", strings.Join(cmd.Args, " "), said.String())
		}
	})
}

// buffer may be written to and read at the same time.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// config writes the file that declares the four servers, with what they write in p.
func (p place) config(t testing.TB) string {
	t.Helper()
	files := p.path("files")
	if err := os.MkdirAll(files, 0o700); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "host {\n  state_dir = %q\n  http {\n    listen = \"127.0.0.1:0\"\n  }\n}\n", p.path("state"))
	for _, s := range p.servers(t) {
		fmt.Fprintf(&b, "provider %q {\n  plugin = \"stdio\"\n  config {\n    command = %q\n    args = [", s.name, s.command[0])
		for _, arg := range s.command[1:] {
			fmt.Fprintf(&b, "%q, ", arg)
		}
		fmt.Fprintf(&b, "]\n    cwd = %q\n    env = {", p.dir)
		for _, one := range s.env {
			name, value, _ := strings.Cut(one, "=")
			fmt.Fprintf(&b, " %s = %q", name, value)
		}
		b.WriteString(" }\n  }\n}\n")
	}
	return p.write(t, "providers.hcl", b.String())
}

// server is how one of the four is started.
type server struct {
	name    string
	command []string
	env     []string
}

func (p place) servers(t testing.TB) []server {
	t.Helper()
	run := func(name string, args ...string) []string {
		return append([]string{node(t), program(t, name)}, args...)
	}
	chromium := need(t, "install Debian's chromium", "/usr/bin/chromium")
	return []server{
		{name: "everything", command: run("mcp-server-everything", "stdio")},
		{name: "files", command: run("mcp-server-filesystem", p.path("files"))},
		{name: "memory", command: run("mcp-server-memory"), env: []string{"MEMORY_FILE_PATH=" + p.path("memory.jsonl")}},
		{name: "browser", command: run("playwright-mcp", "--headless", "--no-sandbox", "--isolated", "--executable-path", chromium)},
	}
}

// direct starts one of the four without the host.
func (p place) direct(t testing.TB, s server) client {
	t.Helper()
	cmd := exec.Command(s.command[0], s.command[1:]...)
	cmd.Dir, cmd.Env = p.dir, p.env(s.env...)
	return open(t, startStdio(t, cmd))
}

// drawbridge is a command of the host.
func (p place) drawbridge(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(binary(t), args...)
	cmd.Dir, cmd.Env = p.dir, p.env()
	return cmd
}

// serveStdio starts a host for one client on standard input and output.
func (p place) serveStdio(t testing.TB, config string) client {
	t.Helper()
	return open(t, startStdio(t, p.drawbridge(t, "serve", "--stdio", "--config", config)))
}

// host is a host that serves HTTP.
type host struct{ url, token string }

var (
	readyURL   = regexp.MustCompile(`http://127\.0\.0\.1:\d+/mcp`)
	readyToken = regexp.MustCompile(`token is in (\S+)`)
)

// serveHTTP starts a host and waits for the two lines it says when it is ready.
// The test's end stops it and waits for that.
func (p place) serveHTTP(t testing.TB, config string) host {
	t.Helper()
	cmd := p.drawbridge(t, "serve", "--config", config)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		go func() { // whatever else it says
			for range lines {
			}
		}()
		stop(t, cmd)
	})
	var h host
	deadline := time.After(readyLimit)
	for h.url == "" || h.token == "" {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatal("the host ended before it was ready")
			}
			if url := readyURL.FindString(line); url != "" {
				h.url = url
			}
			if m := readyToken.FindStringSubmatch(line); m != nil {
				text, err := os.ReadFile(m[1])
				if err != nil {
					t.Fatal(err)
				}
				h.token = strings.TrimSpace(string(text))
			}
		case <-deadline:
			t.Fatalf("the host was not ready within %v", readyLimit)
		}
	}
	return h
}

func (h host) client(t testing.TB) client {
	t.Helper()
	return open(t, dialHTTP(h.url, h.token))
}

// stop ends a host as its owner would and waits for its end.
func stop(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the host ended with %v", err)
		}
	case <-time.After(stopLimit):
		t.Errorf("the host still runs %v after SIGTERM", stopLimit)
		_ = cmd.Process.Signal(syscall.SIGKILL)
		<-ended
	}
}

// output runs a client to its end and returns what it printed.
func output(t testing.TB, cmd *exec.Cmd) (stdout string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second // a process it left in the background holds its output
	timer := time.AfterFunc(callLimit, func() { _ = cmd.Process.Kill() })
	if err := cmd.Start(); err != nil {
		timer.Stop()
		t.Fatal(err)
	}
	err = cmd.Wait()
	timer.Stop()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, out.Bytes(), errs.Bytes())
	}
	return out.String(), err
}

var _ io.Writer = (*buffer)(nil)
