package clientfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestBackups: a file goes back to the byte after one write or several, a link stays one,
// rights stay; what something else has changed is not put back.
func TestBackups(t *testing.T) {
	dir := t.TempDir()
	real, path := filepath.Join(dir, "real.json"), filepath.Join(dir, "link.json")
	if err := os.WriteFile(real, []byte("one"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, path); err != nil {
		t.Fatal(err)
	}
	b := Backups{Dir: filepath.Join(dir, "state", "clients")}
	write := func(before, after string) {
		t.Helper()
		if err := b.Write(path, []byte(before), []byte(after)); err != nil {
			t.Fatal(err)
		}
	}
	write("one", "two")
	write("two", "three")
	if err := b.Write(path, []byte("two"), []byte("four")); !errors.Is(err, ErrChanged) {
		t.Errorf("a file that was changed meanwhile: %v", err)
	}
	before, ok := b.Before(path, []byte("three"))
	if !ok || string(before) != "one" {
		t.Fatalf("before: %q, %v", before, ok)
	}
	if _, ok := b.Before(path, []byte("changed")); ok {
		t.Error("a file that something else has changed would be put back")
	}
	if err := b.Undo(path, []byte("three"), before); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link: %v, %v", info, err)
	}
	info, err = os.Stat(real)
	if text, _ := os.ReadFile(real); err != nil || info.Mode().Perm() != 0o640 || string(text) != "one" {
		t.Errorf("the file: %v, %v, %q", info, err, text)
	}
	if left, err := os.ReadDir(b.Dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}

	made := filepath.Join(dir, "a", "b", "c.json")
	if err := b.Write(made, nil, []byte("x")); err != nil {
		t.Fatal(err)
	}
	before, ok = b.Before(made, []byte("x"))
	if !ok || before != nil {
		t.Fatalf("before: %q, %v", before, ok)
	}
	if err := b.Undo(made, []byte("x"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folders: %v", err)
	}
}
