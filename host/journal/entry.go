package journal

import "time"

// Entry is a call as the journal knows it before it is sent: no arguments, no
// results, no secrets.
type Entry struct {
	// ID is the journal's own id of the call, from NewID.
	ID string
	// CallID is what the caller named it, `_meta["drawbridge/call_id"]`; mostly "".
	CallID string
	// Time is when the call arrived.
	Time time.Time
	// Principal, Project are who called, and where; Project is "" if none is declared.
	Principal, Project string
	// Provider is the slug, "" if the name led to none.
	Provider string
	// Generation is that of the provider, from 1; 0 if it is not known.
	Generation int
	// Tool is the name as the server calls it, or as the caller did where it led nowhere.
	Tool string
	// Digest is that of the definition, Instance the mark of what takes the call.
	Digest, Instance string
	// Fence says how the caller came to know the definition: shown, named,
	// first_use, or the refusal's reason.
	Fence string
	// RequestBytes is the size of the request as it came.
	RequestBytes int64
}

// End is how a call ended.
type End struct {
	// Dispatched says that the request was handed to the server, or may have been.
	Dispatched bool
	// Outcome is one of the closed set, Reason a word for programs, "" for none.
	Outcome, Reason string
	// ResultBytes is the size of the answer as the caller gets it.
	ResultBytes int64
	// Artifacts are the ids of what was kept of the result.
	Artifacts []string
	// Duration is from the call's arrival to its end.
	Duration time.Duration
}
