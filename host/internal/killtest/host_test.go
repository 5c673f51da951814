//go:build linux

package killtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// bin is where the two programs are, for every user to run.
var bin string

func drawbridge() string { return filepath.Join(bin, "drawbridge") }
func fake() string       { return filepath.Join(bin, "fakeserver") }

func TestMain(m *testing.M) {
	if plainRole() || strangerRole() {
		return
	}
	// They wait for other processes most of their time.
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if bin, err = os.MkdirTemp("", "killtest-bin"); err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(bin) }()
	const module = "github.com/drawbridge-mcp/drawbridge/host/"
	more, err := overlay(bin)
	if err != nil {
		panic(err)
	}
	for name, pkg := range map[string]string{drawbridge(): "cmd/drawbridge", fake(): "internal/fakeserver/cmd"} {
		if out, err := exec.Command("go", "build", more, "-o", name, module+pkg).CombinedOutput(); err != nil {
			panic(fmt.Sprintf("%v\n%s", err, out))
		}
	}
	if err := errors.Join(os.Chmod(bin, 0o755), copySelf(filepath.Join(bin, "killtest"))); err != nil {
		panic(err)
	}
	return m.Run()
}

// copySelf puts this test's own binary where every user can run it.
func copySelf(path string) error {
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o755)
}

// place is a folder for all that hosts of one user write.
type place struct {
	dir string
	uid int
}

func newPlace(t *testing.T, uid int) place {
	t.Helper()
	dir, err := os.MkdirTemp("", "kt")
	if err != nil {
		t.Fatal(err)
	}
	p := place{dir, uid}
	for _, sub := range []string{"", "home", "run", "state"} {
		path := filepath.Join(dir, sub)
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, uid, -1); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p place) path(name string) string { return filepath.Join(p.dir, name) }

// command is a command of the place's user.
func (p place) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = p.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.path("home"), "TMPDIR=" + p.dir, "XDG_RUNTIME_DIR=" + p.path("run"),
		"LANG=C.UTF-8", "GOTRACEBACK=all",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if p.uid != os.Getuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.uid)}
	}
	return cmd
}

// provider declares a fake server.
type provider struct {
	slug string
	args []string
	body string // more HCL
}

// config writes a configuration and returns its path.
func (p place) config(t *testing.T, name string, providers ...provider) string {
	t.Helper()
	return p.configAt(t, name, "state", providers...)
}

func (p place) configAt(t *testing.T, name, state string, providers ...provider) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "host {\n  state_dir = %q\n  stop_budget = \"15s\"\n}\n", p.path(state))
	for _, one := range providers {
		args, _ := json.Marshal(one.args)
		fmt.Fprintf(&b, "provider %q {\n  plugin = \"stdio\"\n  config {\n    command = %q\n    args = %s\n  }\n%s\n}\n",
			one.slug, fake(), args, one.body)
	}
	path := p.path(name)
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// restarts lets a provider start again at once, as often as it takes.
const restarts = "  restart {\n    intensity = 1000\n    backoff = \"20ms\"\n    backoff_max = \"100ms\"\n  }\n" +
	"  limits {\n    stop_grace = \"500ms\"\n    start_timeout = \"60s\"\n  }\n"

// stubborn is a server that nothing but SIGKILL ends, with what it starts.
func (p place) stubborn(children string) []string {
	args := []string{
		"--ignore-term", "--ignore-eof", "--init-delay", "60ms", "--life", "20m", "--log", p.path("server.log"),
	}
	if children != "" {
		args = append(args, "--child", children)
	}
	return args
}

// reply is what a host answers.
type reply struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    struct {
			Outcome    string `json:"outcome"`
			Reason     string `json:"reason"`
			Dispatched bool   `json:"dispatched"`
		} `json:"data"`
	} `json:"error"`
}

// host is a host that serves this test on its standard streams.
type host struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	start string
	ended chan struct{}
	err   error // set before ended is closed
	id    string

	mu      sync.Mutex
	last    int
	pending map[int]chan reply
	said    bytes.Buffer
}

func (h *host) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.said.Write(p)
}

func (h *host) stderr() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.said.String()
}

// serve starts a host and does not wait for anything.
func (p place) serve(t *testing.T, config string, flags ...string) *host {
	t.Helper()
	h := &host{ended: make(chan struct{}), pending: map[int]chan reply{}}
	h.cmd = p.command(drawbridge(), append([]string{"serve", "--stdio", "--config", config}, flags...)...)
	h.run(t)
	return h
}

// run starts the command.
func (h *host) run(t *testing.T) {
	t.Helper()
	var err error
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.cmd.Stderr = h
	h.cmd.WaitDelay = time.Second // whoever may still hold its standard error
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.start = readStat(h.cmd.Process.Pid).start
	go h.read(out)
	t.Cleanup(func() {
		_ = h.in.Close()
		_ = h.cmd.Process.Kill()
		<-h.ended
		if t.Failed() {
			t.Logf("host %d %s said:\n%.6000s", h.cmd.Process.Pid, h.id, h.stderr())
		}
	})
}

// read is the host's reader. It ends with the host.
func (h *host) read(out io.Reader) {
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var m struct {
			ID *int `json:"id"`
			reply
		}
		if json.Unmarshal(line, &m) != nil || m.ID == nil {
			continue
		}
		h.mu.Lock()
		done := h.pending[*m.ID]
		delete(h.pending, *m.ID)
		h.mu.Unlock()
		if done != nil {
			done <- m.reply
		}
	}
	h.err = h.cmd.Wait()
	close(h.ended)
}

// send sends a request. What it returns gets the answer, if there is one.
func (h *host) send(method, params string) <-chan reply {
	h.mu.Lock()
	h.last++
	id, done := h.last, make(chan reply, 1)
	h.pending[id] = done
	h.mu.Unlock()
	_, _ = fmt.Fprintf(h.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)
	return done
}

func (h *host) call(tool, args string) <-chan reply {
	return h.send("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args))
}

// hello sends the handshake and does not wait. No two clients are the same one: what
// an earlier one was shown, of a provider that was declared otherwise, is no matter
// here.
func (h *host) hello() <-chan reply {
	done := h.send("initialize", fmt.Sprintf(
		`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"killtest","version":"%d of %s"}}`, h.pid(), h.start))
	_, _ = io.WriteString(h.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	return done
}

// await waits for an answer.
func (h *host) await(t *testing.T, what string, done <-chan reply) reply {
	t.Helper()
	select {
	case r := <-done:
		return r
	case <-h.ended:
		t.Fatalf("%s: the host ended: %v\n%s", what, h.err, h.stderr())
	case <-time.After(patience):
		t.Fatalf("%s: no answer", what)
	}
	return reply{}
}

// ready waits until the host answers, and finds its id among the runs of the state
// dir that are not in others.
func (h *host) ready(t *testing.T, p place, others ...*host) *host {
	t.Helper()
	if r := h.await(t, "initialize", h.hello()); r.Error != nil {
		t.Fatalf("initialize: %s", r.Error.Message)
	}
	for _, id := range p.runs() {
		if !known(others, id) {
			h.id = id
		}
	}
	if h.id == "" {
		t.Fatal("the host has no run")
	}
	return h
}

func known(hosts []*host, id string) bool {
	for _, h := range hosts {
		if h != nil && h.id == id {
			return true
		}
	}
	return false
}

// runs are the ids of the runs in the state dir.
func (p place) runs() (ids []string) {
	locks, _ := filepath.Glob(p.path("state/runs/*.lock"))
	for _, lock := range locks {
		if id := strings.TrimSuffix(filepath.Base(lock), ".lock"); len(id) == 32 {
			ids = append(ids, id)
		}
	}
	return ids
}

// echo calls until it is answered.
func (h *host) echo(t *testing.T) {
	t.Helper()
	var r reply
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if r = h.await(t, "echo", h.call("p_echo", `{}`)); r.Error == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("echo: %s", r.Error.Message)
}

// kill kills the host alone and waits for its end.
func (h *host) kill(t *testing.T) {
	t.Helper()
	_ = h.cmd.Process.Kill()
	h.end(t)
}

// end waits for the host's end.
func (h *host) end(t *testing.T) error {
	t.Helper()
	select {
	case <-h.ended:
	case <-time.After(patience):
		t.Fatal("the host does not end")
	}
	return h.err
}

// stop ends the host as its client would.
func (h *host) stop(t *testing.T) {
	t.Helper()
	_ = h.in.Close()
	if err := h.end(t); err != nil {
		t.Errorf("the host ended with %v", err)
	}
}

func (h *host) pid() int { return h.cmd.Process.Pid }

// lives says whether the host still runs.
func (h *host) lives() bool {
	select {
	case <-h.ended:
		return false
	default:
		return true
	}
}
