package supervise

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/host/containment"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// Process is one running plugin, and the server below it once Remote().Start
// has been called.
type Process struct {
	spec    Spec
	mark    string
	started time.Time
	// plugin is the pid of who listens on the plugin's socket, 0 where that is not known.
	plugin atomic.Int64
	remote provider.Remote
	conn   invoker // nil where there is no connection
	tree   containment.Tree
	redact func(string) string
	// head is redact for a text whose rest was cut off; nil where there is none.
	head func(string) string
	tail tail

	// done is closed when the process, all it started and all that served it in
	// the host is gone.
	done chan struct{}
	// stopping starts the one ladder; hurry is closed when it is to skip its waits.
	stopping  sync.Once
	hurrying  sync.Once
	hurry     chan struct{}
	condemned chan struct{} // closed by the first Condemn

	mu sync.Mutex
	// server is how the server ended, as the plugin said.
	server *provider.ExitStatus
	// blame is why it was condemned.
	blame *Failure
}

// Attach makes a Process of a plugin that runs elsewhere: remote speaks to it,
// tree says when it has ended. Texts of its are not redacted. It is for tests of
// what uses a Process.
func Attach(spec Spec, mark string, remote provider.Remote, tree containment.Tree) *Process {
	return attach(spec, mark, remote, tree, func() {})
}

func attach(spec Spec, mark string, remote provider.Remote, tree containment.Tree, cleanup func()) *Process {
	p := newProcess(spec, mark, func(s string) string { return s })
	p.tree = tree
	p.remote = &watchedRemote{Remote: remote, p: p}
	go p.watch(cleanup)
	return p
}

func newProcess(spec Spec, mark string, redact func(string) string) *Process {
	return &Process{
		spec: spec, mark: mark, started: time.Now(), redact: redact,
		done: make(chan struct{}), hurry: make(chan struct{}), condemned: make(chan struct{}),
	}
}

// Mark is the instance's mark <host id>/<slug>/<n>; n is never reused.
func (p *Process) Mark() string { return p.mark }

// Spec is what it was launched from.
func (p *Process) Spec() Spec { return p.spec }

// Started is when its start began.
func (p *Process) Started() time.Time { return p.started }

// PID is the plugin's process id as the host sees it.
func (p *Process) PID() int {
	if pid := p.plugin.Load(); pid != 0 {
		return int(pid)
	}
	return p.tree.PID()
}

// GuardPID is the process id of the guard between the host and the plugin, 0 where
// there is none.
func (p *Process) GuardPID() int {
	if guarded, ok := p.tree.(interface{ GuardPID() int }); ok {
		return guarded.GuardPID()
	}
	return 0
}

// Remote speaks to the plugin. Secrets are removed from what it says of its own
// (diagnostics, tails of standard error), never from messages.
func (p *Process) Remote() provider.Remote { return p.remote }

// Done is closed when the process, and all it started, is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Condemned is closed when the process was condemned. It is about to end.
func (p *Process) Condemned() <-chan struct{} { return p.condemned }

// StderrTail is the last of what the plugin wrote to its standard error, which
// holds its server's; bounded, secrets removed.
func (p *Process) StderrTail() string { return p.tail.String() }

// Exit says how the plugin's process ended; false while it is not Done.
func (p *Process) Exit() (provider.ExitStatus, bool) {
	select {
	case <-p.done:
		return exitStatus(p.tree.Exit(), p.StderrTail()), true
	default:
		return provider.ExitStatus{}, false
	}
}

func exitStatus(e containment.Exit, tail string) provider.ExitStatus {
	return provider.ExitStatus{Code: e.Code, Signal: e.Signal, StderrTail: tail}
}

// Failure says why the process is no longer of use: what it was condemned for, or
// how its server ended, or how it ended itself; in this order, as far as it is known.
func (p *Process) Failure(phase Phase) *Failure {
	p.mu.Lock()
	blame, server := p.blame, p.server
	p.mu.Unlock()
	if blame != nil {
		return blame
	}
	if server != nil {
		f := p.spec.failure(phase, Ended("the server", *server))
		f.Exit = server
		return f
	}
	if st, ended := p.Exit(); ended {
		f := p.spec.failure(phase, Ended("the plugin", st))
		f.Exit = &st
		return f
	}
	return p.spec.failure(phase, "the plugin broke off")
}

// withoutSecrets is a failure of the start of p, which may be nil, fit to be shown.
func (p *Process) withoutSecrets(f *Failure) *Failure {
	if p == nil || p.redact(f.Cause) == f.Cause {
		return f
	}
	shown := *f
	shown.Cause = p.redact(f.Cause)
	return &shown
}

// Condemn ends a process that its session has given up on. It does not wait; the
// first Failure that it was condemned for is what a Unit reports.
func (p *Process) Condemn(f *Failure, grace time.Duration) {
	p.mu.Lock()
	first := p.blame == nil
	if first {
		p.blame = f
	}
	p.mu.Unlock()
	if first {
		close(p.condemned)
	}
	p.stop(grace)
}

// watch waits for the end; cleanup waits for what served the process.
func (p *Process) watch(cleanup func()) {
	<-p.tree.Done()
	cleanup()
	close(p.done)
}

// serverEnded keeps the first that the plugin says of its server's end.
func (p *Process) serverEnded(st provider.ExitStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		p.server = &st
	}
}

// watchedRemote removes secrets from what a plugin says, and notes how its server
// ended.
type watchedRemote struct {
	provider.Remote
	p *Process
}

func (r *watchedRemote) Validate(ctx context.Context, config provider.Config) (provider.Diagnostics, error) {
	ds, err := r.Remote.Validate(ctx, config)
	return r.diagnostics(ds), r.error(err)
}

func (r *watchedRemote) Start(ctx context.Context, req provider.StartRequest) (provider.Diagnostics, error) {
	ds, err := r.Remote.Start(ctx, req)
	return r.diagnostics(ds), r.error(err)
}

func (r *watchedRemote) Stop(ctx context.Context, req provider.StopRequest) (provider.ExitStatus, error) {
	st, err := r.Remote.Stop(ctx, req)
	if err != nil {
		return provider.ExitStatus{}, r.error(err)
	}
	st.StderrTail = r.p.redactTail(st.StderrTail)
	r.p.serverEnded(st)
	return st, nil
}

func (r *watchedRemote) Exchange(ctx context.Context) (provider.HostConn, error) {
	conn, err := r.Remote.Exchange(ctx)
	if err != nil {
		return nil, r.error(err)
	}
	return &watchedConn{HostConn: conn, r: r}, nil
}

func (r *watchedRemote) diagnostics(ds provider.Diagnostics) provider.Diagnostics {
	for i := range ds {
		ds[i].Summary, ds[i].Detail = r.p.redact(ds[i].Summary), r.p.redact(ds[i].Detail)
	}
	return ds
}

func (r *watchedRemote) error(err error) error {
	if err == nil {
		return nil
	}
	if text := err.Error(); r.p.redact(text) != text {
		return &redactedError{text: r.p.redact(text), err: err}
	}
	return err
}

// redactedError reads as its text and is, for errors.Is and As, what it was made of.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// redactTail removes secrets from the last lines of a server. Where what was before them
// is not there, the first one may begin within a secret.
func (p *Process) redactTail(text string) string {
	if len(text) > provider.MaxStderrTail-utf8.UTFMax {
		_, text, _ = strings.Cut(text, "\n")
	}
	return p.redact(text)
}

type watchedConn struct {
	provider.HostConn
	r *watchedRemote
}

func (c *watchedConn) Recv() (provider.Event, error) {
	e, err := c.HostConn.Recv()
	switch e := e.(type) {
	case provider.Exited:
		e.Status.StderrTail = c.r.p.redactTail(e.Status.StderrTail)
		c.r.p.serverEnded(e.Status)
		return e, err
	case provider.Undelivered:
		e.Reason = c.r.p.redact(e.Reason)
		return e, err
	case provider.Noise:
		cut := len(e.Line) >= provider.MaxNoise
		e.Line = []byte(redactLine(e.Line, cut, c.r.p.redact, c.r.p.head))
		return e, err
	}
	return e, c.r.error(err)
}
