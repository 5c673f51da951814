package control

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/session"
)

// ErrNoProvider marks the answer to a name that no provider has.
var ErrNoProvider = errors.New("no such provider")

// ErrNoTool marks the answer to a name that no tool of a provider has.
var ErrNoTool = errors.New("no such tool")

// ErrArguments marks arguments that are no JSON object.
var ErrArguments = errors.New("the arguments are no JSON object")

// Sessions is what is asked of the sessions with servers; *session.Manager has it.
type Sessions interface {
	State(slug string) (session.State, bool)
	Instances(slug string) []session.Running
	// Start returns when the provider is ready, Restart when it is so anew.
	Start(ctx context.Context, slug string) error
	Restart(ctx context.Context, slug string) error
}

// Broker is what calls go through; *broker.Broker is one.
type Broker interface {
	View(broker.Caller) *catalog.View
	Call(ctx context.Context, c broker.Call) broker.Reply
}

// Catalog says whether a provider has listed its tools; *catalog.Store is one.
type Catalog interface {
	Snapshot() *catalog.Snapshot
}

// Provider is what is said of a provider beyond what its session knows.
type Provider struct {
	// Slug is its name to commands, Scope who shares an instance of it, Owner whose
	// its instance is ("" where it is everybody's).
	Slug, Scope, Owner string
	// Generation is the ordinal of what decides its process.
	Generation int
}

// Options is what a Control is made of.
type Options struct {
	// Info says which host this is; PID and URL are set when it serves.
	Info Info
	// Dir is the private folder of this user's hosts in which the socket stands.
	Dir string
	// LogDir is where the providers' standard error is kept.
	LogDir string
	// Containment is the tier in use.
	Containment string
	// Caller is who calls are made for.
	Caller   broker.Caller
	Sessions Sessions
	Broker   Broker
	Catalog  Catalog
	// MaxRequest bounds a request in bytes, 0 for no bound.
	MaxRequest int64
	// Redact removes secrets from a text; nil leaves texts as they are.
	Redact func(string) string
	Logger *slog.Logger
}

// Control answers commands. Its methods may be called concurrently.
type Control struct {
	opts      Options
	providers []Provider
	server    *server // nil until it serves
	// admit says why who connected may not give commands; tests have their own.
	admit func(*net.UnixConn) error
}

// New makes a Control, which answers nothing but status until it knows the
// providers; see SetProviders.
func New(opts Options) *Control {
	if opts.Redact == nil {
		opts.Redact = func(s string) string { return s }
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Info.Started.IsZero() {
		opts.Info.Started = time.Now()
	}
	return &Control{opts: opts, admit: admit}
}

// SetProviders says which providers there are, in the order in which they are
// shown. It is called once, before anything is asked.
func (c *Control) SetProviders(providers []Provider) { c.providers = providers }

func (c *Control) provider(slug string) (Provider, bool) {
	for _, p := range c.providers {
		if p.Slug == slug {
			return p, true
		}
	}
	return Provider{}, false
}
