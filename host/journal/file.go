package journal

import (
	"errors"
	"fmt"
	"os"
	"strings"
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
	path string
	made time.Time
	// size counts what was written whole. torn says that part of a line stands
	// behind it and could not be taken back.
	size int64
	torn bool
}

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
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &file{f: f, path: path, made: now}, nil
}

// write appends all of p or nothing. What was written of it by a write that failed
// is taken back; where that fails too, the file is torn.
func (f *file) write(p []byte) error {
	n, err := f.f.Write(p)
	if err != nil {
		if n > 0 && f.f.Truncate(f.size) != nil {
			f.torn = true
		}
		return err
	}
	f.size += int64(n)
	return nil
}

// discard takes a file back that holds nothing.
func (f *file) discard() {
	_ = f.f.Close()
	_ = os.Remove(f.path)
}

func (f *file) close() error { return f.f.Close() }
