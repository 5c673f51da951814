package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// limit bounds every wait of a test; nothing waits for it that goes well.
const limit = 20 * time.Second

func TestMain(m *testing.M) {
	if socket := os.Getenv(knockEnv); socket != "" {
		os.Exit(knock(socket))
	}
	goleak.VerifyTestMain(m)
}

// house is a host in this process: providers with a state each, and a broker that
// answers with what it was asked.
type house struct {
	t       *testing.T
	control *Control
	dir     string
	store   *catalog.Store
	policy  *access.Policy

	mu        sync.Mutex
	states    map[string]session.State
	instances map[string][]session.Running
	started   []string
	restarted []string
	// hold, where set, keeps a Restart until it is closed or ctx ends.
	hold chan struct{}
	// reply answers a call.
	reply func(ctx context.Context, c broker.Call) broker.Reply
}

func (h *house) State(slug string) (session.State, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.states[slug]
	return s, ok
}

func (h *house) Instances(slug string) []session.Running { return h.instances[slug] }

func (h *house) Start(_ context.Context, slug string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started = append(h.started, slug)
	s := h.states[slug]
	if s.Failure != nil {
		return s.Failure
	}
	s.Name = "ready"
	h.states[slug] = s
	return h.store.Put(slug, "h/"+slug+"/1", []json.RawMessage{json.RawMessage(
		`{"name":"echo","description":"Says <it> again","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`)})
}

func (h *house) Restart(ctx context.Context, slug string) error {
	h.mu.Lock()
	hold := h.hold
	h.restarted = append(h.restarted, slug)
	h.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return h.Start(ctx, slug)
}

func (h *house) View(broker.Caller) *catalog.View {
	return h.store.Snapshot().View(catalog.Naming{}, func(*catalog.Tool) bool { return true })
}

func (h *house) Call(ctx context.Context, c broker.Call) broker.Reply { return h.reply(ctx, c) }

// echo answers with the arguments.
func echo(t *testing.T) func(context.Context, broker.Call) broker.Reply {
	return func(_ context.Context, c broker.Call) broker.Reply {
		m, err := rpc.Parse(rpc.FromServer, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"name":%s,"got":%s}}`,
			c.Request.Get("params", "name"), c.Request.Get("params", "arguments")))
		if err != nil {
			t.Error(err)
		}
		return broker.Reply{Outcome: broker.OK, Message: m}
	}
}

// newHouse makes a host of two providers: files, which is cold, and broken, which
// has failed.
func newHouse(t *testing.T) *house {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl") // short: a socket's path is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	h := &house{t: t, dir: dir, instances: map[string][]session.Running{}, policy: access.New(access.Spec{})}
	h.store = catalog.New(catalog.Options{}, []catalog.Provider{
		{Slug: "files", Tools: []string{"*"}}, {Slug: "broken", Tools: []string{"*"}},
	})
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h.states = map[string]session.State{
		"files": {Name: "cold", Since: at},
		"broken": {
			Name: "failed", Since: at, Restarts: 5, Noise: 7, Next: at.Add(time.Minute),
			Failure: &supervise.Failure{Provider: "broken", Where: "p.hcl:3", Phase: supervise.PhaseInitialize, Cause: "it said s3cr3t"},
			Exits:   []supervise.Exit{{Instance: "h/broken/6", Time: at, Code: 3, Stderr: "not s3cr3t"}},
		},
	}
	h.reply = echo(t)
	h.control = New(Options{
		Info: Info{ID: strings.Repeat("ab", 16), Version: "1.2.3", Started: at, Config: "/etc/p.hcl", StateDir: "/var/state"},
		Dir:  dir, LogDir: filepath.Join(dir, "logs"), Containment: "direct",
		Policy: func() *access.Policy { return h.policy }, Sessions: h, Broker: h, Catalog: h.store, MaxRequest: 1 << 20,
		Redact: func(s string) string { return strings.ReplaceAll(s, "s3cr3t", "[redacted]") },
	})
	h.control.SetProviders([]Provider{
		{Slug: "files", Scope: "principal", Owner: "local", Generation: 1},
		{Slug: "broken", Scope: "shared", Generation: 2},
	})
	return h
}

// serve opens the socket and returns a client of it. The lineage of who asks is not
// looked at: a test asks itself.
func (h *house) serve() *Client {
	h.t.Helper()
	return h.serveWith(func(*net.UnixConn) error { return nil })
}

func (h *house) serveWith(admit func(*net.UnixConn) error) *Client {
	h.t.Helper()
	h.control.admit = admit
	if err := h.control.Serve(h.t.Context(), "http://127.0.0.1:1/mcp"); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := h.control.Close(context.Background()); err != nil {
			h.t.Error(err)
		}
	})
	return NewClient(h.dir, h.control.opts.Info)
}
