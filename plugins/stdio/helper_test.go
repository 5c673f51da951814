//go:build unix

package stdio

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// soon is what a test waits for something that should happen at once, on a busy
// machine.
const soon = 10 * time.Second

// fakeServer is the built fake server. It is built by its path and not through
// its package: that one is internal to the host, of which no plugin knows.
var fakeServer string

func TestMain(m *testing.M) {
	if role := os.Getenv("STDIO_TEST_ROLE"); role != "" {
		os.Exit(testRole(role))
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "drawbridge-stdio-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	fakeServer = filepath.Join(dir, "fakeserver")
	build := exec.Command("go", "build", "-o", fakeServer, "github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver/cmd")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the fake server: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// conn is the host's end of an exchange, in memory.
type conn struct {
	ctx    context.Context
	frames chan provider.Frame
	events chan provider.Event
	seq    uint64
}

func (c *conn) Recv() (provider.Frame, error) {
	select {
	case f, open := <-c.frames:
		if !open {
			return f, io.EOF
		}
		return f, nil
	case <-c.ctx.Done():
		return provider.Frame{}, c.ctx.Err()
	}
}

// Send copies what an event holds, as the stream does.
func (c *conn) Send(event provider.Event) error {
	switch e := event.(type) {
	case provider.Chunk:
		event = provider.Chunk{Data: bytes.Clone(e.Data), Last: e.Last}
	case provider.Noise:
		event = provider.Noise{Line: bytes.Clone(e.Line)}
	}
	select {
	case c.events <- event:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// rig is a provider with a running server and its exchange.
type rig struct {
	*conn
	t        *testing.T
	p        *stdioProvider
	log      string // the fake server's
	errs     *syncBuffer
	cancel   context.CancelFunc
	returned chan error // what Exchange returned
	message  []byte     // the chunks of the message under way
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// settings are what a test may change of a rig.
type settings struct {
	config     map[string]any
	maxMessage int64
	environ    []string
	base       string
	mark       string
	stderr     io.Writer
	noExchange bool
}

func configJSON(t testing.TB, values map[string]any) json.RawMessage {
	t.Helper()
	all := map[string]any{"command": nil, "args": nil, "env": nil, "env_file": nil, "unset_env": nil, "cwd": nil}
	for name, value := range values {
		all[name] = value
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// fake starts the fake server with args.
func fake(t *testing.T, args ...string) *rig {
	t.Helper()
	return fakeWith(t, settings{}, args...)
}

func fakeWith(t *testing.T, set settings, args ...string) *rig {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	if set.config == nil {
		set.config = map[string]any{}
	}
	set.config["command"] = fakeServer
	set.config["args"] = append([]string{"--log", log, "--life", "2m"}, args...)
	r := run(t, set)
	r.log = log
	return r
}

// run starts whatever the settings say.
func run(t *testing.T, set settings) *rig {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &rig{
		conn: &conn{ctx: ctx, frames: make(chan provider.Frame), events: make(chan provider.Event)},
		t:    t, errs: &syncBuffer{}, cancel: cancel, returned: make(chan error, 1),
	}
	r.p = &stdioProvider{stderr: r.errs, environ: os.Environ}
	if set.stderr != nil {
		r.p.stderr = set.stderr
	}
	if set.environ != nil {
		r.p.environ = func() []string { return set.environ }
	}
	diags, err := r.p.Start(ctx, provider.StartRequest{
		Config: provider.Config{JSON: configJSON(t, set.config), BaseDir: set.base},
		Mark:   set.mark, MaxMessage: set.maxMessage,
	})
	if err != nil || diags.HasErrors() {
		cancel()
		t.Fatalf("start: %v %+v", err, diags)
	}
	if !set.noExchange {
		r.exchange()
	}
	t.Cleanup(func() {
		over, stop := context.WithCancel(context.Background())
		stop() // no waits: SIGKILL
		_, _ = r.p.Stop(over, provider.StopRequest{})
		cancel()
	})
	return r
}

func (r *rig) exchange() {
	go func() { r.returned <- r.p.Exchange(r.ctx, r.conn) }()
}

// send sends one message in chunks of at most SendChunk and returns its seq.
func (r *rig) send(message string) uint64 {
	r.t.Helper()
	r.seq++
	for rest := []byte(message); ; {
		n := min(len(rest), provider.SendChunk)
		r.frame(provider.Frame{Seq: r.seq, Data: rest[:n], Last: n == len(rest)})
		if rest = rest[n:]; len(rest) == 0 {
			return r.seq
		}
	}
}

// frame sends one frame as it is.
func (r *rig) frame(f provider.Frame) {
	r.t.Helper()
	select {
	case r.frames <- f:
	case <-time.After(soon):
		r.t.Fatalf("frame %d was not taken", f.Seq)
	}
}

// call sends a tool call; the id is its seq.
func (r *rig) call(tool, args string) uint64 {
	r.t.Helper()
	return r.send(toolCall(r.seq+1, tool, args))
}

func toolCall(id uint64, tool, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, args)
}

// emit makes the fake server write raw bytes to stdout before its answer.
func (r *rig) emit(text string) uint64 {
	r.t.Helper()
	return r.call("emit", `{"b64":"`+base64.StdEncoding.EncodeToString([]byte(text))+`"}`)
}

// next returns the next event, with the chunks of a message as one.
func (r *rig) next() provider.Event {
	r.t.Helper()
	for {
		select {
		case event := <-r.events:
			switch e := event.(type) {
			case provider.Chunk:
				r.message = append(r.message, e.Data...)
				if !e.Last {
					continue
				}
				event = provider.Chunk{Data: r.message, Last: true}
				r.message = nil
			case provider.Noise, provider.TooLarge:
				r.message = nil
			}
			return event
		case <-time.After(soon):
			r.t.Fatal("no event came")
		}
	}
}

// answer waits for the next message and returns it; Spoke is passed over.
func (r *rig) answer() string {
	r.t.Helper()
	for {
		switch e := r.next().(type) {
		case provider.Chunk:
			return string(e.Data)
		case provider.Spoke:
		default:
			r.t.Fatalf("got %T %+v, want a message", e, e)
		}
	}
}

// end waits for Exited and the end of the exchange; what else comes goes to each.
func (r *rig) end(each func(provider.Event)) provider.ExitStatus {
	r.t.Helper()
	for {
		event := r.next()
		exited, ok := event.(provider.Exited)
		if !ok {
			if each != nil {
				each(event)
			}
			continue
		}
		select {
		case err := <-r.returned:
			if err != nil {
				r.t.Errorf("exchange: %v", err)
			}
		case event := <-r.events:
			r.t.Errorf("%T after Exited", event)
		case <-time.After(soon):
			r.t.Fatal("the exchange did not end after Exited")
		}
		return exited.Status
	}
}

// structured returns the structuredContent of a result.
func structured(t *testing.T, answer string) string {
	t.Helper()
	var m struct {
		Result struct {
			Structured json.RawMessage `json:"structuredContent"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(answer), &m); err != nil {
		t.Fatalf("%v in %.200s", err, answer)
	}
	return string(m.Result.Structured)
}

// text returns the first text block of a result.
func text(t *testing.T, answer string) string {
	t.Helper()
	var m struct {
		Result struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(answer), &m); err != nil || len(m.Result.Content) == 0 {
		t.Fatalf("no text (%v) in %.200s", err, answer)
	}
	return m.Result.Content[0].Text
}

// entry is one line of the fake server's log.
type entry struct {
	Dir, Raw, Start string
	Pid             int
}

// logged returns the entries of one kind.
func (r *rig) logged(dir string) []entry {
	r.t.Helper()
	content, err := os.ReadFile(r.log)
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	var found []entry
	for line := range bytes.Lines(content) {
		var e entry
		if err := json.Unmarshal(line, &e); err == nil && e.Dir == dir {
			found = append(found, e)
		}
	}
	return found
}

// waitFor polls a condition of the world outside.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(soon); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", soon, what)
		}
	}
}

// startOf returns the start time of a process in ticks, "" if there is none or
// it is a zombie.
func startOf(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	return fields[19]
}

// contextDone is a context without any time left.
func contextDone() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx, cancel
}
