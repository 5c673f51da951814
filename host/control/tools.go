package control

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// ToolList is what `tools --json` prints; programs rely on its form.
type ToolList struct {
	Tools     []Tool         `json:"tools"`
	Providers []ToolProvider `json:"providers"`
}

// Tool is a tool that is there for whoever asked.
type Tool struct {
	// Name is what clients call it, Tool what its server does.
	Name       string          `json:"name"`
	Provider   string          `json:"provider"`
	Tool       string          `json:"tool"`
	Digest     string          `json:"digest"`
	Effectful  bool            `json:"effectful"`
	Definition json.RawMessage `json:"definition"`
}

// ToolProvider is where the tools are from; Reason says why it is not ready.
type ToolProvider struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	Tools  int    `json:"tools"`
}

// Tools lists what "local" sees in a project, "" for the only one. A provider of his
// that was never listed is started, and waited for until it is ready or has failed,
// or ctx ends.
func (c *Control) Tools(ctx context.Context, project string) (ToolList, error) {
	caller, err := c.caller(project)
	if err != nil {
		return ToolList{}, err
	}
	var his []Provider
	for _, p := range *c.providers.Load() {
		if c.opts.Policy().Sees(caller.Principal, caller.Project, p.Slug) {
			his = append(his, p)
		}
	}
	list := ToolList{Tools: []Tool{}, Providers: make([]ToolProvider, len(his))}
	known := c.opts.Catalog.Snapshot()
	var all sync.WaitGroup
	for i, p := range his {
		one := &list.Providers[i]
		one.Name = p.Slug
		all.Go(func() {
			var err error
			if !known.Known(p.Slug) {
				err = c.opts.Sessions.Start(ctx, p.Slug)
			}
			state, _ := c.opts.Sessions.State(p.Slug)
			one.State = state.Name
			switch {
			case err != nil:
				one.Reason = c.opts.Redact(err.Error())
			case state.Name == string(supervise.Backoff), state.Name == string(supervise.Failed):
				one.Reason = c.reason(state)
			}
		})
	}
	all.Wait()
	for _, t := range c.opts.Broker.View(caller).Tools() {
		list.Tools = append(list.Tools, Tool{t.Exposed, t.Provider, t.Name, t.Digest, t.Effectful, t.Listed})
		for i := range list.Providers {
			if list.Providers[i].Name == t.Provider {
				list.Providers[i].Tools++
			}
		}
	}
	return list, ctx.Err()
}
