package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"iter"
	"strings"
	"time"
)

// Row is a call as programs get it. Its members are fixed, but that Settled is there
// for calls that were settled, and for no others.
type Row struct {
	ID           string    `json:"id"`
	CallID       string    `json:"call_id"`
	Time         time.Time `json:"time"`
	Host         string    `json:"host"`
	Principal    string    `json:"principal"`
	Project      string    `json:"project"`
	Provider     string    `json:"provider"`
	Generation   int       `json:"generation"`
	Tool         string    `json:"tool"`
	Digest       string    `json:"digest"`
	Instance     string    `json:"instance"`
	Fence        string    `json:"fence"`
	Dispatched   bool      `json:"dispatched"`
	Outcome      string    `json:"outcome"` // "" while it is in flight
	Reason       string    `json:"reason"`
	RequestBytes int64     `json:"request_bytes"`
	ResultBytes  int64     `json:"result_bytes"`
	Artifacts    []string  `json:"artifacts"`
	DurationMS   int64     `json:"duration_ms"`
	Settled      *Settled  `json:"settled,omitempty"`

	done int64
}

// Settled is how a call was settled.
type Settled struct {
	As   string    `json:"as"`
	Note string    `json:"note"`
	By   string    `json:"by"`
	Time time.Time `json:"time"`
}

// Filter says which calls are meant; what is empty lets all pass.
type Filter struct {
	// Outcomes are those of which a call has one; "" is that of calls in flight.
	Outcomes            []string
	Provider, Principal string
	// Host is how the id of the host begins.
	Host string
	// Since is the earliest time of a call.
	Since time.Time
	// Last is how many of the last are meant, 0 for all.
	Last int
	// ended means those only that have ended after a point in the order of ends.
	ended bool
	after int64
	// until, where it is there, means those only that have ended by such a point.
	until *int64
	id    string
}

// where is the filter's condition and its values.
func (f Filter) where() (string, []any) {
	var all []string
	var args []any
	add := func(condition string, values ...any) {
		all, args = append(all, condition), append(args, values...)
	}
	if len(f.Outcomes) > 0 {
		values := make([]any, len(f.Outcomes))
		for i, o := range f.Outcomes {
			values[i] = o
		}
		add("coalesce(outcome, '') IN (?"+strings.Repeat(", ?", len(values)-1)+")", values...)
	}
	if f.Provider != "" {
		add("provider = ?", f.Provider)
	}
	if f.Principal != "" {
		add("principal = ?", f.Principal)
	}
	if f.Host != "" {
		add("substr(host, 1, ?) = ?", len(f.Host), f.Host)
	}
	if !f.Since.IsZero() {
		add("calls.time >= ?", f.Since.UnixMicro())
	}
	if f.id != "" {
		add("calls.id = ?", f.id)
	}
	if f.ended {
		add("done > ?", f.after)
	}
	if f.until != nil {
		add("done <= ?", *f.until)
	}
	if len(all) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(all, " AND "), args
}

const rowColumns = `calls.id, coalesce(call_id, ''), calls.time, host, coalesce(principal, ''), coalesce(project, ''), coalesce(provider, ''),
	coalesce(generation, 0), coalesce(tool, ''), coalesce(digest, ''), coalesce(instance, ''), coalesce(fence, ''), coalesce(dispatched, 0),
	coalesce(outcome, ''), coalesce(reason, ''), coalesce(request_bytes, 0), coalesce(result_bytes, 0), coalesce(artifacts, 'null'), coalesce(us, 0),
	coalesce(done, 0), as_what, note, by_whom, settled.time`

// Calls are the calls that a filter lets pass, the earliest first.
func (x *Index) Calls(ctx context.Context, f Filter) iter.Seq2[Row, error] {
	where, args := f.where()
	query := `SELECT ` + rowColumns + ` FROM calls LEFT JOIN settled ON settled.id = calls.id` + where
	if f.Last > 0 {
		query += ` ORDER BY calls.time DESC, calls.rowid DESC LIMIT ?`
		args = append(args, f.Last)
		query = `SELECT * FROM (` + query + `) ORDER BY 3, 20`
	} else {
		query += ` ORDER BY calls.time, calls.rowid`
	}
	return x.rows(ctx, query, args)
}

func (x *Index) rows(ctx context.Context, query string, args []any) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		rows, err := x.db.QueryContext(ctx, query, args...)
		if err != nil {
			yield(Row{}, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			row, err := scanRow(rows)
			if !yield(row, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(Row{}, err)
		}
	}
}

func scanRow(rows *sql.Rows) (Row, error) {
	var r Row
	var at, us int64
	var artifacts string
	var as, note, by sql.NullString
	var settledAt sql.NullInt64
	err := rows.Scan(&r.ID, &r.CallID, &at, &r.Host, &r.Principal, &r.Project, &r.Provider, &r.Generation, &r.Tool, &r.Digest, &r.Instance, &r.Fence,
		&r.Dispatched, &r.Outcome, &r.Reason, &r.RequestBytes, &r.ResultBytes, &artifacts, &us, &r.done, &as, &note, &by, &settledAt)
	if err != nil {
		return Row{}, err
	}
	r.Time, r.DurationMS = time.UnixMicro(at).UTC(), time.Duration(us*1000).Milliseconds()
	if err := json.Unmarshal([]byte(artifacts), &r.Artifacts); err != nil {
		return Row{}, err
	}
	if r.Artifacts == nil {
		r.Artifacts = []string{} // a list for programs, also where it is empty
	}
	if as.Valid {
		r.Settled = &Settled{As: as.String, Note: note.String, By: by.String, Time: time.UnixMicro(settledAt.Int64).UTC()}
	}
	return r, nil
}

// Call is the call of an id.
func (x *Index) Call(ctx context.Context, id string) (Row, error) {
	for row, err := range x.Calls(ctx, Filter{id: id}) {
		return row, err
	}
	return Row{}, ErrNoCall
}

// followEvery is how often files are looked at for what was added to them.
const followEvery = 200 * time.Millisecond

// Follow hands over the calls that a filter lets pass and that have ended, and then
// those that do, each once, until ctx is done. The error is that of each or of reading.
func (x *Index) Follow(ctx context.Context, f Filter, each func(Row) error) error {
	// Another command may bring the index to the files at any time, so what has ended
	// and what ends are told apart by one number.
	if err := x.db.QueryRowContext(ctx, `SELECT done FROM counter`).Scan(&f.after); err != nil {
		return err
	}
	f.until = &f.after
	for row, err := range x.Calls(ctx, f) {
		if err == nil {
			err = each(row)
		}
		if err != nil {
			return err
		}
	}
	f.until, f.ended = nil, true
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := x.followOnce(ctx, &f, each); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// followOnce hands over what has ended since the last time.
func (x *Index) followOnce(ctx context.Context, f *Filter, each func(Row) error) error {
	if err := x.Update(ctx); err != nil {
		return err
	}
	var upTo int64
	if err := x.db.QueryRowContext(ctx, `SELECT done FROM counter`).Scan(&upTo); err != nil {
		return err
	}
	where, args := f.where()
	for row, err := range x.rows(ctx, `SELECT `+rowColumns+` FROM calls LEFT JOIN settled ON settled.id = calls.id`+where+` ORDER BY done`, args) {
		if err != nil {
			return err
		}
		if err := each(row); err != nil {
			return err
		}
		upTo = max(upTo, row.done)
	}
	f.after = upTo
	return nil
}

// Lost is what a journal has lost, as far as its files tell.
type Lost struct {
	// File is the file's name. At and Size are where and how much of it is damaged, in
	// bytes; Lines is in how many places.
	File     string
	At, Size int64
	Places   int
	Why      string
	// Refusals is how many refusals could not be written; then nothing else is set but File.
	Refusals int64
}

// Lost says what the files have lost: stretches that are damaged, lines that were
// cut when their host died, refusals for which there was no room.
func (x *Index) Lost(ctx context.Context) ([]Lost, error) {
	rows, err := x.db.QueryContext(ctx, `
		SELECT file, min(at), sum(size), count(*), min(why), 0 FROM damage GROUP BY file
		UNION ALL SELECT file, 0, 0, 0, '', sum(refusals) FROM gaps GROUP BY file
		ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Lost
	for rows.Next() {
		var l Lost
		if err := rows.Scan(&l.File, &l.At, &l.Size, &l.Places, &l.Why, &l.Refusals); err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	cut, err := x.cut(ctx)
	return append(out, cut...), err
}

// cut are the files of runs that have ended whose last line has no end.
func (x *Index) cut(ctx context.Context) ([]Lost, error) {
	rows, err := x.db.QueryContext(ctx, `SELECT name, host, next, rest FROM files WHERE rest > 0 ORDER BY name`)
	if err != nil {
		return nil, err
	}
	var all []Lost
	var hosts []string
	for rows.Next() {
		l := Lost{Places: 1, Why: "its last line was cut"}
		var host string
		if err := rows.Scan(&l.File, &host, &l.At, &l.Size); err != nil {
			_ = rows.Close()
			return nil, err
		}
		all, hosts = append(all, l), append(hosts, host)
	}
	if err := rows.Close(); err != nil {
		return nil, err
	}
	var out []Lost
	for i, l := range all {
		if x.dead == nil {
			break
		}
		dead, err := x.dead(hosts[i])
		if err != nil {
			return nil, err
		}
		if dead {
			out = append(out, l)
		}
	}
	return out, rows.Err()
}
