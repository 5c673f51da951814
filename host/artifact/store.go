package artifact

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Why there is no artifact.
var (
	// ErrNotFound: there is none of this id for this principal. Whether it is
	// another's, has expired or never was is not told.
	ErrNotFound = errors.New("no such artifact")
	// ErrQuota: it alone is larger than all artifacts together may be.
	ErrQuota = errors.New("larger than the quota of artifacts")
	// ErrDamaged: its bytes are not those of its record.
	ErrDamaged = errors.New("artifact is damaged")
)

const (
	dataEnding   = ".bin"
	recordEnding = ".json"
	partEnding   = ".part"
	lockFile     = "lock"
	// abandonedAfter is how old a file must be that belongs to no record before it
	// counts as left behind: nobody writes one artifact for so long.
	abandonedAfter = time.Hour
	// mostArtifacts bounds how many are kept at a time, of whatever size: each new one has
	// a look at all.
	mostArtifacts = 10_000
	// sweepEvery is how often Run looks for what has expired, at most.
	sweepEvery = 10 * time.Minute
)

// Origin says what an artifact is part of the result of.
type Origin struct {
	// Principal owns it: nobody else may read it.
	Principal string `json:"principal"`
	Project   string `json:"project,omitempty"`
	Provider  string `json:"provider"`
	Tool      string `json:"tool"`
	// Digest is that of the tool's definition, Call the journal's id of the call.
	Digest string `json:"digest"`
	Call   string `json:"call"`
}

// Record is what is known of an artifact.
type Record struct {
	ID string `json:"id"`
	// Size is in bytes, SHA256 in hexadecimal, of what a reader reads.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// MIME is the type as the server gave it, or what its kind of content implies.
	MIME string `json:"mime"`
	// Text says that it is valid UTF-8 which stood in a result as text.
	Text    bool      `json:"text"`
	Origin  Origin    `json:"origin"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// Options says where artifacts are kept and how many.
type Options struct {
	// Dir is the folder, made (0700) where there is none.
	Dir string
	// Quota is the most bytes of all together; TTL how long one is kept.
	Quota int64
	TTL   time.Duration
	// Now is the clock, nil for the system's.
	Now    func() time.Time
	Logger *slog.Logger
}

// Store keeps artifacts in a folder. It is safe for concurrent use, also by
// several processes.
type Store struct {
	opts Options
	// most is how many there may be, mostArtifacts but in tests.
	most int
}

// Open prepares the folder and removes what has expired.
func Open(opts Options) (*Store, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("artifacts: %w", err)
	}
	s := &Store{opts: opts, most: mostArtifacts}
	if err := s.Sweep(); err != nil {
		return nil, err
	}
	return s, nil
}

// Run removes what expires until ctx ends.
func (s *Store) Run(ctx context.Context) {
	every := time.NewTicker(min(sweepEvery, max(s.opts.TTL/2, time.Second)))
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			if err := s.Sweep(); err != nil {
				s.opts.Logger.Warn("expired artifacts could not be removed", "error", err)
			}
		}
	}
}

// Stat returns the record of a principal's artifact. The error is ErrNotFound, or
// that of the disk.
func (s *Store) Stat(principal, id string) (Record, error) {
	r, err := s.read(id)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && (r.Origin.Principal != principal || !s.opts.Now().Before(r.Expires)):
		return Record{}, ErrNotFound
	case err != nil:
		return Record{}, err
	}
	return r, nil
}

// Reader opens a principal's artifact. It can be read to its end even if the
// artifact is removed meanwhile. The errors are Stat's and ErrDamaged.
func (s *Store) Reader(principal, id string) (*os.File, Record, error) {
	r, err := s.Stat(principal, id)
	if err != nil {
		return nil, Record{}, err
	}
	f, err := openOurs(s.path(id, dataEnding))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Record{}, ErrNotFound
	}
	if err != nil {
		return nil, Record{}, fmt.Errorf("artifact %s: %w", id, err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != r.Size {
		f.Close()
		return nil, Record{}, fmt.Errorf("%w: %s", ErrDamaged, id)
	}
	return f, r, nil
}

// List returns the records of a principal's artifacts, the newest first.
func (s *Store) List(principal string) ([]Record, error) {
	all, err := s.All()
	return slices.DeleteFunc(all, func(r Record) bool { return r.Origin.Principal != principal }), err
}

// All returns the records of everyone's artifacts, the newest first.
func (s *Store) All() ([]Record, error) {
	entries, err := os.ReadDir(s.opts.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // without its folder there is none
		return nil, fmt.Errorf("artifacts: %w", err)
	}
	var all []Record
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), recordEnding)
		if !ok {
			continue
		}
		r, err := s.read(id)
		if err != nil || !s.opts.Now().Before(r.Expires) {
			continue // gone meanwhile, expired, or none of ours, which a sweep tells of
		}
		all = append(all, r)
	}
	slices.SortFunc(all, Record.Newer)
	return all, nil
}

// Newer compares records in the order of lists: it is less than 0 where r stands before
// o, which is older, or as old and after it by its id.
func (r Record) Newer(o Record) int {
	return cmp.Or(o.Created.Compare(r.Created), strings.Compare(r.ID, o.ID))
}

// Remove deletes an artifact, whoever owns it.
func (s *Store) Remove(id string) error {
	if _, err := s.read(id); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return ErrNotFound
		}
		return err
	}
	return s.remove(id)
}

// remove takes the record first: without it the artifact is not there.
func (s *Store) remove(id string) error {
	for _, ending := range []string{recordEnding, dataEnding} {
		if err := os.Remove(s.path(id, ending)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("artifacts: %w", err)
		}
	}
	return nil
}

// read reads a record as it stands on the disk.
func (s *Store) read(id string) (Record, error) {
	if !validID(id) {
		return Record{}, fs.ErrNotExist
	}
	f, err := openOurs(s.path(id, recordEnding))
	if err != nil {
		return Record{}, fmt.Errorf("artifact %s: %w", id, err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return Record{}, fmt.Errorf("artifact %s: %w", id, err)
	}
	var r Record
	if err := json.Unmarshal(text, &r); err != nil || r.ID != id {
		return Record{}, fmt.Errorf("%w: %s holds no record of it", ErrDamaged, s.path(id, recordEnding))
	}
	return r, nil
}

// create opens a file of the store, made where there is none, and so is its folder: an
// owner may have removed that.
func (s *Store) create(path string, flag int) (*os.File, error) {
	open := func() (*os.File, error) { return os.OpenFile(path, os.O_CREATE|os.O_RDWR|flag, 0o600) }
	f, err := open()
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(s.opts.Dir, 0o700) == nil {
		return open()
	}
	return f, err
}

// openOurs opens a file of the store. What is no file is none of ours, and opening it
// might not return.
func openOurs(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no regular file", ErrDamaged, path)
	}
	return os.Open(path)
}

func (s *Store) path(id, ending string) string { return filepath.Join(s.opts.Dir, id+ending) }

// idEncoding gives ids that stand in a URI and a file name as they are, on file
// systems that know no case too.
var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

const idLength = 26 // of 128 bits

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime ends the process first
	return idEncoding.EncodeToString(b[:])
}

// validID says whether id is of the form of an id, and so no path.
func validID(id string) bool {
	if len(id) != idLength {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}
