package artifact

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// locked runs f while no other process, and no other goroutine, changes what is
// kept. It takes as long as reading a folder and removing a few files.
func (s *Store) locked(f func() error) error {
	file, err := s.create(s.path(lockFile, ""), 0)
	if err != nil {
		return fmt.Errorf("artifacts: %w", err)
	}
	defer func() { _ = file.Close() }() // which gives up the lock
	err = windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, new(windows.Overlapped))
	if err != nil {
		return fmt.Errorf("artifacts: lock: %w", err)
	}
	return f()
}
