package broker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
)

// Sessions starts and finds instances. The method set is that of
// *session.Manager, with the instance as an interface; see Of.
type Sessions interface {
	// Get returns the ready instance of a provider, starting it if cold.
	Get(ctx context.Context, slug string) (Instance, error)
	// Warm starts a provider if it is cold, and returns when it is ready or will not
	// be soon.
	Warm(ctx context.Context, slug string) error
	// State says where a provider stands.
	State(slug string) (session.State, bool)
	// SetLogLevel tells servers the most verbose level that any client wants. It does
	// not block.
	SetLogLevel(level string)
	// Logging says whether a server that is known declares logging, and whether
	// any provider's capabilities are still unknown.
	Logging() (declared, unknown bool)
}

// Instance is one running server, as a call needs it.
type Instance interface {
	Mark() string
	Do(ctx context.Context, c session.Call) (*rpc.Message, error)
	// Current returns when the catalog holds what the instance lists now, asked for
	// no earlier than age ago; below zero, any time ago.
	Current(ctx context.Context, age time.Duration) (epoch uint64, err error)
	// Epoch is another one after each change that the server has announced, and
	// after each list.
	Epoch() uint64
	// Announces says whether the server announces changes of its tools.
	Announces() bool
}

// Catalog holds the definitions that servers have listed.
type Catalog interface {
	Snapshot() *catalog.Snapshot
}

// Provider is what the broker knows of a declared provider.
type Provider struct {
	Slug, Label string
	// MaxMessage bounds a request to the server, in bytes.
	MaxMessage int64
	// CallTimeoutMax bounds a call from its arrival to its answer, waiting included.
	CallTimeoutMax time.Duration
	// KeepSecrets leaves the values of secret() in what its server says.
	KeepSecrets bool
}

// Options is what a broker is made of.
type Options struct {
	Sessions  Sessions
	Catalog   Catalog
	Providers []Provider
	// Policy is the policy in force, asked anew each time.
	Policy func() *access.Policy
	// Cleaner takes secrets out of answers and notifications.
	Cleaner Cleaner
	// Bare says that exposed names carry no slug.
	Bare bool
	// ListWait is how long a list waits for providers that have no catalog yet.
	ListWait time.Duration
}

// Broker brokers discovery and calls. It is safe for concurrent use.
type Broker struct {
	opts      Options
	providers map[string]Provider
	levels    levels
}

// New returns a broker.
func New(opts Options) *Broker {
	b := &Broker{opts: opts, providers: make(map[string]Provider, len(opts.Providers))}
	for _, p := range opts.Providers {
		b.providers[p.Slug] = p
	}
	return b
}

// Caller is who asks.
type Caller struct {
	Principal, Project, Session string
	// Modern says that the caller speaks a stateless revision (2026-07-28 on).
	Modern bool
}

// Prepare makes a list worth taking: providers without a catalog are started and
// waited for, list_wait at most; what comes later is notified. A provider that
// has failed is not waited for.
func (b *Broker) Prepare(ctx context.Context, caller Caller) {
	b.warm(ctx, b.unlisted(caller), b.opts.ListWait)
}

// Tools returns the tools that a caller may see now.
func (b *Broker) Tools(caller Caller) []*catalog.Tool {
	var out []*catalog.Tool
	for _, t := range b.opts.Catalog.Snapshot().Tools() {
		if b.grants(caller, t) {
			out = append(out, t)
		}
	}
	return out
}

// grants says whether a caller may see and call a tool.
func (b *Broker) grants(caller Caller, t *catalog.Tool) bool {
	return b.opts.Policy().Decide(caller.Principal, caller.Project, access.Item{Kind: access.KindTool, Provider: t.Provider, Name: t.Name}).Allowed
}

// find is the tool of an exposed name, if it is the caller's.
func (b *Broker) find(caller Caller, exposed string) (*catalog.Tool, bool) {
	t, ok := b.opts.Catalog.Snapshot().Find(exposed)
	if !ok || !b.grants(caller, t) {
		return nil, false
	}
	return t, true
}

// unlisted are the caller's providers that have no catalog and have not failed.
func (b *Broker) unlisted(caller Caller) []string {
	known, policy := b.opts.Catalog.Snapshot(), b.opts.Policy()
	var out []string
	for slug := range b.providers {
		if known.Known(slug) || !policy.Sees(caller.Principal, caller.Project, slug) {
			continue
		}
		if s, ok := b.opts.Sessions.State(slug); ok && s.Failure != nil {
			continue
		}
		out = append(out, slug)
	}
	slices.Sort(out)
	return out
}

// warm starts providers and returns when each is ready or has failed, or when
// wait is over. Their starts live on.
func (b *Broker) warm(ctx context.Context, slugs []string, wait time.Duration) {
	if len(slugs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var all sync.WaitGroup
	for _, slug := range slugs {
		all.Go(func() {
			// Why a provider is not there is the business of calls and of status.
			_ = b.opts.Sessions.Warm(ctx, slug)
		})
	}
	all.Wait()
}

// errNotListed is for a name that no catalog knows while there are providers that
// have none.
var errNotListed = errors.New("no tool of this name is known yet, and not all providers have listed theirs")

// resolve finds the tool of an exposed name. A name that no catalog knows starts
// the provider whose slug it carries, if that one has no catalog yet; bare
// names carry none, so they start all that have none. The error is why that
// provider did not start in the time of a call that arrived then.
func (b *Broker) resolve(ctx context.Context, caller Caller, arrived time.Time, exposed string) (*catalog.Tool, string, error) {
	if t, ok := b.find(caller, exposed); ok {
		return t, t.Provider, nil
	}
	if b.opts.Bare {
		b.warm(ctx, b.unlisted(caller), b.opts.ListWait)
		if t, ok := b.find(caller, exposed); ok {
			return t, t.Provider, nil
		}
		if len(b.unlisted(caller)) > 0 {
			return nil, "", errNotListed // it may be one of theirs
		}
		return nil, "", nil
	}
	slug, _, ok := strings.Cut(exposed, "_")
	p, declared := b.providers[slug]
	if !ok || !declared || !b.opts.Policy().Sees(caller.Principal, caller.Project, slug) || b.opts.Catalog.Snapshot().Known(slug) {
		return nil, "", nil
	}
	ctx, cancel := withLimit(ctx, arrived, p.CallTimeoutMax)
	defer cancel()
	if _, err := b.opts.Sessions.Get(ctx, slug); err != nil {
		return nil, slug, err
	}
	t, _ := b.find(caller, exposed)
	return t, slug, nil
}

// Capabilities is what the face may advertise to a caller beyond tools.
type Capabilities struct {
	// Logging: a server declares it, or one that was never started may.
	Logging bool
}

// Capabilities says what the providers have for a caller.
func (b *Broker) Capabilities(Caller) Capabilities {
	declared, unknown := b.opts.Sessions.Logging()
	return Capabilities{Logging: declared || unknown}
}
