package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// settledFile holds what was settled, one line a call. It is no host's, is never
// removed by age or size, and is written by commands under its lock.
const settledFile = "settled.jsonl"

// maxNote bounds the note of a settlement, in bytes.
const maxNote = 4 << 10

// How a call may be settled.
const (
	// SettledOK: it ran.
	SettledOK = "ok"
	// SettledNotRun: it did not, and will not.
	SettledNotRun = "not-run"
)

// Why a call cannot be settled.
var (
	ErrNoCall     = errors.New("the journal has no such call")
	ErrInFlight   = errors.New("the call is in flight; wait for its end")
	ErrNotUnknown = errors.New("only a call whose outcome is unknown can be settled")
	ErrNotSent    = errors.New("it was not sent: it repeats the call_id of another call, which is the one to settle")
	ErrIsSettled  = errors.New("the call is settled otherwise, and what was written stays")
	ErrNote       = errors.New("the note")
)

// Settlement is what a person found out about a call whose outcome is unknown.
type Settlement struct {
	// ID is the call's, in the journal.
	ID string `json:"id"`
	// As is SettledOK or SettledNotRun.
	As string `json:"as"`
	// Note is how they know, By who they are.
	Note string    `json:"note"`
	By   string    `json:"by"`
	Time time.Time `json:"time"`
}

// Settle writes down what became of a call whose outcome is unknown, for good: the
// line is on the disk when it returns. Who repeats the call's id is told so from
// then on. To settle a call again in the same way does nothing, or finishes what an
// earlier try left; it says so with again.
func (x *Index) Settle(ctx context.Context, s Settlement, ids *CallIDs) (row Row, again bool, err error) {
	if s.As != SettledOK && s.As != SettledNotRun {
		return Row{}, false, fmt.Errorf("%q is no way to settle a call; it is %s or %s", s.As, SettledOK, SettledNotRun)
	}
	switch {
	case s.Note == "":
		return Row{}, false, fmt.Errorf("%w is empty: say how you know", ErrNote)
	case len(s.Note) > maxNote:
		return Row{}, false, fmt.Errorf("%w has %d bytes, and may have %d", ErrNote, len(s.Note), maxNote)
	}
	path := filepath.Join(x.dir, settledFile)
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return Row{}, false, fmt.Errorf("%s: %w", lock.Path(), err)
	}
	defer lock.Close() //nolint:errcheck // the lock goes with the file
	if err := x.Update(ctx); err != nil {
		return Row{}, false, err
	}
	if row, err = x.Call(ctx, s.ID); errors.Is(err, ErrNoCall) {
		row, err = x.unwritten(ctx, s.ID, ids)
	}
	if err != nil {
		return Row{}, false, fmt.Errorf("%s: %w", s.ID, err)
	}
	switch {
	case row.Outcome == "":
		return row, false, fmt.Errorf("%s: %w", s.ID, ErrInFlight)
	case row.Outcome != OutcomeUnknown:
		return row, false, fmt.Errorf("%s: %w; it ended as %s", s.ID, ErrNotUnknown, row.Outcome)
	case !row.Dispatched:
		return row, false, fmt.Errorf("%s: %w (call_id %q)", s.ID, ErrNotSent, row.CallID)
	case row.Settled != nil && row.Settled.As != s.As:
		return row, false, fmt.Errorf("%s: %w: %s, by %s at %s", s.ID, ErrIsSettled, row.Settled.As, row.Settled.By, row.Settled.Time.Format(time.RFC3339))
	case row.Settled != nil:
		again = true
	default:
		if err := appendSettlement(path, s); err != nil {
			return row, false, err
		}
		row.Settled = &Settled{As: s.As, Note: s.Note, By: s.By, Time: s.Time}
	}
	return row, again, ids.settle(ctx, row.ID, row.Settled.As)
}

// unwritten is a call that has an id and no line in the journal: its host died before
// the line was written, or the line is lost. Who repeats it is told to ask about it.
func (x *Index) unwritten(ctx context.Context, id string, ids *CallIDs) (Row, error) {
	row, ended, err := ids.row(ctx, id)
	if err != nil {
		return row, err
	}
	var s Settled
	var at int64
	err = x.db.QueryRowContext(ctx, `SELECT as_what, note, by_whom, time FROM settled WHERE id = ?`, id).Scan(&s.As, &s.Note, &s.By, &at)
	switch {
	case err == nil:
		s.Time = time.UnixMicro(at).UTC()
		row.Settled = &s
	case !errors.Is(err, sql.ErrNoRows):
		return row, err
	}
	if ended || x.dead == nil {
		return row, nil
	}
	dead, err := x.dead(row.Host)
	if dead {
		row.Outcome, row.Reason, row.Dispatched = OutcomeUnknown, ReasonHostDied, true
	}
	return row, err
}

// row is what the table has of the call that the journal would know as id.
func (c *CallIDs) row(ctx context.Context, id string) (row Row, ended bool, err error) {
	if _, err := os.Stat(c.opts.Path); errors.Is(err, os.ErrNotExist) {
		return Row{}, false, ErrNoCall
	}
	db, _, err := c.table(ctx)
	if err != nil {
		return Row{}, false, err
	}
	var claimed int64
	var end sql.NullInt64
	var outcome, reason sql.NullString
	row = Row{ID: id}
	err = db.QueryRowContext(ctx, `SELECT call_id, principal, project, provider, tool, host, claimed, ended, outcome, reason
		FROM call_ids WHERE journal_id = ?`, id).Scan(&row.CallID, &row.Principal, &row.Project, &row.Provider, &row.Tool,
		&row.Host, &claimed, &end, &outcome, &reason)
	if errors.Is(err, sql.ErrNoRows) {
		return Row{}, false, ErrNoCall
	}
	if err != nil {
		return Row{}, false, foreign(err)
	}
	row.Time = time.UnixMicro(claimed)
	row.Outcome, row.Reason, row.Dispatched = outcome.String, reason.String, end.Valid
	return row, end.Valid, nil
}

// appendSettlement puts a line on the disk. After a line that was cut it begins anew.
func appendSettlement(path string, s Settlement) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	l := newLine()
	defer l.free()
	l.settle(s)
	text := l.bytes
	if size := info.Size(); size > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			text = append([]byte("\n"), text...)
		}
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	return f.Sync()
}

// readSettlements reads what was settled in a folder, the earliest first, and hands
// over what of it is damaged.
func readSettlements(dir string, damaged func(damage) error) ([]Settlement, error) {
	f, err := os.Open(filepath.Join(dir, settledFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []Settlement
	_, _, err = readLines(f, 0, seen{
		line: func(_ int64, r record) error {
			if r.Settle != nil {
				all = append(all, *r.Settle)
			}
			return nil
		},
		damage: damaged,
	})
	return all, err
}

// settle tells the table of call ids what became of a call, if it had an id.
func (c *CallIDs) settle(ctx context.Context, journalID, as string) error {
	if _, err := os.Stat(c.opts.Path); errors.Is(err, os.ErrNotExist) {
		return nil // no call ever had one
	}
	db, _, err := c.table(ctx)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `UPDATE call_ids SET settled = ?, ended = coalesce(ended, ?), outcome = coalesce(outcome, ?), reason = coalesce(reason, ?)
		WHERE journal_id = ?`, as, time.Now().UnixMicro(), OutcomeUnknown, ReasonHostDied, journalID)
	return foreign(err)
}
