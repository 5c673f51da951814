package journal

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"time"
)

// callIDSchema: one row an id; a call that was not sent has none. Answers stand
// beside, so that they can be removed without a trace in the rows.
var callIDSchema = schema{
	app: 0x44624369, version: 1, durable: true, // "DbCi"
	tables: `
CREATE TABLE call_ids (
	call_id TEXT PRIMARY KEY,
	principal TEXT NOT NULL, project TEXT NOT NULL, provider TEXT NOT NULL, tool TEXT NOT NULL, arguments BLOB NOT NULL,
	host TEXT NOT NULL, journal_id TEXT NOT NULL,
	claimed INTEGER NOT NULL,                  -- Unix time in microseconds, as all times here
	ended INTEGER, outcome TEXT, reason TEXT,  -- NULL while in flight
	settled TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX by_journal_id ON call_ids (journal_id);
CREATE INDEX by_ended ON call_ids (ended);
CREATE TABLE answers (
	call_id TEXT PRIMARY KEY,
	held INTEGER NOT NULL,
	bytes BLOB NOT NULL
) STRICT;
CREATE INDEX by_held ON answers (held);`,
}

// in runs a transaction on the table, after what is owed.
func (c *CallIDs) in(ctx context.Context, do func(*sql.Tx) error) error {
	db, owed, err := c.table(ctx)
	if err != nil {
		return err
	}
	var refused error
	err = transact(ctx, db, func(tx *sql.Tx) error {
		for id, ch := range owed {
			if err := ch.write(ctx, tx, id); err != nil {
				return err
			}
		}
		if refused = do(tx); refused != nil && !errors.Is(refused, ErrCallIDReused) {
			return refused
		}
		return nil // a refusal keeps what was found out on the way
	})
	if err != nil {
		return foreign(err)
	}
	c.paid(owed)
	return refused
}

// table is the open table, and what is owed to it.
func (c *CallIDs) table(ctx context.Context) (*sql.DB, map[string]change, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, ErrClosed
	}
	if c.db == nil {
		gone := missing(c.opts.Path) && !missing(c.opts.Path+lockSuffix)
		db, err := openDatabase(context.WithoutCancel(ctx), c.opts.Path, callIDSchema)
		if err != nil {
			return nil, nil, err
		}
		if gone {
			c.opts.Logger.Error("the table of call ids has been removed, and is made anew: a call from before that is repeated runs again", "file", c.opts.Path)
		}
		c.db = db
		c.purger.Go(c.purge)
	}
	owed := make(map[string]change, len(c.owed))
	for id, ch := range c.owed {
		owed[id] = ch
	}
	return c.db, owed, nil
}

// missing says that there is no such file.
func missing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist)
}

// paid forgets what was owed and is written.
func (c *CallIDs) paid(owed map[string]change) {
	if len(owed) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, ch := range owed {
		if now, ok := c.owed[id]; ok && now.journalID == ch.journalID && now.release == ch.release {
			delete(c.owed, id)
		}
	}
}

// write brings a change to the table. It touches the row of its own call only.
func (ch change) write(ctx context.Context, tx *sql.Tx, id string) error {
	if ch.release {
		_, err := tx.ExecContext(ctx, `DELETE FROM call_ids WHERE call_id = ? AND journal_id = ? AND ended IS NULL`, id, ch.journalID)
		return err
	}
	done, err := tx.ExecContext(ctx, `UPDATE call_ids SET ended = ?, outcome = ?, reason = ? WHERE call_id = ? AND journal_id = ? AND ended IS NULL`,
		ch.ended.UnixMicro(), ch.end.Outcome, ch.end.Reason, id, ch.journalID)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 || ch.answer == nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO answers (call_id, held, bytes) VALUES (?, ?, ?)`, id, ch.ended.UnixMicro(), ch.answer); err != nil {
		return err
	}
	return drop(ctx, tx, time.Now())
}

// find reads the row of an id. A call in flight of a run that is dead has ended: how,
// the journal knows, or nobody. One that was not sent has left the id free.
func (c *CallIDs) find(ctx context.Context, tx *sql.Tx, id string, b Binding) (Known, error) {
	var has Binding
	k := Known{State: IDInFlight}
	var ended sql.NullInt64
	var outcome, reason, settled sql.NullString
	err := tx.QueryRowContext(ctx, `SELECT principal, project, provider, tool, arguments, host, journal_id, ended, outcome, reason, settled
		FROM call_ids WHERE call_id = ?`, id).Scan(&has.Principal, &has.Project, &has.Provider, &has.Tool, &has.Arguments,
		&k.HostID, &k.JournalID, &ended, &outcome, &reason, &settled)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Known{State: IDFree}, nil
	case err != nil:
		return Known{}, err
	case has.Principal != b.Principal || has.Project != b.Project || has.Provider != b.Provider || has.Tool != b.Tool ||
		!bytes.Equal(has.Arguments, b.Arguments):
		return Known{}, ErrCallIDReused
	}
	if !ended.Valid {
		dead, err := c.dead(k.HostID)
		if err != nil || !dead {
			return k, err
		}
		end := ending{Dispatched: true, Outcome: OutcomeUnknown, Reason: ReasonHostDied, Ended: time.Now()}
		if c.opts.Folder != "" {
			if written, found, err := endInFiles(c.opts.Folder, k.HostID, k.JournalID); err != nil {
				return Known{}, err
			} else if found {
				end = written
			}
		}
		if !end.Dispatched {
			_, err := tx.ExecContext(ctx, `DELETE FROM call_ids WHERE call_id = ?`, id)
			return Known{State: IDFree}, err
		}
		ended, outcome, reason = sql.NullInt64{Int64: end.Ended.UnixMicro(), Valid: true}, sql.NullString{String: end.Outcome}, sql.NullString{String: end.Reason}
		if _, err := tx.ExecContext(ctx, `UPDATE call_ids SET ended = ?, outcome = ?, reason = ? WHERE call_id = ?`,
			ended.Int64, outcome.String, reason.String, id); err != nil {
			return Known{}, err
		}
	}
	k.State, k.Outcome, k.Reason, k.Settled = IDEnded, outcome.String, reason.String, settled.String
	k.Ended = time.UnixMicro(ended.Int64)
	err = tx.QueryRowContext(ctx, `SELECT bytes FROM answers WHERE call_id = ? AND held > ?`, id, time.Now().Add(-HeldFor).UnixMicro()).Scan(&k.Answer)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return k, err
}

func (c *CallIDs) dead(host string) (bool, error) {
	if host == c.opts.HostID || c.opts.Dead == nil {
		return false, nil
	}
	return c.opts.Dead(host)
}

// purge removes what is held no longer, until Close.
func (c *CallIDs) purge() {
	tick := time.NewTicker(purgeEvery)
	defer tick.Stop()
	for {
		now := time.Now()
		ctx := context.Background()
		err := c.in(ctx, func(tx *sql.Tx) error {
			if err := drop(ctx, tx, now); err != nil || c.opts.Keep <= 0 {
				return err
			}
			_, err := tx.ExecContext(ctx, `DELETE FROM call_ids WHERE ended < ?`, now.Add(-c.opts.Keep).UnixMicro())
			return err
		})
		if err != nil && !errors.Is(err, ErrClosed) {
			c.opts.Logger.Warn("answers of calls with an id are held longer than they should be", "error", err)
		}
		select {
		case <-c.quit:
			return
		case <-tick.C:
		}
	}
}

// drop removes the answers that are too old, and the oldest while all are too many.
func drop(ctx context.Context, tx *sql.Tx, now time.Time) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM answers WHERE held <= ?`, now.Add(-HeldFor).UnixMicro()); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM answers WHERE call_id IN (
		SELECT call_id FROM (SELECT call_id, sum(length(bytes)) OVER (ORDER BY held DESC, call_id) AS upto FROM answers) WHERE upto > ?)`, maxAllHeld)
	return err
}
