package provider

import (
	"context"
	"encoding/json"
	"time"
)

// Provider owns the life of one MCP server. A process serves one Provider, and
// a Provider starts its server once: a restart is a new process.
//
// The host calls Describe and Validate at any time, Start once, Exchange once
// after Start, and Stop at the end. Methods may be called concurrently: a Stop
// may come while Start, Exchange or another Stop runs, and the shortest grace holds.
type Provider interface {
	// Describe says who the plugin is and what its config block holds.
	Describe(ctx context.Context) (Description, error)
	// Validate checks a config without starting anything.
	Validate(ctx context.Context, config Config) (Diagnostics, error)
	// Start starts the server. ctx bounds the start and nothing after it.
	// Diagnostics with an error mean that nothing runs.
	Start(ctx context.Context, req StartRequest) (Diagnostics, error)
	// Exchange carries messages both ways and returns when the server has ended
	// (after sending Exited) or ctx is done.
	Exchange(ctx context.Context, conn Conn) error
	// Stop ends the server and all it started and says how it ended.
	Stop(ctx context.Context, req StopRequest) (ExitStatus, error)
}

// Conn is the plugin's end of an exchange. Recv is called from one goroutine;
// Send may be called from several and keeps the events of one caller in order.
type Conn interface {
	// Recv returns the next frame from the host; io.EOF when the host has
	// closed its side.
	Recv() (Frame, error)
	// Send passes an event to the host.
	Send(Event) error
}

// Remote is the host's view of a plugin in another process. Its methods are
// those of Provider, but for Exchange, whose other end the host holds.
type Remote interface {
	Describe(ctx context.Context) (Description, error)
	Validate(ctx context.Context, config Config) (Diagnostics, error)
	Start(ctx context.Context, req StartRequest) (Diagnostics, error)
	// Exchange opens the stream; it lives until ctx is done or the plugin ends it.
	Exchange(ctx context.Context) (HostConn, error)
	Stop(ctx context.Context, req StopRequest) (ExitStatus, error)
}

// HostConn is the host's end of an exchange. Send is called from one goroutine
// at a time, Recv from one goroutine.
type HostConn interface {
	Send(Frame) error
	// Recv returns the next event; io.EOF when the plugin has ended the stream.
	Recv() (Event, error)
}

// Description is a plugin's answer to "who are you".
type Description struct {
	// Name and Version are the plugin's own, for people.
	Name, Version string
	// Config is the schema of the provider's config block.
	Config Schema
}

// Schema describes a config block, in the manner of Terraform's provider schema.
type Schema struct {
	Attributes []Attribute
	Blocks     []Block
}

// Attribute is one attribute of a config block.
type Attribute struct {
	Name string
	// Type is a cty type in its JSON form: "string", ["list","string"] …
	Type json.RawMessage
	// Required attributes have no default.
	Required bool
	// Default is the value when absent, as JSON; nil means null.
	Default json.RawMessage
	// Sensitive values are removed from every log, error, record and listing.
	Sensitive   bool
	Description string
}

// Block is a nested block of a config block. With MaxItems 1 it becomes an
// object (or null), else a list of objects.
type Block struct {
	Name               string
	Schema             Schema
	MinItems, MaxItems uint32
	Description        string
}

// Config is a decoded config block.
type Config struct {
	// JSON is one object in which every attribute of the schema is present,
	// null where unset.
	JSON json.RawMessage
	// BaseDir is the folder of the file that declares the provider; relative
	// paths in the config are relative to it.
	BaseDir string
}

// StartRequest says what to start.
type StartRequest struct {
	Config Config
	// Mark is the instance's mark; see MarkEnv.
	Mark string
	// MaxMessage is the limit of a whole message from the server, in bytes.
	MaxMessage int64
}

// StopRequest says how to end the server.
type StopRequest struct {
	// Grace is how long the server may take to end by itself once its standard
	// input is closed.
	Grace time.Duration
}

// ExitStatus says how a server ended.
type ExitStatus struct {
	Code int
	// Signal is the signal's number, or 0.
	Signal int
	// StderrTail holds the last lines of standard error, bounded.
	StderrTail string
}

// Severity is a diagnostic's weight.
type Severity int

// The severities. The zero value is no severity and is refused on the wire.
const (
	Error Severity = iota + 1
	Warning
)

// Diagnostic is a finding about a config. Path says where in it.
type Diagnostic struct {
	Severity        Severity
	Summary, Detail string
	Path            Path
}

// Path leads from the config block to a value inside it. Each step is an
// AttributeStep, a KeyStep or an IndexStep.
type Path []Step

// Step is one step of a Path.
type Step interface{ isStep() }

// The kinds of step.
type (
	// AttributeStep names an attribute or a block.
	AttributeStep string
	// KeyStep names a key of a map.
	KeyStep string
	// IndexStep counts into a list, from zero.
	IndexStep int64
)

func (AttributeStep) isStep() {}
func (KeyStep) isStep()       {}
func (IndexStep) isStep()     {}

// Diagnostics is a list of findings.
type Diagnostics []Diagnostic

// HasErrors says whether any of the findings is an error.
func (d Diagnostics) HasErrors() bool {
	for _, one := range d {
		if one.Severity == Error {
			return true
		}
	}
	return false
}

// Frame is one chunk of a message to the server.
type Frame struct {
	// Seq is the ordinal of the message on its stream, from 1.
	Seq  uint64
	Data []byte
	// Last is set on the last chunk of the message.
	Last bool
}

// Event is what a plugin says on the exchange: Chunk, Undelivered, Exited,
// Noise, TooLarge or Spoke.
type Event interface{ isEvent() }

// The events.
type (
	// Chunk is one chunk of a message from the server.
	Chunk struct {
		Data []byte
		Last bool
	}
	// Undelivered says that less than the last byte of message Seq was handed to
	// the server.
	Undelivered struct {
		Seq    uint64
		Reason string
	}
	// Exited says that the server ended; nothing follows.
	Exited struct{ Status ExitStatus }
	// Noise is a line of standard output that is no JSON-RPC message, cut to
	// MaxNoise bytes. Chunks of it that were already sent are to be dropped.
	Noise struct{ Line []byte }
	// TooLarge says that the server wrote a message over MaxMessage. Chunks of it
	// that were already sent are to be dropped.
	TooLarge struct {
		// ID is the message's top-level id as JSON, nil where it has none.
		ID json.RawMessage
		// Size is the length of the whole line in bytes.
		Size int64
	}
	// Spoke says that the server wrote its first byte on standard output or
	// standard error.
	Spoke struct{}
)

func (Chunk) isEvent()       {}
func (Undelivered) isEvent() {}
func (Exited) isEvent()      {}
func (Noise) isEvent()       {}
func (TooLarge) isEvent()    {}
func (Spoke) isEvent()       {}
