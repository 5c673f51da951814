package journal

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const otherHost = "fedcba9876543210fedcba9876543210"

// index opens the index of a folder and brings it to the files.
func index(t *testing.T, o IndexOptions) *Index {
	t.Helper()
	x, err := OpenIndex(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	if err := x.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	return x
}

func calls(t *testing.T, x *Index, f Filter) []Row {
	t.Helper()
	var out []Row
	for row, err := range x.Calls(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		row.done = 0
		out = append(out, row)
	}
	return out
}

// brief are rows as "ordinal outcome reason".
func brief(rows []Row) []string {
	var out []string
	for _, r := range rows {
		out = append(out, strings.TrimSpace(short(r.ID)+" "+r.Outcome+" "+r.Reason))
	}
	return out
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// dies ends a journal as the death of its host does: nothing more is written.
func dies(t *testing.T, j *Journal) {
	t.Helper()
	j.mu.Lock()
	j.open.all = map[string]*Entry{}
	j.mu.Unlock()
	must(t, j.Close())
}

// deadSet are runs that have ended.
func deadSet(hosts ...string) Dead {
	return func(host string) (bool, error) {
		for _, h := range hosts {
			if h == host {
				return true, nil
			}
		}
		return false, nil
	}
}

// TestRow: a row is what was written, and the filters find it.
func TestRow(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	e := entry(j)
	must(t, j.Begin(e), j.End(e, good))
	refused := &Entry{ID: j.NewID(), Time: e.Time.Add(time.Second), Principal: "local", Tool: "rm", Fence: "unknown_tool"}
	must(t, j.Refuse(refused, End{Outcome: "denied", Reason: "unknown_tool"}))
	flying := entry(j)
	flying.Time = e.Time.Add(2 * time.Second)
	must(t, j.Begin(flying))
	x := index(t, IndexOptions{Dir: dir})
	want := []Row{
		{ID: "0123456789ab-1", CallID: "mine", Time: e.Time, Host: testHost, Principal: "laptop", Project: "site", Provider: "browser", Generation: 2,
			Tool: "click", Digest: "abc", Instance: testHost + "/browser/1", Fence: "shown", Dispatched: true, Outcome: "ok",
			RequestBytes: 77, ResultBytes: 99, Artifacts: []string{"a1"}, DurationMS: 1},
		{ID: "0123456789ab-2", Time: refused.Time, Host: testHost, Principal: "local", Tool: "rm", Fence: "unknown_tool",
			Outcome: "denied", Reason: "unknown_tool", Artifacts: []string{}},
		{ID: "0123456789ab-3", CallID: "mine", Time: flying.Time, Host: testHost, Principal: "laptop", Project: "site", Provider: "browser", Generation: 2,
			Tool: "click", Digest: "abc", Instance: testHost + "/browser/1", Fence: "shown", RequestBytes: 77, Artifacts: []string{}},
	}
	equal(t, "rows", calls(t, x, Filter{}), want)
	for _, c := range []struct {
		f    Filter
		want []string
	}{
		{Filter{Outcomes: []string{"ok"}}, []string{"1"}},
		{Filter{Outcomes: []string{"denied", "unknown"}}, []string{"2"}},
		{Filter{Provider: "browser"}, []string{"1", "3"}},
		{Filter{Principal: "local"}, []string{"2"}},
		{Filter{Since: refused.Time}, []string{"2", "3"}},
		{Filter{Host: "0123"}, []string{"1", "2", "3"}},
		{Filter{Host: "012_"}, nil},
		{Filter{Last: 2}, []string{"2", "3"}},
		{Filter{Last: 1, Provider: "browser", Outcomes: []string{"ok"}}, []string{"1"}},
		{Filter{Provider: "' OR 1=1 --"}, nil},
	} {
		var got []string
		for _, r := range calls(t, x, c.f) {
			got = append(got, short(r.ID))
		}
		equal(t, fmt.Sprintf("%+v", c.f), got, c.want)
	}
}

// TestBeginsOfDeadRuns are closed as unknown, those of others are in flight.
func TestBeginsOfDeadRuns(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, Options{Dir: dir}), open(t, Options{Dir: dir, HostID: otherHost})
	ended, lost, flying := entry(a), entry(a), entry(b)
	flying.Time = flying.Time.Add(time.Second)
	must(t, a.Begin(ended), a.Begin(lost), a.End(ended, good), b.Begin(flying))
	alive := index(t, IndexOptions{Dir: dir, Dead: deadSet()})
	equal(t, "while both live", brief(calls(t, alive, Filter{})), []string{"1 ok", "2", "1"})
	dies(t, a)
	x := index(t, IndexOptions{Dir: dir, Dead: deadSet(testHost)})
	equal(t, "when one has died", brief(calls(t, x, Filter{})), []string{"1 ok", "2 unknown host_died", "1"})
	if rows := calls(t, x, Filter{Outcomes: []string{"unknown"}}); len(rows) != 1 || !rows[0].Dispatched {
		t.Errorf("rows = %+v; want one that may have been dispatched", rows)
	}
	must(t, b.End(flying, good), x.Update(t.Context()))
	equal(t, "later", brief(calls(t, x, Filter{})), []string{"1 ok", "2 unknown host_died", "1 ok"})
}

// TestEndWrittenWhileTheRunIsFoundDead: a run that ends between the look at its file
// and the question whether it lives has written the truth.
func TestEndWrittenWhileTheRunIsFoundDead(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	e := entry(j)
	must(t, j.Begin(e))
	x := index(t, IndexOptions{Dir: dir, Dead: func(string) (bool, error) { return true, j.End(e, good) }})
	equal(t, "rows", brief(calls(t, x, Filter{})), []string{"1 ok"})
}

// TestDamagedFile: a line damaged in the middle and one cut at the end cost
// themselves, and are told.
func TestDamagedFile(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	var all []*Entry
	for range 3 {
		e := entry(j)
		all = append(all, e)
		must(t, j.Begin(e))
	}
	for _, e := range all {
		must(t, j.End(e, good))
	}
	dies(t, j)
	path := filepath.Join(dir, fileName(testHost, 1))
	text, err := os.ReadFile(path)
	must(t, err)
	at := starts(text)
	text[at[2]+40] ^= 1        // the begin of the second
	text[at[5]+40] ^= 1        // the end of the second
	text = text[:len(text)-20] // the end of the third
	must(t, os.WriteFile(path, text, 0o600))
	x := index(t, IndexOptions{Dir: dir, Dead: deadSet(testHost)})
	equal(t, "rows", brief(calls(t, x, Filter{})), []string{"1 ok", "3 unknown journal_damaged"})
	lost, err := x.Lost(t.Context())
	must(t, err)
	name := fileName(testHost, 1)
	equal(t, "lost", lost, []Lost{
		{File: name, At: at[2], Size: at[3] - at[2] - 1 + at[6] - at[5] - 1, Places: 2, Why: errChecksum.Error()},
		{File: name, At: at[6], Size: int64(len(text)) - at[6], Places: 1, Why: "its last line was cut"},
	})
}

// TestEndWithoutBegin: what is left of a call has a row.
func TestEndWithoutBegin(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	e := entry(j)
	must(t, j.Begin(e), j.End(e, good))
	dies(t, j)
	path := filepath.Join(dir, fileName(testHost, 1))
	text, err := os.ReadFile(path)
	must(t, err)
	text[starts(text)[1]+10] = 'x'
	must(t, os.WriteFile(path, text, 0o600))
	x := index(t, IndexOptions{Dir: dir})
	equal(t, "rows", calls(t, x, Filter{}), []Row{
		{ID: e.ID, Time: e.Time, Host: testHost, Dispatched: true, Outcome: "ok", ResultBytes: 99, Artifacts: []string{"a1"}, DurationMS: 1},
	})
}

// TestIndexIsNoTruth: deleted, damaged or another's, it is made from the files.
func TestIndexIsNoTruth(t *testing.T) {
	foreignDB := func(path string) error {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			return err
		}
		defer db.Close()
		_, err = db.Exec(`CREATE TABLE mine (precious TEXT); INSERT INTO mine VALUES ('kept')`)
		return err
	}
	for name, c := range map[string]struct {
		spoil func(path string) error
		aside bool
	}{
		"deleted": {func(string) error { return nil }, false},
		"text": {func(path string) error {
			return os.WriteFile(path, bytes.Repeat([]byte("not a database\n"), 999), 0o600)
		}, true},
		"short":   {func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) }, true},
		"foreign": {foreignDB, true},
		"damaged": {func(path string) error {
			text, err := os.ReadFile(path + ".saved")
			if err != nil {
				return err
			}
			for i := 4096; i < len(text); i++ { // all but the first page
				text[i] = 0xA5
			}
			return os.WriteFile(path, text, 0o600)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, indexFile)
			j := open(t, Options{Dir: dir})
			for range 20 {
				e := entry(j)
				must(t, j.Begin(e), j.End(e, good))
			}
			x := index(t, IndexOptions{Dir: dir})
			want := calls(t, x, Filter{})
			must(t, x.Close())
			text, err := os.ReadFile(path)
			must(t, err, os.WriteFile(path+".saved", text, 0o600), os.Remove(path), c.spoil(path))
			must(t, j.Refuse(entry(j), End{Outcome: "denied"}))
			var log bytes.Buffer
			x = index(t, IndexOptions{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			got := calls(t, x, Filter{})
			if len(got) != 21 {
				t.Fatalf("%d rows, want 21", len(got))
			}
			equal(t, "rows", got[:20], want)
			_, err = os.Stat(path + asideSuffix)
			if moved := err == nil; moved != c.aside || moved != strings.Contains(log.String(), "moved aside") {
				t.Errorf("moved aside: %v, want %v; log: %s", moved, c.aside, &log)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v (%v)", info.Mode(), err)
			}
		})
	}
}

// TestFolderThatIsNotThere has no calls, and is not made.
func TestFolderThatIsNotThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), Folder)
	x := index(t, IndexOptions{Dir: dir})
	if rows := calls(t, x, Filter{}); len(rows) != 0 {
		t.Errorf("rows = %+v", rows)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder was made: %v", err)
	}
}

// TestIncremental: an index that followed the files step by step is the one that is
// made from them at the end, whatever happened: calls, rotation, removal of old
// files, damage, death.
func TestIncremental(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			dir := t.TempDir()
			hosts := []string{testHost, otherHost}
			journals := []*Journal{open(t, Options{Dir: dir, HostID: hosts[0]}), open(t, Options{Dir: dir, HostID: hosts[1]})}
			flying := make([][]*Entry, 2)
			dead := map[string]bool{}
			isDead := func(host string) (bool, error) { return dead[host], nil }
			x := index(t, IndexOptions{Dir: dir, Dead: isDead})
			for range 600 {
				i := rng.IntN(2)
				j := journals[i]
				if dead[hosts[i]] {
					continue
				}
				switch k := rng.IntN(40); {
				case k < 14:
					e := entry(j)
					e.Time = e.Time.Add(time.Duration(rng.IntN(1e6)) * time.Microsecond)
					must(t, j.Begin(e))
					flying[i] = append(flying[i], e)
				case k < 28 && len(flying[i]) > 0:
					n := rng.IntN(len(flying[i]))
					must(t, j.End(flying[i][n], good))
					flying[i] = append(flying[i][:n], flying[i][n+1:]...)
				case k < 32:
					must(t, j.Refuse(entry(j), End{Outcome: "stale", Reason: "tool_gone"}))
				case k < 35:
					j.mu.Lock()
					_ = j.retire()
					must(t, j.ready(0))
					j.mu.Unlock()
				case k == 35: // the oldest goes
					if _, err := os.Stat(filepath.Join(dir, fileName(hosts[i], j.seq-1))); err == nil {
						for seq := 1; seq < j.seq; seq++ {
							if os.Remove(filepath.Join(dir, fileName(hosts[i], seq))) == nil {
								break
							}
						}
					}
				case k == 36 && rng.IntN(20) == 0:
					dies(t, j)
					dead[hosts[i]] = true
				default:
					must(t, x.Update(t.Context()))
				}
			}
			must(t, x.Update(t.Context()))
			fresh := &Index{dir: dir, dead: isDead, log: slog.New(slog.DiscardHandler)}
			must(t, fresh.inMemory(t.Context()), fresh.Update(t.Context()))
			defer fresh.Close()
			rows := func(x *Index) map[string]Row {
				out := map[string]Row{}
				for _, r := range calls(t, x, Filter{}) {
					out[r.ID] = r
				}
				return out
			}
			equal(t, "rows, step by step against anew", rows(x), rows(fresh))
			if len(rows(x)) < 20 {
				t.Errorf("only %d rows: this test has looked at nothing", len(rows(x)))
			}
		})
	}
}

// TestRemovedFromTheMiddle: by hand, what retention never does. What is left is told.
func TestRemovedFromTheMiddle(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	e, f := entry(j), entry(j)
	rotate := func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		must(t, j.retire(), j.ready(0))
	}
	must(t, j.Begin(e))
	rotate()
	must(t, j.End(e, good), j.Begin(f))
	rotate()
	x := index(t, IndexOptions{Dir: dir, Dead: deadSet(testHost)})
	must(t, os.Remove(filepath.Join(dir, fileName(testHost, 2))), x.Update(t.Context()))
	equal(t, "rows", brief(calls(t, x, Filter{})), []string{"1 unknown host_died", "2 unknown host_died"})
}

// TestTwoReaders: commands at the same time find the same, and each line once.
func TestTwoReaders(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		x := index(t, IndexOptions{Dir: dir})
		all.Go(func() {
			for {
				if err := x.Update(context.Background()); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-stop:
					if err := x.Update(context.Background()); err != nil {
						t.Error(err)
					}
					if rows := calls(t, x, Filter{Outcomes: []string{"ok"}}); len(rows) != 300 {
						t.Errorf("%d rows, want 300", len(rows))
					}
					return
				default:
				}
			}
		})
	}
	for range 300 {
		e := entry(j)
		must(t, j.Begin(e), j.End(e, good))
	}
	close(stop)
	all.Wait()
}

// TestFollowAcrossFiles: each call is handed over once however often the host goes on in
// another file meanwhile, and calls that were begun in an earlier one, too.
func TestFollowAcrossFiles(t *testing.T) {
	const most = 200
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	j.segment = 4 << 10
	early := entry(j)
	must(t, j.Begin(early))
	x := index(t, IndexOptions{Dir: dir})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for where one is missing
	defer cancel()
	var writer sync.WaitGroup
	defer writer.Wait()
	writer.Go(func() {
		for n := 1; n < most; n++ {
			e := entry(j)
			if err := errors.Join(j.Begin(e), j.End(e, good)); err != nil {
				t.Error(err)
			}
			if n%50 == 0 { // not all of it between two looks
				time.Sleep(followEvery)
			}
		}
		if err := j.End(early, good); err != nil {
			t.Error(err)
		}
	})
	seen := map[string]int{}
	must(t, x.Follow(ctx, Filter{}, func(r Row) error {
		if seen[r.ID]++; len(seen) == most {
			cancel()
		}
		return nil
	}))
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was handed over %d times", id, n)
		}
	}
	if len(seen) != most {
		t.Errorf("%d calls of %d were handed over", len(seen), most)
	}
	if files, err := listFiles(dir); err != nil || len(files) < 5 {
		t.Errorf("%d files (%v)", len(files), err)
	}
}

// TestFollow hands over each call once: those that have ended, and the others when they
// do, also where another command brings the index to the files meanwhile.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	before, flying, refused := entry(j), entry(j), entry(j)
	must(t, j.Begin(before), j.End(before, good), j.Begin(flying))
	x := index(t, IndexOptions{Dir: dir})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	another := index(t, IndexOptions{Dir: dir})
	var got []string
	must(t, x.Follow(ctx, Filter{}, func(r Row) error {
		got = append(got, brief([]Row{r})...)
		switch len(got) {
		case 1:
			must(t, j.Refuse(refused, End{Outcome: "denied", Reason: "unknown_tool"}), another.Update(ctx))
		case 2:
			return j.End(flying, good)
		case 3:
			cancel()
		}
		return nil
	}))
	equal(t, "followed", got, []string{"1 ok", "3 denied unknown_tool", "2 ok"})
	full := errors.New("full")
	must(t, j.Refuse(entry(j), End{Outcome: "denied"}))
	x = index(t, IndexOptions{Dir: dir})
	must(t, j.Refuse(entry(j), End{Outcome: "denied"}))
	if err := x.Follow(t.Context(), Filter{}, func(Row) error { return full }); !errors.Is(err, full) {
		t.Errorf("follow: %v, want %v", err, full)
	}
}
