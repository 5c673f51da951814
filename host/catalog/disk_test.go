package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// id is an identity of a test's own.
func id(n int) string { return fmt.Sprintf("%064x", n) }

// keeper is a store that keeps its lists in a folder, and what it has logged.
func keeper(t *testing.T, dir string, providers ...Provider) (*Store, *bytes.Buffer) {
	t.Helper()
	log := new(bytes.Buffer)
	s := New(Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(log, nil))}, nil)
	s.Apply(providers)
	return s, log
}

func withIdentity(slug, identity string) Provider {
	return Provider{Slug: slug, Tools: []string{"*"}, Identity: identity}
}

// TestAListOutlivesTheHost: byte for byte, whatever is in it.
func TestAListOutlivesTheHost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "catalog")
	raw := []string{
		`{ "name":"a" , "x": 1.50, "n":9007199254740993 }`,
		`{"name":"b","d":"\u00e9é\ud800","d":2}`,
		`{"name":"c","x":{"a":1,"a":2}}`,
		`[1]`, `"no object"`, `{"no":"name"}`,
	}
	s, log := keeper(t, dir, withIdentity("p", id(1)))
	if s.Snapshot().Known("p") {
		t.Error("a list from nowhere")
	}
	s.Met("p", Server{Era: "legacy", Version: "2025-11-25", Capabilities: json.RawMessage(`{"logging":{}}`)})
	put(t, s, "p", defs(raw...))
	s, again := keeper(t, dir, withIdentity("p", id(1)), withIdentity("q", id(2)))
	for _, l := range s.Snapshot().lists {
		if diff := cmp.Diff(defs(raw...), l.raw); diff != "" {
			t.Error(diff)
		}
	}
	sn := s.Snapshot()
	if mark, known := sn.Instance("p"); !known || mark != "" || sn.Known("q") {
		t.Errorf("p is known: %v, of %q; q is known: %v", known, mark, sn.Known("q"))
	}
	if len(sn.Tools()) != 3 || sn.Tools()[0].Identity != id(1) || sn.Tools()[0].Instance != "" {
		t.Errorf("tools: %+v", sn.Tools())
	}
	if server, ok := s.Server("p"); !ok || server.Era != "legacy" || string(server.Capabilities) != `{"logging":{}}` {
		t.Errorf("server: %+v, %v", server, ok)
	}
	if strings.Contains(log.String()+again.String(), dir) {
		t.Errorf("a warning of nothing: %s%s", log, again)
	}
	if info, err := os.Stat(filepath.Join(dir, id(1)+".json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestAnEmptyListIsAList, also on disk.
func TestAnEmptyListIsAList(t *testing.T) {
	dir := t.TempDir()
	s, _ := keeper(t, dir, withIdentity("p", id(1)))
	put(t, s, "p", nil)
	if s, _ = keeper(t, dir, withIdentity("p", id(1))); !s.Snapshot().Known("p") {
		t.Error("it is not remembered")
	}
}

// TestListsBelongToIdentities: another identity's list is none, and the one before
// comes back with its identity.
func TestListsBelongToIdentities(t *testing.T) {
	dir := t.TempDir()
	s, _ := keeper(t, dir, withIdentity("p", id(1)))
	put(t, s, "p", named("one"))
	s.Apply([]Provider{withIdentity("p", id(2))})
	if s.Snapshot().Known("p") {
		t.Fatal("another server has the list of the one before")
	}
	put(t, s, "p", named("two"))
	s.Apply([]Provider{withIdentity("p", id(1))})
	if diff := cmp.Diff([]string{"p_one"}, exposedNames(s.Snapshot())); diff != "" {
		t.Error(diff)
	}
	if s, _ = keeper(t, dir, withIdentity("other", "")); s.Snapshot().Known("other") {
		t.Error("a provider of no identity has a list")
	}
}

// TestC089_AFileThatIsNotWholeIsNone: it is named, left out and made anew.
func TestC089_AFileThatIsNotWholeIsNone(t *testing.T) {
	whole := func(t *testing.T, dir string) (path string, text []byte) {
		t.Helper()
		s, _ := keeper(t, dir, withIdentity("p", id(1)))
		put(t, s, "p", named("a", "b"))
		path = filepath.Join(dir, id(1)+".json")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return path, text
	}
	for name, spoil := range map[string]func(text []byte) []byte{
		"empty":             func([]byte) []byte { return nil },
		"half":              func(b []byte) []byte { return b[:len(b)/2] },
		"without its end":   func(b []byte) []byte { return b[:len(b)-2] },
		"zeros":             func(b []byte) []byte { return append(b[:100:100], make([]byte, len(b)-100)...) },
		"another name":      func(b []byte) []byte { return bytes.Replace(b, []byte(`"a"`), []byte(`"x"`), 1) },
		"a tool less":       func(b []byte) []byte { return append(b[:bytes.LastIndexByte(b, ',')], "\n]}\n"...) },
		"another format":    func(b []byte) []byte { return bytes.Replace(b, []byte(`catalog":1`), []byte(`catalog":2`), 1) },
		"another identity":  func([]byte) []byte { b, _ := encodeFile(id(2), kept{defs: named("a")}); return b },
		"a foreign file":    func([]byte) []byte { return []byte(`{"tools":[{"name":"a"}]}`) },
		"a file of no JSON": func([]byte) []byte { return []byte("not JSON at all") },
		"no tools in it":    func([]byte) []byte { body := []byte("}"); return []byte(head(id(1)) + checksum(id(1), body) + `",}`) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, text := whole(t, dir)
			if err := os.WriteFile(path, spoil(bytes.Clone(text)), 0o600); err != nil {
				t.Fatal(err)
			}
			s, log := keeper(t, dir, withIdentity("p", id(1)))
			if s.Snapshot().Known("p") {
				t.Errorf("a list was made of it: %v", exposedNames(s.Snapshot()))
			}
			if !strings.Contains(log.String(), path) {
				t.Errorf("no warning names the file: %s", log)
			}
			put(t, s, "p", named("a", "b"))
			if again, _ := os.ReadFile(path); !bytes.Equal(again, text) {
				t.Errorf("it was not made anew: %s", again)
			}
		})
	}
	t.Run("a folder", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, id(1)+".json")
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		s, log := keeper(t, dir, withIdentity("p", id(1)))
		put(t, s, "p", named("a"))
		if n := strings.Count(log.String(), "level=WARN"); n != 2 { // it cannot be read, and not be replaced
			t.Errorf("%d warnings: %s", n, log)
		}
		if _, ok := s.Snapshot().Find("p_a"); !ok {
			t.Error("the list is lost for all that")
		}
	})
}

// TestFilesAreWrittenOnlyForANewList.
func TestFilesAreWrittenOnlyForANewList(t *testing.T) {
	dir := t.TempDir()
	s, _ := keeper(t, dir, withIdentity("p", id(1)))
	path := filepath.Join(dir, id(1)+".json")
	put(t, s, "p", named("a"))
	first, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "p", named("a"))
	if again, err := os.Stat(path); err != nil || !os.SameFile(first, again) {
		t.Error("an equal list was written again")
	}
	put(t, s, "p", named("a", "b"))
	if again, err := os.Stat(path); err != nil || os.SameFile(first, again) {
		t.Error("another list was not written")
	}
	if s, _ = keeper(t, dir, withIdentity("p", id(1))); len(s.Snapshot().Tools()) != 2 {
		t.Error("another list was not kept")
	}
}

// TestTheDiskHasTheLastList: whichever of those that come at once is saved first.
func TestTheDiskHasTheLastList(t *testing.T) {
	for range 50 {
		dir := t.TempDir()
		s, _ := keeper(t, dir, withIdentity("p", id(1)))
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				if err := s.Put("p", "p", named(fmt.Sprint("tool-", n))); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		again, _ := keeper(t, dir, withIdentity("p", id(1)))
		if diff := cmp.Diff(exposedNames(s.Snapshot()), exposedNames(again.Snapshot())); diff != "" {
			t.Fatalf("the host has another list than the disk: %s", diff)
		}
	}
	// In the order of the worst case.
	s, _ := keeper(t, t.TempDir(), withIdentity("p", id(1)))
	s.disk.save("p", id(1), kept{defs: named("new"), order: 2}, nil)
	s.disk.save("p", id(1), kept{defs: named("old"), order: 1}, nil)
	if k, ok := s.disk.load("p", id(1)); !ok || string(k.defs[0]) != string(named("new")[0]) {
		t.Errorf("the disk has %s", k.defs)
	}
}

// TestHostsShareTheFiles: several write at once, and what is there afterwards is one
// of the lists, whole.
func TestHostsShareTheFiles(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for h := range 4 {
		s, _ := keeper(t, dir, withIdentity("p", id(1)), withIdentity("q", id(2)))
		for _, slug := range []string{"p", "q"} {
			all.Go(func() {
				for n := range 25 {
					if err := s.Put(slug, slug, named(fmt.Sprintf("%s-%d-%d", slug, h, n))); err != nil {
						t.Error(err)
					}
					other, log := keeper(t, dir, withIdentity(slug, id(map[string]int{"p": 1, "q": 2}[slug])))
					if !other.Snapshot().Known(slug) {
						t.Errorf("nothing to be read: %s", log)
					}
				}
			})
		}
	}
	all.Wait()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// TestFilesAreBounded: what has not been used for longest goes, what is used and
// what is not ours stays.
func TestFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	day := time.Now().Add(-24 * time.Hour)
	write := func(name string, at time.Time) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 3 * keptFiles {
		write(id(100+n)+".json", day.Add(time.Duration(n)*time.Minute))
	}
	for _, name := range []string{"notes.txt", newPrefix + "1", id(7)} {
		write(name, day)
	}
	write(newPrefix+"2", time.Now())
	s, _ := keeper(t, dir, withIdentity("p", id(100)), withIdentity("q", id(1)))
	put(t, s, "q", named("a"))
	left := map[string]bool{}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		left[e.Name()] = true
	}
	for name, want := range map[string]bool{
		id(1) + ".json": true, id(100) + ".json": true, // in use
		id(101) + ".json": false, id(100+2*keptFiles-1) + ".json": false,
		id(100+2*keptFiles) + ".json": true, id(100+3*keptFiles-1) + ".json": true,
		"notes.txt": true, id(7): true, newPrefix + "1": false, newPrefix + "2": true,
	} {
		if left[name] != want {
			t.Errorf("%s is there: %v", name, left[name])
		}
	}
	if len(left) != 2+keptFiles+3 {
		t.Errorf("%d files are left", len(left))
	}
}

// FuzzCatalogFile: whatever stands in a file, it is a catalog as one was written,
// or none.
func FuzzCatalogFile(f *testing.F) {
	good, _ := encodeFile(id(1), kept{server: Server{Era: "modern"}, defs: named("a", "b")})
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add([]byte(`{"tools":[]}`))
	body := []byte(`"server":{},"tools":[1,{"a":1,"a":2}]}`)
	f.Add([]byte(head(id(1)) + checksum(id(1), body) + `",` + string(body)))
	f.Fuzz(func(t *testing.T, text []byte) {
		k, _, err := decodeFile(text, id(1))
		if err != nil {
			return
		}
		again, _ := encodeFile(id(1), k)
		back, _, err := decodeFile(again, id(1))
		if err != nil || len(back.defs) != len(k.defs) {
			t.Fatalf("%q: %v", text, err)
		}
		for i := range k.defs {
			if !bytes.Equal(k.defs[i], back.defs[i]) {
				t.Fatalf("%q became %q", k.defs[i], back.defs[i])
			}
		}
	})
}
