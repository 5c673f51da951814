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

	mu       sync.Mutex
	tools    []*catalog.Tool
	levels   map[string]string
	calls    []broker.Call // as they came
	ends     []string      // of holds: "cancelled" or "released", by name
	releases chan struct{}
	held     chan string // the literal ids of holds that have begun
}

func newFakeBroker(tools ...string) *fakeBroker {
	b := &fakeBroker{levels: map[string]string{}, releases: make(chan struct{}), held: make(chan string, 2048)}
	b.setTools(tools...)
	return b
}

// setTools makes tools of definitions, or of mere names.
func (b *fakeBroker) setTools(defs ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tools = nil
	for _, def := range defs {
		name := def
		if strings.HasPrefix(def, "{") {
			var d struct{ Name string }
			if err := json.Unmarshal([]byte(def), &d); err != nil {
				panic(err)
			}
			name = d.Name
		} else {
			def = `{"name":"` + def + `","inputSchema":{"type":"object"}}`
		}
		b.tools = append(b.tools, &catalog.Tool{Exposed: name, Listed: json.RawMessage(def), Digest: catalog.DigestTool(json.RawMessage(def))})
	}
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

func (b *fakeBroker) Tools(broker.Caller) []*catalog.Tool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tools
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

func (b *fakeBroker) Capabilities(broker.Caller) broker.Capabilities {
	return broker.Capabilities{Logging: !b.noLogging}
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
	for _, tool := range b.Tools(c.Caller) {
		if tool.Exposed == name && c.Admit != nil {
			if refused := c.Admit(tool); refused != nil {
				return broker.Reply{Err: refused}
			}
		}
	}
	arguments := c.Request.Get("params", "arguments")
	switch name {
	case "echo":
		if arguments == nil {
			arguments = json.RawMessage("null")
		}
		return broker.Reply{Message: fromServer(`{"jsonrpc":"2.0","id":7,"result":{"content":[],"structuredContent":` + string(arguments) + `}}`)}
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
