package journal

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// reading is one transaction that brings the index to the files.
type reading struct {
	ctx context.Context
	tx  *sql.Tx
	dir string
	// prepared are the statements that are run for every line.
	prepared map[string]*sql.Stmt
	done     int64 // the counter

	// Of the file that is being read:
	name, host string
	open       map[string]opened
}

// known is what the index has of a file.
type known struct {
	host       string
	seq        int
	head       string
	next, rest int64
}

func (r *reading) close() {
	for _, s := range r.prepared {
		_ = s.Close() // the transaction ends with them
	}
}

// exec runs a statement that is run for every line.
func (r *reading) exec(query string, args ...any) error {
	s, ok := r.prepared[query]
	if !ok {
		var err error
		if s, err = r.tx.PrepareContext(r.ctx, query); err != nil {
			return err
		}
		if r.prepared == nil {
			r.prepared = map[string]*sql.Stmt{}
		}
		r.prepared[query] = s
	}
	_, err := s.ExecContext(r.ctx, args...)
	return err
}

// all reads every file that has changed, and forgets those that are gone.
func (r *reading) all() error {
	files, err := listFiles(r.dir)
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b kept) int { // the last line about a call is to be read last
		return cmp.Or(strings.Compare(a.host, b.host), a.seq-b.seq)
	})
	if err := r.tx.QueryRowContext(r.ctx, `SELECT done FROM counter`).Scan(&r.done); err != nil {
		return err
	}
	have, err := r.known()
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, f := range files {
		there[filepath.Base(f.path)] = true
	}
	if r.gapped(have, there) {
		// Removed from the middle, as retention never does: what is left is read anew.
		if err := r.forgetAll(); err != nil {
			return err
		}
		have = nil
	}
	for name := range have {
		if !there[name] {
			if err := r.forget(name); err != nil {
				return err
			}
		}
	}
	for _, f := range files {
		if err := r.file(f, have[filepath.Base(f.path)]); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	if err := r.settlements(); err != nil {
		return err
	}
	return r.exec(`UPDATE counter SET done = ?`, r.done)
}

func (r *reading) known() (map[string]known, error) {
	rows, err := r.tx.QueryContext(r.ctx, `SELECT name, host, seq, head, next, rest FROM files`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	have := map[string]known{}
	for rows.Next() {
		var name string
		var k known
		if err := rows.Scan(&name, &k.host, &k.seq, &k.head, &k.next, &k.rest); err != nil {
			return nil, err
		}
		have[name] = k
	}
	return have, rows.Err()
}

// gapped says whether a file is gone that is not the oldest of its run. Calls are
// forgotten with the last file that names them, which is right from the old end only.
func (r *reading) gapped(have map[string]known, there map[string]bool) bool {
	first := map[string]int{} // of those that are there
	for name, k := range have {
		if seq, ok := first[k.host]; there[name] && (!ok || k.seq < seq) {
			first[k.host] = k.seq
		}
	}
	for name, k := range have {
		if seq, ok := first[k.host]; ok && !there[name] && k.seq > seq {
			return true
		}
	}
	return false
}

func (r *reading) forget(name string) error {
	for _, query := range []string{
		`DELETE FROM calls WHERE file = ?`, `DELETE FROM damage WHERE file = ?`, `DELETE FROM gaps WHERE file = ?`, `DELETE FROM files WHERE name = ?`,
	} {
		if err := r.exec(query, name); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) forgetAll() error {
	for _, query := range []string{`DELETE FROM calls`, `DELETE FROM damage`, `DELETE FROM gaps`, `DELETE FROM files`} {
		if err := r.exec(query); err != nil {
			return err
		}
	}
	return nil
}

// headMost bounds what is compared of a file's first line.
const headMost = 512

// file reads what was added to a file since the last time, or all of it if it is
// another than it was.
func (r *reading) file(f kept, has known) error {
	in, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	head, err := firstLine(in)
	if err != nil {
		return err
	}
	r.name, r.host = filepath.Base(f.path), f.host
	if has.next > 0 && (has.head != head || f.size < has.next) {
		if err := r.forget(r.name); err != nil {
			return err
		}
		has = known{}
	}
	if has.next+has.rest == f.size && has.next > 0 {
		return nil
	}
	if _, err := in.Seek(has.next, io.SeekStart); err != nil {
		return err
	}
	next, rest, err := readLines(in, has.next, seen{r.line, r.damage})
	if err != nil {
		return err
	}
	if err := r.flush(); err != nil {
		return err
	}
	return r.exec(`INSERT INTO files (name, host, seq, head, next, rest) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET head = excluded.head, next = excluded.next, rest = excluded.rest`,
		r.name, f.host, f.seq, head, next, rest)
}

// firstLine is what the file begins with, and tells it from another of its name.
func firstLine(in io.Reader) (string, error) {
	text, err := bufio.NewReaderSize(io.LimitReader(in, headMost), headMost).ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return text, err
}

func (r *reading) damage(d damage) error {
	return r.exec(`INSERT OR REPLACE INTO damage (file, at, size, why) VALUES (?, ?, ?, ?)`, r.name, d.at, d.size, d.why.Error())
}

func (r *reading) line(at int64, rec record) error {
	switch {
	case rec.Begin != nil:
		// Most ends are a few lines away: then it is one row to write, once.
		r.open[rec.Begin.ID] = opened{at, *rec.Begin}
	case rec.End != nil:
		if o, ok := r.open[rec.End.ID]; ok {
			delete(r.open, rec.End.ID)
			return r.whole(at, o.begun, rec.End.ending)
		}
		return r.ended(at, rec.End.ID, rec.End.ending)
	case rec.Call != nil:
		delete(r.open, rec.Call.ID)
		return r.whole(at, rec.Call.begun, rec.Call.ending)
	case rec.Gap != nil:
		return r.exec(`INSERT OR REPLACE INTO gaps (file, at, refusals) VALUES (?, ?, ?)`, r.name, at, int64(rec.Gap.Refusals))
	}
	return nil // a header, or what a newer version writes
}

// opened is a begin whose end has not been read yet, and where it stands.
type opened struct {
	at int64
	begun
}

// flush writes what is still open at the end of a file.
func (r *reading) flush() error {
	for _, o := range r.open {
		if err := r.exec(upsertBegun, append(r.place(o.ID, o.at), begunValues(o.begun)...)...); err != nil {
			return err
		}
	}
	clear(r.open)
	return nil
}

func (r *reading) whole(at int64, b begun, e ending) error {
	end, err := r.endedValues(e)
	if err != nil {
		return err
	}
	return r.exec(upsertWhole, slices.Concat(r.place(b.ID, at), begunValues(b), end)...)
}

// ended: an end whose begin is in another file, or is lost, has a row, too.
func (r *reading) ended(at int64, id string, e ending) error {
	end, err := r.endedValues(e)
	if err != nil {
		return err
	}
	if err := r.exec(upsertEnded, slices.Concat(r.place(id, at), end)...); err != nil {
		return err
	}
	return r.exec(`UPDATE calls SET time = coalesce(time, ?) WHERE id = ?`, e.Ended.UnixMicro()-e.Micros, id)
}

const (
	placeColumns = "id, file, at, host"
	begunColumns = "call_id, time, principal, project, provider, generation, tool, digest, instance, fence, request_bytes"
	endedColumns = "dispatched, outcome, reason, result_bytes, artifacts, us, done"
)

func (r *reading) place(id string, at int64) []any { return []any{id, r.name, at, r.host} }

func begunValues(b begun) []any {
	return []any{b.CallID, b.Time.UnixMicro(), b.Principal, b.Project, b.Provider, b.Generation, b.Tool, b.Digest, b.Instance, b.Fence, b.RequestBytes}
}

func (r *reading) endedValues(e ending) ([]any, error) {
	var artifacts any // NULL for none
	if len(e.Artifacts) > 0 {
		text, err := json.Marshal(e.Artifacts)
		if err != nil {
			return nil, err
		}
		artifacts = string(text)
	}
	r.done++
	return []any{e.Dispatched, e.Outcome, e.Reason, e.ResultBytes, artifacts, e.Micros, r.done}, nil
}

// The statements that write a row. Of several last lines of a call the last counts;
// when it ended first stays.
var (
	upsertBegun = upsert(begunColumns)
	upsertEnded = upsert(endedColumns)
	upsertWhole = upsert(begunColumns + ", " + endedColumns)
)

func upsert(columns string) string {
	all := strings.Split(placeColumns+", "+columns, ", ")
	var set []string
	for _, c := range all[1:] {
		if c == "done" {
			set = append(set, "done = coalesce(calls.done, excluded.done)")
			continue
		}
		set = append(set, c+" = excluded."+c)
	}
	return "INSERT INTO calls (" + strings.Join(all, ", ") + ") VALUES (?" + strings.Repeat(", ?", len(all)-1) +
		") ON CONFLICT (id) DO UPDATE SET " + strings.Join(set, ", ")
}

// settlements reads what was settled; there are few.
func (r *reading) settlements() error {
	r.name = settledFile
	if err := r.exec(`DELETE FROM damage WHERE file = ?`, r.name); err != nil {
		return err
	}
	all, err := readSettlements(r.dir, r.damage)
	if err != nil {
		return err
	}
	if err := r.exec(`DELETE FROM settled`); err != nil {
		return err
	}
	for _, s := range all {
		if err := r.exec(`INSERT OR IGNORE INTO settled (id, as_what, note, by_whom, time) VALUES (?, ?, ?, ?, ?)`,
			s.ID, s.As, s.Note, s.By, s.Time.UnixMicro()); err != nil {
			return err
		}
	}
	return nil
}
