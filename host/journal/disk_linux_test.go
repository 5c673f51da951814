package journal

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a disk of that many bytes, or skips the test.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestDiskFull: nothing begins while a line cannot be written whole; what ended then
// is written when there is room again, and no line is torn.
func TestDiskFull(t *testing.T) {
	disk := smallDisk(t, "size=256k")
	var log bytes.Buffer
	j := open(t, Options{Dir: filepath.Join(disk, Folder), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	flying := entry(j)
	must(t, j.Begin(flying))
	ballast := filepath.Join(disk, "ballast")
	must(t, os.WriteFile(ballast, make([]byte, 64<<10), 0o600))
	var err error
	begun := 1
	for ; begun < 10_000; begun++ {
		e := entry(j)
		if err = j.Begin(e); err != nil {
			break
		}
		if err := j.End(e, good); err != nil {
			break
		}
	}
	if err == nil {
		err = j.Begin(entry(j)) // the disk was full at an end
	}
	var u *Unwritable
	if !errors.As(err, &u) || !errors.Is(err, syscall.ENOSPC) || err.Error() != "the journal cannot be written: the disk is full" {
		t.Fatalf("begin on a full disk: %v", err)
	}
	if err := j.End(flying, good); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("end on a full disk: %v", err)
	}
	for range 3 {
		if err := j.Refuse(entry(j), End{Outcome: "denied"}); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("refuse on a full disk: %v", err)
		}
	}
	must(t, os.Remove(ballast))
	last := entry(j)
	must(t, j.Begin(last), j.End(last, good))
	lines := kinds(t, j.opts.Dir)
	if slices.Contains(lines, "bad") {
		t.Error("there is a line that was torn")
	}
	for _, want := range []string{"call 1 ok", "gap 3", "end " + short(last.ID) + " ok"} {
		if !slices.Contains(lines, want) {
			t.Errorf("the last lines are %q, want %q among them", lines[len(lines)-6:], want)
		}
	}
	if failed, well := strings.Count(log.String(), "cannot be written"), strings.Count(log.String(), "written again"); failed != 1 || well != 1 {
		t.Errorf("%d failures and %d recoveries in the log, want one of each:\n%s", failed, well, &log)
	}
}

// TestReadOnlyDisk: the same where the file system turns read-only.
func TestReadOnlyDisk(t *testing.T) {
	disk := smallDisk(t, "size=1m")
	must(t, unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	j := open(t, Options{Dir: filepath.Join(disk, Folder)})
	if err := j.Begin(entry(j)); err == nil || err.Error() != "the journal cannot be written: its file system is read-only" {
		t.Fatalf("begin: %v", err)
	}
	must(t, unix.Mount("", disk, "", unix.MS_REMOUNT, ""))
	e := entry(j)
	must(t, j.Begin(e), j.End(e, good))
	equal(t, "lines", kinds(t, j.opts.Dir), []string{"file 1", "begin 2", "end 2 ok"})
	// Also the index, which is read all the same.
	must(t, j.Close(), unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	x := index(t, IndexOptions{Dir: j.opts.Dir})
	equal(t, "rows", brief(calls(t, x, Filter{})), []string{"2 ok"})
}

// limitEnv has TestFileLimit run under the limit, which holds for a whole process.
const limitEnv = "JOURNAL_TEST_FILE_LIMIT"

// TestFileLimit: a file that may not grow is followed by another.
func TestFileLimit(t *testing.T) {
	if os.Getenv(limitEnv) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFileLimit$")
		cmd.Env = append(os.Environ(), limitEnv+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	var was unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &was))
	must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 2000, Max: was.Max}))
	var failed []error
	written := 0
	for range 20 {
		if err := j.Refuse(entry(j), End{Outcome: "denied"}); err != nil {
			failed = append(failed, err)
		} else {
			written++
		}
	}
	if len(failed) == 0 || failed[0].Error() != "the journal cannot be written: its file may not grow any more" {
		t.Fatalf("failures: %v", failed)
	}
	lines := kinds(t, dir)
	calls, missed := 0, 0
	for _, l := range lines {
		if strings.HasPrefix(l, "call") {
			calls++
		}
		if l == "gap 1" {
			missed++
		}
	}
	if slices.Contains(lines, "bad") || calls != written || missed < len(failed)-1 || j.seq < 3 {
		t.Errorf("%d calls of %d, %d gaps of %d, in %d files: %q", calls, written, missed, len(failed), j.seq, lines)
	}
}

// TestManyAtATimeOnAFullDisk: of many that write when there is no room for a whole
// line, each that was told of no error has its line, and no other.
func TestManyAtATimeOnAFullDisk(t *testing.T) {
	disk := smallDisk(t, "size=128k")
	j := open(t, Options{Dir: filepath.Join(disk, Folder)})
	const callers = 16
	var (
		all     sync.WaitGroup
		mu      sync.Mutex
		written []string
		failed  atomic.Int64
	)
	for range callers {
		all.Go(func() {
			for range 100 {
				e := entry(j)
				if j.Refuse(e, good) != nil {
					failed.Add(1)
					continue
				}
				mu.Lock()
				written = append(written, e.ID)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if failed.Load() == 0 || len(written) < 100 {
		t.Fatalf("%d written, %d failed: the disk was not full, or always", len(written), failed.Load())
	}
	ids, _ := stands(t, j.opts.Dir)
	for _, id := range written {
		if ids["call "+id] != 1 {
			t.Errorf("%s is there %d times", id, ids["call "+id])
		}
		delete(ids, "call "+id)
	}
	for id := range ids {
		t.Errorf("%s is there and was told to have failed", id)
	}
}
