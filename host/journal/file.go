package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

const fileSuffix = ".jsonl"

// What may be wrong with a file that was good.
var (
	errRemoved = errors.New("it has been removed")
	errCut     = errors.New("it is shorter than what was written to it")
)

// file is one file of the journal, open for appending. Its owner's mutex guards it.
type file struct {
	f    *os.File
	fd   int // of f, where the system has such numbers
	path string
	made time.Time
	// looked is when it was last looked at whether the file is still there.
	looked time.Time
	// size counts what was written whole. torn says that part of a line may stand
	// behind it.
	size atomic.Int64
	torn atomic.Bool
}

// lookEvery is how often it is looked at whether the file is still there, and as
// long as it was written: before each line, but not more often. To look costs as much as
// half a line, or more.
const lookEvery = 10 * time.Millisecond

func fileName(host string, seq int) string { return fmt.Sprintf("%s.%06d%s", host, seq, fileSuffix) }

// parseName is the reverse of fileName; false for other files.
func parseName(name string) (host string, seq int, ok bool) {
	rest, isFile := strings.CutSuffix(name, fileSuffix)
	host, digits, dotted := strings.Cut(rest, ".")
	if !isFile || !dotted || !validHost(host) {
		return "", 0, false
	}
	if _, err := fmt.Sscanf(digits, "%d", &seq); err != nil || fileName(host, seq) != name {
		return "", 0, false
	}
	return host, seq, true
}

func validHost(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' {
			return false
		}
	}
	return true
}

// createFile makes a file that nobody else has.
func createFile(path string, now time.Time) (*file, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &file{f: f, fd: int(f.Fd()), path: path, made: now}, nil
}

// append appends all of a line while others do the same; each goes in whole behind
// the one before, for the system keeps them apart. After an error part of it may
// stand there. The mutex is held, shared is enough.
func (f *file) append(line []byte) error {
	n, err := f.appendOnce(line)
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	if err != nil {
		if n > 0 {
			f.torn.Store(true)
		}
		return err
	}
	f.size.Add(int64(n))
	return nil
}

// write appends all of p or nothing. Where what was written of it cannot be taken
// back, the file is torn.
func (f *file) write(p []byte) error {
	n, err := f.f.Write(p)
	if err != nil {
		if n > 0 {
			f.torn.Store(true)
			_ = f.mend()
		}
		return err
	}
	f.size.Add(int64(n))
	return nil
}

// mend takes back what stands behind the last line end: part of a line that could
// not be written whole. Where another line stands behind that part, it stays, and
// readers find the line all the same.
func (f *file) mend() error {
	info, err := f.f.Stat()
	if err != nil {
		return err
	}
	tail := make([]byte, min(info.Size(), maxLine))
	if _, err := f.f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil {
		return err
	}
	end := bytes.LastIndexByte(tail, '\n') + 1
	if end == 0 {
		return errCut
	}
	if err := f.f.Truncate(info.Size() - int64(len(tail)-end)); err != nil {
		return err
	}
	f.torn.Store(false)
	return nil
}

// discard takes a file back that holds nothing.
func (f *file) discard() {
	_ = f.f.Close()
	_ = os.Remove(f.path)
}

func (f *file) close() error { return f.f.Close() }
