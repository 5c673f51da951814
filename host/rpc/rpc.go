package rpc

import (
	"encoding/json"
	"io"

	"github.com/drawbridge-mcp/drawbridge/shared/jsonscan"
)

// ID is a JSON-RPC id as the literal JSON it came in: 0, "1" and 1 are three
// ids. The empty ID stands for "none".
type ID string

// Kind is what a message is.
type Kind uint8

// The kinds of message.
const (
	Request Kind = iota + 1
	Notification
	Result  // a response with a result
	Failure // a response with an error
)

// Origin says whose message is parsed, and so how strictly.
type Origin uint8

// The origins. A client's message decides what runs and is parsed strictly
// (top level, params, params._meta); of a server's only the top level is.
const (
	FromClient Origin = iota + 1
	FromServer
)

// Message is one parsed JSON-RPC message: the bytes it came in, and where its
// parts stand in them. It is immutable; Edit makes a changed copy on the way out.
type Message struct {
	Kind   Kind
	ID     ID
	Method string
	// contains unexported: body (bytes, or an unlinked file above SpoolOver), members
}

// SpoolOver is the length in bytes above which a message is kept in an unlinked
// file instead of in memory.
const SpoolOver = 1 << 20

// Error is a JSON-RPC error object that the host itself answers with. As a Go
// error it reads as its message.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
	// ID is the id to answer under, as far as one could be read; empty means null.
	ID ID `json:"-"`
}

func (e *Error) Error() string { return e.Message }

// Parse parses one whole message held in memory. White space outside strings
// that holds CR or LF is removed, and nothing else changes. The error is an
// *Error with CodeParse or CodeInvalidRequest.
func Parse(origin Origin, text []byte) (*Message, error) { panic("rpc") }

// Assembler builds one message after the other from chunks, scanning and, above
// SpoolOver, spooling them as they arrive. One goroutine uses it.
type Assembler struct{}

// NewAssembler spools to unlinked files in dir and refuses messages over max bytes.
func NewAssembler(origin Origin, dir string, max int64) *Assembler { panic("rpc") }

// Write adds a chunk. An error ends the message (it has been dropped, and what
// follows until Finish is ignored); it is returned by Finish too.
func (a *Assembler) Write(p []byte) (int, error) { panic("rpc") }

// Finish returns the message that the chunks made and makes the assembler ready
// for the next.
func (a *Assembler) Finish() (*Message, error) { panic("rpc") }

// Abort drops what was written of the current message.
func (a *Assembler) Abort() { panic("rpc") }

// Size is the length of the message in bytes.
func (m *Message) Size() int64 { panic("rpc") }

// Close frees the file of a spooled message. A message in memory needs no Close.
func (m *Message) Close() error { panic("rpc") }

// Find returns the value at a path of member names from the root, among the
// members that are recorded: the root's, those of params, result and error, and
// those of a _meta in params or result.
func (m *Message) Find(path ...string) (jsonscan.Span, bool) { panic("rpc") }

// Get returns the bytes of the value at a path, nil where there is none. It
// reads from the file of a spooled message, so it is for small values.
func (m *Message) Get(path ...string) json.RawMessage { panic("rpc") }

// GetString returns the string at a path, unescaped; false where there is none
// or it is no string.
func (m *Message) GetString(path ...string) (string, bool) { panic("rpc") }

// Payload returns the message as it came.
func (m *Message) Payload() Payload { panic("rpc") }

// Edit starts an edited copy.
func (m *Message) Edit() *Editor { panic("rpc") }

// Editor collects changes to a message; everything that is not named stays
// byte for byte. Its methods return the editor.
type Editor struct{}

// SetID replaces the id.
func (e *Editor) SetID(id ID) *Editor { panic("rpc") }

// Set replaces the value at path, or adds it as the last member of the object
// that the path's beginning names, making the objects that are missing.
func (e *Editor) Set(value json.RawMessage, path ...string) *Editor { panic("rpc") }

// Remove takes out the member at path, with its comma; no such member is no error.
func (e *Editor) Remove(path ...string) *Editor { panic("rpc") }

// RemovePrefix takes out the members of the object at path whose name has the prefix.
func (e *Editor) RemovePrefix(prefix string, path ...string) *Editor { panic("rpc") }

// Payload returns the edited message.
func (e *Editor) Payload() Payload { panic("rpc") }

// Payload is a message on its way out: pieces of memory and of spool files. It
// holds no CR or LF.
type Payload struct{}

// Bytes makes a payload of bytes that are already a valid message.
func Bytes(b []byte) Payload { panic("rpc") }

// Len is the length in bytes.
func (p Payload) Len() int64 { panic("rpc") }

// WriteTo writes the payload.
func (p Payload) WriteTo(w io.Writer) (int64, error) { panic("rpc") }

// Chunks calls f with consecutive pieces of at most size bytes; last is set on
// the last. A payload in memory is not copied.
func (p Payload) Chunks(size int, f func(piece []byte, last bool) error) error { panic("rpc") }

// NewRequest, NewNotification, NewResult and NewFailure make messages of our own;
// params and result are valid JSON, nil means none (for a result: {}).
func NewRequest(id ID, method string, params json.RawMessage) Payload { panic("rpc") }

// NewNotification makes a notification.
func NewNotification(method string, params json.RawMessage) Payload { panic("rpc") }

// NewResult makes a response with a result.
func NewResult(id ID, result json.RawMessage) Payload { panic("rpc") }

// NewFailure makes a response with an error; an empty id becomes null.
func NewFailure(id ID, err *Error) Payload { panic("rpc") }

// JSON-RPC 2.0 error codes, section 5.1.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)
