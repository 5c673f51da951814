package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/connect"
	"github.com/drawbridge-mcp/drawbridge/host/control"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

func newConnect(g *globals) *cobra.Command {
	j := &joiner{g: g}
	cmd := &cobra.Command{
		Use:   "connect",
		Short: "Carry one client on stdio to the running host",
		Long: `Is an MCP server on stdin and stdout for the client that starts it, and carries what
the client says to the running host of this configuration. All clients that are
connected share its servers and their sessions, as the principal "local". It ends with its client.

With --start it starts a host where none runs: ` + "`drawbridge serve`" + ` of the same configuration,
which does not end with the client, and whose log is STATE_DIR/host.log. When the host is
restarted the session goes on with the next one; what was in flight ends with an error that
says whether it may have had an effect. Where there is no host, requests are answered with
an error that says what to do. Logs go to stderr; nothing but MCP is on stdout.

Exit codes: 0 the client has ended, 1 it could not go on.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !control.Supported {
				return fmt.Errorf("a client cannot be connected to a host: %w; let it run `drawbridge serve --stdio`, or use the host's URL", control.ErrUnsupported)
			}
			if j.start && g.host != "" {
				return errors.New("--start is for the host of a configuration, --host for one that runs; use one of them")
			}
			log, err := g.logger()
			if err != nil {
				return err
			}
			j.log = log
			return connect.Run(cmd.Context(), connect.Options{
				In: polled(g.std.in), Out: polledOut(g.std.out), Dial: j.dial, Passing: passing, SpoolDir: os.TempDir(), Logger: log,
			})
		},
	}
	g.inProject(g.addressesHost(cmd))
	cmd.Flags().BoolVar(&j.start, "start", false, "start a host of this configuration where none runs")
	return cmd
}

// polled and polledOut are streams that this command alone owns, with deadlines where
// they are pipes.
func polled(in io.Reader) io.Reader {
	if file, ok := in.(*os.File); ok {
		return pollable(file)
	}
	return in
}

func polledOut(out io.Writer) io.Writer {
	if file, ok := out.(*os.File); ok {
		return pollable(file)
	}
	return out
}

// logger is the log of a command that is no host.
func (g *globals) logger() (*slog.Logger, error) {
	level, err := g.level()
	if err != nil {
		return nil, err
	}
	return slog.New(slog.NewTextHandler(g.std.err, &slog.HandlerOptions{Level: level})), nil
}

// joiner finds the host that a client is carried to, time after time.
type joiner struct {
	g     *globals
	log   *slog.Logger
	start bool
	// config is that of the first host: the next one serves the same.
	config string
}

// dial opens a session with the host that is meant, which is started first where
// --start says so.
func (j *joiner) dial(ctx context.Context, how connect.How) (connect.Stream, error) {
	host, err := j.find(ctx)
	if j.start && how.Start && errors.Is(err, errNoHost) {
		host, err = j.startHost(ctx)
	}
	if err != nil {
		return nil, err
	}
	stream, err := host.Attach(ctx, j.g.project, how.Again)
	if err != nil {
		return nil, err
	}
	info := host.Info()
	j.config = info.Config
	j.log.Info("connected", "host", info.ID, "pid", info.PID, "config", info.Config)
	return stream, nil
}

// find is the host that is meant, if it runs. The error wraps errNoHost if not.
func (j *joiner) find(ctx context.Context) (*control.Client, error) {
	path := j.config
	if path == "" && j.g.host == "" {
		// A client is never carried to the host of another configuration than that which is
		// found where it starts. Where none is, the only host is meant.
		var err error
		if path, err = j.g.configPath(); err != nil && j.start {
			return nil, err
		}
	}
	if path == "" {
		return j.g.running(ctx)
	}
	hosts, err := control.Hosts(ctx, supervise.RunBases(), ofConfig(path))
	if err != nil {
		return nil, err
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("%w with %s; start it with `drawbridge serve --config %s`, or use `drawbridge connect --start`",
			errNoHost, canonical(path), canonical(path))
	}
	return pick(hosts, "")
}

// passing says whether an error of dial may pass by itself: there will be a host, or the
// one that is there is on its way out.
func passing(err error) bool {
	var said *control.Error
	if errors.As(err, &said) {
		return said.Status == http.StatusServiceUnavailable
	}
	return !errors.Is(err, errNotStarted) && (errors.Is(err, errNoHost) || errors.Is(err, control.ErrNoAnswer))
}
