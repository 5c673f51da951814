package control

import (
	"fmt"
	"os"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/session"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// Status is what `status --json` prints; programs rely on its form.
type Status struct {
	Host      HostStatus       `json:"host"`
	Providers []ProviderStatus `json:"providers"`
}

// HostStatus is the host itself.
type HostStatus struct {
	ID      string    `json:"id"`
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Containment is the tier that holds the process trees.
	Containment string `json:"containment"`
}

// ProviderStatus is one enabled provider.
type ProviderStatus struct {
	Name string `json:"name"`
	// State is cold, starting, ready, draining, stopped, backoff or failed.
	State string    `json:"state"`
	Since time.Time `json:"since"`
	// Reason says why it is not ready, in one sentence; "" where there is nothing to say.
	Reason string `json:"reason"`
	// Restarts counts the starts that nobody asked for, Noise the lines on standard
	// output that were no messages.
	Restarts   int   `json:"restarts"`
	Noise      int64 `json:"noise"`
	Generation int   `json:"generation"`
	// NextStart is when a backoff ends, or when a failed provider may be started by a
	// call again.
	NextStart *time.Time `json:"next_start"`
	// Instances are the processes that there are.
	Instances []InstanceStatus `json:"instances"`
	// Exits are the last ends of its processes, the oldest first.
	Exits []ExitStatus `json:"exits"`
}

// InstanceStatus is one plugin with its server. Pids are as the host sees them, 0
// where there is no such process.
type InstanceStatus struct {
	ID            string    `json:"id"`
	GuardPID      int       `json:"guard_pid"`
	PluginPID     int       `json:"plugin_pid"`
	Started       time.Time `json:"started"`
	Scope         string    `json:"scope"`
	Owner         string    `json:"owner"`
	CallsInFlight int       `json:"calls_in_flight"`
}

// ExitStatus is the end of one instance. Code is -1 where Signal is not 0.
type ExitStatus struct {
	Instance string    `json:"instance"`
	Time     time.Time `json:"time"`
	Code     int       `json:"code"`
	Signal   int       `json:"signal"`
	// Asked says that it was ended by a stop or a restart.
	Asked bool `json:"asked"`
	// Stderr holds its last lines.
	Stderr string `json:"stderr"`
}

// Status says where the host and its providers stand. It does not wait.
func (c *Control) Status() Status {
	info, providers := c.opts.Info, *c.providers.Load()
	s := Status{
		Host: HostStatus{
			ID: info.ID, PID: os.Getpid(), Version: info.Version, Started: info.Started, Containment: c.opts.Containment,
		},
		Providers: make([]ProviderStatus, 0, len(providers)),
	}
	for _, p := range providers {
		if one, ok := c.providerStatus(p); ok {
			s.Providers = append(s.Providers, one)
		}
	}
	return s
}

func (c *Control) providerStatus(p Provider) (ProviderStatus, bool) {
	state, ok := c.opts.Sessions.State(p.Slug)
	if !ok {
		return ProviderStatus{}, false
	}
	s := ProviderStatus{
		Name: p.Slug, State: state.Name, Since: state.Since, Reason: c.reason(state),
		Restarts: state.Restarts, Noise: state.Noise, Generation: p.Generation,
		Instances: []InstanceStatus{}, Exits: make([]ExitStatus, 0, len(state.Exits)),
	}
	if !state.Next.IsZero() {
		s.NextStart = &state.Next
	}
	for _, i := range c.opts.Sessions.Instances(p.Slug) {
		s.Instances = append(s.Instances, InstanceStatus{
			ID: i.Mark, GuardPID: i.GuardPID, PluginPID: i.PluginPID, Started: i.Started,
			Scope: p.Scope, Owner: p.Owner, CallsInFlight: i.Calls,
		})
	}
	for _, e := range state.Exits {
		s.Exits = append(s.Exits, ExitStatus{
			Instance: e.Instance, Time: e.Time, Code: e.Code, Signal: e.Signal, Asked: e.Asked,
			Stderr: c.opts.Redact(e.Stderr),
		})
	}
	return s, true
}

// reason is why a provider is not ready.
func (c *Control) reason(s session.State) string {
	if s.Failure == nil || s.Name == string(supervise.Ready) {
		return ""
	}
	why := c.opts.Redact(s.Failure.Error())
	switch {
	case s.InRow < 2: // one restart is none yet
		return why
	case s.Name == string(supervise.Failed):
		return fmt.Sprintf("crash loop, given up after %d restarts in a row: %s", s.InRow, why)
	}
	return fmt.Sprintf("crash loop, %d restarts in a row: %s", s.InRow, why)
}
