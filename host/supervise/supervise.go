package supervise

import (
	"time"

	"github.com/drawbridge-mcp/drawbridge/shared/checksum"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// Exec says which plugin to run.
type Exec struct {
	// Name is the plugin's name in the config.
	Name string
	// Builtin is set for a plugin of this binary: the host's own executable runs
	// as `drawbridge plugin NAME`.
	Builtin bool
	// Path is a third-party plugin's executable, SHA256 its checksum, or that of
	// Files.
	Path, SHA256 string
	// Command, where set, runs a third-party plugin that is a script, in place of
	// Path: absolute, or a name to look for in the PATH of plugins. Args are its
	// arguments. Files are what is compared with SHA256, as checksum.Files has it.
	Command string
	Args    []string
	Files   []checksum.Named
	// MTLS turns on go-plugin's AutoMTLS in addition to the token.
	MTLS bool
}

// Spec is what decides a provider's processes.
type Spec struct {
	// Provider is the slug, Label the name for people, Where the file:line of its block.
	Provider, Label, Where string
	Exec                   Exec
	Config                 provider.Config
	// Command is the base name of the server's command, for messages.
	Command      string
	MaxMessage   int64
	StartTimeout time.Duration
	StopGrace    time.Duration
	Restart      Policy
}

// Policy is a provider's `restart` block.
type Policy struct {
	Intensity                                          int
	Period, Backoff, BackoffMax, StableAfter, Cooldown time.Duration
}

// Phase names the step of a start that failed.
type Phase string

// The phases of a start, in order.
const (
	PhaseConfig     Phase = "config"     // env(), file(), schema, Validate
	PhasePlugin     Phase = "plugin"     // the plugin process, its checksum, handshake and token
	PhaseStart      Phase = "start"      // the server's process
	PhaseInitialize Phase = "initialize" // the MCP handshake
	PhaseList       Phase = "tools/list" // the first complete list
	PhaseRunning    Phase = "running"    // after it was ready
)

// Failure says why a provider is not there. It reads as one sentence that names
// the provider, the phase, the exit code or signal, the last line of stderr, and
// the file and line of the provider's block.
type Failure struct {
	Provider, Label, Where string
	Phase                  Phase
	// Cause is a clause such as "the server exited with code 3". An empty one is
	// made of Exit.
	Cause string
	// Exit is set when a process ended; nil else. Secrets are removed from its tail.
	Exit *provider.ExitStatus

	// gone is the end of the plugin that a Launch started in vain; nil else.
	gone *Exit
}
