package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// stands reads all files of a folder as readers do: what lines there are, and how
// many bytes hold none.
func stands(t *testing.T, dir string) (ids map[string]int, damaged int64) {
	t.Helper()
	ids = map[string]int{}
	paths, _ := filepath.Glob(filepath.Join(dir, "*"+fileSuffix))
	for _, path := range paths {
		f, err := os.Open(path)
		must(t, err)
		_, rest, err := readLines(f, 0, seen{
			line: func(_ int64, r record) error {
				switch {
				case r.Begin != nil:
					ids["begin "+r.Begin.ID]++
				case r.End != nil:
					ids["end "+r.End.ID]++
				case r.Call != nil:
					ids["call "+r.Call.ID]++
				}
				return nil
			},
			damage: func(d damage) error { damaged += d.size; return nil },
		})
		must(t, err, f.Close())
		damaged += rest
	}
	return ids, damaged
}

// TestManyAtATime: lines of callers that write at the same time, over many files,
// are all there and whole, each file has the begins that were open when it was made,
// and none is open in the end.
func TestManyAtATime(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	j.segment = 16 << 10
	const callers, each = 16, 100
	callAtOnce(t, j, callers, each)
	if n := len(j.open.all); n != 0 {
		t.Errorf("%d calls are open", n)
	}
	if n := len(j.open.spare); n == 0 || n > maxSpare {
		t.Errorf("%d spare entries, want 1 to %d", n, maxSpare)
	}
	must(t, j.Close())
	ids, damaged := stands(t, dir)
	if damaged != 0 {
		t.Errorf("%d bytes are no line", damaged)
	}
	for n := 1; n <= callers*each; n++ {
		id := fmt.Sprintf("%s-%d", testHost[:idDigits], n)
		if begins, ends := ids["begin "+id], ids["end "+id]; begins == 0 || ends != 1 {
			t.Errorf("call %d has %d begins and %d ends", n, begins, ends)
		}
	}
	if j.seq < 10 {
		t.Errorf("%d files, want many", j.seq)
	}
	// What an end needs stands in its own file or is repeated there.
	paths, _ := filepath.Glob(filepath.Join(dir, "*"+fileSuffix))
	for _, path := range paths {
		begun := map[string]bool{}
		f, err := os.Open(path)
		must(t, err)
		_, _, err = readLines(f, 0, seen{damage: func(damage) error { return nil }, line: func(_ int64, r record) error {
			if r.Begin != nil {
				begun[r.Begin.ID] = true
			}
			if r.End != nil && !begun[r.End.ID] {
				return fmt.Errorf("%s ends before it begins", r.End.ID)
			}
			return nil
		}})
		must(t, err, f.Close())
	}
}

// TestMend: part of a line at the end of a file is taken back, and part of one that
// has another line behind it costs that line nothing.
func TestMend(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	a, b, c := entry(j), entry(j), entry(j)
	must(t, j.Refuse(a, good))
	part := []byte(`{"call":{"id":"x-9","time":"20`)
	tear := func() {
		_, err := j.file.f.Write(part)
		must(t, err)
		j.file.torn.Store(true)
	}
	tear()
	must(t, j.Refuse(b, good)) // takes the part back first
	equal(t, "lines", kinds(t, dir), []string{"file 1", "call 1 ok", "call 2 ok"})
	tear()
	j.file.torn.Store(false) // one that writes at the same time has not heard of it
	must(t, j.Refuse(c, good))
	j.file.torn.Store(true)
	must(t, j.Refuse(entry(j), good))
	ids, damaged := stands(t, dir)
	for _, want := range []string{a.ID, b.ID, c.ID} {
		if ids["call "+want] != 1 {
			t.Errorf("%s is there %d times", want, ids["call "+want])
		}
	}
	if damaged != int64(len(part)) {
		t.Errorf("%d bytes are no line, want the %d of the part", damaged, len(part))
	}
	if j.seq != 1 {
		t.Errorf("%d files, want one: it could be mended", j.seq)
	}
}

// TestNothingBetweenLineAndNote: no file is made between the line of a begin and the
// note that the call is in flight, or the file would not repeat it.
func TestNothingBetweenLineAndNote(t *testing.T) {
	j := open(t, Options{Dir: t.TempDir()})
	e := entry(j)
	must(t, j.Refuse(e, good)) // looks at the file
	l := newLine()
	defer l.free()
	l.call(e, good)
	noted := false
	for !noted {
		must(t, j.Refuse(e, good))
		j.easy(l.bytes, func() {
			noted = true
			if j.mu.TryLock() {
				j.mu.Unlock()
				t.Error("a file can be made before the note")
			}
		})
	}
}
