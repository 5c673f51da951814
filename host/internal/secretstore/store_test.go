package secretstore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestSetKeepsEveryByte(t *testing.T) {
	s := In(t.TempDir())
	for _, value := range []string{"x", "tok\n", "\n", "\x00\xff\r\n", "line\n\nset \nsha256 \n", strings.Repeat("k", MaxValue)} {
		if err := s.Set("A", []byte(value)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Get("A"); err != nil || string(got) != value {
			t.Errorf("set %.20q, got %.20q, %v", value, got, err)
		}
	}
	if _, err := s.Get("B"); !errors.Is(err, ErrNotSet) {
		t.Errorf("a secret that is not there: %v", err)
	}
	if _, err := In(filepath.Join(t.TempDir(), "none")).Get("B"); !errors.Is(err, ErrNotSet) {
		t.Errorf("a store that is not there: %v", err)
	}
}

func TestNamesAndValuesThatCannotBe(t *testing.T) {
	s := In(t.TempDir())
	for _, name := range []string{"", ".", "..", ".hidden", "-flag", "a/b", `a\b`, "a b", "ü", "a\n", strings.Repeat("n", MaxName+1), "a\x00"} {
		if err := s.Set(name, []byte("v")); !errors.Is(err, ErrName) {
			t.Errorf("set %q: %v", name, err)
		}
		if _, err := s.Get(name); !errors.Is(err, ErrName) {
			t.Errorf("get %q: %v", name, err)
		}
		if err := s.Remove(name); !errors.Is(err, ErrName) {
			t.Errorf("remove %q: %v", name, err)
		}
	}
	for _, value := range []string{"", strings.Repeat("k", MaxValue+1)} {
		if err := s.Set("A", []byte(value)); !errors.Is(err, ErrValue) {
			t.Errorf("%d bytes: %v", len(value), err)
		}
	}
	if list, err := s.List(); len(list) > 0 || err != nil {
		t.Errorf("something was kept: %v, %v", list, err)
	}
}

func TestModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes")
	}
	s := In(t.TempDir())
	if err := s.Set("A", []byte("v")); err != nil {
		t.Fatal(err)
	}
	file := s.path("A")
	for path, want := range map[string]os.FileMode{s.dir: 0o700, file: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
	}
	for _, c := range []struct {
		path string
		mode os.FileMode
	}{{file, 0o640}, {file, 0o604}, {file, 0o620}, {s.dir, 0o750}, {s.dir, 0o702}} {
		before, _ := os.Stat(c.path)
		if err := os.Chmod(c.path, c.mode); err != nil {
			t.Fatal(err)
		}
		if v, err := s.Get("A"); !errors.Is(err, ErrOpen) || !strings.Contains(err.Error(), c.path) || v != nil {
			t.Errorf("%s with mode %v: %q, %v", c.path, c.mode, v, err)
		}
		if err := os.Chmod(c.path, before.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.Set("B", []byte("v")); !errors.Is(err, ErrOpen) {
		t.Errorf("a secret was put where others can read it: %v", err)
	}
	if _, err := s.List(); !errors.Is(err, ErrOpen) {
		t.Errorf("list: %v", err)
	}
}

// TestWhatIsNoSecret is an error that names the file, and holds nothing of it.
func TestWhatIsNoSecret(t *testing.T) {
	good := entry{name: "A", set: time.Unix(1e9, 0), value: []byte("the-value")}.text()
	other := entry{name: "B", set: time.Unix(1e9, 0), value: []byte("the-value")}.text()
	cases := map[string][]byte{
		"empty": {}, "foreign": []byte("the-value\n"), "of another name": other, "longer": append(slices.Clone(good), 'x'),
		"changed": bytes.Replace(good, []byte("the"), []byte("teh"), 1), "huge": bytes.Repeat(good, 1+2*maxFile/len(good)),
	}
	for cut := range good {
		cases["cut at "+string(rune('0'+cut%10))+strings.Repeat("+", cut/10)] = good[:cut]
	}
	s := In(t.TempDir())
	if err := s.Set("OTHER", []byte("other-value")); err != nil {
		t.Fatal(err)
	}
	for name, text := range cases {
		if err := os.WriteFile(s.path("A"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		v, err := s.Get("A")
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), s.path("A")) || strings.Contains(err.Error(), "value\n") || v != nil {
			t.Errorf("%s: %q, %v", name, v, err)
		}
		list, err := s.List()
		if !errors.Is(err, ErrDamaged) || len(list) != 1 || list[0].Name != "OTHER" {
			t.Errorf("%s: listed as %v, %v", name, list, err)
		}
	}
	if err := s.Set("A", []byte("again")); err != nil {
		t.Errorf("a damaged secret cannot be set again: %v", err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "notes.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := s.List(); len(list) != 2 || err == nil || !strings.Contains(err.Error(), "notes.txt") {
		t.Errorf("a foreign file: %v, %v", list, err)
	}
}

func TestALinkIsNoSecret(t *testing.T) {
	s := In(t.TempDir())
	if err := s.Set("A", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(s.path("A"), s.path("B")); err != nil {
		t.Skip(err)
	}
	if _, err := s.Get("B"); !errors.Is(err, ErrDamaged) {
		t.Errorf("a link was read: %v", err)
	}
	if err := os.Mkdir(s.path("C"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("C"); !errors.Is(err, ErrDamaged) {
		t.Errorf("a folder was read: %v", err)
	}
}

// TestReadersSeeWholeValues while hosts that share the store set and remove them.
func TestReadersSeeWholeValues(t *testing.T) {
	dir := t.TempDir()
	values := [][]byte{bytes.Repeat([]byte("a"), 5000), bytes.Repeat([]byte("b"), 60000)}
	if err := In(dir).Set("A", values[0]); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for _, v := range values {
		writers.Go(func() {
			for range 30 {
				if err := In(dir).Set("A", v); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		got, err := In(dir).Get("A")
		if err != nil || !bytes.Equal(got, values[0]) && !bytes.Equal(got, values[1]) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, folder, temporary+"*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAWriterThatWasKilledLeavesNothingForLong(t *testing.T) {
	s := In(t.TempDir())
	if err := s.Set("A", []byte("v")); err != nil {
		t.Fatal(err)
	}
	old, fresh := filepath.Join(s.dir, temporary+"1"), filepath.Join(s.dir, temporary+"2")
	for _, path := range []string{old, fresh} {
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * abandoned)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	if list, err := s.List(); len(list) != 1 || err != nil {
		t.Errorf("a file that is being written is listed: %v, %v", list, err)
	}
	if err := s.Set("B", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("what a killed writer left is still there")
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Error("what another writes was removed")
	}
}

func TestListAndRemove(t *testing.T) {
	s := In(t.TempDir())
	before := time.Now().Add(-time.Second)
	for _, name := range []string{"B", "A", "a.b-c_1"} {
		if err := s.Set(name, []byte("value-of-it")); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.List()
	var names []string
	for _, e := range list {
		names = append(names, e.Name)
		if e.Set.Before(before) || e.Set.After(time.Now()) {
			t.Errorf("%s was set at %v", e.Name, e.Set)
		}
	}
	if err != nil || !slices.Equal(names, []string{"A", "B", "a.b-c_1"}) {
		t.Errorf("%v, %v", names, err)
	}
	if err := s.Remove("B"); err != nil {
		t.Error(err)
	}
	if err := s.Remove("B"); !errors.Is(err, ErrNotSet) {
		t.Errorf("removed twice: %v", err)
	}
	if _, err := s.Get("B"); !errors.Is(err, ErrNotSet) {
		t.Errorf("a removed secret: %v", err)
	}
}

// FuzzParse: no text makes a value that was not written as one.
func FuzzParse(f *testing.F) {
	f.Add(entry{name: "A", set: time.Unix(1e9, 0), value: []byte("v")}.text())
	f.Add([]byte(magic + "\nsha256 \n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := parse(text)
		if err != nil {
			return
		}
		again, err := parse(e.text())
		if err != nil || again.name != e.name || !bytes.Equal(again.value, e.value) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// TestAFolderThatIsNone: a link, a file or another user's folder in the folder's place
// gives no secret and takes none, and the error names it.
func TestAFolderThatIsNone(t *testing.T) {
	good := t.TempDir()
	if err := In(good).Set("A", []byte("v")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		put  func(path string) error
		want error
	}{
		"a link": {func(path string) error { return os.Symlink(filepath.Join(good, folder), path) }, ErrDamaged},
		"a file": {func(path string) error { return os.WriteFile(path, []byte("A"), 0o600) }, ErrDamaged},
		"another's folder": {func(path string) error {
			if os.Geteuid() != 0 {
				t.Skip("only root can give folders away")
			}
			return errors.Join(os.Mkdir(path, 0o700), os.Chown(path, 65534, 65534))
		}, ErrOwner},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := In(dir)
			if err := c.put(s.dir); err != nil {
				t.Skip(err)
			}
			_, got := s.Get("A")
			_, listed := s.List()
			for what, err := range map[string]error{"get": got, "list": listed, "set": s.Set("B", []byte("v"))} {
				if err == nil || !errors.Is(err, c.want) && what != "set" || !strings.Contains(err.Error(), s.dir) {
					t.Errorf("%s: %v, want %v with the folder", what, err, c.want)
				}
			}
			if v, err := In(good).Get("B"); err == nil {
				t.Errorf("a secret went where the link leads: %q", v)
			}
		})
	}
}
