package journal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func goleakMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testHost = "0123456789abcdef0123456789abcdef"

// open opens a journal in a folder and closes it with the test, if that has not.
func open(t *testing.T, o Options) *Journal {
	t.Helper()
	if o.HostID == "" {
		o.HostID = testHost
	}
	j, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func entry(j *Journal) *Entry {
	return &Entry{
		ID: j.NewID(), CallID: "mine", Time: time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC), Principal: "laptop", Project: "site",
		Provider: "browser", Generation: 2, Tool: "click", Digest: "abc", Instance: testHost + "/browser/1", Fence: "shown", RequestBytes: 77,
	}
}

// callAtOnce writes the calls of that many callers, each so many one after the other.
func callAtOnce(t *testing.T, j *Journal, callers, each int) {
	t.Helper()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				e := entry(j)
				if err := errors.Join(j.Begin(e), j.End(e, good)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

var good = End{Dispatched: true, Outcome: "ok", ResultBytes: 99, Artifacts: []string{"a1"}, Duration: 1500 * time.Microsecond}

// kinds reads all lines of a folder's files, in order, as "begin ID", "end ID OUTCOME" and so on.
func kinds(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	paths, _ := filepath.Glob(filepath.Join(dir, "*"+fileSuffix))
	slices.Sort(paths)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for text := range bytes.Lines(text) {
			r, err := parseLine(bytes.TrimSuffix(text, []byte("\n")))
			switch {
			case err != nil:
				out = append(out, "bad")
			case r.File != nil:
				out = append(out, fmt.Sprintf("file %d", r.File.Seq))
			case r.Begin != nil:
				out = append(out, "begin "+short(r.Begin.ID))
			case r.End != nil:
				out = append(out, "end "+short(r.End.ID)+" "+r.End.Outcome)
			case r.Call != nil:
				out = append(out, "call "+short(r.Call.ID)+" "+r.Call.Outcome)
			case r.Gap != nil:
				out = append(out, fmt.Sprintf("gap %d", r.Gap.Refusals))
			}
		}
	}
	return out
}

// short is the ordinal in an id.
func short(id string) string { return id[strings.LastIndex(id, "-")+1:] }

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestLines: what stands in the file is what was handed over, and only its owner reads it.
func TestLines(t *testing.T) {
	dir := filepath.Join(t.TempDir(), Folder)
	j := open(t, Options{Dir: dir})
	e := entry(j)
	if err := j.Begin(e); err != nil {
		t.Fatal(err)
	}
	if err := j.End(e, good); err != nil {
		t.Fatal(err)
	}
	refused := &Entry{ID: j.NewID(), Time: e.Time, Principal: "local", Tool: "rm", Fence: "unknown_tool"}
	if err := j.Refuse(refused, End{Outcome: "denied", Reason: "unknown_tool"}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, fileName(testHost, 1))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	var got []record
	for _, l := range lines[1:4] {
		r, err := parseLine([]byte(l))
		if err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		got = append(got, r)
	}
	equal(t, "lines", got, []record{
		{Begin: &begun{ID: "0123456789ab-1", CallID: "mine", Time: e.Time, Principal: "laptop", Project: "site", Provider: "browser", Generation: 2,
			Tool: "click", Digest: "abc", Instance: testHost + "/browser/1", Fence: "shown", RequestBytes: 77}},
		{End: &ended{ID: "0123456789ab-1", ending: ending{Dispatched: true, Outcome: "ok", ResultBytes: 99, Artifacts: []string{"a1"},
			Ended: e.Time.Add(1500 * time.Microsecond), Micros: 1500}}},
		{Call: &whole{begun{ID: "0123456789ab-2", Time: e.Time, Principal: "local", Tool: "rm", Fence: "unknown_tool"},
			ending{Outcome: "denied", Reason: "unknown_tool", Ended: e.Time}}},
	})
	for at, want := range map[string]os.FileMode{dir: 0o700, path: 0o600} {
		if info, err := os.Stat(at); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v (%v)", at, info.Mode().Perm(), want, err)
		}
	}
}

// TestLongAndOddText: what others chose is bounded, and no text breaks a line.
func TestLongAndOddText(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	e := entry(j)
	e.Tool, e.CallID, e.Provider = strings.Repeat("ä", 10<<10), "a\nb\"\x00\xff\x1b[2J", `","crc":"00000000"}`
	if err := j.Refuse(e, End{Outcome: "denied"}); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(filepath.Join(dir, fileName(testHost, 1)))
	lines := strings.Split(string(text), "\n")
	if len(lines) != 3 || bytes.ContainsAny(text, "\x00\x1b") {
		t.Fatalf("%d lines, want two and the end: %q", len(lines), text)
	}
	r, err := parseLine([]byte(lines[1]))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Call.Tool; len(got) > maxText || !strings.HasSuffix(got, "ä"+cutMark) {
		t.Errorf("tool = %q", got)
	}
	if got, want := r.Call.CallID, "a\nb\"\x00\uFFFD\x1b[2J"; got != want {
		t.Errorf("call id = %q, want %q", got, want)
	}
	if r.Call.Provider != e.Provider {
		t.Errorf("provider = %q, want %q", r.Call.Provider, e.Provider)
	}
}

// TestRotation: a new file repeats what is open, so that the old one can go.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	j.segment = 1200 // three lines
	a, b := entry(j), entry(j)
	for _, e := range []*Entry{a, b} {
		if err := j.Begin(e); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := j.Refuse(entry(j), End{Outcome: "denied"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.End(a, good); err != nil {
		t.Fatal(err)
	}
	got := kinds(t, dir)
	at := slices.Index(got, "file 2")
	if at < 0 || !slices.Contains(got[at:], "begin 1") || !slices.Contains(got[at:], "begin 2") || !slices.Contains(got, "end 1 ok") {
		t.Errorf("the second file does not repeat the open calls: %q", got)
	}
	j.age = 0 // every file is too old
	before := j.seq
	if err := j.Refuse(entry(j), End{Outcome: "denied"}); err != nil || j.seq != before+1 {
		t.Errorf("seq went from %d to %d, want a new file by age (%v)", before, j.seq, err)
	}
}

// TestClose: nobody stays open.
func TestClose(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	a := entry(j)
	if err := j.Begin(a); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	equal(t, "lines", kinds(t, dir), []string{"file 1", "begin 1", "call 1 unknown"})
	for name, err := range map[string]error{"begin": j.Begin(entry(j)), "end": j.End(a, good), "refuse": j.Refuse(a, good), "close": j.Close()} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after close: %v, want %v", name, err, ErrClosed)
		}
	}
	equal(t, "lines afterwards", kinds(t, dir), []string{"file 1", "begin 1", "call 1 unknown"})
}

// TestOpenRefuses what cannot name a file, or is no way to write one.
func TestOpenRefuses(t *testing.T) {
	for _, o := range []Options{{HostID: ""}, {HostID: "../x"}, {HostID: "a.b"}, {HostID: strings.Repeat("a", 65)}, {HostID: "a", Sync: "ful"}} {
		o.Dir = t.TempDir()
		if j, err := Open(o); err == nil {
			_ = j.Close()
			t.Errorf("%+v: no error", o)
		}
	}
}

// TestTakenAway: the folder is removed or moved, or the file cut, moved or replaced,
// under a running host. It goes on in a new file that has the calls in flight.
func TestTakenAway(t *testing.T) {
	first := func(dir string) string { return filepath.Join(dir, fileName(testHost, 1)) }
	for name, take := range map[string]func(dir string) error{
		"folder removed": os.RemoveAll,
		"folder moved":   func(dir string) error { return os.Rename(dir, dir+".old") },
		"file moved":     func(dir string) error { return os.Rename(first(dir), filepath.Join(dir, "old")) },
		"file replaced": func(dir string) error {
			return errors.Join(os.Rename(first(dir), filepath.Join(dir, "old")), os.WriteFile(first(dir), []byte("another\n"), 0o600))
		},
		"file cut": func(dir string) error { return os.Truncate(filepath.Join(dir, fileName(testHost, 1)), 10) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), Folder)
			var log bytes.Buffer
			j := open(t, Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			e := entry(j)
			if err := j.Begin(e); err != nil {
				t.Fatal(err)
			}
			if err := take(dir); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * lookEvery) // or it is not looked at yet
			if err := j.End(e, good); err != nil {
				t.Fatal(err)
			}
			got := kinds(t, dir)
			if want := []string{"file 2", "begin 1", "end 1 ok"}; !slices.Equal(got[max(0, len(got)-3):], want) {
				t.Errorf("lines = %q, want them to end with %q", got, want)
			}
			if !strings.Contains(log.String(), "taken away or cut") {
				t.Errorf("log = %s", &log)
			}
		})
	}
}

// TestFolderUnwritable: while the folder cannot be made nothing begins; when it can, all goes on.
func TestFolderUnwritable(t *testing.T) {
	state := t.TempDir()
	blocker := filepath.Join(state, "state")
	if err := os.WriteFile(blocker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(blocker, Folder)
	j := open(t, Options{Dir: dir})
	err := j.Begin(entry(j))
	var u *Unwritable
	if !errors.As(err, &u) || err.Error() != "the journal cannot be written: there is no folder where its folder is to be" {
		t.Fatalf("begin: %v", err)
	}
	for range 3 {
		if err := j.Refuse(entry(j), End{Outcome: "denied"}); !errors.As(err, &u) {
			t.Fatalf("refuse: %v", err)
		}
	}
	if err := os.Remove(blocker); err != nil {
		t.Fatal(err)
	}
	e := entry(j)
	if err := errors.Join(j.Begin(e), j.End(e, good)); err != nil {
		t.Fatal(err)
	}
	equal(t, "lines", kinds(t, dir), []string{"file 1", "gap 3", "begin 5", "end 5 ok"})
}

// TestFullSync: a line is on the disk before its call goes on, those who wait at the
// same time share a datasync, and one that fails costs the begin and no end.
func TestFullSync(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir, Sync: SyncFull})
	const callers = 16
	var syncs atomic.Int32
	leader, release := make(chan struct{}), make(chan struct{})
	j.datasync = func(f *file) error {
		if syncs.Add(1) == 1 {
			close(leader)
			<-release
		}
		return f.datasync()
	}
	var all sync.WaitGroup
	begin := func() {
		if err := j.Begin(entry(j)); err != nil {
			t.Error(err)
		}
	}
	all.Go(begin)
	<-leader
	for range callers {
		all.Go(begin)
	}
	for { // until all have written and wait for the second
		j.mu.Lock()
		n := len(j.open.all)
		j.mu.Unlock()
		if n == callers+1 {
			break
		}
		runtime.Gosched()
	}
	close(release)
	all.Wait()
	if got := syncs.Load(); got != 2 {
		t.Errorf("%d datasyncs for one call and %d that came while it was under way, want 2", got, callers)
	}
}

// TestFullSyncFails: a begin that is not on the disk is not in flight, an end that
// is not is written again.
func TestFullSyncFails(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir, Sync: SyncFull})
	a, b, c := entry(j), entry(j), entry(j)
	if err := j.Begin(a); err != nil {
		t.Fatal(err)
	}
	j.datasync = func(*file) error { return syscall.EIO }
	if err := j.Begin(b); err == nil || err.Error() != "the journal cannot be written: the disk has failed" {
		t.Errorf("begin: %v", err)
	}
	if err := j.End(a, good); err == nil {
		t.Error("end: no error though it is not on the disk")
	}
	j.datasync = (*file).datasync
	if err := errors.Join(j.Begin(c), j.End(c, good)); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(kinds(t, dir), ", ")
	for _, want := range []string{"call 2 unavailable", "call 1 ok", "begin 3, end 3 ok"} {
		if !strings.Contains(got, want) {
			t.Errorf("lines = %s, want %q among them", got, want)
		}
	}
}

// TestRotationUnderFullSync: files change while others wait for the disk; each call
// is in the journal, and no wait fails.
func TestRotationUnderFullSync(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir, Sync: SyncFull})
	j.segment = 2000
	const callers, each = 8, 20
	callAtOnce(t, j, callers, each)
	ends := 0
	for _, l := range kinds(t, dir) {
		if strings.HasPrefix(l, "end") {
			ends++
		}
	}
	if ends != callers*each || j.seq < 10 {
		t.Errorf("%d ends in %d files, want %d in many", ends, j.seq, callers*each)
	}
}
