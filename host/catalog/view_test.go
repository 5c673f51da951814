package catalog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func all(*Tool) bool { return true }

func only(names ...string) func(*Tool) bool {
	return func(t *Tool) bool {
		for _, n := range names {
			if t.Provider+"/"+t.Name == n {
				return true
			}
		}
		return false
	}
}

func viewNames(v *View) []string {
	var names []string
	for _, tool := range v.Tools() {
		names = append(names, tool.Exposed)
	}
	return names
}

func twoProviders(t *testing.T) *Store {
	t.Helper()
	s := New(Options{}, []Provider{provider("a"), provider("b")})
	put(t, s, "a", named("search", "get"))
	put(t, s, "b", named("search", "put"))
	return s
}

// TestC078_AViewHoldsWhatIsAdmitted: and finds nothing else, by no name.
func TestC078_AViewHoldsWhatIsAdmitted(t *testing.T) {
	sn := twoProviders(t).Snapshot()
	v := sn.View(Naming{}, only("a/search", "b/put"))
	if diff := cmp.Diff([]string{"a_search", "b_put"}, viewNames(v)); diff != "" {
		t.Error(diff)
	}
	if _, ok := v.Find("a_get"); ok {
		t.Error("a tool that is not admitted is found by its exposed name")
	}
	if _, ok := v.Tool("a", "get"); ok {
		t.Error("a tool that is not admitted is found by its own name")
	}
	if tool, ok := v.Tool("b", "put"); !ok || tool.Exposed != "b_put" {
		t.Errorf("b/put is %+v", tool)
	}
	if _, ok := v.Revisions()["a"]; !ok || len(v.Revisions()) != 2 {
		t.Errorf("revisions: %v", v.Revisions())
	}
	if v := sn.View(Naming{}, only("a/get")); len(v.Revisions()) != 1 {
		t.Errorf("a view tells of a provider of which it holds nothing: %v", v.Revisions())
	}
	if mark, ok := v.Instance("a"); !ok || mark != "h/a/1" {
		t.Errorf("instance of a: %q, %v", mark, ok)
	}
}

// TestC054_ClashesAreJudgedAmongWhatIsAdmitted: what a caller does not see hides
// nothing from it.
func TestC054_ClashesAreJudgedAmongWhatIsAdmitted(t *testing.T) {
	sn := twoProviders(t).Snapshot()
	bare := Naming{Names: NamesBare}
	whole := sn.View(bare, all)
	if diff := cmp.Diff([]string{"get", "put"}, viewNames(whole)); diff != "" {
		t.Error(diff)
	}
	if c := whole.Clashes(); len(c) != 1 || c[0].Exposed != "search" || len(c[0].Tools) != 2 {
		t.Errorf("clashes: %+v", c)
	}
	part := sn.View(bare, only("a/search", "b/put"))
	if diff := cmp.Diff([]string{"search", "put"}, viewNames(part)); diff != "" {
		t.Error(diff)
	}
	if len(part.Clashes()) != 0 {
		t.Errorf("clashes: %+v", part.Clashes())
	}
}

// TestViewsOfOneNamingShareTheirBytes: many callers cost no copies.
func TestViewsOfOneNamingShareTheirBytes(t *testing.T) {
	s := twoProviders(t)
	sn := s.Snapshot()
	first := sn.View(Naming{}, all).Tools()[0]
	put(t, s, "b", named("other"))
	for _, v := range []*View{sn.View(Naming{}, only("a/search")), s.Snapshot().View(Naming{NamesPrefixed, DefaultNameMax}, all)} {
		if v.Tools()[0] != first {
			t.Error("two views of one naming hold one tool twice")
		}
	}
	short := sn.View(Naming{NameMax: 12}, all).Tools()[0]
	if &short.Raw[0] != &first.Raw[0] {
		t.Error("the server's bytes are there twice")
	}
}

func TestRevisionIsOfWhatIsShown(t *testing.T) {
	base := func() []Provider {
		return []Provider{{Slug: "a", Tools: []string{"*"}, Identity: "one"}, {Slug: "b", Tools: []string{"*"}}}
	}
	view := func(n Naming, providers []Provider, defs ...string) *View {
		s := New(Options{}, providers)
		for _, d := range defs {
			slug, names, _ := strings.Cut(d, ":")
			put(t, s, slug, named(strings.Split(names, ",")...))
		}
		return s.Snapshot().View(n, all)
	}
	was := view(Naming{}, base(), "a:x,y", "b:z")
	if again := view(Naming{}, base(), "b:z", "a:x,y"); again.Revision() != was.Revision() {
		t.Error("the same view has two revisions")
	}
	other := base()
	other[0].Identity = "two"
	for what, v := range map[string]*View{
		"another order":     view(Naming{}, base(), "a:y,x", "b:z"),
		"a tool more":       view(Naming{}, base(), "a:x,y,w", "b:z"),
		"a tool less":       view(Naming{}, base(), "a:x", "b:z"),
		"other names":       view(Naming{Names: NamesBare}, base(), "a:x,y", "b:z"),
		"another identity":  view(Naming{}, other, "a:x,y", "b:z"),
		"of another server": view(Naming{}, base(), "a:x", "b:y,z"),
	} {
		if v.Revision() == was.Revision() {
			t.Errorf("%s has the same revision", what)
		}
	}
	// The order is not a provider's own: its revision is that of a set of definitions.
	if view(Naming{}, base(), "a:y,x").Revisions()["a"] != was.Revisions()["a"] {
		t.Error("the revision of a provider depends on the order of its list")
	}
	if view(Naming{}, base(), "a:x").Revisions()["a"] == was.Revisions()["a"] {
		t.Error("a provider's revision is the same with a tool less")
	}
	x := was.Tools()[0]
	if got := Revision([]string{x.Digest}); got != sha("revision\n"+x.Digest+"\n") { // fixed for ever: clients compare it
		t.Errorf("revision %s", got)
	}
}

// TestEqualListsNotifyNobody: a list that says the same in other bytes, or from
// another instance, is no change.
func TestEqualListsNotifyNobody(t *testing.T) {
	changes := 0
	s := New(Options{OnChange: func() { changes++ }}, []Provider{provider("p")})
	put(t, s, "p", defs(`{"name":"a","x":1}`))
	put(t, s, "p", defs(`{ "x" : 1, "name":"\u0061" }`))
	if err := s.Put("p", "h/p/2", defs(`{"name":"a","x":1}`)); err != nil {
		t.Fatal(err)
	}
	if changes != 1 {
		t.Errorf("%d changes", changes)
	}
	if mark, _ := s.Snapshot().Instance("p"); mark != "h/p/2" {
		t.Errorf("the list is said to be of %s", mark)
	}
	put(t, s, "p", defs(`{"name":"a","x":1.0}`))
	if changes != 2 {
		t.Errorf("%d changes after another number", changes)
	}
}

// TestAnotherServerIsAChange: what it lists may be the same, what was shown of the one
// before is not.
func TestAnotherServerIsAChange(t *testing.T) {
	dir := t.TempDir()
	other, _ := keeper(t, dir, withIdentity("p", id(2)))
	put(t, other, "p", named("a"))
	changes := 0
	s := New(Options{Dir: dir, OnChange: func() { changes++ }}, nil)
	s.Apply([]Provider{withIdentity("p", id(1))})
	put(t, s, "p", named("a"))
	s.Apply([]Provider{withIdentity("p", id(2))})
	if tool, ok := s.Snapshot().Find("p_a"); !ok || tool.Identity != id(2) || changes != 2 {
		t.Errorf("%d changes: %+v", changes, tool)
	}
}

// TestApplyKeepsTheListsOfTheSameServers.
func TestApplyKeepsTheListsOfTheSameServers(t *testing.T) {
	changes := 0
	s := New(Options{OnChange: func() { changes++ }}, []Provider{provider("a"), provider("b"), provider("c")})
	for _, slug := range []string{"a", "b", "c"} {
		put(t, s, slug, named("x", "y"))
	}
	s.Apply([]Provider{
		{Slug: "a", Tools: []string{"x"}, Identity: "A"},
		{Slug: "b", Tools: []string{"*"}, Identity: "B"},
	})
	if diff := cmp.Diff([]string{"a_x", "b_x", "b_y"}, exposedNames(s.Snapshot())); diff != "" {
		t.Error(diff)
	}
	if tool, _ := s.Snapshot().Find("a_x"); tool.Identity != "A" || tool.Instance != "h/a/1" {
		t.Errorf("a_x is %+v", tool)
	}
	s.Apply([]Provider{{Slug: "a", Tools: []string{"*"}, Identity: "A2"}, {Slug: "b", Tools: []string{"*"}, Identity: "B"}})
	if diff := cmp.Diff([]string{"b_x", "b_y"}, exposedNames(s.Snapshot())); diff != "" {
		t.Errorf("after another server took a's place: %s", diff)
	}
	if changes != 5 {
		t.Errorf("%d changes", changes)
	}
}

// TestViewsAgainstTheirRule: whatever is admitted, a view holds it, but for what
// would have one name.
func TestViewsAgainstTheirRule(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := New(Options{}, []Provider{provider("a"), provider("b"), provider("c")})
		for _, slug := range []string{"a", "b", "c"} {
			names := rapid.SliceOfDistinct(rapid.StringMatching(`[xyz.]{1,2}`), func(n string) string { return n }).Draw(rt, slug)
			if err := s.Put(slug, slug, named(names...)); err != nil {
				rt.Fatal(err)
			}
		}
		n := Naming{Names: rapid.SampledFrom([]string{NamesBare, NamesPrefixed}).Draw(rt, "names")}.orDefaults()
		denied := map[string]bool{}
		for _, tool := range s.Snapshot().Tools() {
			denied[tool.Provider+"/"+tool.Name] = rapid.Bool().Draw(rt, "denied")
		}
		v := s.Snapshot().View(n, func(t *Tool) bool { return !denied[t.Provider+"/"+t.Name] })
		claims := map[string]int{}
		for _, l := range s.Snapshot().lists {
			for _, t := range l.tools(n) {
				if !denied[t.Provider+"/"+t.Name] {
					claims[t.Exposed]++
				}
			}
		}
		shown := 0
		for exposed, n := range claims {
			tool, ok := v.Find(exposed)
			if ok != (n == 1) || ok && denied[tool.Provider+"/"+tool.Name] {
				rt.Fatalf("%q is claimed %d times and found: %v", exposed, n, ok)
			}
			if ok {
				shown++
			}
		}
		if shown != len(v.Tools()) || len(v.Clashes()) != len(claims)-shown {
			rt.Fatalf("%d shown, %d tools, %d clashes", shown, len(v.Tools()), len(v.Clashes()))
		}
	})
}
