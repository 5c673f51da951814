package supervise

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestALogIsNoPipe: a server runs as the same user, and can put a pipe where the log
// of another will be. That one starts all the same, and `logs` ends.
func TestALogIsNoPipe(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "files.log")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan [2]error, 1)
	go func() {
		_, written := new(logs).acquire(dir, "files")
		_, _, read := openLog(path)
		ended <- [2]error{written, read}
	}()
	select {
	case errs := <-ended:
		if !errors.Is(errs[0], errNoLog) || !errors.Is(errs[1], errNoLog) {
			t.Errorf("errors %v", errs)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for a pipe")
	}
}
