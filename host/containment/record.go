package containment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// ErrRecord is why a tree is not started, or was ended at once: what holds of it
// could not be written down, and without that nobody would find what it leaves.
var ErrRecord = errors.New("nothing is started that cannot be written down first")

// record says that an instance may have processes. It is on disk before the first
// of them exists, and until the last is gone.
type record struct {
	Boot      string `json:"boot_id"`
	Namespace string `json:"pid_namespace"`
	Host      string `json:"host_id"`
	Instance  string `json:"instance"`
	Mark      string `json:"mark"`
	Tier      Tier   `json:"tier"`
	// GuardPid and GuardStart are added once there is a guard. Its host's kill may
	// come before: then the mark alone leads to it.
	GuardPid   int    `json:"guard_pid,omitempty"`
	GuardStart uint64 `json:"guard_start,omitempty"`
}

// recordFile is a record on disk. A nil one is none, and all it does is nothing.
type recordFile struct {
	path string

	mu      sync.Mutex
	record  record
	removed bool
}

// begin writes the record of an instance that is about to start.
func (r *Run) begin(mark string, tier Tier) (*recordFile, error) {
	if r == nil {
		return nil, nil
	}
	host, instance := splitMark(mark)
	if host != r.id || instance == "" {
		return nil, fmt.Errorf("mark %q is not of the run %s", mark, r.id)
	}
	f := &recordFile{
		path: filepath.Join(r.dir, strings.ReplaceAll(instance, "/", "-")+".json"),
		record: record{
			Boot: r.boot, Namespace: r.namespace, Host: host, Instance: instance, Mark: mark, Tier: tier,
		},
	}
	return f, f.write()
}

// started adds the guard. Of a tree that has ended meanwhile nothing is written.
func (f *recordFile) started(guard int) error {
	if f == nil {
		return nil
	}
	p, err := readProcess(guard)
	if err != nil && !errors.Is(err, errNoProcess) && !errors.Is(err, ErrUnsupported) {
		return fmt.Errorf("record: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.removed || err != nil {
		return nil
	}
	f.record.GuardPid, f.record.GuardStart = guard, p.start
	return f.write()
}

func (f *recordFile) write() error {
	text, err := json.Marshal(f.record)
	if err != nil {
		return err
	}
	err = writeSynced(f.path, text)
	if errors.Is(err, fs.ErrNotExist) {
		// It is not made again: the run's lock went with it, and another host would
		// take the run for a dead one.
		return fmt.Errorf("%w, and %s is gone: put the state dir back where it was, or restart the host", ErrRecord, filepath.Dir(f.path))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return nil
}

// remove is called when no process of the instance is left.
func (f *recordFile) remove() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed = true
	return removeIfThere(f.path)
}

// writeSynced writes a file so that after a crash it is there, whole: it is
// synced under another name, renamed, and its directory is synced.
func writeSynced(path string, content []byte) error {
	temporary := path + newSuffix
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
