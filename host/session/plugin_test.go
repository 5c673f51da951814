package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/containment"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// plugin is a plugin in this process: a remote whose server is scripted, and the
// tree of no processes.
type plugin struct {
	server *server
	diags  provider.Diagnostics
	// exit is what Stop says of the server.
	exit provider.ExitStatus

	mu    sync.Mutex
	conns []*fakeConn
	ended sync.Once
	done  chan struct{}
}

func (p *plugin) PID() int              { return 0 }
func (p *plugin) Release()              { p.end() }
func (p *plugin) Kill()                 { p.end() }
func (p *plugin) Done() <-chan struct{} { return p.done }
func (p *plugin) Exit() containment.Exit {
	return containment.Exit{Code: p.exit.Code, Signal: p.exit.Signal}
}

// end is the end of the plugin and of its streams.
func (p *plugin) end() {
	p.ended.Do(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.conns {
			c.end()
		}
		close(p.done)
	})
}

// exitServer makes the server end by itself.
func (p *plugin) exitServer(status provider.ExitStatus) {
	p.exit = status
	p.conn().event(provider.Exited{Status: status})
}

func (p *plugin) conn() *fakeConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns[len(p.conns)-1]
}

func (p *plugin) Describe(context.Context) (provider.Description, error) {
	return provider.Description{}, nil
}

func (p *plugin) Validate(context.Context, provider.Config) (provider.Diagnostics, error) {
	return nil, nil
}

func (p *plugin) Start(context.Context, provider.StartRequest) (provider.Diagnostics, error) {
	return p.diags, nil
}

func (p *plugin) Exchange(ctx context.Context) (provider.HostConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := newFakeConn(ctx, p.server.handle)
	p.conns = append(p.conns, c)
	p.server.mu.Lock()
	p.server.conn = c
	p.server.mu.Unlock()
	return c, nil
}

func (p *plugin) Stop(context.Context, provider.StopRequest) (provider.ExitStatus, error) {
	p.end()
	return p.exit, nil
}

// house is a manager whose plugins are in this process.
type house struct {
	t       testing.TB
	manager *Manager
	// make returns the plugin of the nth start of a provider, from 1.
	make func(slug string, n int) *plugin

	mu      sync.Mutex
	starts  map[string]int
	plugins map[string]*plugin // the last of each provider
	tools   []heardList
	logs    []string
	opened  []string
	states  []string
}

type heardList struct {
	slug, instance string
	defs           []string
}

func (h *house) Launch(_ context.Context, spec supervise.Spec) (*supervise.Process, error) {
	h.mu.Lock()
	h.starts[spec.Provider]++
	n := h.starts[spec.Provider]
	h.mu.Unlock()
	p := h.make(spec.Provider, n)
	p.done = make(chan struct{})
	h.mu.Lock()
	h.plugins[spec.Provider] = p
	h.mu.Unlock()
	return supervise.Attach(spec, fmt.Sprintf("h/%s/%d", spec.Provider, n), p, p), nil
}

func (h *house) Opened(slug, instance string, s Server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened = append(h.opened, fmt.Sprintf("%s %s %s", instance, s.Era, s.Version))
}

func (h *house) Tools(slug, instance string, defs []json.RawMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := heardList{slug: slug, instance: instance}
	for _, d := range defs {
		list.defs = append(list.defs, string(d))
	}
	h.tools = append(h.tools, list)
}

func (h *house) Log(slug, instance, level string, m *rpc.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	data, _ := m.GetString("params", "data")
	h.logs = append(h.logs, slug+" "+instance+" "+level+" "+data)
}

func (h *house) State(slug string, s State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states = append(h.states, slug+" "+s.Name)
}

func (h *house) lists() []heardList {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]heardList(nil), h.tools...)
}

func (h *house) started(slug string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.starts[slug]
}

func (h *house) plugin(slug string) *plugin {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.plugins[slug]
}

func specOf(slug string) Spec {
	return Spec{
		Spec: supervise.Spec{
			Provider: slug, Label: slug, Where: "providers.hcl:1", MaxMessage: 64 << 20,
			StartTimeout: 30 * time.Second, StopGrace: 2 * time.Second,
			Restart: supervise.Policy{
				Intensity: 5, Period: time.Minute, Backoff: 10 * time.Millisecond, BackoffMax: 20 * time.Millisecond,
				StableAfter: time.Minute, Cooldown: time.Minute,
			},
		},
		CallTimeout: 20 * time.Second, CallTimeoutMax: time.Minute,
	}
}

// newHouse makes a manager of providers whose servers make returns.
func newHouse(t testing.TB, script func(slug string, n int) *plugin, specs ...Spec) *house {
	h := &house{t: t, make: script, starts: map[string]int{}, plugins: map[string]*plugin{}}
	logger := slog.New(slog.DiscardHandler)
	if os.Getenv("SESSION_TEST_LOG") != "" {
		logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	h.manager = NewManager(Options{Launcher: h, Listener: h, SpoolDir: t.TempDir(), Logger: logger, Version: "1.2.3"})
	h.manager.Apply(specs)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		h.manager.Stop(ctx)
	})
	return h
}

// oneServer is a house with one provider, p, whose every start has this server.
func oneServer(t testing.TB, s *server, change ...func(*Spec)) *house {
	spec := specOf("p")
	for _, f := range change {
		f(&spec)
	}
	return newHouse(t, func(string, int) *plugin { return &plugin{server: s} }, spec)
}

func (h *house) get(slug string) *Instance {
	h.t.Helper()
	i, err := h.manager.Get(context.Background(), slug)
	if err != nil {
		h.t.Fatal(err)
	}
	return i
}

// do calls a tool and returns the response as text.
func (h *house) do(i *Instance, c Call) string {
	h.t.Helper()
	m, err := i.Do(h.t.Context(), c)
	if err != nil {
		h.t.Fatal(err)
	}
	defer m.Close()
	return text(h.t, m)
}

func wantFailure(t testing.TB, err error, phase supervise.Phase, cause string) *supervise.Failure {
	t.Helper()
	var f *supervise.Failure
	if !errors.As(err, &f) {
		t.Fatalf("the error is %v, want a *supervise.Failure", err)
	}
	if f.Phase != phase || !contains(f.Error(), cause) {
		t.Errorf("the failure is %q in phase %q; want %q in %q", f, f.Phase, cause, phase)
	}
	return f
}
