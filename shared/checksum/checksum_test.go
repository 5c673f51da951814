package checksum

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, dir string, files ...string) []Named {
	t.Helper()
	var out []Named
	for _, file := range files {
		name, text, _ := strings.Cut(file, "=")
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out = append(out, Named{Name: name, Path: path})
	}
	return out
}

func sum(t *testing.T, files []Named) string {
	t.Helper()
	got, err := Files(files)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestFile(t *testing.T) {
	one := write(t, t.TempDir(), "a=text")[0]
	got, err := File(one.Path)
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte("text"))); err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := File(filepath.Dir(one.Path)); !errors.Is(err, ErrNotRegular) || !strings.Contains(err.Error(), filepath.Dir(one.Path)) {
		t.Errorf("a folder: %v", err)
	}
	if _, err := File(one.Path + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestFilesIsWhatItsDocumentationSays(t *testing.T) {
	files := write(t, t.TempDir(), "a.py=A", "lib/b.py=B")
	text := fmt.Sprintf("%x  a.py\n%x  lib/b.py\n", sha256.Sum256([]byte("A")), sha256.Sum256([]byte("B")))
	if got, want := sum(t, files), fmt.Sprintf("%x", sha256.Sum256([]byte(text))); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := exec.LookPath("sha256sum"); err != nil {
		t.Skip("no sha256sum to compare with")
	}
	cmd := exec.Command("sh", "-c", "sha256sum a.py lib/b.py | sha256sum")
	cmd.Dir = filepath.Dir(files[0].Path)
	out, err := cmd.Output()
	if got, _, _ := strings.Cut(string(out), " "); err != nil || got != sum(t, files) {
		t.Errorf("sha256sum says %s, %v", out, err)
	}
}

func TestWhatChangesTheChecksumOfFiles(t *testing.T) {
	files := write(t, t.TempDir(), "a=AB", "b=C")
	was := sum(t, files)
	elsewhere := write(t, t.TempDir(), "a=AB", "b=C")
	if sum(t, elsewhere) != was {
		t.Error("it depends on the folder")
	}
	for name, other := range map[string][]Named{
		"a file's end":    write(t, t.TempDir(), "a=A", "b=BC"),
		"a name":          {{Name: "c", Path: files[0].Path}, files[1]},
		"the order":       {files[1], files[0]},
		"one file less":   files[:1],
		"one twice":       {files[0], files[1], files[1]},
		"the other's":     {{Name: "a", Path: files[1].Path}, {Name: "b", Path: files[0].Path}},
		"another content": write(t, t.TempDir(), "a=AB", "b=c"),
	} {
		if sum(t, other) == was {
			t.Errorf("%s does not change it", name)
		}
	}
	if _, err := Files(nil); !errors.Is(err, ErrNoFiles) {
		t.Errorf("no files: %v", err)
	}
	if _, err := Files(append(files, Named{Name: "x", Path: files[0].Path + "x"})); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one is missing: %v", err)
	}
}
