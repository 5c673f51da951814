package http

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// NotYet is why a provider with this plugin does not start, for people.
const NotYet = "The plugin http does not run servers yet: this version checks its config and nothing else."

var errNotStarted = errors.New("no server was started")

// New returns the provider.
func New() provider.Provider { return httpProvider{} }

type httpProvider struct{}

// Describe says what the config holds.
func (httpProvider) Describe(context.Context) (provider.Description, error) {
	d := provider.Description{Name: "http", Config: schema}
	if info, ok := debug.ReadBuildInfo(); ok {
		d.Version = info.Main.Version
	}
	return d, nil
}

// Validate checks what can be known without asking the server, and warns that the
// provider does not start.
func (httpProvider) Validate(_ context.Context, c provider.Config) (provider.Diagnostics, error) {
	diags := check(c.JSON)
	return append(diags, provider.Diagnostic{Severity: provider.Warning, Summary: "The provider will not start", Detail: NotYet}), nil
}

// Start starts nothing, and says why.
func (httpProvider) Start(_ context.Context, req provider.StartRequest) (provider.Diagnostics, error) {
	return append(check(req.Config.JSON), problem("The provider cannot start", NotYet)), nil
}

// Exchange has nobody to talk to.
func (httpProvider) Exchange(context.Context, provider.Conn) error { return errNotStarted }

// Stop has nothing to end.
func (httpProvider) Stop(context.Context, provider.StopRequest) (provider.ExitStatus, error) {
	return provider.ExitStatus{}, nil
}
