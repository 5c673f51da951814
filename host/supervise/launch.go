package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/drawbridge-mcp/drawbridge/host/containment"
	"github.com/drawbridge-mcp/drawbridge/host/internal/peer"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// defaultStart bounds a start whose context has no deadline.
const defaultStart = 2 * time.Minute

// Launcher starts plugin processes. One host has one. Its fields are set before
// its first use and not changed after it.
type Launcher struct {
	// HostID is the host's random id, the first part of every mark.
	HostID string
	// RunDir is a short private folder for sockets: a RunDir's Path.
	RunDir string
	// LogDir is where each provider's standard error goes, as SLUG.log. Empty
	// keeps it nowhere but in the processes' tails.
	LogDir string
	// Logger is the host's log.
	Logger *slog.Logger
	// Redact removes secrets from a text; nil leaves texts as they are.
	Redact func(string) string
	// RedactHead does so for a text whose rest was cut off, and takes what may be the
	// beginning of a secret from its end. Nil: Redact, and a generous piece is dropped.
	RedactHead func(string) string
	// Env is the environment that plugins inherit the base set of; see
	// provider.BaseEnv.
	Env []string
	// Containment starts the processes; nil means containment.Direct.
	Containment containment.Containment
	// Images holds what third-party plugins run; nil means a store of the
	// launcher's own, in RunDir.
	Images *containment.Images

	logs     logs
	tempDir  sync.Once
	describe sync.Map // by Exec's key: *description

	mu    sync.Mutex
	count map[string]uint64 // starts by provider: the last part of a mark
}

// Launch starts the plugin of spec and returns once its handshake is done and it
// has refused a call without the token. ctx bounds that and nothing after it.
// Errors are *Failure; nothing runs then.
func (l *Launcher) Launch(ctx context.Context, spec Spec) (*Process, error) {
	l.tempDir.Do(l.warnTempDir)
	if err := ensureRunDir(l.RunDir); err != nil {
		return nil, spec.failure(PhasePlugin, err.Error())
	}
	img, err := openImage(spec.Exec, l.images(), l.Env)
	if err != nil {
		return nil, spec.failure(PhasePlugin, err.Error())
	}
	n := l.number(spec.Provider)
	p := newProcess(spec, fmt.Sprintf("%s/%s/%d", l.HostID, spec.Provider, n), l.redact())
	p.head = l.RedactHead
	output, closeLog := l.output(p, n)
	s := &start{
		l: l, p: p, closeLog: closeLog,
		r: &runner{
			image: img, token: provider.NewToken(), output: output, tier: l.tier(),
			env: append(provider.BaseEnv(l.Env), provider.MarkEnv+"="+p.mark),
		},
	}
	if err := s.run(ctx); err != nil {
		s.abandon()
		return nil, s.failure(ctx, err)
	}
	p.tree = s.r.tree
	go p.watch(s.end)
	l.logger().Debug("plugin started", "provider", spec.Provider, "mark", p.mark, "pid", p.PID())
	return p, nil
}

func (l *Launcher) logger() *slog.Logger {
	if l.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l.Logger
}

func (l *Launcher) redact() func(string) string {
	if l.Redact == nil {
		return func(s string) string { return s }
	}
	return l.Redact
}

func (l *Launcher) tier() containment.Containment {
	if l.Containment == nil {
		return containment.Direct{}
	}
	return l.Containment
}

func (l *Launcher) images() *containment.Images {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Images == nil {
		l.Images = containment.NewImages(l.RunDir)
	}
	return l.Images
}

// Tier names the kind of containment that holds its processes.
func (l *Launcher) Tier() string { return l.tier().Tier() }

// number counts the starts of a provider, from 1.
func (l *Launcher) number(slug string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == nil {
		l.count = map[string]uint64{}
	}
	l.count[slug]++
	return l.count[slug]
}

func (l *Launcher) warnTempDir() {
	if err := TempDirProblem(); err != nil {
		l.logger().Warn("plugins and servers inherit a folder for temporary files that they cannot use", "error", err)
	}
}

// output makes the sink of a process's lines: the redactor, then tail and log.
func (l *Launcher) output(p *Process, n uint64) (line func([]byte, bool), closeLog func()) {
	slug := p.spec.Provider
	var file *logFile
	if l.LogDir != "" {
		var err error
		if file, err = l.logs.acquire(l.LogDir, slug); err != nil {
			l.logger().Warn("standard error of a provider is not kept", "provider", slug, "error", err)
		}
	}
	closeLog = func() {}
	if file != nil {
		closeLog = func() { l.logs.release(slug) }
	}
	return func(raw []byte, cut bool) {
		text := redactLine(raw, cut, p.redact, l.RedactHead)
		p.tail.add(text)
		if file != nil {
			file.line(time.Now(), n, text)
		}
	}, closeLog
}

// start is one start of a plugin under way.
type start struct {
	l        *Launcher
	p        *Process
	r        *runner
	closeLog func()
	config   *plugin.ClientConfig
	client   *plugin.Client
}

// run brings the plugin to where it can be used.
func (s *start) run(ctx context.Context) error {
	within := defaultStart
	if deadline, ok := ctx.Deadline(); ok {
		within = time.Until(deadline)
	}
	if err := ctx.Err(); err != nil || within <= 0 {
		return context.DeadlineExceeded
	}
	plain := &lineWriter{line: s.r.output}
	s.config = &plugin.ClientConfig{
		HandshakeConfig:  provider.Handshake(),
		VersionedPlugins: provider.VersionedPlugins(nil),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		RunnerFunc:       s.r.prepare,
		SkipHostEnv:      true,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: s.l.RunDir},
		// ctx decides; go-plugin's own timer is behind it.
		StartTimeout:    within + time.Second,
		SyncStdout:      plain,
		SyncStderr:      plain,
		GRPCDialOptions: provider.DialOptions(s.r.token),
		AutoMTLS:        s.p.spec.Exec.MTLS,
		// What there is to tell, failure and Process tell.
		Logger: hclog.NewNullLogger(),
	}
	s.client = plugin.NewClient(s.config)
	remote, err := s.connect(ctx)
	if err != nil {
		return err
	}
	if err := s.refusesStrangers(ctx); err != nil {
		return err
	}
	if err := s.r.image.again(); err != nil {
		return s.r.fail(err)
	}
	s.p.remote = &watchedRemote{Remote: remote, p: s.p}
	return nil
}

// connect starts the process and connects to it. go-plugin knows no context: when
// ctx ends, the process does, and then go-plugin's call.
func (s *start) connect(ctx context.Context) (provider.Remote, error) {
	defer context.AfterFunc(ctx, s.r.cancel)()
	protocol, err := s.client.Client()
	if err != nil {
		return nil, err
	}
	raw, err := protocol.Dispense(provider.PluginName)
	if err != nil {
		return nil, err
	}
	remote, ok := raw.(provider.Remote)
	if !ok {
		return nil, fmt.Errorf("dispensed %T", raw)
	}
	if c, ok := protocol.(*plugin.GRPCClient); ok {
		s.p.conn = c.Conn
	}
	return remote, nil
}

// refusesStrangers calls once without the token, on a connection of its own, whose
// other end tells the plugin's pid as the host sees it.
func (s *start) refusesStrangers(ctx context.Context) error {
	network, address := s.r.peer()
	creds := insecure.NewCredentials()
	if s.config.TLSConfig != nil {
		creds = credentials.NewTLS(s.config.TLSConfig)
	}
	cc, err := grpc.NewClient("passthrough:///plugin", append(provider.DialOptions(""),
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err == nil {
				s.p.plugin.Store(int64(peer.PIDOf(conn)))
			}
			return conn, err
		}))...)
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }()
	switch _, err := provider.NewRemote(cc).Describe(ctx); {
	case err == nil:
		return s.r.fail(fmt.Errorf("%s answers without the token", s.r.image.name))
	case errors.Is(err, provider.ErrUnauthenticated):
		return nil
	default:
		return fmt.Errorf("a call without the token: %w", err)
	}
}

// abandon ends what a failed start left, and waits until it is gone.
func (s *start) abandon() {
	s.r.cancel()
	s.end()
}

// end cleans up after the process: its goroutines in go-plugin and gRPC, its
// sockets, its log.
func (s *start) end() {
	if s.r.done != nil {
		<-s.r.done
	}
	if s.client != nil {
		// The process is gone, so go-plugin's Kill has nothing to wait for.
		s.client.Kill()
	}
	if s.r.socketDir != "" {
		_ = os.RemoveAll(s.r.socketDir)
	}
	s.closeLog()
}

// failure says why a start failed, what tells most first. The process is gone.
func (s *start) failure(ctx context.Context, err error) *Failure {
	v := s.r.view()
	name := s.r.image.name
	when := "before its handshake"
	if v.handshake {
		when = "right after its handshake"
	}
	f := s.p.spec.failure(PhasePlugin, "")
	if v.running {
		f.gone = s.p.gone(s.r.tree.Exit())
	}
	switch {
	case v.problem != nil:
		f.Cause = v.problem.Error()
	case errors.Is(ctx.Err(), context.Canceled):
		f.Cause = "the start was cancelled"
	case ctx.Err() != nil && v.running:
		f.Cause = fmt.Sprintf("%s was not ready in time: it stood %s", name, when)
	case ctx.Err() != nil:
		f.Cause = "no time was left to start it"
	case v.exit != nil:
		exit := exitStatus(*v.exit, s.p.StderrTail())
		f.Cause = Ended(name, exit) + " " + when
		f.Exit = &exit
		if err := TempDirProblem(); err != nil {
			f.Cause += fmt.Sprintf(" (%v)", err)
		}
	default:
		f.Cause = fmt.Sprintf("%s: %v", name, err)
	}
	f.Cause = s.p.redact(f.Cause)
	return f
}
