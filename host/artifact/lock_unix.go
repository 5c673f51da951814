//go:build unix

package artifact

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// locked runs f while no other process, and no other goroutine, changes what is
// kept. It takes as long as reading a folder and removing a few files.
func (s *Store) locked(f func() error) error {
	file, err := s.create(s.path(lockFile, ""), 0)
	if err != nil {
		return fmt.Errorf("artifacts: %w", err)
	}
	defer func() { _ = file.Close() }() // which gives up the lock
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("artifacts: lock: %w", err)
		}
		return f()
	}
}
