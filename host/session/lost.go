package session

import "fmt"

// Reason says why a call has no usable answer.
type Reason string

// The reasons of a Lost.
const (
	// Timeout: the server was silent for call_timeout, or took call_timeout_max.
	Timeout Reason = "timeout"
	// Cancelled: the caller's context ended after dispatch.
	Cancelled Reason = "cancelled"
	// Crashed: the server or its plugin ended, or the host stopped it.
	Crashed Reason = "crashed"
	// MalformedAnswer: there is an answer, and it is none.
	MalformedAnswer Reason = "malformed_answer"
	// InputRequired: the server wants to hear more before it goes on, in a way that
	// the caller's era does not have.
	InputRequired Reason = "input_required"
	// ResultTooLarge: the answer is over max_message.
	ResultTooLarge Reason = "result_too_large"
	// Undelivered: the plugin says that the server did not get the whole request.
	Undelivered Reason = "undelivered"
	// MessageTooLarge: the request is over max_message; nothing was sent.
	MessageTooLarge Reason = "message_too_large"
	// NotSent: nothing was sent, for another reason than the caller's context.
	NotSent Reason = "not_sent"
)

// Lost is a call without a usable answer.
type Lost struct {
	// Dispatched says that the request, or at least its last chunk, was handed to
	// the plugin, or will be: it may have an effect.
	Dispatched bool
	Reason     Reason
	// Cause is half a sentence for people: what happened.
	Cause string
}

func (l *Lost) Error() string {
	return fmt.Sprintf("no usable answer (%s): %s", l.Reason, l.Cause)
}

// withoutSecrets is why a call was lost, or a list could not be had, fit to be told
// to a caller: what a server has said may be in it.
func (i *Instance) withoutSecrets(err error) error {
	if i.redact == nil {
		return err
	}
	if lost, ok := err.(*Lost); ok { //nolint:errorlint // what wraps one is told by its text
		shown := *lost
		shown.Cause = i.redact(lost.Cause)
		return &shown
	}
	if text := i.redact(err.Error()); text != err.Error() {
		return &redactedError{text: text, err: err}
	}
	return err
}

// redactedError reads as its text and is, for errors.Is and As, what it was made of.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }
