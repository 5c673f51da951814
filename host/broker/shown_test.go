package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
)

func viewOf(t testing.TB, lists map[string][]string) *catalog.View {
	t.Helper()
	return snapshotOf(t, lists).View(catalog.Naming{}, func(*catalog.Tool) bool { return true })
}

func named(name string) string { return `{"name":"` + name + `"}` }

// all shows a view whole.
func (r *remembered) all(v *catalog.View) *remembered {
	return r.paged(v, func() *shownList { return listOf(v) }, 0, len(v.Tools()))
}

func TestAWholeListReplacesWhatWasShown(t *testing.T) {
	one := viewOf(t, map[string][]string{"shop": {named("a"), named("b")}, "bank": {named("c")}})
	two := viewOf(t, map[string][]string{"shop": {`{"name":"b","x":1}`, named("d")}})
	r := nothing.all(one)
	if r.all(one) != r {
		t.Error("the same list again is a change")
	}
	after := r.all(two)
	b, _ := two.Find("shop_b")
	if i := after.find("shop_a"); i == nil || !i.Gone {
		t.Errorf("what the list lacks: %+v, want gone", i)
	}
	if i := after.find("shop_b"); i == nil || i.Digest != b.Digest {
		t.Errorf("what it has otherwise: %+v", i)
	}
	if i := after.find("bank_c"); i == nil || i.Gone {
		t.Errorf("what it knows nothing of: %+v, want as it was shown", i)
	}
	if i := after.find("shop_d"); i == nil || i.Gone {
		t.Errorf("what is new: %+v", i)
	}
	if again := after.all(two); again != after {
		t.Error("the same list again is a change")
	}
	if !unknown.all(one).lossy {
		t.Error("a list makes known what it does not show")
	}
	if i := after.all(one).find("shop_a"); i == nil || i.Gone {
		t.Errorf("what is there again and shown: %+v", i)
	}
}

func TestPagesMakeAListOnlyInARow(t *testing.T) {
	v := viewOf(t, map[string][]string{"shop": {named("a"), named("b"), named("c")}})
	whole := func() *shownList { return listOf(v) }
	old := nothing.with("shop_z", &item{Provider: "shop", Name: "z", Digest: "d"})
	first := old.paged(v, whole, 0, 2)
	if first.find("shop_a") == nil || first.find("shop_c") != nil || first.find("shop_z").Gone {
		t.Error("a first page shows what is on it, and nothing else")
	}
	if last := first.paged(v, whole, 2, 3); last.find("shop_c") == nil || !last.find("shop_z").Gone {
		t.Error("the last page completes the list")
	}
	// The same place of a list of another revision: the row is broken.
	changed := viewOf(t, map[string][]string{"shop": {named("a"), `{"name":"b","x":1}`, named("c")}})
	if odd := first.paged(changed, func() *shownList { return listOf(changed) }, 2, 3); odd.find("shop_c") == nil || odd.find("shop_z").Gone || odd.list != nil {
		t.Error("pages of two revisions make a list")
	}
	if odd := old.paged(v, whole, 2, 3); odd.find("shop_c") == nil || odd.find("shop_z").Gone {
		t.Error("a page out of the row shows what is on it, and nothing else")
	}
}

func TestTooMuchIsForgottenLoudly(t *testing.T) {
	own := map[string]*item{}
	for i := range maxShown {
		own[fmt.Sprint("shop_", i)] = (&item{Provider: "shop"}).gone()
	}
	r := (&remembered{own: own}).with("shop_x", &item{Provider: "shop", Digest: "d"})
	if !r.lossy || len(r.own) != 1 || r.find("shop_x") == nil {
		t.Errorf("lossy %v, %d items", r.lossy, len(r.own))
	}
}

func TestCallsWaitForAnAnswerThatIsBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(nothing, nil)
		writing, written := make(chan struct{}), make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			_ = m.write(func() error {
				close(writing)
				<-written
				m.change(func(r *remembered) *remembered { return r.with("a", &item{Digest: "d"}) })
				return nil
			})
		})
		<-writing
		all.Go(func() {
			if m.arrive(t.Context()).find("a") == nil {
				t.Error("a call that arrived while the answer was written does not know what it shows")
			}
		})
		synctest.Wait()
		close(written)
		all.Wait()
		// A client that does not take its answer keeps nobody for ever.
		stuck := make(chan struct{})
		all.Go(func() { _ = m.write(func() error { <-stuck; return errors.New("gone") }) })
		synctest.Wait()
		began := time.Now()
		m.arrive(t.Context())
		if waited := time.Since(began); waited != writePatience {
			t.Errorf("waited %v", waited)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		m.arrive(ctx)
		close(stuck)
		all.Wait()
	})
}

// storeIn is a store whose log a test reads.
func storeIn(dir string) (*shownStore, *bytes.Buffer) {
	var said bytes.Buffer
	return &shownStore{dir: dir, log: slog.New(slog.NewTextHandler(&said, nil))}, &said
}

func TestWhatClientsWereShownIsKept(t *testing.T) {
	dir := t.TempDir()
	s, said := storeIn(dir)
	key := clientKey{owner{"ann", "site"}, Client{"claude", "1"}}
	if r := s.read(key); r != nothing || said.Len() > 0 {
		t.Errorf("before: %+v %s", r, said)
	}
	v := viewOf(t, map[string][]string{"shop": {named("a"), named("b")}})
	s.write(key, nothing.all(v).with("shop_b", (&item{Provider: "shop", Name: "b"}).gone()).met("shop", "h/shop/1"))
	r := s.read(key)
	a, _ := v.Find("shop_a")
	if i := r.find("shop_a"); i == nil || !i.equal(itemOf(a)) || !r.find("shop_b").Gone || r.instances["shop"] != "h/shop/1" || r.lossy {
		t.Errorf("after: %+v", r)
	}
	for _, other := range []clientKey{{owner{"ann", "site"}, Client{"claude", "2"}}, {owner{"bob", "site"}, Client{"claude", "1"}}, {owner{"ann", ""}, Client{"claude", "1"}}} {
		if s.read(other) != nothing {
			t.Errorf("%+v has what another was shown", other)
		}
	}
	if said.Len() > 0 {
		t.Errorf("log: %s", said)
	}
	if info, err := os.Stat(s.path(key)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file: %v %v", info, err)
	}
}

// TestAFileThatIsNotOursIsNoBlankSheet: it is named, what it held counts as unknown,
// and the next write makes it good.
func TestAFileThatIsNotOursIsNoBlankSheet(t *testing.T) {
	key := clientKey{owner{"ann", "site"}, Client{"claude", "1"}}
	other := clientKey{owner{"ann", "site"}, Client{"claude", "2"}}
	good := nothing.with("shop_a", &item{Provider: "shop", Name: "a", Digest: "d"})
	for name, spoil := range map[string]func(t *testing.T, s *shownStore, path string){
		"half": func(t *testing.T, _ *shownStore, path string) {
			edit(t, path, func(b []byte) []byte { return b[:len(b)/2] })
		},
		"empty": func(t *testing.T, _ *shownStore, path string) { edit(t, path, func([]byte) []byte { return nil }) },
		"changed": func(t *testing.T, _ *shownStore, path string) {
			edit(t, path, func(b []byte) []byte { return bytes.Replace(b, []byte(`"d"`), []byte(`"e"`), 1) })
		},
		"foreign": func(t *testing.T, _ *shownStore, path string) {
			edit(t, path, func([]byte) []byte { return []byte("{\"tools\":{}}\n") })
		},
		"another's": func(t *testing.T, s *shownStore, path string) { s.write(other, good); move(t, s.path(other), path) },
		"folder": func(t *testing.T, _ *shownStore, path string) {
			move(t, path, path+".old")
			check(t, os.Mkdir(path, 0o700))
		},
		"a link": func(t *testing.T, _ *shownStore, path string) {
			move(t, path, path+".old")
			check(t, os.Symlink(path+".old", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, said := storeIn(t.TempDir())
			s.write(key, good)
			spoil(t, s, s.path(key))
			r := s.read(key)
			if !r.lossy || r.find("shop_a") != nil {
				t.Errorf("it reads as %+v", r)
			}
			if !strings.Contains(said.String(), s.path(key)) {
				t.Errorf("the log does not name the file: %s", said)
			}
			if name == "folder" {
				return // nothing can take its place
			}
			s.write(key, r.with("shop_a", &item{Provider: "shop", Name: "a", Digest: "d2"}))
			if r = s.read(key); r.find("shop_a") == nil || !r.lossy {
				t.Errorf("written anew it reads as %+v", r)
			}
		})
	}
}

func edit(t *testing.T, path string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	check(t, err)
	check(t, os.WriteFile(path, f(b), 0o600))
}

func move(t *testing.T, from, to string) { t.Helper(); check(t, os.Rename(from, to)) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestADiskThatTakesNothingIsToldOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shown")
	check(t, os.WriteFile(dir, nil, 0o600)) // where the folder is to be
	s, said := storeIn(dir)
	key := clientKey{owner{"ann", ""}, Client{}}
	for range 3 {
		s.write(key, nothing)
	}
	if n := strings.Count(said.String(), "cannot be kept"); n != 1 {
		t.Errorf("told %d times: %s", n, said)
	}
	check(t, os.Remove(dir))
	s.write(key, nothing)
	if !strings.Contains(said.String(), "kept again") || s.read(key).lossy {
		t.Errorf("when it can: %s", said)
	}
}

func TestClientsAreBoundedPerOwner(t *testing.T) {
	r := newRecollections(t.TempDir(), slog.New(slog.DiscardHandler), Cleaner{}.text)
	bob := Caller{Principal: "bob", Client: Client{Name: "his"}}
	note := func(c Caller, digest string) {
		r.of(c).change(func(m *remembered) *remembered { return m.with("t", &item{Digest: digest}) })
	}
	note(bob, "b")
	for i := range 3 * maxClients {
		note(Caller{Principal: "ann", Client: Client{Name: fmt.Sprint(i)}}, "a")
	}
	files, err := filepath.Glob(filepath.Join(r.store.dir, "*", "*"+shownSuffix))
	check(t, err)
	if len(files) != maxClients+1 {
		t.Errorf("%d files, want %d", len(files), maxClients+1)
	}
	if count := r.clients.size(); count != maxClients+1 {
		t.Errorf("%d clients in memory, want %d", count, maxClients+1)
	}
	if r.of(bob).own.now.Load().find("t") == nil {
		t.Error("one owner's many clients make the host forget another's")
	}
}

// TestWhoWasForgottenIsNotNew: a client that others of its principal pushed out is told
// what there is before anything runs; so is one of an owner that others pushed out. Who
// belongs to an owner of whom nobody was forgotten is new.
func TestWhoWasForgottenIsNotNew(t *testing.T) {
	fresh := func(dir string) *recollections {
		return newRecollections(dir, slog.New(slog.DiscardHandler), Cleaner{}.text)
	}
	note := func(r *recollections, c Caller) {
		r.of(c).change(func(m *remembered) *remembered { return m.with("t", &item{Digest: "a"}) })
	}
	knows := func(r *recollections, c Caller) string {
		switch s := r.of(c).own.now.Load(); {
		case s.find("t") != nil:
			return "what it was shown"
		case s.lossy:
			return "that it is not new"
		}
		return "nothing"
	}
	of := func(principal string, client int) Caller {
		return Caller{Principal: principal, Client: Client{Name: fmt.Sprint(client)}}
	}
	for name, dir := range map[string]string{"on disk": t.TempDir(), "in memory": ""} {
		r := fresh(dir)
		note(r, of("ben", 0))
		for i := range maxClients {
			note(r, of("ann", i))
		}
		if got := knows(r, of("ann", 0)); got != "what it was shown" {
			t.Errorf("%s: one of as many as may be knows %s", name, got)
		}
		for i := range maxClients {
			note(r, of("ann", maxClients+i))
		}
		if got := knows(r, of("ann", 0)); got != "that it is not new" {
			t.Errorf("%s: who was pushed out knows %s", name, got)
		}
		if got := knows(r, of("cid", 0)); got != "nothing" {
			t.Errorf("%s: who is new knows %s", name, got)
		}
		if got := knows(r, of("ben", 1)); got != "nothing" {
			t.Errorf("%s: a new one of an owner of whom nobody was forgotten knows %s", name, got)
		}
		if dir == "" {
			continue
		}
		old := time.Now().Add(-24 * time.Hour)
		check(t, os.Chtimes(filepath.Join(filepath.Dir(r.store.path(r.keyOf(of("ann", 0)))), forgottenMark), old, old))
		note(r, of("ann", 2*maxClients)) // which prunes once more
		if got := knows(fresh(dir), of("ann", 0)); got != "that it is not new" {
			t.Errorf("%s: with the next host, who was pushed out knows %s", name, got)
		}
		if got := knows(fresh(dir), of("ann", 2*maxClients)); got != "what it was shown" {
			t.Errorf("%s: with the next host, the last one knows %s", name, got)
		}
	}
}

// TestOwnersWithoutGrantsAreBounded: who has grants stays, however long he has not come.
func TestOwnersWithoutGrantsAreBounded(t *testing.T) {
	r := newRecollections(t.TempDir(), slog.New(slog.DiscardHandler), Cleaner{}.text)
	r.store.declared = func() []owner { return []owner{{"ann", "site"}} }
	note := func(principal, project string) {
		c := Caller{Principal: principal, Project: project}
		r.of(c).change(func(m *remembered) *remembered { return m.with("t", &item{Digest: "a"}) })
		old := time.Now().Add(-time.Hour)
		check(t, os.Chtimes(filepath.Dir(r.store.path(r.keyOf(c))), old, old))
	}
	check(t, os.MkdirAll(filepath.Join(r.store.dir, "of somebody else"), 0o700))
	note("ann", "site")
	note("ann", "of old")
	for i := range 2 * maxOwners {
		note(fmt.Sprint("gone-", i), "site")
	}
	entries, err := os.ReadDir(r.store.dir)
	check(t, err)
	if most := maxOwners + len([]string{"ann", "who begins", "the mark", "somebody else's"}); len(entries) > most {
		t.Errorf("%d folders, want %d at most", len(entries), most)
	}
	again := newRecollections(r.store.dir, slog.New(slog.DiscardHandler), Cleaner{}.text)
	for key, lossy := range map[owner]bool{{"ann", "site"}: false, {"ann", "of old"}: true, {"gone-0", "site"}: true} {
		s := again.of(Caller{Principal: key.Principal, Project: key.Project}).own.now.Load()
		if s.lossy != lossy || (s.find("t") == nil) != lossy {
			t.Errorf("%v is known: %v, of the unknown: %v", key, s.find("t") != nil, s.lossy)
		}
	}
	if _, err := os.Stat(filepath.Join(r.store.dir, "of somebody else")); err != nil {
		t.Errorf("what is not ours: %v", err)
	}
}

// TestAMarkStays: however old it is, and however few files are left beside it.
func TestAMarkStays(t *testing.T) {
	s, _ := storeIn(t.TempDir())
	one := clientKey{owner{"ann", ""}, Client{"1", ""}}
	dir := filepath.Dir(s.path(one))
	check(t, os.MkdirAll(dir, 0o700))
	check(t, mark(dir))
	old := time.Now().Add(-24 * time.Hour)
	check(t, os.Chtimes(filepath.Join(dir, forgottenMark), old, old))
	s.write(one, nothing) // which prunes
	if !s.read(clientKey{owner{"ann", ""}, Client{"2", ""}}).lossy {
		t.Error("the mark is gone")
	}
}

// TestWhoHasGrantsIsDeclared.
func TestWhoHasGrantsIsDeclared(t *testing.T) {
	if got := ownersOf(access.New(access.Spec{})); len(got) != 1 || got[0] != (owner{Principal: access.Local}) {
		t.Errorf("with nothing declared: %v", got)
	}
	got := ownersOf(access.New(access.Spec{
		Tokens: []access.StaticToken{{Principal: "ann"}, {Principal: "idle"}},
		Projects: []access.Project{
			{Name: "a", Grants: []*access.Grant{{Principals: []string{"ann", access.Local}, Provider: "p"}}},
			{Name: "b", Grants: []*access.Grant{{Principals: []string{"ann"}, Provider: "p"}}},
		},
	}))
	if want := []owner{{access.Local, "a"}, {"ann", "a"}, {"ann", "b"}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestAMarkThatCannotBeMadeForgetsNothing.
func TestAMarkThatCannotBeMadeForgetsNothing(t *testing.T) {
	s, _ := storeIn(t.TempDir())
	first := clientKey{owner{"ann", ""}, Client{"0", ""}}
	s.write(first, nothing.with("t", &item{Digest: "d"}))
	check(t, os.Mkdir(filepath.Join(filepath.Dir(s.path(first)), forgottenMark), 0o700))
	for i := range 2 * maxClients {
		s.write(clientKey{owner{"ann", ""}, Client{fmt.Sprint(i), "1"}}, nothing)
	}
	if s.read(first).find("t") == nil {
		t.Error("it was forgotten without a mark")
	}
}

func TestASessionBeginsWithWhatItsClientWasShown(t *testing.T) {
	r := newRecollections("", slog.New(slog.DiscardHandler), Cleaner{}.text)
	kind := Client{Name: "claude"}
	show := func(c Caller, digest string) {
		r.of(c).change(func(m *remembered) *remembered { return m.with("t", &item{Digest: digest}) })
	}
	digest := func(c Caller) string {
		if i := r.of(c).own.now.Load().find("t"); i != nil {
			return i.Digest
		}
		return ""
	}
	one, two, three := Caller{Session: "1", Client: kind}, Caller{Session: "2", Client: kind}, Caller{Session: "3", Client: kind}
	show(one, "d1")
	if got := digest(two); got != "d1" {
		t.Errorf("a new session knows %q", got)
	}
	show(one, "d2") // from here on each is on its own
	if got := digest(two); got != "d1" {
		t.Errorf("after another was shown more it knows %q", got)
	}
	if got := digest(three); got != "d2" {
		t.Errorf("a newer session knows %q", got)
	}
	r.forget("2")
	if got := digest(two); got != "d2" {
		t.Errorf("forgotten, it knows %q", got)
	}
	// What a client has met without a session is nothing to its sessions, but for one that
	// goes on with a session of it with another host.
	r.of(Caller{Client: kind}).met("s", "x")
	if len(r.of(Caller{Session: "4", Client: kind}).own.now.Load().instances) != 0 {
		t.Error("a session has met what its client met without one")
	}
	r.of(one).met("s", "y")
	if len(r.of(Caller{Session: "5", Client: kind}).own.now.Load().instances) != 0 {
		t.Error("a session has met what another has")
	}
	client := r.of(Caller{Client: kind}).own
	client.change(func(m *remembered) *remembered {
		next := *m
		next.before = map[string]string{"s": "before"}
		return &next
	})
	if got := r.of(Caller{Session: "6", Client: kind, Resumed: true}).own.now.Load().instances["s"]; got != "before" {
		t.Errorf("a session that goes on has met %q", got)
	}
	if got := r.of(Caller{Session: "7", Client: kind}).own.now.Load().instances["s"]; got != "" {
		t.Errorf("one that does not has met %q", got)
	}
	if digest(Caller{Session: "8", Client: Client{Name: kind.Name, Version: "2"}}) != "" || digest(Caller{Session: "9", Client: kind, Project: "other"}) != "" ||
		digest(Caller{Session: "10", Client: kind, Principal: "other"}) != "" {
		t.Error("another version, project or principal was shown what this one was")
	}
}
