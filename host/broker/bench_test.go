package broker

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
)

// BenchmarkCall is what the broker itself costs a call, with 64 callers, each in a
// session of its own that was shown the list. With -tags unguarded it is what it
// costs without access and fence.
func BenchmarkCall(b *testing.B) {
	var tools []string
	for i := range 25 {
		tools = append(tools, fmt.Sprint("tool", i))
	}
	f, broker := newFake(b, map[string][]string{"shop": tools})
	in, err := f.Get(b.Context(), "shop")
	if err != nil {
		b.Fatal(err)
	}
	broker.opts.Sessions = settled{f, instant{in}}
	request, err := rpc.Parse(rpc.FromClient, []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"shop_tool7","arguments":{"text":"hello"}}}`))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(64)
	var callers atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		c := local
		c.Session, c.Client = fmt.Sprint(callers.Add(1)), Client{Name: "bench"}
		shownAll(broker, c)
		for pb.Next() {
			if r := broker.Call(context.Background(), Call{Caller: c, Request: request}); r.Outcome != OK {
				b.Error(r.Err)
				return
			}
		}
	})
}

// settled is a manager whose provider is ready, instant an instance that answers at
// once.
type settled struct {
	*fakeSessions
	in Instance
}

func (s settled) Get(context.Context, string) (Instance, error) { return s.in, nil }

type instant struct{ Instance }

func (instant) Do(_ context.Context, c session.Call) (*rpc.Message, error) {
	if err := c.Begin(); err != nil {
		return nil, err
	}
	return rpc.Parse(rpc.FromServer, []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`))
}
