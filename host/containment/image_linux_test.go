package containment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func digest(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func newImages(t *testing.T) *Images {
	t.Helper()
	images := NewImages(t.TempDir())
	t.Cleanup(func() {
		if err := images.Close(); err != nil {
			t.Error(err)
		}
	})
	return images
}

// What was hashed is what runs, whatever becomes of the file.
func TestSealedImageRuns(t *testing.T) {
	eachTier(t, func(t *testing.T, g *Guarded, run *Run) {
		path := filepath.Join(t.TempDir(), "plugin")
		if err := copyFile(path, "/proc/self/exe"); err != nil {
			t.Fatal(err)
		}
		want := digest(t, path)
		images := newImages(t)
		sealed, err := images.Seal(path, strings.ToUpper(want))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("another program"), 0o700); err != nil {
			t.Fatal(err)
		}
		_, out := spawnRole(t, g, run, "show", func(c *Command) { *c = sealed.In(*c) })
		var b birth
		if err := json.Unmarshal([]byte(line(t, out)), &b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.Executable, "memfd:plugin") {
			t.Errorf("what runs is %s", b.Executable)
		}
		for number, file := range b.Files {
			if strings.Contains(file, "memfd:") {
				t.Errorf("the plugin has the image open as %s", number)
			}
		}
		if sealed.SHA256() != want {
			t.Errorf("sha256 %s", sealed.SHA256())
		}
	})
}

func TestSealedImageCannotBeChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	sealed, err := newImages(t).Seal(path, digest(t, path))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sealed.memory.WriteAt([]byte("x"), 0); !errors.Is(err, syscall.EPERM) {
		t.Errorf("write: %v", err)
	}
	if err := sealed.memory.Truncate(0); !errors.Is(err, syscall.EPERM) {
		t.Errorf("truncate: %v", err)
	}
	if err := sealed.memory.Truncate(100); !errors.Is(err, syscall.EPERM) {
		t.Errorf("grow: %v", err)
	}
}

// One copy serves every start, also of those who ask at once.
func TestOneImageForEachChecksum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := digest(t, path)
	images := newImages(t)
	first, err := images.Seal(path, want)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 10 {
		wait.Go(func() {
			if again, err := images.Seal(path, want); again != first || err != nil {
				t.Errorf("%p is not %p, %v", again, first, err)
			}
		})
	}
	wait.Wait()
}

func TestWhatIsNotSealed(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text, script := write("text", "text"), write("script", "#!/bin/sh\n")
	images := newImages(t)
	other := strings.Repeat("0", 64)
	_, err := images.Seal(text, other)
	var mismatch *MismatchError
	if !errors.As(err, &mismatch) || mismatch.Want != other || mismatch.Got != digest(t, text) {
		t.Errorf("another checksum: %v", err)
	}
	for _, part := range []string{text, other, digest(t, text)} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}
	if _, err := images.Seal(script, digest(t, script)); !errors.Is(err, ErrScript) {
		t.Errorf("a script: %v", err)
	}
	if _, err := images.Seal(filepath.Join(dir, "nothing"), other); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for _, want := range []string{"", "abc", strings.Repeat("x", 64), other + "00"} {
		if _, err := images.Seal(text, want); err == nil || errors.As(err, &mismatch) {
			t.Errorf("%q: %v", want, err)
		}
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := images.Seal(fifo, other); err == nil {
		t.Error("a pipe was sealed")
	}
	// A wrong file is not remembered for the right one.
	if _, err := images.Seal(write("later", "later"), digest(t, filepath.Join(dir, "later"))); err != nil {
		t.Error(err)
	}
}

// Where there is no memory for it, the image is a file that runs just as well.
func TestImageInAFile(t *testing.T) {
	needTier(t, TierSubreaper)
	run := newRun(t)
	g := open(t, TierSubreaper, run)
	images := newImages(t)
	source, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	want := digest(t, "/proc/self/exe")
	sealed, err := images.fileImage("plugin", want, source)
	if err != nil {
		t.Fatal(err)
	}
	tree, _ := spawnRole(t, g, run, "exit7", func(c *Command) { *c = sealed.In(*c) })
	await(t, tree)
	if tree.Exit().Code != 7 {
		t.Errorf("exit %+v", tree.Exit())
	}
	if err := sealed.close(); err != nil {
		t.Error(err)
	}
	if _, err := images.fileImage("plugin", want, strings.NewReader("text")); !errors.As(err, new(*MismatchError)) {
		t.Errorf("another checksum: %v", err)
	}
	if left, _ := os.ReadDir(images.dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
