package journal

import "time"

// Settlement is what a person found out about a call whose outcome is unknown.
type Settlement struct {
	// ID is the call's, in the journal.
	ID string `json:"id"`
	// As is SettledOK or SettledNotRun.
	As   string    `json:"as"`
	Note string    `json:"note"`
	By   string    `json:"by"`
	Time time.Time `json:"time"`
}

// How a call may be settled.
const (
	// SettledOK: it ran.
	SettledOK = "ok"
	// SettledNotRun: it did not, and will not.
	SettledNotRun = "not-run"
)
