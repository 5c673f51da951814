package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/session"
)

// ErrNoProvider marks the answer to a name that no provider has.
var ErrNoProvider = errors.New("no such provider")

// ErrNoTool marks the answer to a name that no tool of a provider has.
var ErrNoTool = errors.New("no such tool")

// ErrProject marks a project in which nothing can be called, or that none is named.
var ErrProject = errors.New("no project to call in")

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
	// Policy is the policy in force. Who gives commands calls as the principal "local".
	Policy   func() *access.Policy
	Sessions Sessions
	Broker   Broker
	Catalog  Catalog
	// Attach serves an MCP client that comes over the socket; nil where none may.
	Attach Attach
	// MaxRequest bounds a request in bytes, 0 for no bound.
	MaxRequest int64
	// Redact removes secrets from a text; nil leaves texts as they are.
	Redact func(string) string
	Logger *slog.Logger
}

// Control answers commands. Its methods may be called concurrently.
type Control struct {
	opts      Options
	providers atomic.Pointer[[]Provider]
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
	c := &Control{opts: opts, admit: admit}
	c.SetProviders(nil)
	return c
}

// SetProviders says which providers there are, in the order in which they are
// shown, and whose they are. The slice must not be changed afterwards.
func (c *Control) SetProviders(providers []Provider) { c.providers.Store(&providers) }

func (c *Control) provider(slug string) (Provider, bool) {
	for _, p := range *c.providers.Load() {
		if p.Slug == slug {
			return p, true
		}
	}
	return Provider{}, false
}

// caller is who gives commands, in a project that he has something in; "" means the
// only one. The error wraps ErrProject and says which there are.
func (c *Control) caller(project string) (broker.Caller, error) {
	policy := c.opts.Policy()
	who := broker.Caller{Principal: access.Local}
	var ok bool
	if who.Project, ok = policy.Project(access.Local, project); ok {
		return who, nil
	}
	return who, NoProject(policy, project)
}

// NoProject says why "local" works in no project when he asks for one, "" for the
// only one. It wraps ErrProject.
func NoProject(policy *access.Policy, asked string) error {
	has := policy.Projects(access.Local)
	switch {
	case policy.Open():
		return fmt.Errorf("%w: the configuration declares none, so leave --project out", ErrProject)
	case len(has) == 0:
		return fmt.Errorf("%w: no grant names %q; name it in the principals of a grant", ErrProject, access.Local)
	case asked != "":
		return fmt.Errorf("%w: no grant of a project %q names %q; it has grants in %s", ErrProject, asked, access.Local, strings.Join(has, ", "))
	}
	return fmt.Errorf("%w: %q has grants in several, %s; say which one with --project", ErrProject, access.Local, strings.Join(has, ", "))
}
