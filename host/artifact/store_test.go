package artifact

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("ARTIFACT_WRITER"); dir != "" {
		os.Exit(writeMany(dir))
	}
	goleak.VerifyTestMain(m)
}

var origin = Origin{Principal: "laptop", Project: "site", Provider: "shop", Tool: "report", Digest: "d", Call: "c1"}

// clock is a time that stands still until a test moves it.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newStore(t *testing.T, quota int64) (*Store, *clock) {
	t.Helper()
	c := &clock{now: time.Now()}
	s, err := Open(Options{Dir: filepath.Join(t.TempDir(), "artifacts"), Quota: quota, TTL: time.Hour, Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func put(t *testing.T, s *Store, o Origin, content string) Record {
	t.Helper()
	w, err := s.Create(o, "text/plain", true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	r, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// files are the names in the folder, but for the lock.
func files(t *testing.T, s *Store) []string {
	t.Helper()
	entries, err := os.ReadDir(s.opts.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != lockFile {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestWhatWasWrittenIsReadByItsOwnerAlone(t *testing.T) {
	s, _ := newStore(t, 1<<20)
	r := put(t, s, origin, "hello")
	sum := sha256.Sum256([]byte("hello"))
	if r.Size != 5 || r.SHA256 != hex.EncodeToString(sum[:]) || !r.Text || r.MIME != "text/plain" || r.Origin != origin {
		t.Errorf("record = %+v", r)
	}
	f, again, err := s.Reader("laptop", r.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, _ := io.ReadAll(f); string(got) != "hello" {
		t.Errorf("read %q", got)
	}
	if diff := cmp.Diff(r, again); diff != "" {
		t.Errorf("record (-written +read):\n%s", diff)
	}
	// Another principal cannot tell a stranger's artifact from none.
	_, _, stranger := s.Reader("other", r.ID)
	_, _, none := s.Reader("other", newID())
	if !errors.Is(stranger, ErrNotFound) || stranger.Error() != none.Error() {
		t.Errorf("a stranger is told %v, and of none %v", stranger, none)
	}
	for _, id := range []string{"", "..", "../" + r.ID, strings.ToUpper(r.ID), r.ID + "x", strings.Repeat("a", 10_000)} {
		if _, err := s.Stat("laptop", id); !errors.Is(err, ErrNotFound) {
			t.Errorf("Stat(%.40q) = %v", id, err)
		}
	}
	for _, name := range files(t, s) {
		if info, err := os.Stat(filepath.Join(s.opts.Dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestTheOldestMakesRoom(t *testing.T) {
	s, _ := newStore(t, 100)
	var all []Record
	for i := range 3 {
		r := put(t, s, origin, strings.Repeat(fmt.Sprint(i), 40))
		// What counts is the file's age, of which the disk has a clock of its own.
		age := time.Now().Add(time.Duration(i-10) * time.Minute)
		if err := os.Chtimes(s.path(r.ID, dataEnding), age, age); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	for i, want := range []error{ErrNotFound, nil, nil} {
		if _, err := s.Stat("laptop", all[i].ID); !errors.Is(err, want) {
			t.Errorf("artifact %d: %v, want %v", i, err, want)
		}
	}
	// An artifact that can never fit takes nothing else with it.
	w, err := s.Create(origin, "", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 101)); !errors.Is(err, ErrQuota) {
		t.Errorf("Write = %v, want ErrQuota", err)
	}
	if _, err := w.Commit(); !errors.Is(err, ErrQuota) {
		t.Errorf("Commit = %v, want ErrQuota", err)
	}
	if left, err := s.List("laptop"); err != nil || len(left) != 2 {
		t.Errorf("left are %v, %v", left, err)
	}
	if n := len(files(t, s)); n != 4 {
		t.Errorf("files are %v", files(t, s))
	}
}

func TestWhatIsOpenCanBeReadToItsEnd(t *testing.T) {
	s, _ := newStore(t, 50)
	r := put(t, s, origin, strings.Repeat("a", 40))
	f, _, err := s.Reader("laptop", r.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	put(t, s, origin, strings.Repeat("b", 40))
	if _, err := s.Stat("laptop", r.ID); !errors.Is(err, ErrNotFound) {
		t.Fatalf("it should have made room: %v", err)
	}
	if got, err := io.ReadAll(f); err != nil || len(got) != 40 {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

func TestWhatHasExpiredIsNotThere(t *testing.T) {
	s, c := newStore(t, 1<<20)
	old := put(t, s, origin, "old")
	c.advance(time.Hour)
	young := put(t, s, origin, "young")
	if _, err := s.Stat("laptop", old.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("Stat = %v, want ErrNotFound before any sweep", err)
	}
	if list, err := s.List("laptop"); err != nil || len(list) != 1 || list[0].ID != young.ID {
		t.Errorf("List = %v, %v", list, err)
	}
	if err := s.Sweep(); err != nil {
		t.Fatal(err)
	}
	want := []string{young.ID + dataEnding, young.ID + recordEnding}
	if diff := cmp.Diff(want, files(t, s)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestASweepTakesWhatBelongsToNothingAndIsOld(t *testing.T) {
	s, _ := newStore(t, 1<<20)
	kept := put(t, s, origin, "kept")
	old := time.Now().Add(-2 * abandonedAfter)
	for name, gone := range map[string]bool{
		newID() + partEnding:                true,
		newID() + dataEnding:                true,
		newID() + recordEnding + partEnding: true,
		"notes.txt":                         false,
	} {
		path := filepath.Join(s.opts.Dir, name)
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Sweep(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s is young and gone: %v", name, err)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
		if err := s.Sweep(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) != gone {
			t.Errorf("%s: %v, should be gone: %v", name, err, gone)
		}
	}
	if err := os.Chtimes(s.path(kept.ID, dataEnding), old, old); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stat("laptop", kept.ID); err != nil {
		t.Errorf("an artifact within its time is gone: %v", err)
	}
}

func TestDamage(t *testing.T) {
	s, _ := newStore(t, 1<<20)
	cut := put(t, s, origin, "whole")
	if err := os.Truncate(s.path(cut.ID, dataEnding), 2); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Reader("laptop", cut.ID); !errors.Is(err, ErrDamaged) {
		t.Errorf("cut bytes: %v, want ErrDamaged", err)
	}
	bad := put(t, s, origin, "x")
	if err := os.WriteFile(s.path(bad.ID, recordEnding), []byte(`{"id":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stat("laptop", bad.ID); !errors.Is(err, ErrDamaged) {
		t.Errorf("half a record: %v, want ErrDamaged", err)
	}
	lent := put(t, s, origin, "y")
	text, err := os.ReadFile(s.path(lent.ID, recordEnding))
	if err != nil {
		t.Fatal(err)
	}
	forged := newID()
	if err := os.WriteFile(s.path(forged, recordEnding), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stat("laptop", forged); !errors.Is(err, ErrDamaged) {
		t.Errorf("another's record: %v, want ErrDamaged", err)
	}
	if err := s.Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.path(bad.ID, dataEnding)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("bytes without a record stay: %v", err)
	}
}

// TestDiskFull uses a file that takes no bytes.
func TestDiskFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here:", err)
	}
	s, _ := newStore(t, 1<<20)
	w, err := s.Create(origin, "", false)
	if err != nil {
		t.Fatal(err)
	}
	w.file.Close()
	w.file = full
	if _, err := w.Write([]byte("x")); err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("Write = %v", err)
	}
	if _, err := w.Commit(); err == nil {
		t.Error("Commit of what could not be written")
	}
	if left := files(t, s); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func writeMany(dir string) int {
	s, err := Open(Options{Dir: dir, Quota: 400, TTL: time.Hour})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for range 40 {
		w, err := s.Create(origin, "", false)
		if err == nil {
			_, _ = w.Write(bytes.Repeat([]byte("z"), 100)) // Commit tells
			_, err = w.Commit()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// TestTheOldestMakesRoomInNumber: small ones are bounded too.
func TestTheOldestMakesRoomInNumber(t *testing.T) {
	s, _ := newStore(t, 1<<20)
	s.most = 3
	var all []Record
	for n := range 5 {
		r := put(t, s, origin, fmt.Sprint("small ", n))
		all = append(all, r)
		stamp := time.Now().Add(time.Duration(n-10) * time.Second)
		if err := os.Chtimes(s.path(r.ID, dataEnding), stamp, stamp); err != nil {
			t.Fatal(err)
		}
	}
	for n, r := range all {
		if _, err := s.Stat(origin.Principal, r.ID); (err == nil) != (n >= 2) {
			t.Errorf("number %d of 5, of which 3 fit: %v", n, err)
		}
	}
	if n := len(files(t, s)); n != 6 {
		t.Errorf("files: %v", files(t, s))
	}
}

// TestAFolderThatIsRemoved: nothing of it is there then, and it is made again when
// there is something to keep.
func TestAFolderThatIsRemoved(t *testing.T) {
	s, _ := newStore(t, 1<<20)
	before := put(t, s, origin, "before")
	if err := os.RemoveAll(s.opts.Dir); err != nil {
		t.Fatal(err)
	}
	if all, err := s.List(origin.Principal); err != nil || len(all) != 0 {
		t.Errorf("listed are %v, %v", all, err)
	}
	if _, _, err := s.Reader(origin.Principal, before.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("what was in it: %v", err)
	}
	if err := s.Sweep(); err != nil {
		t.Errorf("sweep: %v", err)
	}
	after := put(t, s, origin, "after")
	if all, err := s.List(origin.Principal); err != nil || len(all) != 1 || all[0].ID != after.ID {
		t.Errorf("listed are %v, %v", all, err)
	}
}

func TestHostsThatShareAFolderKeepToTheQuota(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "artifacts")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), "ARTIFACT_WRITER="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	all.Wait()
	s, err := Open(Options{Dir: dir, Quota: 400, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.All()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 4 {
		t.Errorf("%d artifacts, want the 4 that fit", len(list))
	}
	if n := len(files(t, s)); n != 8 {
		t.Errorf("files: %v", files(t, s))
	}
}

func TestURI(t *testing.T) {
	id := newID()
	for uri, want := range map[string]Range{
		"drawbridge://artifacts/" + id:                        {},
		"drawbridge://artifacts/" + id + "?offset=5":          {Offset: 5},
		"drawbridge://artifacts/" + id + "?offset=5&length=9": {5, 9},
	} {
		got, part, err := ParseURI(uri)
		if err != nil || got != id || part != want {
			t.Errorf("ParseURI(%s) = %s, %v, %v", uri, got, part, err)
		}
	}
	if got := (Record{ID: id}).URI(); got != "drawbridge://artifacts/"+id {
		t.Errorf("URI = %s", got)
	}
	for _, uri := range []string{
		"", "file:///etc/passwd", "drawbridge://artifacts/", "drawbridge://artifacts/../x", "drawbridge://other/" + id,
		"drawbridge://u@artifacts/" + id, "drawbridge://artifacts/" + id + "#x", "drawbridge://artifacts/" + id + "/..",
		"drawbridge://artifacts/" + id + "?offset=-1", "drawbridge://artifacts/" + id + "?offset=1&offset=2",
		"drawbridge://artifacts/" + id + "?length=0", "drawbridge://artifacts/" + id + "?size=1", "drawbridge://artifacts/" + id + "?offset=1e3", "\x00",
	} {
		if _, _, err := ParseURI(uri); !errors.Is(err, ErrURI) {
			t.Errorf("ParseURI(%q) = %v, want ErrURI", uri, err)
		}
	}
}

func TestRanges(t *testing.T) {
	for _, c := range []struct {
		part       Range
		size, most int64
		want       Range
		err        error
	}{
		{Range{}, 10, 100, Range{0, 10}, nil},
		{Range{}, 10, 4, Range{0, 4}, nil},
		{Range{8, 100}, 10, 100, Range{8, 2}, nil},
		{Range{9, 0}, 10, 100, Range{9, 1}, nil},
		{Range{10, 1}, 10, 100, Range{}, ErrRange},
		{Range{11, 0}, 10, 100, Range{}, ErrRange},
		{Range{}, 0, 100, Range{}, nil},
		{Range{1, 0}, 0, 100, Range{}, ErrRange},
		{Range{1, 1<<63 - 1}, 10, 100, Range{1, 9}, nil},
	} {
		got, err := c.part.Within(c.size, c.most)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%v of %d, at most %d: %v, %v; want %v, %v", c.part, c.size, c.most, got, err, c.want, c.err)
		}
	}
}

func TestWholeRunes(t *testing.T) {
	text := "aé€😀z"
	for end := 1; end <= len(text); end++ {
		got := string(WholeRunes([]byte(text[:end])))
		if strings.ContainsRune(got, '\uFFFD') || got == "" || !strings.HasPrefix(text, got) || end-len(got) > 3 {
			t.Errorf("first %d bytes: %q", end, got)
		}
	}
	for _, s := range []string{"", "\xff", "\x80\x80\x80\x80", "a\xff\xfe"} {
		if got := string(WholeRunes([]byte(s))); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}
