package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"os"
	"slices"
	"strings"
	"time"
)

// Writer takes the bytes of one artifact, which is not there before Commit. One
// goroutine uses it, and calls Commit or Abort.
type Writer struct {
	store  *Store
	record Record
	file   *os.File
	sum    hash.Hash
	err    error
	// spare are artifacts that do not make room for this one: the result that links to it
	// links to them.
	spare []Record
}

// Create begins an artifact. mime is its type; text says that it is UTF-8 text.
func (s *Store) Create(o Origin, mime string, text bool) (*Writer, error) {
	w := &Writer{store: s, sum: sha256.New(), record: Record{ID: newID(), MIME: mime, Text: text, Origin: o}}
	f, err := s.create(s.path(w.record.ID, partEnding), os.O_EXCL)
	if err != nil {
		return nil, fmt.Errorf("artifact: %w", err)
	}
	w.file = f
	return w, nil
}

// Write adds bytes. The error is ErrQuota once there are more than all artifacts
// may have together, or that of the disk; from then on nothing is written.
func (w *Writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	if w.record.Size += int64(len(p)); w.record.Size > w.store.opts.Quota {
		w.err = ErrQuota
		return 0, w.err
	}
	w.sum.Write(p)
	n, err := w.file.Write(p)
	if err != nil {
		w.err = fmt.Errorf("artifact: %w", err)
	}
	return n, w.err
}

// Commit makes room for the artifact, removing the oldest, and puts it there. On
// an error there is none.
func (w *Writer) Commit() (Record, error) {
	if w.err != nil {
		w.Abort()
		return Record{}, w.err
	}
	s := w.store
	w.record.SHA256 = hex.EncodeToString(w.sum.Sum(nil))
	w.record.Created = s.opts.Now().UTC()
	w.record.Expires = w.record.Created.Add(s.opts.TTL)
	err := s.locked(func() error {
		if err := s.makeRoom(w.record.Size, w.spare); err != nil {
			return err
		}
		if err := w.file.Close(); err != nil {
			return err
		}
		if err := os.Rename(s.path(w.record.ID, partEnding), s.path(w.record.ID, dataEnding)); err != nil {
			return err
		}
		return s.writeRecord(w.record)
	})
	if err != nil {
		w.Abort()
		return Record{}, fmt.Errorf("artifact: %w", err)
	}
	return w.record, nil
}

// Abort removes what was written. After a Commit that succeeded it is not called.
func (w *Writer) Abort() {
	_ = w.file.Close() // twice where a Commit has failed
	_ = os.Remove(w.store.path(w.record.ID, partEnding))
	_ = w.store.remove(w.record.ID) // what stays is swept one day
}

func (s *Store) writeRecord(r Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	part := s.path(r.ID, recordEnding+partEnding)
	err = os.WriteFile(part, append(text, '\n'), 0o600)
	if err == nil {
		err = os.Rename(part, s.path(r.ID, recordEnding))
	}
	if err != nil {
		_ = os.Remove(part)
	}
	return err
}

// errSpared is for a part that would cost its result another one.
var errSpared = fmt.Errorf("%w together with the other parts of its result", ErrQuota)

// kept is an artifact on the disk, as far as room is concerned.
type kept struct {
	id    string
	size  int64
	since time.Time
}

// makeRoom removes the oldest artifacts until one of size fits, in bytes and in number.
// Those to be spared stay, and where it does not fit beside them all others do too. The
// lock is held.
func (s *Store) makeRoom(size int64, spare []Record) error {
	entries, err := os.ReadDir(s.opts.Dir)
	if err != nil {
		return err
	}
	var old []kept // those that may go
	total, count := size, 0
	stay, spared := size, 0
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), dataEnding)
		if !ok || !validID(id) || e.IsDir() { // none of ours
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // it is gone by itself
		}
		total, count = total+info.Size(), count+1
		if slices.ContainsFunc(spare, func(r Record) bool { return r.ID == id }) {
			stay, spared = stay+info.Size(), spared+1
		} else {
			old = append(old, kept{id, info.Size(), info.ModTime()})
		}
	}
	if stay > s.opts.Quota || spared >= s.most {
		return errSpared
	}
	slices.SortFunc(old, func(a, b kept) int { return a.since.Compare(b.since) })
	for ; total > s.opts.Quota || count >= s.most; old = old[1:] {
		if err := s.remove(old[0].id); err != nil {
			return err
		}
		s.opts.Logger.Info("artifact removed to make room", "artifact", old[0].id, "bytes", old[0].size)
		total, count = total-old[0].size, count-1
	}
	return nil
}

// Sweep removes what has expired, and what belongs to no artifact and is old.
func (s *Store) Sweep() error {
	return s.locked(func() error {
		entries, err := os.ReadDir(s.opts.Dir)
		if err != nil {
			return fmt.Errorf("artifacts: %w", err)
		}
		var errs []error
		for _, e := range entries {
			if e.IsDir() { // none of ours
				continue
			}
			if id, ok := strings.CutSuffix(e.Name(), recordEnding); ok && validID(id) {
				r, err := s.read(id)
				switch {
				case errors.Is(err, ErrDamaged):
					s.opts.Logger.Warn("artifact removed: its record cannot be read", "artifact", id)
				case err != nil || s.opts.Now().Before(r.Expires):
					continue
				}
				errs = append(errs, s.remove(id))
				continue
			}
			errs = append(errs, s.sweepStray(e))
		}
		return errors.Join(errs...)
	})
}

// sweepStray removes a file that no record names, once it is old.
func (s *Store) sweepStray(e os.DirEntry) error {
	id, _, _ := strings.Cut(e.Name(), ".")
	if !validID(id) { // not of our making
		return nil
	}
	if strings.HasSuffix(e.Name(), dataEnding) {
		if _, err := os.Stat(s.path(id, recordEnding)); err == nil {
			return nil
		}
	}
	info, err := e.Info()
	if err != nil || time.Since(info.ModTime()) < abandonedAfter {
		return nil //nolint:nilerr // it is gone by itself
	}
	return os.Remove(s.path(e.Name(), ""))
}
