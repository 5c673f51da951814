package containment

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// Where runs are kept, under the state dir:
//
//	runs/runs.lock       held while a run is created and while dead ones are swept
//	runs/ID.lock         held by the run's host for as long as it lives
//	runs/ID/run.json     what it owns elsewhere: sockets
//	runs/ID/SLUG-N.json  one record for each instance that may have processes
const (
	runsDir     = "runs"
	runsLock    = "runs.lock"
	runFile     = "run.json"
	lockSuffix  = ".lock"
	newSuffix   = ".new"
	recordsGlob = "*.json"
)

// runsLockWait bounds the wait for runs.lock. Who holds it writes a few files, or
// sweeps, which sweepLimit bounds.
const (
	runsLockWait  = 30 * time.Second
	runsLockRetry = 10 * time.Millisecond
)

// OwnDigits is how much of a run's id is in the names of what it owns: enough that
// two never meet, short enough for the path of a socket.
const OwnDigits = 12

// Run is one run of a host, from its start to its end. Several may share a state
// dir. Its lock tells the others that it lives; the records below it say what it
// has started, so that a later host can end what outlived it.
type Run struct {
	id, dir         string
	boot, namespace string
	lock            *flock.Flock

	mu    sync.Mutex
	owned []string
}

// runInfo is the content of run.json.
type runInfo struct {
	ID    string   `json:"host_id"`
	Owned []string `json:"owned,omitempty"`
}

// NewRun creates a run in a state dir: a random 128-bit id, and a lock that is held
// until Close.
func NewRun(ctx context.Context, stateDir string) (*Run, error) {
	boot, namespace, err := system()
	if err != nil {
		return nil, err
	}
	runs, unlock, err := lockRuns(ctx, stateDir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	r := &Run{id: newID(), boot: boot, namespace: namespace}
	r.dir = filepath.Join(runs, r.id)
	if err := r.create(); err != nil {
		return nil, errors.Join(fmt.Errorf("create a run: %w", err), r.Close())
	}
	return r, nil
}

// newID is a random 128-bit id.
func newID() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}

// create makes what belongs to the run. The lock comes last: who finds a directory
// without a lock while holding runs.lock has found a run that never began.
func (r *Run) create() error {
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		return err
	}
	if err := (runInfo{ID: r.id}).write(r.dir); err != nil {
		return err
	}
	path := r.dir + lockSuffix
	first := path + newSuffix
	if runtime.GOOS == "windows" { // an open file cannot be renamed there; runs.lock is enough
		first = path
	}
	r.lock = flock.New(first)
	locked, err := r.lock.TryLock()
	if err != nil {
		return err
	}
	if !locked {
		return fmt.Errorf("%s is locked by another", first)
	}
	if first == path {
		return nil
	}
	return os.Rename(first, path) // the lock is on the file, not on its name
}

// ID is the host's id: 32 hexadecimal digits, never used again.
func (r *Run) ID() string { return r.id }

// Own says that a file or a directory outside of the state dir, such as the host's
// sockets, belongs to the run: Close removes it, or a later sweep. Its name must
// begin with the first OwnDigits digits of the run's id. Call it before anything is
// made there that must not stay.
func (r *Run) Own(path string) error {
	if !filepath.IsAbs(path) || !ownName(path, r.id) {
		return fmt.Errorf("%s cannot be of the run %s", path, r.id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	info := runInfo{ID: r.id, Owned: append(slices.Clone(r.owned), path)}
	if err := info.write(r.dir); err != nil {
		return fmt.Errorf("run %s: %w", r.id, err)
	}
	r.owned = info.Owned
	return nil
}

// ownName is asked again before a removal: the path comes from a file then.
func ownName(path, id string) bool { return strings.HasPrefix(filepath.Base(path), id[:OwnDigits]) }

// removeOwned removes what a run owned outside of the state dir.
func removeOwned(paths []string, id string) error {
	var errs []error
	for _, path := range paths {
		if filepath.IsAbs(path) && ownName(path, id) {
			errs = append(errs, os.RemoveAll(path)) // does not follow a link
		}
	}
	return errors.Join(errs...)
}

func (i runInfo) write(dir string) error {
	text, err := json.Marshal(i)
	if err != nil {
		return err
	}
	return writeSynced(filepath.Join(dir, runFile), text)
}

// Close ends the run: what it kept is removed, and its lock with it. Records of
// trees that are not empty stay, and so does the run, for a later sweep.
func (r *Run) Close() error {
	r.mu.Lock()
	errs := []error{removeOwned(r.owned, r.id)}
	r.mu.Unlock()
	records, err := filepath.Glob(filepath.Join(r.dir, recordsGlob))
	errs = append(errs, err)
	if len(records) <= 1 { // run.json
		errs = append(errs, os.RemoveAll(r.dir))
		if r.lock != nil {
			errs = append(errs, removeIfThere(r.dir+lockSuffix), removeIfThere(r.dir+lockSuffix+newSuffix))
		}
	}
	if r.lock != nil {
		errs = append(errs, r.lock.Close())
	}
	return errors.Join(errs...)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// lockRuns takes runs.lock, and makes what it lies in.
func lockRuns(ctx context.Context, stateDir string) (runs string, unlock func(), err error) {
	runs = filepath.Join(stateDir, runsDir)
	if err := os.MkdirAll(runs, 0o700); err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, runsLockWait)
	defer cancel()
	lock := flock.New(filepath.Join(runs, runsLock))
	if _, err := lock.TryLockContext(ctx, runsLockRetry); err != nil {
		return "", nil, fmt.Errorf("wait for %s: %w", lock.Path(), err)
	}
	return runs, func() { _ = lock.Close() }, nil
}

// splitMark splits a mark into the host's id and the rest.
func splitMark(mark string) (host, instance string) {
	host, instance, _ = strings.Cut(mark, "/")
	return host, instance
}

// Ended says whether a run has ended in this state dir, however it did: nobody holds
// its lock. It waits for who creates a run or sweeps.
func Ended(ctx context.Context, stateDir, id string) (bool, error) {
	if !isID(id) {
		return true, nil // no run has such an id
	}
	runs, unlock, err := lockRuns(ctx, stateDir)
	if err != nil {
		return false, err
	}
	defer unlock()
	lock := flock.New(filepath.Join(runs, id)+lockSuffix, flock.SetFlag(os.O_RDONLY))
	locked, err := lock.TryLock()
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	_ = lock.Close()
	return locked, err
}
