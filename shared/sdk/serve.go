package sdk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// Errors that keep a plugin from serving.
var (
	errNotByHand = errors.New("this program is a Drawbridge provider plugin; the host runs it, see its `plugin` block")
	errNoToken   = errors.New("no token on standard input: a plugin is started by a host, which writes it there")
)

const (
	// endGrace is what the server gets to end by itself when the process ends
	// without a Stop from the host: the host is gone, or in a hurry.
	endGrace = 500 * time.Millisecond
	// endBudget bounds the provider's Stop then. A host that shut the connection
	// kills the process soon after.
	endBudget = 3 * time.Second
	// flushBudget is for the last events after a SIGTERM to reach the host, whose
	// other streams (go-plugin's) stay open.
	flushBudget = 200 * time.Millisecond
	// maxToken is far above any token's length.
	maxToken = 1 << 10
)

// original is standard error as the process got it; go-plugin replaces os.Stderr.
var original = os.Stderr

// Stderr is the process's standard error as it was started with. The host writes
// what comes here to the provider's log, line by line; os.Stderr is go-plugin's
// once Serve runs, which is slower and ends with the connection.
func Stderr() *os.File { return original }

// Serve serves p until the host ends the connection, standard input ends, or a
// SIGTERM or SIGHUP arrives. Then it stops p (unless the host has) and returns,
// for main to return too. It exits with code 1, after a line on standard error,
// if the process was not started by a host.
//
// SIGINT is ignored: a terminal sends it to the host's whole group, and the host
// decides. A write to a pipe whose reader is gone is an error and no signal.
func Serve(p provider.Provider) {
	if err := serve(p); err != nil {
		_, _ = fmt.Fprintf(original, "%s: %v\n", os.Args[0], err)
		os.Exit(1)
	}
}

func serve(p provider.Provider) error {
	if os.Getenv(provider.CookieKey) != provider.CookieValue {
		return errNotByHand
	}
	terminate := catchSignals()
	stdin := bufio.NewReaderSize(os.Stdin, maxToken)
	token, err := readToken(stdin)
	if err != nil {
		return err
	}
	t := &tracked{Provider: p}

	// Both goroutines live as long as the process, which ends when Serve returns.
	eof := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		close(eof)
	}()
	created := make(chan *grpc.Server, 1)
	served := make(chan struct{})
	go func() {
		select {
		case <-served:
		case s := <-created:
			endServer(s, t, eof, terminate, served)
		}
	}()

	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  provider.Handshake(),
		VersionedPlugins: provider.VersionedPlugins(t),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			s := grpc.NewServer(append(opts, provider.ServerOptions(token)...)...)
			created <- s
			return s
		},
		Logger: hclog.New(&hclog.LoggerOptions{Name: "plugin", Level: hclog.Warn, Output: original}),
	})
	close(served)

	unfinished := t.unfinished()
	t.end()
	select {
	case <-eof:
		if unfinished {
			// The host is gone and nobody else will look after what the server left.
			killGroup()
		}
	default:
	}
	return nil
}

// endServer makes plugin.Serve return when the process is to end.
func endServer(s *grpc.Server, t *tracked, eof, terminate <-chan struct{}, served <-chan struct{}) {
	select {
	case <-served:
		return
	case <-eof:
		s.Stop()
		return
	case <-terminate:
	}
	// The host is there: it should still read how the server ended.
	t.end()
	flushed := time.AfterFunc(flushBudget, s.Stop)
	s.GracefulStop()
	flushed.Stop()
}

// readToken reads the first line.
func readToken(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return "", errNoToken
	}
	token := strings.TrimRight(string(line), "\r\n")
	if token == "" {
		return "", errNoToken
	}
	return token, nil
}

// tracked remembers whether there is something to stop.
type tracked struct {
	provider.Provider

	mu     sync.Mutex
	phase  phase
	status provider.ExitStatus // once stopped
}

type phase int

const (
	idle phase = iota
	starting
	running
	stopped
)

// Start marks that there is. What it did happens before a Stop that comes after
// it, also one that no RPC asked for.
func (t *tracked) Start(ctx context.Context, req provider.StartRequest) (provider.Diagnostics, error) {
	t.enter(starting)
	defer t.enter(running)
	return t.Provider.Start(ctx, req)
}

// enter goes to a later phase.
func (t *tracked) enter(to phase) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.phase = max(t.phase, to)
}

// Stop passes on what there is to stop. Before Start and after a Stop that
// succeeded it answers by itself; while one runs, another (with a shorter grace)
// reaches the provider.
func (t *tracked) Stop(ctx context.Context, req provider.StopRequest) (provider.ExitStatus, error) {
	if !t.unfinished() {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.status, nil
	}
	status, err := t.Provider.Stop(ctx, req)
	if err == nil {
		t.mu.Lock()
		t.phase, t.status = stopped, status
		t.mu.Unlock()
	}
	return status, err
}

// unfinished says whether a server was started and not stopped.
func (t *tracked) unfinished() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.phase == starting || t.phase == running
}

// end stops what the host did not, within endBudget whatever the provider does.
func (t *tracked) end() {
	ctx, cancel := context.WithTimeout(context.Background(), endBudget)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := t.Stop(ctx, provider.StopRequest{Grace: endGrace}); err != nil {
			_, _ = fmt.Fprintf(original, "stop: %v\n", err)
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
