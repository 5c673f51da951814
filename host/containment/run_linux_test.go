package containment

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/go-cmp/cmp"
)

func TestRunIsLockedWhileItLives(t *testing.T) {
	state := t.TempDir()
	run, err := NewRun(context.Background(), state)
	if err != nil {
		t.Fatal(err)
	}
	if !isID(run.ID()) {
		t.Errorf("id %q", run.ID())
	}
	path := run.dir + lockSuffix
	if locked, err := flock.New(path).TryLock(); locked || err != nil {
		t.Errorf("another took the lock of a living run: %v, %v", locked, err)
	}
	if _, err := os.Stat(path + newSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock's first name stays: %v", err)
	}
	if ended, err := Ended(context.Background(), state, run.ID()); ended || err != nil {
		t.Errorf("a living run has ended: %v, %v", ended, err)
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	if ended, err := Ended(context.Background(), state, run.ID()); !ended || err != nil {
		t.Errorf("a closed run has not ended: %v, %v", ended, err)
	}
	left, err := os.ReadDir(filepath.Join(state, runsDir))
	if err != nil || len(left) != 1 || left[0].Name() != runsLock {
		t.Errorf("a closed run leaves %v, %v", left, err)
	}
}

// TestRunThatDiedHasEnded: its lock is there, and nobody holds it. To ask takes
// nothing from a sweep.
func TestRunThatDiedHasEnded(t *testing.T) {
	state := t.TempDir()
	run, err := NewRun(context.Background(), state)
	if err != nil {
		t.Fatal(err)
	}
	if err := run.lock.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if ended, err := Ended(context.Background(), state, run.ID()); !ended || err != nil {
			t.Errorf("a dead run has not ended: %v, %v", ended, err)
		}
	}
	if swept, err := Sweep(context.Background(), state); err != nil || len(swept.Runs) != 1 {
		t.Errorf("swept = %+v, %v; want the dead run", swept, err)
	}
	if ended, err := Ended(context.Background(), state, "not-an-id"); !ended || err != nil {
		t.Errorf("what is no run has not ended: %v, %v", ended, err)
	}
}

func TestRunOwns(t *testing.T) {
	run := newRun(t)
	elsewhere := t.TempDir()
	mine := filepath.Join(elsewhere, run.ID()[:OwnDigits])
	socket := filepath.Join(elsewhere, run.ID()+".sock")
	stranger := filepath.Join(elsewhere, "stranger")
	for _, path := range []string{mine, socket} {
		if err := run.Own(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{stranger, run.ID(), filepath.Join(mine, "below")} {
		if err := run.Own(path); err == nil {
			t.Errorf("a run owns %s", path)
		}
	}
	for _, dir := range []string{mine, stranger} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	left, _ := os.ReadDir(elsewhere)
	if len(left) != 1 || left[0].Name() != "stranger" {
		t.Errorf("left elsewhere: %v", left)
	}
}

func TestWaitForRunsLockEnds(t *testing.T) {
	state := t.TempDir()
	_, unlock, err := lockRuns(context.Background(), state)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if run, err := NewRun(ctx, state); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", run, err)
	}
	if _, err := Sweep(ctx, state); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// A record is on disk before there is a process, and gone when there is none.
func TestRecordOutlivesTheProcess(t *testing.T) {
	run := newRun(t)
	mark := run.ID() + "/test/1"
	f, err := run.begin(mark, TierSubreaper)
	if err != nil {
		t.Fatal(err)
	}
	boot, namespace, err := system()
	if err != nil {
		t.Fatal(err)
	}
	want := record{
		Boot: boot, Namespace: namespace, Host: run.ID(), Instance: "test/1", Mark: mark, Tier: TierSubreaper,
	}
	if diff := cmp.Diff(want, readRecord(t, f.path)); diff != "" {
		t.Errorf("before the start (-want +got):\n%s", diff)
	}
	if err := f.started(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	self, err := readProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	want.GuardPid, want.GuardStart = os.Getpid(), self.start
	if diff := cmp.Diff(want, readRecord(t, f.path)); diff != "" {
		t.Errorf("after the start (-want +got):\n%s", diff)
	}
	// The tree may end before its start is recorded: then nothing is written.
	if err := errors.Join(f.remove(), f.started(os.Getpid())); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the record stays: %v", err)
	}
}

func readRecord(t *testing.T, path string) record {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecordStaysInItsDirectory(t *testing.T) {
	run := newRun(t)
	for _, mark := range []string{"", run.ID(), run.ID() + "/", "0/test/1", "../" + run.ID() + "/1"} {
		if f, err := run.begin(mark, TierSubreaper); err == nil {
			t.Errorf("%q: %s", mark, f.path)
		}
	}
	f, err := run.begin(run.ID()+"/../../x/1", TierSubreaper)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(f.path) != run.dir {
		t.Errorf("record at %s", f.path)
	}
	if err := f.remove(); err != nil {
		t.Error(err)
	}
}

// What cannot be recorded is not started.
func TestNothingStartsWithoutARecord(t *testing.T) {
	needTier(t, TierSubreaper)
	run := newRun(t)
	g := open(t, TierSubreaper, run)
	if err := os.RemoveAll(run.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(run.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tree, err := g.Spawn(roleCommand(run, "wait"))
	if !errors.Is(err, ErrRecord) {
		t.Errorf("%v, %v", tree, err)
	}
	if left := withMark(run.ID()); len(left) > 0 {
		t.Errorf("started: %v", left)
	}
}
