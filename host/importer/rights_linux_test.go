package importer

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// TestRights: what this user may not read is not imported, and what he may not write is not
// written, though he might put another file in its place.
func TestRights(t *testing.T) {
	dir := t.TempDir()
	closed, theirs := filepath.Join(dir, "closed.json"), filepath.Join(dir, "theirs.hcl")
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777),
		os.WriteFile(closed, []byte(oneServer), 0o600), os.WriteFile(theirs, []byte("# theirs\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	target := target(t)
	target.File = theirs
	m := merged(t, target, oneServer)
	var read, write error
	hosttest.AsNobody(t, func() {
		_, read = ReadFile(closed, forTests)
		_, _, write = m.Apply()
	})
	if read == nil || !strings.Contains(read.Error(), "closed.json: it may not be read by this user") {
		t.Errorf("what may not be read: %v", read)
	}
	if write == nil || !strings.Contains(write.Error(), "theirs.hcl: it may not be written by this user") {
		t.Errorf("what may not be written: %v", write)
	}
	if now, err := os.ReadFile(theirs); err != nil || !bytes.Equal(now, []byte("# theirs\n")) {
		t.Errorf("it is now %q, %v", now, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".drawbridge-*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := target.store().Get("one.TOKEN"); err == nil {
		t.Error("the secret is kept")
	}
}
