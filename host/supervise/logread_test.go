package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// shared is a buffer that is written and read at once.
type shared struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// followLimit is for a machine that is busy with everything else.
const followLimit = 30 * time.Second

func (s *shared) await(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(followLimit); s.String() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("followed %q, want %q", s.String(), want)
		}
	}
}

func writeLog(t *testing.T, dir string, i int, text string) {
	t.Helper()
	if err := os.WriteFile(numbered(filepath.Join(dir, "p.log"), i), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTailLog(t *testing.T) {
	dir := t.TempDir()
	writeLog(t, dir, 2, "1\n2\n")
	writeLog(t, dir, 1, "3\n"+strings.Repeat("x", 3*logBlock)+"\n")
	writeLog(t, dir, 0, "5\n\n7\n")
	long := strings.Repeat("x", 3*logBlock)
	for lines, want := range map[int]string{
		0: "", 1: "7\n", 2: "\n7\n", 3: "5\n\n7\n", 4: long + "\n5\n\n7\n", 5: "3\n" + long + "\n5\n\n7\n",
		7: "1\n2\n3\n" + long + "\n5\n\n7\n", 100: "1\n2\n3\n" + long + "\n5\n\n7\n", -1: "1\n2\n3\n" + long + "\n5\n\n7\n",
	} {
		var out bytes.Buffer
		if err := TailLog(t.Context(), dir, "p", lines, false, &out); err != nil || out.String() != want {
			t.Errorf("%d lines: %d bytes, %v; want %d: %.40q", lines, out.Len(), err, len(want), out.String())
		}
	}
}

func TestTailLogThatIsNotThere(t *testing.T) {
	if err := TailLog(t.Context(), t.TempDir(), "p", 10, false, new(bytes.Buffer)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// follow starts to follow the log of p; the test's end ends it.
func follow(t *testing.T, dir string, lines int) *shared {
	t.Helper()
	out := new(shared)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- TailLog(ctx, dir, "p", lines, true, out) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return out
}

// Followed across rotations, each line comes once, in order: also where the log is
// rotated more than once between two looks.
func TestFollowLogAcrossRotations(t *testing.T) {
	dir := t.TempDir()
	l := &logFile{path: filepath.Join(dir, "p.log"), most: 100}
	defer l.close()
	var want strings.Builder
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	write := func(n int) {
		text := fmt.Sprintf("line %04d", n)
		l.line(at, 1, text)
		fmt.Fprintf(&want, "2026-01-02T03:04:05.000Z #1 %s\n", text)
	}
	out := follow(t, dir, -1)
	n := 0
	for _, burst := range []int{1, 2, 3, 4, 5, 6, 1} { // two lines fill a file, four are kept beside the current one
		for range burst {
			n++
			write(n)
		}
		out.await(t, want.String())
	}
}

func TestFollowBeginsWithTheLastLines(t *testing.T) {
	dir := t.TempDir()
	writeLog(t, dir, 1, "1\n")
	writeLog(t, dir, 0, "2\n3\n")
	out := follow(t, dir, 2)
	out.await(t, "2\n3\n")
	f, err := os.OpenFile(filepath.Join(dir, "p.log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("4\n"); err != nil {
		t.Fatal(err)
	}
	out.await(t, "2\n3\n4\n")
}
