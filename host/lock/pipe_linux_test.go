package lock

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestALockFileIsNoPipe: a host that read one anew would wait for ever, and not end
// when it is told to.
func TestALockFileIsNoPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.lock.hcl")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := Load(path)
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("error %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for a pipe")
	}
}
