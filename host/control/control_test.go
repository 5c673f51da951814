package control

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
)

// Programs rely on the form: every member, by name, with its type.
func TestFormOfStatus(t *testing.T) {
	h := newHouse(t)
	h.instances["files"] = []session.Running{{
		Mark: "h/files/2", GuardPID: 11, PluginPID: 12, Started: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC), Calls: 3,
	}}
	s := h.control.Status()
	s.Host.PID = 1
	got, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "host": {
    "id": "abababababababababababababababab",
    "pid": 1,
    "version": "1.2.3",
    "started": "2026-01-02T03:04:05Z",
    "containment": "direct"
  },
  "providers": [
    {
      "name": "files",
      "state": "cold",
      "since": "2026-01-02T03:04:05Z",
      "reason": "",
      "restarts": 0,
      "noise": 0,
      "generation": 1,
      "next_start": null,
      "instances": [
        {
          "id": "h/files/2",
          "guard_pid": 11,
          "plugin_pid": 12,
          "started": "2026-01-02T03:00:00Z",
          "scope": "principal",
          "owner": "local",
          "calls_in_flight": 3
        }
      ],
      "exits": []
    },
    {
      "name": "broken",
      "state": "failed",
      "since": "2026-01-02T03:04:05Z",
      "reason": "provider \"broken\" (p.hcl:3): initialize: it said [redacted]",
      "restarts": 5,
      "noise": 7,
      "generation": 2,
      "next_start": "2026-01-02T03:05:05Z",
      "instances": [],
      "exits": [
        {
          "instance": "h/broken/6",
          "time": "2026-01-02T03:04:05Z",
          "code": 3,
          "signal": 0,
          "asked": false,
          "stderr": "not [redacted]"
        }
      ]
    }
  ]
}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

// A provider that comes back and goes again says so, and how often.
func TestCrashLoopIsCalledOne(t *testing.T) {
	h := newHouse(t)
	for _, c := range []struct {
		state string
		inRow int
		want  string
	}{
		{"backoff", 1, `provider "broken"`},
		{"backoff", 2, `crash loop, 2 restarts in a row: provider "broken"`},
		{"starting", 2, `crash loop, 2 restarts in a row: provider "broken"`},
		{"failed", 5, `crash loop, given up after 5 restarts in a row: provider "broken"`},
		{"ready", 5, ""},
	} {
		s := h.states["broken"]
		s.Name, s.InRow = c.state, c.inRow
		h.states["broken"] = s
		if got := h.control.Status().Providers[1].Reason; !strings.HasPrefix(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s, %d in a row: %q, want %q", c.state, c.inRow, got, c.want)
		}
	}
}

// What a client is told is what the Control says.
func TestStatusOverTheSocket(t *testing.T) {
	h := newHouse(t)
	c := h.serve()
	got, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Host.PID != os.Getpid() {
		t.Errorf("pid %d", got.Host.PID)
	}
	if diff := cmp.Diff(h.control.Status(), got); diff != "" {
		t.Error(diff)
	}
}

func TestTools(t *testing.T) {
	h := newHouse(t)
	c := h.serve()
	list, err := c.Tools(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	want := []ToolProvider{
		{Name: "files", State: "ready", Tools: 1},
		{Name: "broken", State: "failed", Reason: `provider "broken" (p.hcl:3): initialize: it said [redacted]`},
	}
	if diff := cmp.Diff(want, list.Providers); diff != "" {
		t.Error(diff)
	}
	if len(list.Tools) != 1 {
		t.Fatalf("%+v", list.Tools)
	}
	tool := list.Tools[0]
	if tool.Name != "files_echo" || tool.Tool != "echo" || tool.Provider != "files" || tool.Effectful || len(tool.Digest) != 64 ||
		!strings.Contains(string(tool.Definition), `"description":"Says <it> again"`) {
		t.Errorf("%+v", tool)
	}
	// What was listed is not started for another look.
	if _, err := c.Tools(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, slug := range h.started {
		if slug == "files" {
			files++
		}
	}
	if files != 1 {
		t.Errorf("started %v", h.started)
	}
}

func TestCall(t *testing.T) {
	h := newHouse(t)
	c := h.serve()
	reply, err := c.Call(t.Context(), CallRequest{Provider: "files", Tool: "echo", Arguments: json.RawMessage(`{"a":"<9007199254740993>","n":9007199254740993}`)})
	if err != nil {
		t.Fatal(err)
	}
	want := CallReply{Outcome: broker.OK, Result: json.RawMessage(`{"name":"files_echo","got":{"a":"<9007199254740993>","n":9007199254740993}}`)}
	if diff := cmp.Diff(want, reply); diff != "" {
		t.Error(diff)
	}
	local, err := h.control.Call(t.Context(), CallRequest{Provider: "files", Tool: "echo"})
	if err != nil || string(local.Result) != `{"name":"files_echo","got":{}}` {
		t.Errorf("%s, %v", local.Result, err)
	}
}

func TestCallsThatEndInAnError(t *testing.T) {
	h := newHouse(t)
	c := h.serve()
	h.reply = func(context.Context, broker.Call) broker.Reply {
		return broker.Reply{Outcome: broker.Unknown, Err: &rpc.Error{Code: broker.CodeUnknown, Message: "it may have happened"}}
	}
	reply, err := c.Call(t.Context(), CallRequest{Provider: "files", Tool: "echo"})
	if err != nil || reply.Outcome != broker.Unknown || string(reply.Error) != `{"code":-31004,"message":"it may have happened"}` || reply.Result != nil {
		t.Errorf("%+v, %v", reply, err)
	}
	h.reply = func(context.Context, broker.Call) broker.Reply {
		m, err := rpc.Parse(rpc.FromServer, []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":1.0,"message":"no"}}`))
		if err != nil {
			t.Error(err)
		}
		return broker.Reply{Outcome: broker.RPCError, Message: m}
	}
	reply, err = c.Call(t.Context(), CallRequest{Provider: "files", Tool: "echo"})
	if err != nil || reply.Outcome != broker.RPCError || string(reply.Error) != `{"code":1.0,"message":"no"}` {
		t.Errorf("%+v, %v", reply, err)
	}
}

func TestWhatIsRefused(t *testing.T) {
	h := newHouse(t)
	c := h.serve()
	call := func(provider, tool, arguments string) func() error {
		return func() error {
			_, err := c.Call(t.Context(), CallRequest{Provider: provider, Tool: tool, Arguments: json.RawMessage(arguments)})
			return err
		}
	}
	for name, one := range map[string]struct {
		ask    func() error
		status int
		says   string
	}{
		"no such provider":  {call("nobody", "echo", ""), http.StatusNotFound, `no such provider "nobody" in /etc/p.hcl`},
		"no such tool":      {call("files", "shout", ""), http.StatusNotFound, `provider "files" exposes no "shout"`},
		"an array":          {call("files", "echo", `[1]`), http.StatusBadRequest, "no JSON object"},
		"a way out":         {call("files", "echo", `{},"name":{}`), 0, "no JSON object"},
		"too large":         {call("files", "echo", `{"a":"`+strings.Repeat("x", 1<<20)+`"}`), http.StatusRequestEntityTooLarge, "too large"},
		"a broken provider": {call("broken", "echo", ""), http.StatusServiceUnavailable, "it said [redacted]"},
		"restart nobody": {func() error { _, err := c.Restart(t.Context(), "no/body"); return err },
			http.StatusNotFound, `no such provider "no/body"`},
		"logs of nobody": {func() error { return c.Logs(t.Context(), "../files", 1, false, new(strings.Builder)) },
			http.StatusNotFound, `no such provider "../files"`},
		"no logs": {func() error { return c.Logs(t.Context(), "files", 1, false, new(strings.Builder)) },
			http.StatusNotFound, "files.log"},
	} {
		err := one.ask()
		var e *Error
		if errors.As(err, &e) != (one.status != 0) || e != nil && e.Status != one.status || err == nil || !strings.Contains(err.Error(), one.says) {
			t.Errorf("%s: %v (%+v), want %d, %q", name, err, e, one.status, one.says)
		}
	}
	if _, err := h.control.Call(t.Context(), CallRequest{Provider: "files", Tool: "echo", Arguments: json.RawMessage(`{},"name":{}`)}); !errors.Is(err, ErrArguments) {
		t.Errorf("%v", err)
	}
}

func TestRestart(t *testing.T) {
	h := newHouse(t)
	c := h.serve()
	p, err := c.Restart(t.Context(), "files")
	if err != nil || p.Name != "files" || p.State != "ready" {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := c.Restart(t.Context(), "broken"); err == nil || err.Error() != `provider "broken" (p.hcl:3): initialize: it said [redacted]` {
		t.Errorf("%v", err)
	}
	if len(h.restarted) != 2 {
		t.Errorf("%v", h.restarted)
	}
}

// A call whose caller hangs up is cancelled.
func TestHangingUpCancels(t *testing.T) {
	h := newHouse(t)
	c := h.serve()
	began, over := make(chan struct{}), make(chan struct{})
	h.reply = func(ctx context.Context, _ broker.Call) broker.Reply {
		close(began)
		<-ctx.Done()
		close(over)
		return broker.Reply{Outcome: broker.Unknown, Err: &rpc.Error{Code: broker.CodeUnknown, Message: "cancelled"}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, CallRequest{Provider: "files", Tool: "echo"})
		done <- err
	}()
	<-began
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	select {
	case <-over:
	case <-time.After(limit):
		t.Error("the call goes on")
	}
}

// lines is a writer that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(p)
	return len(p), nil
}

func (l *lines) await(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		got := l.text
		l.mu.Unlock()
		if got == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// A log that is followed ends with the host.
func TestLogsAreFollowedUntilTheHostEnds(t *testing.T) {
	h := newHouse(t)
	c := h.serve()
	if err := os.Mkdir(h.control.opts.LogDir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(h.control.opts.LogDir, "files.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write := func(text string) {
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write("one\ntwo\nthree\n")
	var last strings.Builder
	if err := c.Logs(t.Context(), "files", 2, false, &last); err != nil || last.String() != "two\nthree\n" {
		t.Errorf("%q, %v", last.String(), err)
	}
	out := new(lines)
	done := make(chan error, 1)
	go func() { done <- c.Logs(t.Context(), "files", 1, true, out) }()
	out.await(t, "three\n")
	write("four\n")
	out.await(t, "three\nfour\n")
	if err := h.control.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Close waits for who is being answered, and leaves nothing behind.
func TestCloseEndsWhatIsAsked(t *testing.T) {
	h := newHouse(t)
	c := h.serve()
	h.hold = make(chan struct{})
	done := make(chan error, 1)
	go func() { _, err := c.Restart(t.Context(), "files"); done <- err }()
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		h.mu.Lock()
		asked := len(h.restarted)
		h.mu.Unlock()
		if asked > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the restart did not arrive")
		}
	}
	if err := h.control.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("restarted")
	}
	left, err := os.ReadDir(h.dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "gave no answer") {
		t.Errorf("%v", err)
	}
}
