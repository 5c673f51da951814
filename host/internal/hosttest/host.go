package hosttest

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var built struct {
	once sync.Once
	dir  string
	err  error
}

// Build builds the host and the example server, once per test process, and
// returns the folder they are in. With the race detector on, the host has it too.
// Whoever calls it calls Main from TestMain, which removes them again.
func Build(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "drawbridge-bin"); built.err != nil {
			return
		}
		args := []string{"build", "-o", built.dir + string(filepath.Separator)}
		if raceEnabled {
			args = append(args, "-race")
		}
		args = append(args, module+"/host/cmd/drawbridge", module+"/examples/servers/notebook")
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			built.err = fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

const module = "github.com/drawbridge-mcp/drawbridge"

// Main runs the tests, removes what Build built and returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	return code
}

// Command is a command of the host, in the place and with its environment.
func (p Place) Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(filepath.Join(Build(t), "drawbridge"), args...)
	cmd.Dir, cmd.Env = p.Dir, p.Env()
	return cmd
}

// ServeStdio starts a host for one client on standard input and output.
func (p Place) ServeStdio(t testing.TB, config string) Client {
	t.Helper()
	return Open(t, StartStdio(t, p.Command(t, "serve", "--stdio", "--config", config)))
}

// Host is a host that serves HTTP.
type Host struct{ URL, Token string }

var (
	readyURL   = regexp.MustCompile(`http://127\.0\.0\.1:\d+/mcp`)
	readyToken = regexp.MustCompile(`token is in (\S+)`)
)

// ServeHTTP starts a host and waits for the two lines it says when it is ready.
// The test's end stops it and waits for that.
func (p Place) ServeHTTP(t testing.TB, config string) Host {
	t.Helper()
	cmd := p.Command(t, "serve", "--config", config)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	Start(t, cmd)
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
		Stop(t, cmd)
	})
	var h Host
	deadline := time.After(ReadyLimit)
	for h.URL == "" || h.Token == "" {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatal("the host ended before it was ready")
			}
			if url := readyURL.FindString(line); url != "" {
				h.URL = url
			}
			if m := readyToken.FindStringSubmatch(line); m != nil {
				text, err := os.ReadFile(m[1])
				if err != nil {
					t.Fatal(err)
				}
				h.Token = strings.TrimSpace(string(text))
			}
		case <-deadline:
			t.Fatalf("the host was not ready within %v", ReadyLimit)
		}
	}
	return h
}

// Client opens a session with the host.
func (h Host) Client(t testing.TB) Client {
	t.Helper()
	return Open(t, DialHTTP(h.URL, h.Token))
}

// Stop ends a host as its owner would and waits for its end.
func Stop(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the host ended with %v", err)
		}
	case <-time.After(StopLimit):
		_ = cmd.Process.Signal(syscall.SIGKILL)
		t.Errorf("the host still ran %v after SIGTERM; killed, it ended with %v", StopLimit, <-ended)
	}
}

// Output runs a client to its end and returns what it printed.
func Output(t testing.TB, cmd *exec.Cmd) (stdout string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second // a process it left in the background holds its output
	timer := time.AfterFunc(CallLimit, func() { _ = cmd.Process.Kill() })
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
