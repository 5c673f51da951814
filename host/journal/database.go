package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// busyTimeout is how long a transaction waits for those of other hosts and
	// commands. Each takes milliseconds, but for a command that reads a whole journal.
	busyTimeout = 30 * time.Second
	lockRetry   = 5 * time.Millisecond
	// lockSuffix is that of the file that is locked while a database is made or opened.
	// It stays when that is done.
	lockSuffix = ".lock"
	// leastDatabase is SQLite's smallest page, in bytes.
	leastDatabase = 512
)

// ErrForeign is for a file that is not the database that its name says, or one
// that cannot be read as one.
var ErrForeign = errors.New("it is not a database of this program, or it is damaged")

// schema is a database: what it is, and how to make it.
type schema struct {
	// app marks the file as ours (SQLite's application_id), version its layout.
	app, version int32
	tables       string
	// durable has each transaction on the disk when it is committed. What it holds
	// stands nowhere else: a file that was emptied is not taken for a new one.
	durable bool
}

// openDatabase opens a database, made where it is missing, with one connection. Only
// its owner can read the file.
func openDatabase(ctx context.Context, path string, s schema) (_ *sql.DB, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	// Two that make or convert it at the same time would find it busy, whatever they
	// are ready to wait.
	ctx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	lock := flock.New(path+lockSuffix, flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return nil, fmt.Errorf("%s: %w", lock.Path(), err)
	}
	defer lock.Close() //nolint:errcheck // the lock goes with the file
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		if err = s.create(ctx, path); err == nil {
			info, err = os.Stat(path)
		}
	}
	if err != nil {
		return nil, err
	}
	if size := info.Size(); size > 0 && size < leastDatabase { // SQLite would take it for an empty one
		return nil, fmt.Errorf("%s: %w (%d bytes)", path, ErrForeign, size)
	}
	db, err := s.open(path)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, db); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("%s: %w", path, foreign(err))
	}
	return db, nil
}

// create makes the file. One that is durable is there with its tables or not at all.
func (s schema) create(ctx context.Context, path string) error {
	made := path
	if s.durable {
		made += newSuffix
		for _, rest := range []string{"", "-journal", "-wal", "-shm"} { // of one that did not come so far
			if err := os.Remove(made + rest); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	// SQLite gives its other files the mode of this one. A file that is there is not
	// opened: to close it would drop the locks that SQLite has on it in this process.
	f, err := os.OpenFile(made, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil || !s.durable {
		return err
	}
	db, err := s.open(made)
	if err != nil {
		return err
	}
	if err := errors.Join(s.make(ctx, db), db.Close()); err != nil {
		return fmt.Errorf("%s: %w", made, err)
	}
	if err := os.Rename(made, path); err != nil {
		return err
	}
	// The name is to be there after a power cut, too. Not every system can do that.
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return nil
}

// newSuffix is that of a file that is being made.
const newSuffix = ".new"

// open opens a file that is there.
func (s schema) open(path string) (*sql.DB, error) {
	synchronous := "NORMAL"
	if s.durable {
		synchronous = "FULL"
	}
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: url.Values{
		"_txlock":       {"immediate"},
		"_busy_timeout": {fmt.Sprint(busyTimeout.Milliseconds())},
		"_sync":         {synchronous},
		"_pragma":       {"secure_delete(1)"},
	}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// prepare makes what an empty database lacks, and looks at what another holds.
func (s schema) prepare(ctx context.Context, db *sql.DB) error {
	var app, version int32
	var tables int
	for query, to := range map[string]any{
		"PRAGMA application_id": &app, "PRAGMA user_version": &version, "SELECT count(*) FROM sqlite_schema": &tables,
	} {
		if err := db.QueryRowContext(ctx, query).Scan(to); err != nil {
			return err
		}
	}
	switch {
	case app == s.app && version == s.version:
	case app != 0 || version != 0 || tables != 0 || s.durable:
		return fmt.Errorf("%w (application %#x, version %d)", ErrForeign, app, version)
	default:
		if err := s.make(ctx, db); err != nil {
			return err
		}
	}
	_, err := db.ExecContext(ctx, "PRAGMA journal_mode = WAL") // mostly it is
	return err
}

// make puts the tables into an empty database.
func (s schema) make(ctx context.Context, db *sql.DB) error {
	return transact(ctx, db, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, fmt.Sprintf("%s; PRAGMA application_id = %d; PRAGMA user_version = %d", s.tables, s.app, s.version))
		return err
	})
}

// transact does something whole or not at all.
func transact(ctx context.Context, db *sql.DB, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// foreign marks the errors of a file that is no database.
func foreign(err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) && (e.Code() == sqlite3.SQLITE_NOTADB || e.Code()&0xff == sqlite3.SQLITE_CORRUPT) {
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return err
}
