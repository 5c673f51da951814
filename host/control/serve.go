package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/peer"
)

// ErrUnsupported says that this system does not tell who gives a command, so that
// no host takes any here.
var ErrUnsupported = peer.ErrUnsupported

// Supported says whether this system tells who gives a command.
const Supported = peer.Supported

const (
	// headerTimeout bounds how long a connection may take to ask for something.
	headerTimeout = 10 * time.Second
	// closeBudget is for answers that are being written when the host ends.
	closeBudget = time.Second
	// refusalTimeout is how long one that is refused has to ask, so that it can be
	// told; maxRefusals may be told at a time, the others are hung up on.
	refusalTimeout = time.Second
	maxRefusals    = 8
	// refusalLogEvery keeps a server that knocks without end from filling the log.
	refusalLogEvery = 10 * time.Second
	// keepEvery is far below the days after which files in /tmp are cleaned away.
	keepEvery = time.Hour
)

// server is the socket.
type server struct {
	http *http.Server
	info Info
	work sync.WaitGroup
	// stop ends what has no end of its own, such as a log that is followed.
	stop context.CancelFunc

	mu      sync.Mutex // guards closed against answers.Add
	closed  bool
	answers sync.WaitGroup
}

// counted lets Close wait for an answer, which net/http does not do.
func (s *server) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			panic(http.ErrAbortHandler) // the connection is being closed
		}
		s.answers.Add(1)
		s.mu.Unlock()
		defer s.answers.Done()
		h.ServeHTTP(w, r)
	})
}

// Serve opens the socket and answers on it until Close. url is where the host
// serves HTTP, "" if it does not. The error is ErrUnsupported on a system that does
// not tell who connects.
func (c *Control) Serve(ctx context.Context, url string) error {
	if !peer.Supported {
		return ErrUnsupported
	}
	dir := c.opts.Dir
	if err := clean(ctx, dir); err != nil {
		c.opts.Logger.Warn("sockets of hosts that died stay behind", "error", err)
	}
	c.opts.Info.PID, c.opts.Info.URL = os.Getpid(), url
	info := c.opts.Info
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: info.socket(dir), Net: "unix"})
	if err != nil {
		return fmt.Errorf("command socket: %w", err)
	}
	gate := &gate{UnixListener: listener, admit: c.admit, log: c.opts.Logger, slots: make(chan struct{}, maxRefusals)}
	if err = os.Chmod(info.socket(dir), 0o600); err == nil {
		err = info.write(dir)
	}
	if err != nil {
		_ = listener.Close()
		return errors.Join(fmt.Errorf("command socket: %w", err), info.remove(dir))
	}
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &server{info: info, stop: stop}
	s.http = &http.Server{
		Handler: s.counted(c.handler()), ReadHeaderTimeout: headerTimeout,
		BaseContext: func(net.Listener) context.Context { return base },
		ErrorLog:    slog.NewLogLogger(c.opts.Logger.Handler(), slog.LevelWarn),
	}
	c.server = s
	s.work.Go(func() {
		_ = s.http.Serve(gate) // it ends with Close
		gate.refusals.Wait()
	})
	s.work.Go(func() { s.keepFile(base, dir, c.opts.Logger) })
	return nil
}

// keepFile shows once in a while that the file is in use: what cleans /tmp takes away
// what nobody has touched for days. (Of a socket it sees that somebody listens.)
func (s *server) keepFile(ctx context.Context, dir string, log *slog.Logger) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := s.info.write(dir); err != nil {
			log.Warn("commands may not find this host", "error", err)
		}
	}
}

// Close ends the socket and waits for all that answers on it; until ctx ends, they
// may end what they write.
func (c *Control) Close(ctx context.Context) error {
	s := c.server
	if s == nil {
		return nil
	}
	s.stop()
	ctx, cancel := context.WithTimeout(ctx, closeBudget)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.answers.Wait()
	s.work.Wait()
	return s.info.remove(c.opts.Dir)
}

// gate lets in who may give commands.
type gate struct {
	*net.UnixListener
	admit    func(*net.UnixConn) error
	log      *slog.Logger
	slots    chan struct{}
	refusals sync.WaitGroup
	// told is when a refusal was logged last. Only Accept uses it.
	told time.Time
}

// Accept returns the next that may give commands.
func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if err = g.admit(conn); err == nil {
			return conn, nil
		}
		if errors.Is(err, peer.ErrGone) { // it hung up; nobody is there to be refused
			_ = conn.Close()
			continue
		}
		if time.Since(g.told) > refusalLogEvery {
			g.told = time.Now()
			g.log.Warn("a process that tried to give commands is refused", "why", err)
		}
		g.refuse(conn, err)
	}
}

// refuse tells who connected why, if they ask soon and not too many do.
func (g *gate) refuse(conn *net.UnixConn, why error) {
	select {
	case g.slots <- struct{}{}:
	default:
		_ = conn.Close()
		return
	}
	g.refusals.Go(func() {
		defer func() { _ = conn.Close(); <-g.slots }()
		_ = conn.SetDeadline(time.Now().Add(refusalTimeout))
		var asked [4 << 10]byte
		if _, err := conn.Read(asked[:]); err != nil {
			return
		}
		writeFailure(conn, http.StatusForbidden, "the host takes no commands from this process: "+why.Error())
	})
}
