package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// CallRequest names a tool by its provider and as its server calls it.
type CallRequest struct {
	Provider string `json:"provider"`
	Tool     string `json:"tool"`
	// Project is the one to call in; "" means the only one.
	Project string `json:"project,omitempty"`
	// Arguments is a JSON object; none means an empty one.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// CallReply is how a call ended: Result with the outcomes ok and tool_error, Error
// with all others.
type CallReply struct {
	Outcome broker.Outcome  `json:"outcome"`
	Result  json.RawMessage `json:"result,omitempty"`
	// Error is a JSON-RPC error: the server's own with rpc_error, else the host's.
	Error json.RawMessage `json:"error,omitempty"`
}

// Call calls a tool, through the broker. The error, where nothing was called, is
// a *supervise.Failure, ctx's, or wraps ErrNoProvider, ErrNoTool, ErrProject or
// ErrArguments.
func (c *Control) Call(ctx context.Context, r CallRequest) (CallReply, error) {
	reply, err := c.call(ctx, r)
	if err != nil {
		return CallReply{}, err
	}
	out := CallReply{Outcome: reply.Outcome}
	if reply.Err != nil {
		if out.Error, err = json.Marshal(reply.Err); err != nil {
			return CallReply{}, err
		}
		return out, nil
	}
	defer reply.Message.Close() //nolint:errcheck // what is kept of it is copied
	out.Result = bytes.Clone(reply.Message.Get("result"))
	out.Error = bytes.Clone(reply.Message.Get("error"))
	return out, nil
}

// call is Call with the server's answer as it came, which the caller closes.
func (c *Control) call(ctx context.Context, r CallRequest) (broker.Reply, error) {
	arguments, err := r.object()
	if err != nil {
		return broker.Reply{}, err // before anything starts
	}
	if _, ok := c.provider(r.Provider); !ok {
		return broker.Reply{}, fmt.Errorf("%w %q in %s", ErrNoProvider, r.Provider, c.opts.Info.Config)
	}
	caller, err := c.caller(r.Project)
	if err != nil {
		return broker.Reply{}, err
	}
	if !c.opts.Policy().Sees(caller.Principal, caller.Project, r.Provider) {
		return broker.Reply{}, fmt.Errorf("%w: no grant gives %q anything of provider %q; see `drawbridge access %[2]s`", ErrNoTool, caller.Principal, r.Provider)
	}
	if err := c.opts.Sessions.Start(ctx, r.Provider); err != nil {
		return broker.Reply{}, err
	}
	t, ok := c.opts.Broker.View(caller).Tool(r.Provider, r.Tool)
	if !ok {
		return broker.Reply{}, fmt.Errorf("%w: provider %q exposes no %q to %q; see `drawbridge tools`", ErrNoTool, r.Provider, r.Tool, caller.Principal)
	}
	state, _ := c.opts.Sessions.State(r.Provider)
	request, err := message(t, state.Instance, arguments)
	if err != nil {
		return broker.Reply{}, err
	}
	reply := c.opts.Broker.Call(ctx, broker.Call{
		Caller:  caller,
		Request: request,
		Notify:  func(*rpc.Message) error { return nil },
	})
	return reply, reply.Deliver(func() error { return nil })
}

// object is the arguments, valid by themselves, so that they cannot end the object
// that they are put into.
func (r CallRequest) object() ([]byte, error) {
	arguments := bytes.TrimSpace(r.Arguments)
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	if !json.Valid(arguments) || arguments[0] != '{' {
		return nil, fmt.Errorf("%w: %.80s", ErrArguments, arguments)
	}
	return arguments, nil
}

// message is a call as a client would send it. It names the definition and the
// process that it is meant for: a command remembers neither from one time to the
// next, so there is nothing else that it could be held to.
func message(t *catalog.Tool, instance string, arguments []byte) (*rpc.Message, error) {
	meta := fmt.Sprintf(`"drawbridge/digest":%s`, rpc.Quote(t.Digest))
	if instance != "" {
		meta += fmt.Sprintf(`,"drawbridge/instance":%s`, rpc.Quote(instance))
	}
	text := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%s,"arguments":%s,"_meta":{%s}}}`, rpc.Quote(t.Exposed), arguments, meta)
	request, err := rpc.Parse(rpc.FromClient, text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArguments, err)
	}
	return request, nil
}
