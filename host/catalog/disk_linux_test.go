package catalog

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestWhatIsNoFileIsNotRead: to open a pipe might never return, and a file may be made as
// large as one likes.
func TestWhatIsNoFileIsNotRead(t *testing.T) {
	for name, c := range map[string]struct {
		put  func(path string) error
		says string
	}{
		"a pipe": {func(path string) error { return syscall.Mkfifo(path, 0o600) }, errNoRegular.Error()},
		"a file without end": {func(path string) error {
			if err := os.WriteFile(path, []byte(head(id(1))), 0o600); err != nil {
				return err
			}
			return os.Truncate(path, maxFile+1)
		}, errFileSize.Error()},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, id(1)+".json")
		if err := c.put(path); err != nil {
			t.Fatal(err)
		}
		s, log := keeper(t, dir, withIdentity("p", id(1)))
		if s.Snapshot().Known("p") || !strings.Contains(log.String(), c.says) || !strings.Contains(log.String(), path) {
			t.Errorf("%s: known %v: %s", name, s.Snapshot().Known("p"), log)
		}
		put(t, s, "p", named("a"))
		if again, _ := keeper(t, dir, withIdentity("p", id(1))); !again.Snapshot().Known("p") {
			t.Errorf("%s: it was not made anew", name)
		}
	}
}
