package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const lockedText = `
host {
  state_dir  = "state"
  plugin_dir = "plugins"
  LOCKED
}

provider "shop" {
  plugin = "stdio"
  config {
    command = "fakeserver"
    args    = ["--life", "1m", "--log", "shop.log"]
  }
}
`

// TestNothingStartsWithALockFileThatIsNoGood: whatever stands in its place, every command
// that relies on it says so, names it, and starts no server; nothing takes it for a file
// that approves something, or for none. Without locked = true that is so too.
func TestNothingStartsWithALockFileThatIsNoGood(t *testing.T) {
	const name = "providers.lock.hcl"
	write := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	const approved = "version = 1\n\nprovider \"shop\" {\n  tool \"echo\" {\n    digest = \"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"\n  }\n}\n"
	for kind, put := range map[string]func(path string) error{
		"empty": write(""), "half": write(approved[:len(approved)-5]), "foreign": write("{\n  \"lockfileVersion\": 3\n}\n"), "binary": write("\x7fELF\x00\x01"),
		"of a newer version": write(strings.Replace(approved, "= 1", "= 2", 1)),
		"a folder":           func(path string) error { return os.Mkdir(path, 0o700) },
		"a link to nowhere":  func(path string) error { return os.Symlink("nowhere", path) },
		"a link to itself":   func(path string) error { return os.Symlink(name, path) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "db")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(dir) }()
			if err := errors.Join(put(filepath.Join(dir, name)), os.Mkdir(filepath.Join(dir, "plugins"), 0o700)); err != nil {
				t.Fatal(err)
			}
			for _, locked := range []string{"locked = true", "locked = false"} {
				if err := write(strings.Replace(lockedText, "LOCKED", locked, 1))(filepath.Join(dir, "providers.hcl")); err != nil {
					t.Fatal(err)
				}
				for _, words := range []string{"validate", "tools", "call shop echo", "plan", "lock", "serve --stdio", "serve"} {
					cmd := exec.CommandContext(t.Context(), "drawbridge", strings.Fields(words)...)
					cmd.Dir = dir
					cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}
					out, _ := cmd.CombinedOutput()
					if code := cmd.ProcessState.ExitCode(); code != exitError || !strings.Contains(string(out), name) {
						t.Errorf("%s with %s ended with code %d: %s", words, locked, code, out)
					}
				}
			}
			if log, err := os.ReadFile(filepath.Join(dir, "shop.log")); err == nil {
				t.Errorf("a server was started: %s", log)
			}
		})
	}
}
