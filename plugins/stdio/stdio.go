package stdio

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

var (
	errStarted    = errors.New("the server of this process was started before")
	errNotStarted = errors.New("no server was started")
	errExchanged  = errors.New("the exchange with this server was opened before")
	errStopped    = errors.New("this plugin has been stopped")
)

// New returns the provider. The plugin's standard error is taken as it is now:
// what replaces it later would be part of go-plugin, not of the log.
func New() provider.Provider { return &stdioProvider{stderr: os.Stderr, environ: os.Environ} }

// stdioProvider implements provider.Provider.
type stdioProvider struct {
	stderr  io.Writer
	environ func() []string

	mu         sync.Mutex
	used       bool // Start or Stop was called
	stopped    bool
	server     *server
	maxMessage int64
}

// Describe says what the config holds.
func (*stdioProvider) Describe(context.Context) (provider.Description, error) {
	d := provider.Description{Name: "stdio", Config: schema}
	if info, ok := debug.ReadBuildInfo(); ok {
		d.Version = info.Main.Version
	}
	return d, nil
}

// Validate checks what can be known without looking at the machine: whether the
// command exists is a matter of the start. It warns of a server that would not be
// below the host.
func (*stdioProvider) Validate(_ context.Context, c provider.Config) (provider.Diagnostics, error) {
	decoded, diags := decode(c.JSON)
	return append(diags, outside(decoded)...), nil
}

// Start starts the server.
func (p *stdioProvider) Start(ctx context.Context, req provider.StartRequest) (provider.Diagnostics, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stopped:
		return nil, errStopped
	case p.used:
		return nil, errStarted
	}
	p.used = true
	c, diags := decode(req.Config.JSON)
	if diags.HasErrors() {
		return diags, nil
	}
	l, more := resolve(c, req.Config.BaseDir, req.Mark, p.environ())
	if diags = append(diags, more...); diags.HasErrors() {
		return diags, nil
	}
	s, err := start(l, p.stderr)
	if err != nil {
		return append(diags, startProblem(l, err)), nil
	}
	p.server, p.maxMessage = s, req.MaxMessage
	return diags, nil
}

// Exchange carries messages until the server has ended or ctx is done. With the
// exchange standard input ends too: there is nobody else to write to it.
func (p *stdioProvider) Exchange(ctx context.Context, conn provider.Conn) error {
	p.mu.Lock()
	s, limit := p.server, p.maxMessage
	p.mu.Unlock()
	if s == nil {
		return errNotStarted
	}
	x := &exchange{s: s, conn: conn}
	read := func(from io.Reader) {
		_ = newLineReader(from, limit, x.fromServer).run()
	}
	if !s.readStdout(read) {
		return errExchanged
	}
	return x.run(ctx)
}

// Stop ends the server: it closes its standard input, waits the grace (half a
// second at least), sends SIGTERM to its process group, and half a second later
// SIGKILL. A ctx that is done skips the waits.
func (p *stdioProvider) Stop(ctx context.Context, req provider.StopRequest) (provider.ExitStatus, error) {
	p.mu.Lock()
	p.stopped = true
	s := p.server
	p.mu.Unlock()
	if s == nil {
		return provider.ExitStatus{}, nil
	}
	s.stopping.Store(true)
	s.readStdout(nil) // without an exchange a full pipe would keep it from leaving
	if err := s.end(ctx.Done(), max(req.Grace, minGrace), termWait); err != nil {
		return provider.ExitStatus{Code: -1}, err
	}
	return s.status, nil
}
