package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// followEvery is how often a log that is followed is looked at. A person reads it.
const followEvery = 200 * time.Millisecond

// logBlock is read at a time while lines are counted from the end.
const logBlock = 64 << 10

// TailLog writes the last lines of a provider's log in a Launcher's LogDir to w, the
// oldest first, across the files that were rotated away; a negative number means all.
// With follow it goes on with what is added, whichever host adds it, until ctx ends,
// and waits for a log that is not there yet; without, such a log is an error that
// wraps fs.ErrNotExist.
//
// It holds no lock and may run while hosts write. Of a file that was rotated away it
// reads what was in it by then.
func TailLog(ctx context.Context, dir, slug string, lines int, follow bool, w io.Writer) error {
	r := &logReader{path: filepath.Join(dir, slug+".log")}
	files, err := r.openAll()
	if err != nil {
		return err
	}
	defer closeFiles(files)
	if len(files) == 0 && !follow {
		return fmt.Errorf("log of provider %q: %w", slug, &fs.PathError{Op: "open", Path: r.path, Err: fs.ErrNotExist})
	}
	first, err := seekLines(files, lines)
	if err != nil {
		return err
	}
	for i := first; i >= 0; i-- {
		if _, err := io.Copy(w, files[i]); err != nil {
			return err
		}
	}
	if !follow {
		return nil
	}
	if len(files) > 0 {
		r.f = files[0]
	}
	err = r.follow(ctx, w)
	if r.f != nil {
		_ = r.f.Close()
	}
	return err
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// logReader reads a log and the files that it was rotated to.
type logReader struct {
	path string
	f    *os.File // the one that is read, nil before there is one
}

// openAll opens what there is, the newest first. A rotation meanwhile moves files
// away from us, so that one may turn up twice and none is missed.
func (r *logReader) openAll() (files []*os.File, err error) {
	var infos []os.FileInfo
	for i := range logFiles {
		f, info, err := openLog(numbered(r.path, i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			closeFiles(files)
			return nil, err
		}
		twice := false
		for _, other := range infos {
			twice = twice || os.SameFile(info, other)
		}
		if twice {
			_ = f.Close()
			continue
		}
		files, infos = append(files, f), append(infos, info)
	}
	return files, nil
}

func openLog(path string) (*os.File, os.FileInfo, error) {
	if info, err := os.Lstat(path); err != nil {
		return nil, nil, err
	} else if !info.Mode().IsRegular() { // to open it might never return
		return nil, nil, fmt.Errorf("%s: %w", path, errNoLog)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// seekLines places the files so that the last lines follow, and returns the oldest
// that belongs to them; -1 for none.
func seekLines(files []*os.File, lines int) (int, error) {
	for i, f := range files {
		size, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			return 0, err
		}
		at, found, err := lastLinesAt(f, size, lines)
		if err != nil {
			return 0, err
		}
		if _, err := f.Seek(at, io.SeekStart); err != nil {
			return 0, err
		}
		if lines >= 0 {
			if lines -= found; lines <= 0 {
				return i, nil
			}
		}
	}
	return len(files) - 1, nil
}

// lastLinesAt is where the last lines of a file begin, and how many they are; all
// of it for a negative number.
func lastLinesAt(f io.ReaderAt, size int64, lines int) (at int64, found int, err error) {
	if lines < 0 {
		return 0, 0, nil
	}
	if lines == 0 {
		return size, 0, nil
	}
	block := make([]byte, logBlock)
	for end := size; end > 0; {
		start := max(0, end-logBlock)
		piece := block[:end-start]
		if _, err := f.ReadAt(piece, start); err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, err
		}
		for len(piece) > 0 {
			i := bytes.LastIndexByte(piece, '\n')
			if i < 0 {
				break
			}
			// The end of the last line begins no line.
			if at := start + int64(i) + 1; at < size {
				if found++; found == lines {
					return at, found, nil
				}
			}
			piece = piece[:i]
		}
		end = start
	}
	if size > 0 {
		found++
	}
	return 0, found, nil
}

// follow writes what comes after, until ctx ends.
func (r *logReader) follow(ctx context.Context, w io.Writer) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		if err := r.rest(w); err != nil {
			return err
		}
		switch next, err := r.newer(); {
		case err != nil:
			return err
		case next != nil:
			if err := r.rest(w); err != nil { // what came in before it was rotated away
				_ = next.Close()
				return err
			}
			if r.f != nil {
				_ = r.f.Close()
			}
			r.f = next
			continue
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// rest writes what the file has more.
func (r *logReader) rest(w io.Writer) error {
	if r.f == nil {
		return nil
	}
	at, err := r.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if info, err := r.f.Stat(); err == nil && info.Size() < at { // somebody emptied it
		if _, err := r.f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	_, err = io.Copy(w, r.f)
	return err
}

// newer is the file that came after the one that is read, nil while there is none.
func (r *logReader) newer() (*os.File, error) {
	at := logFiles // beyond the oldest: it is rotated away, or there was none
	if r.f != nil {
		info, err := r.f.Stat()
		if err != nil {
			return nil, err
		}
		for i := range logFiles {
			if there, err := os.Stat(numbered(r.path, i)); err == nil && os.SameFile(info, there) {
				at = i
				break
			}
		}
	}
	for i := at - 1; i >= 0; i-- {
		f, info, err := openLog(numbered(r.path, i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if r.f != nil {
			if mine, err := r.f.Stat(); err == nil && os.SameFile(mine, info) {
				_ = f.Close() // a rotation under way: it has moved since
				return nil, nil
			}
		}
		return f, nil
	}
	return nil, nil
}
