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
		if Race {
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
type Host struct {
	*Run
	URL string
	// Token is that of the first start, "" where principals are declared.
	Token string

	printed *buffer
}

// Printed is what it has said on stdout so far.
func (h Host) Printed() string { return h.printed.String() }

var (
	readyURL   = regexp.MustCompile(`ready at (https?://\S+)`)
	readyToken = regexp.MustCompile(`token is in (\S+)`)
	// readyPrincipals is said instead where principals have tokens of their own.
	readyPrincipals = regexp.MustCompile(`principals are declared in `)
)

// ServeHTTP starts a host and waits until it is ready; see StartHTTP.
func (p Place) ServeHTTP(t testing.TB, config string) Host {
	t.Helper()
	return StartHTTP(t, p.Command(t, "serve", "--config", config))
}

// StartHTTP starts a host that serves HTTP and waits for the two lines it says
// when it is ready. The test's end stops it and waits for that.
func StartHTTP(t testing.TB, cmd *exec.Cmd) Host {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	h := Host{Run: start(t, cmd), printed: new(buffer)}
	lines := make(chan string, 2)
	go func() {
		defer h.finish()
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			_, _ = h.printed.Write(append(s.Bytes(), '\n'))
			select {
			case lines <- s.Text():
			default: // whatever else it says
			}
		}
	}()
	t.Cleanup(func() { h.Stop(t) })
	deadline := time.After(ReadyLimit)
	for ready := false; h.URL == "" || !ready; {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatal("the host ended before it was ready")
			}
			if m := readyURL.FindStringSubmatch(line); m != nil {
				h.URL = m[1]
			}
			ready = ready || readyPrincipals.MatchString(line)
			if m := readyToken.FindStringSubmatch(line); m != nil {
				text, err := os.ReadFile(m[1])
				if err != nil {
					t.Fatal(err)
				}
				h.Token, ready = strings.TrimSpace(string(text)), true
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

// Kill ends the host by SIGKILL and waits for its end.
func (h Host) Kill(t testing.TB) {
	t.Helper()
	h.killed.Store(true)
	h.Signal(t, syscall.SIGKILL)
	_ = h.Wait(t) // it ends with the signal
}

// Stop ends the host as its owner would, if the test did not, and waits for its
// end. A host that was asked to stop ends with code 0.
func (h Host) Stop(t testing.TB) {
	t.Helper()
	if h.Running() {
		_ = h.cmd.Process.Signal(syscall.SIGTERM)
	}
	if err := h.Wait(t); err != nil && !h.killed.Load() {
		t.Errorf("the host ended with %v", err)
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
