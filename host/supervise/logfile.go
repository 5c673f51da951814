package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// errNoLog is for what stands in the place of a log and is none.
var errNoLog = errors.New("it is no regular file")

const (
	// maxLogFile and logFiles: 10 MiB, five times, the current one included.
	maxLogFile = 10 << 20
	logFiles   = 5
	// rotationLock is held, in the folder of the logs, by who moves the files of one.
	rotationLock = ".rotation"
)

// logs holds the log files of a launcher. A file is open as long as a process
// writes to it.
type logs struct {
	mu   sync.Mutex
	open map[string]*logFile
}

// acquire returns the log of a provider, in dir; release it when the process is gone.
func (l *logs) acquire(dir, slug string) (*logFile, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.open[slug]; f != nil {
		f.users++
		return f, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("log folder: %w", err)
	}
	f := &logFile{path: filepath.Join(dir, slug+".log"), most: maxLogFile, users: 1}
	if err := f.reopen(); err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	if l.open == nil {
		l.open = map[string]*logFile{}
	}
	l.open[slug] = f
	return f, nil
}

func (l *logs) release(slug string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.open[slug]
	if f == nil {
		return
	}
	if f.users--; f.users == 0 {
		delete(l.open, slug)
		f.close()
	}
}

// logFile is a log that several processes of a host write to, and several hosts
// may: every line is one write at the end of the file.
type logFile struct {
	path  string
	most  int64
	users int // of logs.mu

	mu   sync.Mutex
	f    *os.File
	size int64
}

// line writes one line of instance n. A log that cannot be written stops no
// plugin: the line is lost there, and is still in the process's tail.
func (l *logFile) line(at time.Time, n uint64, text string) {
	line := fmt.Appendf(nil, "%s #%d %s\n", at.UTC().Format("2006-01-02T15:04:05.000Z"), n, text)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil || l.size+int64(len(line)) > l.most {
		if err := l.rotate(); err != nil {
			return
		}
	}
	wrote, err := l.f.Write(line)
	l.size += int64(wrote)
	if err != nil {
		_ = l.f.Close()
		l.f = nil
	}
}

// rotate moves the full file out of the way, unless another host has done so. Of
// hosts that find it full at the same moment one moves it: who comes second under
// the lock finds another file in its place, and who does not get the lock writes on
// and comes again with its next line. Nobody waits, for a host may be stopped.
func (l *logFile) rotate() error {
	if l.f == nil {
		return l.reopen()
	}
	lock := flock.New(filepath.Join(filepath.Dir(l.path), rotationLock))
	if mine, err := lock.TryLock(); err == nil && !mine {
		return nil
	}
	// Where the system has no locks, a file may be moved twice: better than a disk
	// that fills up.
	defer func() { _ = lock.Close() }()
	mine, err := l.f.Stat()
	_ = l.f.Close()
	l.f = nil
	if err != nil {
		return err
	}
	if there, err := os.Stat(l.path); err == nil && os.SameFile(mine, there) {
		for i := logFiles - 1; i > 0; i-- {
			if err := os.Rename(numbered(l.path, i-1), numbered(l.path, i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return l.reopen()
}

// numbered is the path of a log that was rotated away i times.
func numbered(path string, i int) string {
	if i == 0 {
		return path
	}
	return fmt.Sprintf("%s.%d", path, i)
}

func (l *logFile) reopen() error {
	// To open what is no file might never return, and the provider would not start.
	if info, err := os.Lstat(l.path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s: %w", l.path, errNoLog)
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return err
	}
	l.f, l.size = f, info.Size()
	return nil
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil {
		_ = l.f.Close()
		l.f = nil
	}
}
