package rpc

import (
	"encoding/json"
	"errors"
)

// JSON-RPC 2.0 error codes, section 5.1.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// Sentinels that an *Error may wrap.
var (
	// ErrTooLarge says that a message exceeded the assembler's bound.
	ErrTooLarge = errors.New("message is too large")
	// ErrSpool says that a large message could not be kept in a file.
	ErrSpool = errors.New("message could not be spooled")
)

// Error is a JSON-RPC error object that the host itself answers with. As a Go
// error it reads as its message.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
	// ID is the id to answer under, as far as one could be read; empty means null.
	ID ID `json:"-"`
	// Response says that what was refused is a response, as far as it could be
	// read: it has a result or an error and no method. Nobody waits for an answer
	// to it; of a server's, ID is the call that it would have ended.
	Response bool `json:"-"`

	cause error
}

func (e *Error) Error() string { return e.Message }

// Unwrap gives what is behind it, such as ErrTooLarge, or nil.
func (e *Error) Unwrap() error { return e.cause }

// invalid makes the error for a message that is JSON but no message.
func invalid(problem string) *Error {
	return &Error{Code: CodeInvalidRequest, Message: "invalid request: " + problem}
}
