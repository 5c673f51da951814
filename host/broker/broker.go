package broker

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/journal"
	"github.com/drawbridge-mcp/drawbridge/host/lock"
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
	// Logging says whether a server that is known declares logging, and whether the
	// capabilities of one are still unknown; of the providers that of says.
	Logging(of func(slug string) bool) (declared, unknown bool)
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
	// CallTimeout is the limit of silence, which the session keeps; here it is for
	// messages.
	CallTimeout time.Duration
	// MaxConcurrent is how many calls run at a time, MaxQueue how many more wait; 0
	// concurrent for any.
	MaxConcurrent, MaxQueue int
	// InlineResult is the most bytes of a result that is passed as it is; 0 for any.
	InlineResult int64
	// KeepSecrets leaves the values of secret() in what its server says.
	KeepSecrets bool
	// Required says that only tools run which their caller was shown or names
	// (discovery = "required").
	Required bool
	// BeforeCall says that definitions are read again before each call that may have
	// an effect (recheck = "before_call").
	BeforeCall bool
	// RefreshInterval is how old a list may be for such a call, where the server does
	// not say when its tools change.
	RefreshInterval time.Duration
	// Stateful says that callers rely on what a process holds: one that takes another's
	// place refuses them once.
	Stateful bool
}

// age is how old the list may be for a call of a tool, below 0 any age.
func (p Provider) age(t *catalog.Tool, in Instance) time.Duration {
	switch {
	case !t.Effectful:
		return -1
	case p.BeforeCall:
		return 0
	case in.Announces():
		return -1
	}
	return p.RefreshInterval
}

// Journal is where calls are written down; *journal.Journal is one.
type Journal interface {
	// NewID makes the id of a call.
	NewID() string
	// Begin writes a call down before it is sent; after an error it must not be.
	Begin(*journal.Entry) error
	// End writes down how a call ended that was begun.
	End(*journal.Entry, journal.End) error
	// Refuse writes down a call that was never begun, and how it ended.
	Refuse(*journal.Entry, journal.End) error
}

// noJournal is where nothing is written down.
type noJournal struct{}

func (noJournal) NewID() string                            { return "" }
func (noJournal) Begin(*journal.Entry) error               { return nil }
func (noJournal) End(*journal.Entry, journal.End) error    { return nil }
func (noJournal) Refuse(*journal.Entry, journal.End) error { return nil }

// Options is what a broker is made of.
type Options struct {
	Sessions  Sessions
	Catalog   Catalog
	Providers []Provider
	// Policy is the policy in force, asked anew each time.
	Policy func() *access.Policy
	// Lock is the lock file in force, asked anew each time; with one, only the
	// definitions that it approves are shown and run. It returns nil where none is in
	// force; so does a nil Lock.
	Lock func() *lock.File
	// Artifacts keeps the large parts of results. Nil: they are passed as they are.
	Artifacts Artifacts
	// Results looks at results of tools that have an outputSchema. Nil: nobody does.
	Results Results
	// SpoolDir is where results that are still large go, in unlinked files.
	SpoolDir string
	// Cleaner takes secrets out of answers and notifications.
	Cleaner Cleaner
	// ListWait is how long a list waits for providers that have no catalog yet.
	ListWait time.Duration
	// ShownDir is where what clients were shown is kept for the host's next run, "" to
	// keep it in memory alone.
	ShownDir string
	// Journal is where calls are written down. Nil: they are not.
	Journal Journal
	// CallIDs remembers the calls that carry an id. Nil: ids mean nothing.
	CallIDs CallIDs
	// Generation tells the ordinal of what a provider's process is made of, 0 where it
	// is not known. Nil: it never is.
	Generation func(slug string) int
	// Redact takes secrets out of the host's own errors. Nil: it is left to who made them.
	Redact func(string) string
	// Places takes the folders of this machine out of an error for a caller who is not
	// of it. Nil: they are told to everyone.
	Places func(string) string
	Logger *slog.Logger
}

// Broker brokers discovery and calls. It is safe for concurrent use.
type Broker struct {
	opts      Options
	providers map[string]Provider
	levels    levels
	worlds    worlds
	// gates let calls to each provider in, rates those of each principal.
	gates map[string]*admission
	rates rates
	shown *recollections
}

// New returns a broker.
func New(opts Options) *Broker {
	if opts.Journal == nil || !journaled {
		opts.Journal = noJournal{}
	}
	if opts.Generation == nil {
		opts.Generation = func(string) int { return 0 }
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Redact == nil {
		opts.Redact = func(text string) string { return text }
	}
	if opts.Places == nil {
		opts.Places = func(text string) string { return text }
	}
	if opts.Lock == nil {
		opts.Lock = func() *lock.File { return nil }
	}
	b := &Broker{opts: opts, providers: make(map[string]Provider, len(opts.Providers))}
	b.worlds.policy, b.worlds.lock, b.worlds.catalog = opts.Policy, opts.Lock, opts.Catalog
	b.shown = newRecollections(opts.ShownDir, opts.Logger, opts.Cleaner.text)
	b.shown.store.declared = func() []owner { return ownersOf(opts.Policy()) }
	b.gates = make(map[string]*admission, len(opts.Providers))
	for _, p := range opts.Providers {
		b.providers[p.Slug] = p
		if p.MaxConcurrent > 0 {
			b.gates[p.Slug] = newAdmission(p.MaxConcurrent, p.MaxQueue)
		}
	}
	return b
}

// Client is the program that a caller uses, as it calls itself: clientInfo. Both are
// "" where it does not say.
type Client struct{ Name, Version string }

// Caller is who asks.
type Caller struct {
	// Principal is whose authority it is, Project where; "" where none is declared.
	Principal, Project string
	// Session is the client session, "" for a request that belongs to none.
	Session string
	Client  Client
	// Resumed says that the session goes on with one that the client had with another
	// host, so that it has met that one's instances.
	Resumed bool
	// Modern says that the caller speaks a stateless revision (2026-07-28 on).
	Modern bool
}

// Prepare makes a list worth taking: the caller's providers without a catalog are
// started and waited for, list_wait at most; what comes later is notified. A
// provider that has failed is not waited for.
func (b *Broker) Prepare(ctx context.Context, c Caller) {
	b.warm(ctx, b.unlisted(b.worlds.world(), c), b.opts.ListWait)
}

// unlisted are a caller's providers that have no catalog and have not failed.
func (b *Broker) unlisted(w *world, c Caller) []string {
	var out []string
	for slug := range b.providers {
		if w.snapshot.Known(slug) || !w.sees(c, slug) {
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

// Capabilities is what the face may advertise to a caller beyond tools.
type Capabilities struct {
	// Logging: a server declares it, or one that was never started may.
	Logging bool
	// Results: there is a provider for this caller, so that it may have large results
	// to read.
	Results bool
}

// Capabilities says what the providers have for a caller. It is what a session asks
// first: what its client was shown until then is what it begins with.
func (b *Broker) Capabilities(c Caller) Capabilities {
	if c.Session != "" {
		b.shown.of(c)
	}
	w := b.worlds.world()
	declared, unknown := b.opts.Sessions.Logging(func(slug string) bool { return w.sees(c, slug) })
	results := false
	for slug := range b.providers {
		results = results || w.sees(c, slug)
	}
	return Capabilities{Logging: declared || unknown, Results: results}
}
