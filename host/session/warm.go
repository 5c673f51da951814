package session

import (
	"context"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// Warm returns when a provider is ready, or it is known that it will not be soon: its
// start has failed, or its server lives and could not list its tools, for which it
// is asked again. The start lives on. The error is a *supervise.Failure or ctx's.
func (m *Manager) Warm(ctx context.Context, slug string) error {
	e, err := m.entry(slug)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer e.warming.join(cancel)()
	if f := e.listFailure.Load(); f != nil {
		return f
	}
	if _, err = m.Get(ctx, slug); err == nil {
		return nil
	}
	if f := e.listFailure.Load(); f != nil {
		return f
	}
	return err
}

// impatient are those who are to hear of a list that has failed.
type impatient struct {
	mu   sync.Mutex
	last int
	all  map[int]func()
}

// join adds one, until leave is called.
func (i *impatient) join(f func()) (leave func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.all == nil {
		i.all = map[int]func(){}
	}
	i.last++
	n := i.last
	i.all[n] = f
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.all, n)
	}
}

// tell calls all of them, if there is a failure to tell of.
func (i *impatient) tell(f *supervise.Failure) {
	if f == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, f := range i.all {
		f()
	}
}
