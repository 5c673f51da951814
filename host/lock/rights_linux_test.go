package lock

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// TestUnreadable: a lock file that may not be read is an error that names it, and not
// one that is missing.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "providers.lock.hcl")
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755), os.WriteFile(path, sample().Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err != nil {
		t.Fatalf("with rights: %v", err)
	}
	hosttest.AsNobody(t, func() {
		if f, err := Load(path); !errors.Is(err, ErrInvalid) || f != nil || !strings.Contains(err.Error(), path) {
			t.Errorf("Load = %v, %v; want ErrInvalid with the file", f, err)
		}
	})
}
