package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// fakeSessions is a manager whose providers become ready, or fail, as a test says.
type fakeSessions struct {
	mu      sync.Mutex
	store   *catalog.Store
	tools   map[string][]string // what a provider lists once started
	failing map[string]*supervise.Failure
	mute    map[string]bool // never becomes ready
	// defs are a provider's definitions in place of tools; runs count its processes,
	// from 1 on.
	defs map[string][]json.RawMessage
	runs map[string]int
	// getting is called by each Get.
	getting func()
	started []string
	level   string
	do      func(ctx context.Context, c session.Call) (*rpc.Message, error)
	got     []string // the messages that were dispatched
}

func (f *fakeSessions) Get(ctx context.Context, slug string) (Instance, error) {
	f.mu.Lock()
	f.started = append(f.started, slug)
	failure, mute, defs, getting := f.failing[slug], f.mute[slug], f.defs[slug], f.getting
	in := &fakeInstance{f, slug, fmt.Sprintf("host/%s/%d", slug, f.runs[slug]+1)}
	f.mu.Unlock()
	if getting != nil {
		getting()
	}
	if failure != nil {
		return nil, failure
	}
	if mute {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, name := range f.tools[slug] {
		if f.defs[slug] != nil {
			break
		}
		defs = append(defs, json.RawMessage(`{"name":"`+name+`","annotations":{"readOnlyHint":`+readOnly(name)+`}}`))
	}
	if err := f.store.Put(slug, in.mark, defs); err != nil {
		return nil, err
	}
	return in, nil
}

func readOnly(name string) string {
	if strings.HasPrefix(name, "get") {
		return "true"
	}
	return "false"
}

func (f *fakeSessions) Warm(ctx context.Context, slug string) error {
	_, err := f.Get(ctx, slug)
	return err
}

func (f *fakeSessions) State(slug string) (session.State, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return session.State{Failure: f.failing[slug]}, true
}

func (f *fakeSessions) SetLogLevel(level string) { f.level = level }
func (f *fakeSessions) Logging(of func(string) bool) (bool, bool) {
	for slug := range f.tools {
		if of(slug) {
			return false, true
		}
	}
	return false, false
}

type fakeInstance struct {
	f    *fakeSessions
	slug string
	mark string
}

func (i *fakeInstance) Mark() string { return i.mark }

func (i *fakeInstance) Current(context.Context, time.Duration) (uint64, error) { return 0, nil }
func (i *fakeInstance) Epoch() uint64                                          { return 0 }
func (i *fakeInstance) Announces() bool                                        { return true }

func (i *fakeInstance) Do(ctx context.Context, c session.Call) (*rpc.Message, error) {
	if err := c.Begin(); err != nil {
		return nil, err
	}
	edit := c.Request.Edit()
	c.Edit(edit)
	var sent strings.Builder
	if _, err := edit.Payload().WriteTo(&sent); err != nil {
		return nil, err
	}
	i.f.mu.Lock()
	i.f.got = append(i.f.got, sent.String())
	i.f.mu.Unlock()
	return i.f.do(ctx, c)
}

// local is who calls, and open the policy, where nothing is declared.
var (
	local = Caller{Principal: access.Local}
	open  = access.New(access.Spec{})
)

func newFake(t testing.TB, tools map[string][]string) (*fakeSessions, *Broker) {
	t.Helper()
	f := &fakeSessions{tools: tools, failing: map[string]*supervise.Failure{}, mute: map[string]bool{},
		defs: map[string][]json.RawMessage{}, runs: map[string]int{}}
	var declared []catalog.Provider
	var providers []Provider
	for slug := range tools {
		declared = append(declared, catalog.Provider{Slug: slug, Tools: []string{"*"}})
		providers = append(providers, Provider{Slug: slug, Label: slug, MaxMessage: 1 << 20, CallTimeoutMax: time.Minute})
	}
	f.store = catalog.New(catalog.Options{Names: "prefixed", NameMax: 64}, declared)
	f.do = func(context.Context, session.Call) (*rpc.Message, error) {
		return message(t, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`), nil
	}
	return f, New(Options{Sessions: f, Catalog: f.store, Policy: func() *access.Policy { return open }, Providers: providers, ListWait: 50 * time.Millisecond})
}

func message(t testing.TB, text string) *rpc.Message {
	t.Helper()
	origin := rpc.FromClient
	if !strings.Contains(text, `"method"`) {
		origin = rpc.FromServer
	}
	m, err := rpc.Parse(origin, []byte(text))
	if err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	return m
}

func toolCall(t *testing.T, params string) Call {
	t.Helper()
	return Call{Caller: local, Request: message(t, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":`+params+`}`),
		Notify: func(*rpc.Message) error { return nil }}
}
