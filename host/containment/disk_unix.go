//go:build unix

package containment

import (
	"errors"
	"os"
	"syscall"
)

// sigContinue wakes a process that was stopped.
const sigContinue = syscall.SIGCONT

// syncDir makes the names in a directory last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
