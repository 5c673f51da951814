package identity

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestGenerationIsNoPipe: a server runs as the same user, and can put a pipe where an
// ordinal stood. The host says so, and does not wait for it.
func TestGenerationIsNoPipe(t *testing.T) {
	dir := t.TempDir()
	if n, err := Generation(dir, "shop", "f"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	path := filepath.Join(dir, generationsFolder, "shop", "1")
	if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := Generation(dir, "shop", "f")
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, errNoFile) {
			t.Errorf("error %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for a pipe")
	}
}
