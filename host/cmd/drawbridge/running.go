package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/host/control"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// errNoHost says that there is no host to ask.
var errNoHost = errors.New("no host is running")

// commands is what `tools` and `call` need of a host, be it a running one or one of
// their own.
type commands interface {
	Tools(ctx context.Context, project string) (control.ToolList, error)
	Call(ctx context.Context, r control.CallRequest) (control.CallReply, error)
}

// anyHost is the running host of this configuration, or one with servers of its own
// that ends with the command. The function returned ends it.
func (g *globals) anyHost(ctx context.Context) (commands, func(), error) {
	path := ""
	if g.host == "" {
		var err error
		if path, err = g.configPath(); err != nil {
			return nil, nil, err
		}
	}
	hosts, err := control.Hosts(ctx, supervise.RunBases(), ofConfig(path))
	if err != nil {
		return nil, nil, err
	}
	client, err := pick(hosts, g.host)
	switch {
	case err == nil:
		return client, func() {}, nil
	case g.host != "" || !errors.Is(err, errNoHost):
		return nil, nil, err
	}
	h, done, err := g.fresh(ctx)
	if err != nil {
		return nil, nil, err
	}
	return h.control, done, nil
}

// running is the host that a command is for.
func (g *globals) running(ctx context.Context) (*control.Client, error) {
	candidates, err := g.candidates(ctx)
	if err != nil {
		return nil, err
	}
	return pick(candidates, g.host)
}

// candidates are the running hosts that may be meant: with --host all; those of the
// configuration that was named, by flag or environment; else those of the one that
// would be found here, if there is one and a host of it, or all.
func (g *globals) candidates(ctx context.Context) ([]*control.Client, error) {
	dirs := supervise.RunBases()
	if g.host != "" {
		return control.Hosts(ctx, dirs, nil)
	}
	path, err := g.configPath()
	if err != nil { // no configuration here: whatever runs
		return control.Hosts(ctx, dirs, nil)
	}
	these, err := control.Hosts(ctx, dirs, ofConfig(path))
	switch named := g.config != "" || os.Getenv("DRAWBRIDGE_CONFIG") != ""; {
	case err != nil || len(these) > 0:
		return these, err
	case named:
		return nil, fmt.Errorf("%w with %s; start it with `drawbridge serve`", errNoHost, canonical(path))
	}
	return control.Hosts(ctx, dirs, nil)
}

// ofConfig picks the hosts that serve a configuration; all for no path.
func ofConfig(path string) func(control.Info) bool {
	if path == "" {
		return nil
	}
	path = canonical(path)
	return func(i control.Info) bool { return i.Config == path }
}

// pick is the host whose id is meant; without one, the host that serves HTTP, else
// the only one.
func pick(hosts []*control.Client, id string) (*control.Client, error) {
	var meant, http []*control.Client
	for _, c := range hosts {
		if strings.HasPrefix(c.Info().ID, id) {
			meant = append(meant, c)
			if c.Info().URL != "" {
				http = append(http, c)
			}
		}
	}
	switch {
	case len(meant) == 1:
		return meant[0], nil
	case len(http) == 1 && id == "":
		return http[0], nil
	case len(meant) > 1:
		return nil, severalHosts(meant)
	case id != "":
		return nil, fmt.Errorf("%w whose id begins with %q%s", errNoHost, id, listed(hosts))
	}
	return nil, fmt.Errorf("%w; start one with `drawbridge serve`", errNoHost)
}

func severalHosts(hosts []*control.Client) error {
	return fmt.Errorf("several hosts are running; say which one with --host%s", listed(hosts))
}

// listed are hosts, one below the other.
func listed(hosts []*control.Client) string {
	var b strings.Builder
	for _, c := range hosts {
		b.WriteString("\n  " + c.Info().Line())
	}
	return b.String()
}
