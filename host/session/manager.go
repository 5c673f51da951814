package session

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// Listener hears what a server says outside of its calls. Its methods must not
// block.
type Listener interface {
	// Opened is called when a server has answered the handshake, before its first list.
	Opened(slug, instance string, s Server)
	// Tools gets a complete list: raw definitions in the server's order. A list that is
	// read again and is the same, byte for byte, is not handed over again.
	Tools(slug, instance string, defs []json.RawMessage)
	// Log gets a notifications/message that belongs to no single call, and owns it.
	Log(slug, instance, level string, m *rpc.Message)
	// State is called after each change of a provider's state.
	State(slug string, s State)
}

// Spec is a provider as the manager sees it.
type Spec struct {
	supervise.Spec
	// CallTimeout is how long a server may be silent on a call, CallTimeoutMax how
	// long a call may take with progress. 0: no limit.
	CallTimeout, CallTimeoutMax time.Duration
	// HealthInterval is how long a server of the older era may be silent before it
	// is pinged. 0: it is not.
	HealthInterval time.Duration
	// MaxPages, MaxDefinitions and MaxListBytes bound a list. 0: the defaults.
	MaxPages, MaxDefinitions int
	MaxListBytes             int64
	// Known is what is remembered of the server, nil for nothing: its capabilities
	// count until it has been asked, and its era says what to try first.
	Known *Server
	// Fault is set where the provider cannot start: each Get returns it.
	Fault *supervise.Failure
}

// State is where a provider is at one moment.
type State struct {
	// Name is one of supervise's states: cold, starting, ready, draining, stopped,
	// backoff, failed.
	Name  string
	Since time.Time
	// Failure says why it is in backoff or failed. In starting it is set when the
	// start before has failed, or while the server lives and its list has failed:
	// then the next attempt may take a while.
	Failure *supervise.Failure
	// Instance is the mark of the instance that is ready, "" where none is.
	Instance string
	// Restarts counts the starts that nobody asked for, InRow those that followed
	// each other without stable_after of being ready; Noise the lines of standard
	// output that were no messages.
	Restarts, InRow int
	Noise           int64
	// Next is when it is started again, or, in failed, from when on a use starts it;
	// zero where neither is known.
	Next time.Time
	// Exits are the last ends of its instances, the oldest first. They are not to be
	// changed.
	Exits []supervise.Exit
}

// Launcher starts plugin processes. *supervise.Launcher is one.
type Launcher interface {
	Launch(ctx context.Context, spec supervise.Spec) (*supervise.Process, error)
}

// Options says what a manager works with.
type Options struct {
	Launcher Launcher
	Listener Listener
	// SpoolDir is where large messages go, "" the system's directory for temporary files.
	SpoolDir string
	Logger   *slog.Logger
	// Redact removes secrets from the texts of failures and lost calls, which may hold
	// what a server has answered. Nil leaves them as they are.
	Redact func(string) string
	// Version is the host's own, which servers are told.
	Version string
}

// Manager keeps the instances of all providers: one for each, in this version.
// Its methods may be called concurrently.
type Manager struct {
	opts Options
	id   identity

	level    atomic.Pointer[string]
	entries  atomic.Pointer[map[string]*entry]
	stopping atomic.Bool
	// work counts the keepers of instances.
	work sync.WaitGroup
}

// entry is one provider.
type entry struct {
	m     *Manager
	spec  *Spec
	unit  *supervise.Unit[*Instance] // nil for a spec with a fault
	noise atomic.Int64
	// since is when an entry without a unit was made.
	since time.Time
	// current is the last instance that was ready.
	current atomic.Pointer[Instance]
	// known is what the server said of itself last, nil where it is not known, or no
	// longer right.
	known atomic.Pointer[Server]
	// listFailure is why the list of a server that is starting has failed.
	listFailure atomic.Pointer[supervise.Failure]
	// warming are those who do not wait for a list that has failed.
	warming impatient
}

// NewManager makes a manager without providers.
func NewManager(opts Options) *Manager {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Redact == nil {
		opts.Redact = func(s string) string { return s }
	}
	if opts.Version == "" {
		opts.Version = "0.0.0"
	}
	m := &Manager{opts: opts, id: newIdentity(opts.Version)}
	m.entries.Store(&map[string]*entry{})
	none := ""
	m.level.Store(&none)
	return m
}

// Apply sets the providers. It is called once, before anything else.
func (m *Manager) Apply(specs []Spec) {
	entries := make(map[string]*entry, len(specs))
	for _, s := range specs {
		spec := s
		spec.setDefaults()
		e := &entry{m: m, spec: &spec, since: time.Now()}
		e.known.Store(spec.Known)
		if spec.Fault == nil {
			e.unit = supervise.NewUnit(spec.Spec, m.opts.Launcher.Launch, e.open, e.changed, m.opts.Logger)
		}
		entries[spec.Provider] = e
	}
	m.entries.Store(&entries)
}

func (s *Spec) setDefaults() {
	if s.MaxPages == 0 {
		s.MaxPages = defaultMaxPages
	}
	if s.MaxDefinitions == 0 {
		s.MaxDefinitions = defaultMaxDefinitions
	}
	if s.MaxListBytes == 0 {
		s.MaxListBytes = defaultMaxListBytes
	}
}

// Get returns the provider's instance. A cold one is started; the start is shared
// by all who wait for it and lives on when they leave. The error is a
// *supervise.Failure or ctx's.
func (m *Manager) Get(ctx context.Context, slug string) (*Instance, error) {
	e, err := m.entry(slug)
	if err != nil {
		return nil, err
	}
	for {
		i, err := e.unit.Get(ctx)
		if err != nil {
			return nil, err
		}
		if !i.link.ended() {
			return i, nil
		}
		// Its stream has ended in this moment: the unit is not to give it out again.
		i.condemn() //nolint:contextcheck // the process ends for all, and not only for this caller
	}
}

// entry returns a provider that can be started. The error is a *supervise.Failure.
func (m *Manager) entry(slug string) (*entry, error) {
	e := (*m.entries.Load())[slug]
	switch {
	case e == nil:
		return nil, &supervise.Failure{
			Provider: slug, Label: slug, Phase: supervise.PhaseConfig, Cause: "there is no such provider",
		}
	case e.spec.Fault != nil:
		return nil, e.spec.Fault
	case m.stopping.Load():
		return nil, e.failure(supervise.PhaseRunning, "the host is stopping")
	}
	return e, nil
}

// State returns where a provider is; false for one that there is not.
func (m *Manager) State(slug string) (State, bool) {
	e := (*m.entries.Load())[slug]
	if e == nil {
		return State{}, false
	}
	return e.state(), true
}

// SetLogLevel sets the most verbose level of notifications/message that any
// client wants, "" for none. Servers that declare logging are told.
func (m *Manager) SetLogLevel(level string) {
	if old := m.level.Swap(&level); *old == level {
		return
	}
	for _, e := range *m.entries.Load() {
		if i := e.current.Load(); i != nil {
			wake(i.relevel)
		}
	}
}

func (m *Manager) wantedLevel() string { return *m.level.Load() }

// Stop is StopSince of now.
func (m *Manager) Stop(ctx context.Context) { m.StopSince(ctx, time.Now()) }

// StopSince takes no new calls, lets those in flight end within stop_grace, ends all
// providers, side by side, each by its own ladder, and waits for them. The grace
// runs from began on: who stops a host has let its clients' requests end before.
// When ctx ends, nothing is waited for that can be skipped.
func (m *Manager) StopSince(ctx context.Context, began time.Time) {
	m.stopping.Store(true)
	var all sync.WaitGroup
	for _, e := range *m.entries.Load() {
		if e.unit != nil {
			all.Go(func() {
				e.unit.StopSince(ctx, began, e.drain)
			})
		}
	}
	all.Wait()
	m.work.Wait()
}

// drain waits for the calls in flight on an instance, for stop_grace at most.
func (e *entry) drain(ctx context.Context, i *Instance) {
	if i == nil {
		return
	}
	grace := time.NewTimer(e.spec.StopGrace)
	defer grace.Stop()
	select {
	case <-i.link.idle():
	case <-i.link.done:
	case <-grace.C:
	case <-ctx.Done():
	}
}

// open makes an instance of a fresh plugin process; see supervise.Opener.
func (e *entry) open(ctx context.Context, p *supervise.Process) (*Instance, error) {
	i, err := (&opening{m: e.m, e: e, proc: p}).open(ctx)
	if err != nil {
		// It may be another one by now; the next start asks it everything.
		e.known.Store(nil)
		return nil, err
	}
	e.known.Store(&i.server)
	return i, nil
}

// changed is called after each change of the unit's state.
func (e *entry) changed(s supervise.Snapshot) {
	e.m.opts.Listener.State(e.spec.Provider, e.shown(s))
}

func (e *entry) state() State {
	if e.unit == nil {
		return State{Name: string(supervise.Failed), Since: e.since, Failure: e.spec.Fault}
	}
	return e.shown(e.unit.Snapshot())
}

// shown is a unit's snapshot with what the session knows.
func (e *entry) shown(s supervise.Snapshot) State {
	state := State{
		Name: string(s.State), Since: s.Since, Failure: s.Failure, Instance: s.Mark,
		Restarts: s.Restarts, InRow: s.InRow, Noise: e.noise.Load(), Next: s.Next, Exits: s.Exits,
	}
	if f := e.listFailure.Load(); f != nil && s.State == supervise.Starting {
		state.Failure = f
	}
	return state
}

// listFailed says that the list of a starting server has failed, or, with nil,
// that this is over.
func (e *entry) listFailed(f *supervise.Failure) {
	defer e.warming.tell(f)
	if old := e.listFailure.Swap(f); f != nil && (old == nil || old.Cause != f.Cause) {
		e.m.opts.Listener.State(e.spec.Provider, e.state())
	}
}

func (e *entry) failure(phase supervise.Phase, cause string) *supervise.Failure {
	return &supervise.Failure{
		Provider: e.spec.Provider, Label: e.spec.Label, Where: e.spec.Where, Phase: phase, Cause: e.m.opts.Redact(cause),
	}
}

// listPause is the pause between two attempts at a list.
func (s *Spec) listPause() time.Duration {
	if s.Restart.Backoff > 0 {
		return s.Restart.Backoff
	}
	return time.Second
}

func (s *Spec) startTimeout() time.Duration {
	if s.StartTimeout > 0 {
		return s.StartTimeout
	}
	return 2 * time.Minute
}

// Logging says whether a server that is known declares logging, and whether there
// is a provider whose server was never asked; of the providers that of says.
func (m *Manager) Logging(of func(slug string) bool) (declared, unknown bool) {
	for slug, e := range *m.entries.Load() {
		switch s := e.known.Load(); {
		case e.unit == nil, !of(slug):
		case s == nil:
			unknown = true
		case s.Declares("logging"):
			declared = true
		}
	}
	return declared, unknown
}
