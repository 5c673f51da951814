//go:build unix

package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Sockets go to a short private folder whatever TMPDIR is.
func TestC106_LongTMPDIR(t *testing.T) {
	root := t.TempDir()
	for _, n := range []int{60, 90, 93, 120} {
		dir := filepath.Join(root, strings.Repeat("x", max(1, n-len(root)-1)))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Setenv("TMPDIR", dir)
			l := newLauncher(t)
			l.Env = os.Environ()
			launch(t, l, "good")
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Setenv("TMPDIR", filepath.Join(root, "none"))
		if err := TempDirProblem(); err == nil || !strings.Contains(err.Error(), filepath.Join(root, "none")+" does not exist") {
			t.Errorf("%v", err)
		}
	})
	t.Run("no folder", func(t *testing.T) {
		file := filepath.Join(root, "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TMPDIR", file)
		if err := TempDirProblem(); err == nil || !strings.Contains(err.Error(), "is no folder") {
			t.Errorf("%v", err)
		}
	})
	t.Run("not writable", func(t *testing.T) {
		dir := "/proc" // nobody may write here, root neither
		if runtime.GOOS != "linux" {
			t.Skip("needs /proc")
		}
		t.Setenv("TMPDIR", dir)
		if err := TempDirProblem(); err == nil || !strings.Contains(err.Error(), "TMPDIR /proc is not writable") {
			t.Errorf("%v", err)
		}
	})
}

func TestRunBases(t *testing.T) {
	root := t.TempDir()
	base := filepath.Join(root, "drawbridge")
	t.Setenv("XDG_RUNTIME_DIR", root)
	if slices.Contains(RunBases(), base) {
		t.Error("a folder that there is not")
	}
	if err := os.Mkdir(base, 0o700); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(RunBases(), base) {
		t.Errorf("%v", RunBases())
	}
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(RunBases(), base) {
		t.Error("a folder that others can enter")
	}
}

func TestRunDir(t *testing.T) {
	root := t.TempDir()
	if err := os.Chmod(root, 0o700); err != nil {
		t.Fatal(err)
	}
	if base, err := runBase(root); err != nil || base != filepath.Join(root, "drawbridge") {
		t.Errorf("base %q, %v", base, err)
	}
	fallback, err := fallbackBase()
	if err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(root, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(root, strings.Repeat("x", 100))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, xdg := range map[string]string{
		"none": "", "relative": "run", "missing": filepath.Join(root, "none"), "others may enter": open, "long": long,
	} {
		if base, err := runBase(xdg); err != nil || base != fallback {
			t.Errorf("%s: base %q, %v", name, base, err)
		}
	}
	if _, err := openRunDir(long, "h"); !errors.Is(err, ErrRunDir) || !strings.Contains(err.Error(), "the limit is 103") {
		t.Errorf("long: %v", err)
	}
	if _, err := openRunDir(open, "h"); !errors.Is(err, ErrRunDir) || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("others may enter: %v", err)
	}
	link := filepath.Join(root, "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	if _, err := openRunDir(link, "h"); !errors.Is(err, ErrRunDir) {
		t.Errorf("a link: %v", err)
	}
	if os.Geteuid() == 0 {
		foreign := filepath.Join(root, "foreign")
		if err := os.Mkdir(foreign, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(foreign, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if _, err := openRunDir(foreign, "h"); !errors.Is(err, ErrRunDir) || !strings.Contains(err.Error(), "belongs to user 65534") {
			t.Errorf("another's: %v", err)
		}
	}
	run, err := openRunDir(root, "0123456789abcdef")
	if err != nil || run.Path != filepath.Join(root, "0123456789ab") {
		t.Fatalf("%v, %v", run, err)
	}
	if err := os.RemoveAll(run.Path); err != nil {
		t.Fatal(err)
	}
	if err := ensureRunDir(run.Path); err != nil || checkPrivate(run.Path) != nil {
		t.Errorf("made again: %v", err)
	}
	if err := run.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(run.Path); !os.IsNotExist(err) {
		t.Errorf("after close: %v", err)
	}
}
