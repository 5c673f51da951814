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
		if err := b.Write(path, "gate", []byte(before), []byte(after)); err != nil {
			t.Fatal(err)
		}
	}
	write("one", "two")
	write("two", "three")
	if err := b.Write(path, "gate", []byte("two"), []byte("four")); !errors.Is(err, ErrChanged) {
		t.Errorf("a file that was changed meanwhile: %v", err)
	}
	before, ok := b.Before(path, "gate", []byte("three"))
	if !ok || string(before) != "one" {
		t.Fatalf("before: %q, %v", before, ok)
	}
	if _, ok := b.Before(path, "gate", []byte("changed")); ok {
		t.Error("a file that something else has changed would be put back")
	}
	if err := b.Undo(path, "gate", []byte("three"), before); err != nil {
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
	if err := b.Write(made, "gate", nil, []byte("x")); err != nil {
		t.Fatal(err)
	}
	before, ok = b.Before(made, "gate", []byte("x"))
	if !ok || before != nil {
		t.Fatalf("before: %q, %v", before, ok)
	}
	if err := b.Undo(made, "gate", []byte("x"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folders: %v", err)
	}
}

// TestBackupsOfSeveral: of two entries in one file each is taken out by itself, and the
// file goes back to the byte with the last of them, whichever that is.
func TestBackupsOfSeveral(t *testing.T) {
	const original = "{\"mcpServers\": {}, \"x\": 1}"
	for _, order := range [][]string{{"home", "work"}, {"work", "home"}} {
		dir := t.TempDir()
		path := filepath.Join(dir, "mcp.json")
		if err := os.WriteFile(path, []byte(original), 0o600); err != nil {
			t.Fatal(err)
		}
		b := Backups{Dir: filepath.Join(dir, "state")}
		read := func() []byte {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		for _, name := range []string{"home", "work"} {
			now := read()
			after, err := Put("cursor", path, now, Entry{Name: name, Command: "drawbridge", Args: []string{"connect"}})
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Write(path, name, now, after); err != nil {
				t.Fatal(err)
			}
		}
		first, last := order[0], order[1]
		now := read()
		if before, ok := b.Before(path, first, now); ok {
			t.Errorf("with %s alone gone it would be %q", first, before)
		}
		after, err := Take("cursor", path, now, first)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Undo(path, first, now, after); err != nil {
			t.Fatal(err)
		}
		now = read()
		if found, err := Look("cursor", path, now); err != nil || len(found) != 1 || found[0].Name != last {
			t.Errorf("left of two: %v, %v", found, err)
		}
		before, ok := b.Before(path, last, now)
		if !ok || string(before) != original {
			t.Fatalf("before both: %q, %v", before, ok)
		}
		if err := b.Undo(path, last, now, before); err != nil || string(read()) != original {
			t.Errorf("%v: %s", err, read())
		}
		if left, err := os.ReadDir(b.Dir); err != nil || len(left) != 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

// TestReadOnly: a file that may not be written stays, with nothing kept of it and nothing
// beside it.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	b := Backups{Dir: filepath.Join(dir, "state")}
	path := filepath.Join(dir, "its", "mcp.json")
	if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("one"), 0o444)); err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		t.Helper()
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%v, want %v", err, ErrReadOnly)
		}
		text, err := os.ReadFile(path)
		beside, _ := os.ReadDir(filepath.Dir(path))
		if err != nil || string(text) != "one" || len(beside) != 1 {
			t.Errorf("%q, %v; beside it %v", text, err, beside)
		}
	}
	check(b.Write(path, "gate", []byte("one"), []byte("two")))
	if left, err := os.ReadDir(b.Dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	check(b.Undo(path, "gate", []byte("one"), []byte("zero")))
}

// TestTooLarge: a file that no client's is is not read whole first.
func TestTooLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(50<<20), f.Close()); err != nil {
		t.Fatal(err)
	}
	if text, err := Read(path); !errors.Is(err, ErrUnusable) || text != nil {
		t.Errorf("50 MiB: %d bytes, %v", len(text), err)
	}
}
