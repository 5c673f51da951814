package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// indexFile is the index, in the journal's folder.
const indexFile = "index.db"

// indexSchema: a row for each file that was read, one for each call, one for each
// damaged stretch, one for each settlement. All of it is made from the files; a
// new version of it makes it anew.
var indexSchema = schema{
	app: 0x4462496e, version: 1, // "DbIn"
	tables: `
CREATE TABLE files (
	name TEXT PRIMARY KEY,
	host TEXT NOT NULL, seq INTEGER NOT NULL,
	head TEXT NOT NULL,          -- the first line: whether it is the file that was read
	next INTEGER NOT NULL,       -- the offset behind the last line read
	rest INTEGER NOT NULL        -- what stands behind it
) STRICT;
CREATE TABLE calls (
	id TEXT PRIMARY KEY,
	file TEXT NOT NULL, at INTEGER NOT NULL,   -- the last line about it
	host TEXT NOT NULL,
	call_id TEXT, time INTEGER, principal TEXT, project TEXT, provider TEXT, generation INTEGER, tool TEXT,
	digest TEXT, instance TEXT, fence TEXT, request_bytes INTEGER,
	dispatched INTEGER, outcome TEXT, reason TEXT, result_bytes INTEGER, artifacts TEXT, us INTEGER,
	done INTEGER                               -- in which order they ended; NULL while open
) STRICT;
CREATE INDEX by_time ON calls (time);
CREATE INDEX by_done ON calls (done);
CREATE TABLE damage (
	file TEXT NOT NULL, at INTEGER NOT NULL, size INTEGER NOT NULL, why TEXT NOT NULL,
	PRIMARY KEY (file, at)
) STRICT;
CREATE TABLE gaps (file TEXT NOT NULL, at INTEGER NOT NULL, refusals INTEGER NOT NULL, PRIMARY KEY (file, at)) STRICT;
CREATE TABLE settled (
	id TEXT PRIMARY KEY,
	as_what TEXT NOT NULL, note TEXT NOT NULL, by_whom TEXT NOT NULL, time INTEGER NOT NULL
) STRICT;
CREATE TABLE counter (done INTEGER NOT NULL) STRICT;
INSERT INTO counter VALUES (0);`,
}

// Index finds calls in the files of a journal, which it has read into a database
// beside them. The database can be removed at any time. It is for commands: nothing
// on the way of a call knows of it. An Index is used by one goroutine at a time;
// several may be open on one folder.
type Index struct {
	dir    string
	dead   Dead
	log    *slog.Logger
	path   string // "" in memory
	db     *sql.DB
	listed map[string]fileState // of the last Update
}

// IndexOptions is what an index is opened with.
type IndexOptions struct {
	// Dir is the journal's folder.
	Dir string
	// Dead says whether a run has ended: its open calls are unknown then. Nil: none has.
	Dead Dead
	// Logger gets what is odd and does not matter. Nil: nobody.
	Logger *slog.Logger
}

// OpenIndex opens the index of a folder. What is there in its place and is none is
// moved aside, and made anew; where the folder cannot be written the index is made
// in memory, for this once. Call Update before anything is read from it.
func OpenIndex(ctx context.Context, opts IndexOptions) (*Index, error) {
	x := &Index{dir: opts.Dir, dead: opts.Dead, log: opts.Logger}
	if x.log == nil {
		x.log = slog.New(slog.DiscardHandler)
	}
	info, err := os.Stat(opts.Dir)
	if err != nil || !info.IsDir() {
		return x, x.inMemory(ctx) // there is nothing to read, and nothing is to be made
	}
	x.path = filepath.Join(opts.Dir, indexFile)
	x.db, err = openDatabase(ctx, x.path, indexSchema)
	if errors.Is(err, ErrForeign) {
		err = x.anew(ctx)
	}
	if err != nil && ctx.Err() == nil {
		x.log.Warn("the journal's index cannot be kept; it is made for this once", "error", err)
		return x, x.inMemory(ctx)
	}
	return x, err
}

const asideSuffix = ".aside"

// anew moves what is in the place of the index aside, and makes one.
func (x *Index) anew(ctx context.Context) (err error) {
	if err := moveAside(x.path); err != nil {
		return err
	}
	x.log.Warn("what stood in the place of the journal's index is none, or is damaged; it was moved aside", "file", x.path+asideSuffix)
	x.db, err = openDatabase(ctx, x.path, indexSchema)
	return err
}

// moveAside keeps a file that is in the way. Of its companions nothing is left that
// SQLite would take for those of the new one.
func moveAside(path string) error {
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return os.Rename(path, path+asideSuffix)
}

func (x *Index) inMemory(ctx context.Context) (err error) {
	x.path = ""
	if x.db, err = sql.Open("sqlite", ":memory:"); err != nil {
		return err
	}
	x.db.SetMaxOpenConns(1) // each connection has a memory of its own
	return indexSchema.prepare(ctx, x.db)
}

// Close ends the use of the index.
func (x *Index) Close() error { return x.db.Close() }

// fileState is what tells that a file has not changed.
type fileState struct {
	size int64
	last time.Time
}

// Update reads what was added to the files since the last time, and forgets those
// that are gone. Open calls of runs that have ended are closed as unknown.
func (x *Index) Update(ctx context.Context) error {
	changed, err := x.changed(ctx)
	if err != nil || !changed {
		return err
	}
	err = x.read(ctx)
	if errors.Is(err, ErrForeign) && x.path != "" { // damaged, but not at its beginning
		if err := errors.Join(x.db.Close(), x.anew(ctx)); err != nil {
			return err
		}
		err = x.read(ctx)
	}
	if err != nil {
		return err
	}
	// A run that has ended by now has written its last line, perhaps after we looked:
	// what is open of it is closed only after it has been read once more.
	ended, err := x.endedRuns(ctx)
	if err != nil {
		return err
	}
	if len(ended) == 0 {
		return nil
	}
	if err := x.read(ctx); err != nil {
		return err
	}
	return x.closeDead(ctx, ended)
}

// changed says whether any file has, or calls are open whose runs may have ended.
func (x *Index) changed(ctx context.Context) (bool, error) {
	files, err := listFiles(x.dir)
	if err != nil {
		return false, err
	}
	now := map[string]fileState{}
	for _, f := range files {
		now[filepath.Base(f.path)] = fileState{f.size, f.last}
	}
	if info, err := os.Stat(filepath.Join(x.dir, settledFile)); err == nil {
		now[settledFile] = fileState{info.Size(), info.ModTime()}
	}
	same := x.listed != nil && len(now) == len(x.listed)
	for name, state := range now {
		same = same && x.listed[name] == state
	}
	x.listed = now
	if same {
		var open int
		err := x.db.QueryRowContext(ctx, `SELECT count(*) FROM calls WHERE done IS NULL`).Scan(&open)
		return open > 0, err
	}
	return true, nil
}

// read brings the index to the files, in one transaction: two commands at once do
// not read the same lines twice.
func (x *Index) read(ctx context.Context) error {
	return foreign(transact(ctx, x.db, func(tx *sql.Tx) error {
		r := &reading{ctx: ctx, tx: tx, dir: x.dir, open: map[string]opened{}}
		defer r.close()
		return r.all()
	}))
}

// endedRuns are the runs that have open calls and are over.
func (x *Index) endedRuns(ctx context.Context) ([]string, error) {
	if x.dead == nil {
		return nil, nil
	}
	hosts, err := texts(ctx, x.db, `SELECT DISTINCT host FROM calls WHERE done IS NULL`)
	if err != nil {
		return nil, err
	}
	var ended []string
	for _, host := range hosts {
		dead, err := x.dead(host)
		if err != nil {
			return nil, fmt.Errorf("whether the host %s has ended: %w", host, err)
		}
		if dead {
			ended = append(ended, host)
		}
	}
	return ended, nil
}

// closeDead closes the open calls of runs that are over. They may have been sent.
// Where a line after the begin is lost, that may have been the end.
func (x *Index) closeDead(ctx context.Context, hosts []string) error {
	return transact(ctx, x.db, func(tx *sql.Tx) error {
		for _, host := range hosts {
			open, err := texts(ctx, tx, `SELECT id FROM calls WHERE done IS NULL AND host = ?`, host)
			if err != nil {
				return err
			}
			for _, id := range open {
				if _, err := tx.ExecContext(ctx, `UPDATE counter SET done = done + 1`); err != nil {
					return err
				}
				_, err := tx.ExecContext(ctx, `UPDATE calls SET dispatched = 1, outcome = ?, done = (SELECT done FROM counter),
					reason = CASE WHEN EXISTS (
						SELECT 1 FROM damage JOIN files ON files.name = damage.file WHERE files.host = calls.host
							AND (damage.file > calls.file OR damage.file = calls.file AND damage.at > calls.at))
						THEN ? ELSE ? END
					WHERE id = ?`, OutcomeUnknown, ReasonDamaged, ReasonHostDied, id)
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// ReasonDamaged is the reason of calls that have no end in the journal, where it is
// damaged after their begin.
const ReasonDamaged = "journal_damaged"

// queryer is a database or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// texts is the one column of all rows.
func texts(ctx context.Context, q queryer, query string, args ...any) ([]string, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

// Dir is the journal's folder.
func (x *Index) Dir() string { return x.dir }
