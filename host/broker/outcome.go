package broker

import (
	"encoding/json"
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// Outcome says how a call ended. A call ends in exactly one.
type Outcome string

// The outcomes. The first three are the server's truth and pass unchanged; the
// others are the host's own and carry one of its error codes.
const (
	// OK: the server answered, isError false.
	OK Outcome = "ok"
	// ToolError: the server answered, isError true.
	ToolError Outcome = "tool_error"
	// RPCError: the server answered with a JSON-RPC error.
	RPCError Outcome = "rpc_error"
	// Denied: no such tool for this caller. Nothing was sent.
	Denied Outcome = "denied"
	// Stale: not what the caller was shown. Nothing was sent.
	Stale Outcome = "stale"
	// Unavailable: it could not be sent. Nothing was sent, so a retry is safe.
	Unavailable Outcome = "unavailable"
	// Cancelled: the caller cancelled before dispatch. Nothing was sent.
	Cancelled Outcome = "cancelled"
	// Unknown: dispatched, and no usable answer. It may have happened.
	Unknown Outcome = "unknown"
)

// The host's own JSON-RPC error codes.
const (
	CodeDenied      = -31001
	CodeStale       = -31002
	CodeUnavailable = -31003
	CodeUnknown     = -31004
)

// Retry says what a caller may do after one of the host's own errors.
type Retry string

// The advice on retrying.
const (
	RetryNever       Retry = "never"
	RetryYes         Retry = "yes"
	RetrySafe        Retry = "safe"
	RetryAfterLook   Retry = "only_after_looking"
	advSafe                = "Nothing was sent, so it had no effect; it is safe to call again."
	advNever               = "Nothing was sent, so it had no effect; calling again will give the same answer."
	advUnknownTool         = "Nothing was run. List the tools again and use one of the names given there."
	advMayHappened         = "It may have had its effect. Look at the state before you call it again."
	advMayReadOnly         = "It may have run; the tool declares itself read-only."
	advUnfinished          = "It has not finished, and may have had a part of its effect. Look at the state; if you call it again from here, it will ask for the same."
	advAnsweredBadly       = "The server ran it and answered; only the answer is lost. Look at the state before you call it again."
)

// ending is what is known when the host itself has to end a call.
type ending struct {
	outcome        Outcome
	reason         string // a word for programs
	cause          string // a clause for people
	advice         string
	provider, tool string
	// revision is that of what the caller sees of the provider, where it was refused
	// for what it was shown; digest the definition that it is shown instead.
	revision, digest string
	instance         string
	dispatched       bool
	retry            Retry
	annotations      json.RawMessage
}

// data is the error's `data`: the message again, for programs.
type data struct {
	Outcome     Outcome         `json:"outcome"`
	Reason      string          `json:"reason"`
	Provider    string          `json:"provider,omitempty"`
	Tool        string          `json:"tool,omitempty"`
	Revision    string          `json:"revision,omitempty"`
	Digest      string          `json:"digest,omitempty"`
	Instance    string          `json:"instance,omitempty"`
	Dispatched  bool            `json:"dispatched"`
	Retry       Retry           `json:"retry"`
	Annotations json.RawMessage `json:"annotations,omitempty"`
}

// reply makes the host's error of an ending. Its message alone tells a model the
// provider, the tool, whether it may have had an effect, and what to do.
func (e ending) reply() Reply {
	code := map[Outcome]int{Denied: CodeDenied, Stale: CodeStale, Unavailable: CodeUnavailable,
		Cancelled: CodeUnavailable, Unknown: CodeUnknown}[e.outcome]
	if code == 0 { // it was sent, long ago, and its answer is not at hand
		code = CodeUnknown
	}
	d, err := json.Marshal(data{e.outcome, e.reason, e.provider, e.tool, e.revision, e.digest, e.instance, e.dispatched, e.retry, e.annotations})
	if err != nil { // annotations are valid JSON, so this cannot happen; the error must still go out
		d = nil
	}
	return Reply{Outcome: e.outcome, Reason: e.reason, Dispatched: e.dispatched, Instance: e.instance, Digest: e.digest,
		Err: &rpc.Error{Code: code, Message: e.message(), Data: d}}
}

func (e ending) message() string {
	switch {
	case e.outcome == Denied && e.cause != "":
		return fmt.Sprintf("tool %q was not called: %s. %s", e.tool, e.cause, e.advice)
	case e.outcome == Denied:
		return fmt.Sprintf("there is no tool %q here. %s", e.tool, e.advice)
	case e.provider == "":
		return fmt.Sprintf("tool %q was not called: %s. %s", e.tool, e.cause, e.advice)
	case e.outcome == Unknown && e.dispatched:
		return fmt.Sprintf("tool %q of provider %q was called and gave no usable answer: %s. %s", e.tool, e.provider, e.cause, e.advice)
	default:
		return fmt.Sprintf("tool %q of provider %q was not called: %s. %s", e.tool, e.provider, e.cause, e.advice)
	}
}
