package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// put makes a file of a run of that size, last written so long ago.
func put(t *testing.T, dir, host string, seq, size int, ago time.Duration) string {
	t.Helper()
	path := filepath.Join(dir, fileName(host, seq))
	must(t, os.WriteFile(path, make([]byte, size), 0o600), os.Chtimes(path, time.Time{}, time.Now().Add(-ago)))
	return filepath.Base(path)
}

func left(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), fileSuffix))
	}
	return out
}

// TestPrune: what is too old goes, and the oldest while all are too large; the last
// file of a run that lives stays, and so does what is no file of the journal.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "dead", 1, 100, 50*time.Hour)
	put(t, dir, "dead", 2, 100, 40*time.Hour)
	put(t, dir, "alive", 1, 100, 60*time.Hour)
	put(t, dir, "alive", 2, 100, 55*time.Hour)
	put(t, dir, "unsure", 1, 100, 70*time.Hour)
	put(t, dir, "young", 1, 100, 3*time.Hour)
	put(t, dir, "young", 2, 100, 2*time.Hour)
	for _, name := range []string{settledFile, indexFile, "notes.txt", "alive.1.jsonl"} {
		must(t, os.WriteFile(filepath.Join(dir, name), make([]byte, 5000), 0o600), os.Chtimes(filepath.Join(dir, name), time.Time{}, time.Unix(0, 0)))
	}
	unsure := errors.New("cannot tell")
	dead := func(host string) (bool, error) {
		if host == "unsure" {
			return false, unsure
		}
		return host == "dead" || host == "young", nil
	}
	j := &Journal{opts: Options{Dir: dir, HostID: "self", Keep: 24 * time.Hour, Dead: dead}}
	if err := j.prune(time.Now()); !errors.Is(err, unsure) {
		t.Errorf("prune: %v, want %v", err, unsure)
	}
	others := []string{"alive.1", "index.db", "notes.txt", "settled"}
	equal(t, "by age", left(t, dir), []string{"alive.000002", others[0], others[1], others[2], others[3], "unsure.000001", "young.000001", "young.000002"})
	j.opts.Dead, j.opts.Keep, j.opts.MaxSize = deadSet("young"), 0, 300
	must(t, j.prune(time.Now()))
	equal(t, "by size", left(t, dir), []string{"alive.000002", others[0], others[1], others[2], others[3], "unsure.000001", "young.000002"})
	j.opts.MaxSize = 1
	must(t, j.prune(time.Now()))
	equal(t, "to the last", left(t, dir), []string{"alive.000002", others[0], others[1], others[2], others[3], "unsure.000001"})
	j.opts.Dir = filepath.Join(dir, "none")
	must(t, j.prune(time.Now()))
}

// TestMaxSize: a run that goes on for long keeps to the bound, by removing its own
// old files, and no call in flight is forgotten.
func TestMaxSize(t *testing.T) {
	dir := t.TempDir()
	const most = 1 << 20
	j := open(t, Options{Dir: dir, MaxSize: most})
	flying := entry(j)
	must(t, j.Begin(flying))
	for range 8000 {
		must(t, j.Refuse(entry(j), End{Outcome: "denied", Reason: "unknown_tool"}))
	}
	must(t, j.prune(time.Now()))
	files, err := listFiles(dir)
	must(t, err)
	var total int64
	for _, f := range files {
		total += f.size
	}
	if total > most || total < most/2 {
		t.Errorf("%d bytes in %d files, want no more than %d and not much less", total, len(files), most)
	}
	if _, err := os.Stat(filepath.Join(dir, fileName(testHost, 1))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the first file is still there: %v", err)
	}
	x := index(t, IndexOptions{Dir: dir})
	if rows := calls(t, x, Filter{Outcomes: []string{""}}); len(rows) != 1 || rows[0].ID != flying.ID {
		t.Errorf("in flight: %+v", rows)
	}
}

// TestKeeperLooksEveryHour, also where no file is made.
func TestKeeperLooksEveryHour(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j, err := Open(Options{Dir: dir, HostID: testHost, Keep: 24 * time.Hour, Dead: deadSet("old")})
		must(t, err)
		synctest.Wait()
		put(t, dir, "old", 1, 10, 23*time.Hour)
		time.Sleep(keepEvery / 2)
		synctest.Wait()
		if len(left(t, dir)) != 2 {
			t.Errorf("left = %q before its time", left(t, dir))
		}
		time.Sleep(2 * keepEvery)
		synctest.Wait()
		equal(t, "left", left(t, dir), []string{fmt.Sprintf("%s.%06d", testHost, 1)})
		must(t, j.Close())
	})
}

// TestSegments: files are small against the bounds, and not too small.
func TestSegments(t *testing.T) {
	for most, want := range map[int64]int64{0: 64 << 20, 1 << 20: 64 << 10, 1 << 30: 64 << 20, 1 << 40: 64 << 20, 160 << 20: 10 << 20} {
		if got := segmentSize(most); got != want {
			t.Errorf("segmentSize(%d) = %d, want %d", most, got, want)
		}
	}
	for keep, want := range map[time.Duration]time.Duration{0: 24 * time.Hour, time.Hour: 225 * time.Second, 90 * 24 * time.Hour: 24 * time.Hour, time.Second: time.Minute} {
		if got := segmentAge(keep); got != want {
			t.Errorf("segmentAge(%s) = %s, want %s", keep, got, want)
		}
	}
}
