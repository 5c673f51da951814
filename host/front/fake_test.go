package front

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// fakeBroker plays the broker and all behind it. Its tools:
//
//	echo    its arguments as structuredContent, or null
//	hold    nothing until it is cancelled or the test releases it
//	say     the notifications in arguments.say, then {}
//	raw     the response in arguments.response
//	die     the host's own error
type fakeBroker struct {
	// starts is run once by the next Prepare.
	starts    func()
	noLogging bool
	// noResults: this caller has no provider, and so no large results.
	noResults bool
	// replaced is the instance that results say was there before.
	replaced string

	mu       sync.Mutex
	store    *catalog.Store
	shown    []string // exposed names, as they were written
	forgets  map[string]int
	levels   map[string]string
	calls    []broker.Call // as they came
	ends     []string      // of holds: "cancelled" or "released", by name
	releases chan struct{}
	held     chan string // the literal ids of holds that have begun
}

func newFakeBroker(tools ...string) *fakeBroker {
	b := &fakeBroker{store: catalog.New(catalog.Options{}, []catalog.Provider{{Slug: "fake", Tools: []string{"*"}}}), levels: map[string]string{}, releases: make(chan struct{}), held: make(chan string, 2048)}
	b.setTools(tools...)
	return b
}

// setTools makes tools of definitions, or of mere names.
func (b *fakeBroker) setTools(defs ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var raw []json.RawMessage
	for _, def := range defs {
		if !strings.HasPrefix(def, "{") {
			def = `{"name":"` + def + `","inputSchema":{"type":"object"}}`
		}
		raw = append(raw, json.RawMessage(def))
	}
	if err := b.store.Put("fake", "host/fake/1", raw); err != nil {
		panic(err)
	}
}

// changes gives the clients of s one tool more to see, and tells s.
func (b *fakeBroker) changes(s *Server) {
	var defs []string
	for _, t := range b.View(broker.Caller{}).Tools() {
		defs = append(defs, string(t.Raw))
	}
	b.setTools(append(defs, fmt.Sprintf("another-%d", len(defs)))...)
	s.ToolsChanged()
}

func (b *fakeBroker) Prepare(context.Context, broker.Caller) {
	b.mu.Lock()
	starts := b.starts
	b.starts = nil
	b.mu.Unlock()
	if starts != nil {
		starts()
	}
}

func (b *fakeBroker) View(broker.Caller) *catalog.View {
	b.mu.Lock()
	defer b.mu.Unlock()
	// One snapshot, one view: what is compared are revisions, and those are the same.
	return b.store.Snapshot().View(catalog.Naming{Names: catalog.NamesBare}, func(*catalog.Tool) bool { return true })
}

func (b *fakeBroker) Shown(_ broker.Caller, v *catalog.View, from, to int) (undo func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := len(b.shown)
	for _, t := range v.Tools()[from:to] {
		b.shown = append(b.shown, t.Exposed)
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.shown = b.shown[:at]
	}
}

func (b *fakeBroker) Forget(session string) {
	b.SetLogLevel(session, "")
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.forgets == nil {
		b.forgets = map[string]int{}
	}
	b.forgets[session]++
}

func (b *fakeBroker) SetLogLevel(session, level string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if level == "" {
		delete(b.levels, session)
	} else {
		b.levels[session] = level
	}
	return true
}

func (b *fakeBroker) levelOf() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]string{}
	for k, v := range b.levels {
		out[k] = v
	}
	return out
}

// Sees says that everybody sees everything but the provider "hidden".
func (b *fakeBroker) Sees(_ broker.Caller, provider string) bool { return provider != "hidden" }

func (b *fakeBroker) Capabilities(broker.Caller) broker.Capabilities {
	return broker.Capabilities{Logging: !b.noLogging, Results: !b.noResults}
}

func (b *fakeBroker) received() []broker.Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]broker.Call(nil), b.calls...)
}

func (b *fakeBroker) ended() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.ends...)
}

// fromServer is a message as a server would have sent it, under an id of the host's.
func fromServer(text string) *rpc.Message {
	m, err := rpc.Parse(rpc.FromServer, []byte(text))
	if err != nil {
		panic(fmt.Sprintf("%v in %s", err, text))
	}
	return m
}

func (b *fakeBroker) Call(ctx context.Context, c broker.Call) broker.Reply {
	b.mu.Lock()
	b.calls = append(b.calls, c)
	b.mu.Unlock()
	name, _ := c.Request.GetString("params", "name")
	if c.Identified != nil {
		c.Identified("j-" + string(c.Request.ID))
	}
	if tool, ok := b.View(c.Caller).Find(name); ok && c.Admit != nil {
		if refused := c.Admit(tool); refused != nil {
			return broker.Reply{Err: refused}
		}
	}
	arguments := c.Request.Get("params", "arguments")
	switch name {
	case "echo":
		if arguments == nil {
			arguments = json.RawMessage("null")
		}
		return broker.Reply{
			Outcome: broker.OK, ID: "j-" + string(c.Request.ID), Instance: "host/fake/2", Digest: "d1g3st", Replaced: b.replaced,
			Message: fromServer(`{"jsonrpc":"2.0","id":7,"result":{"content":[],"structuredContent":` + string(arguments) + `}}`),
		}
	case "hold":
		b.held <- string(c.Request.ID)
		how := "released"
		select {
		case <-ctx.Done():
			how = "cancelled"
		case <-b.releases:
		}
		b.mu.Lock()
		b.ends = append(b.ends, string(c.Request.ID)+" "+how)
		b.mu.Unlock()
		if how == "cancelled" {
			return broker.Reply{Err: &rpc.Error{Code: broker.CodeUnknown, Message: "cancelled"}}
		}
		return broker.Reply{Message: fromServer(`{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`)}
	case "say":
		var args struct{ Say []json.RawMessage }
		if err := json.Unmarshal(arguments, &args); err != nil {
			panic(err)
		}
		for _, n := range args.Say {
			if err := c.Notify(fromServer(string(n))); err != nil {
				panic("Notify: " + err.Error())
			}
		}
		return broker.Reply{Message: fromServer(`{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`)}
	case "raw":
		var args struct{ Response json.RawMessage }
		if err := json.Unmarshal(arguments, &args); err != nil {
			panic(err)
		}
		return broker.Reply{Message: fromServer(string(args.Response))}
	case "panic":
		panic("a fault")
	}
	return broker.Reply{Err: &rpc.Error{Code: -31001, Message: "there is no such tool", Data: json.RawMessage(`{"outcome":"denied"}`)}}
}
