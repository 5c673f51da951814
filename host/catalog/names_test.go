package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func hash8(s string) string { return sha(s)[:8] }

// TestC056_NamesOverTheLimit: two long names that differ at their end stay two,
// within the limit.
func TestC056_NamesOverTheLimit(t *testing.T) {
	slug := strings.Repeat("p", 20)
	tools := []string{strings.Repeat("t", 57) + "one", strings.Repeat("t", 57) + "two"}
	for _, limit := range []int{64, 40} {
		a, b := Exposed(slug, tools[0], limit), Exposed(slug, tools[1], limit)
		if a == b || len(a) != limit || len(b) != limit {
			t.Errorf("limit %d: %q (%d), %q (%d)", limit, a, len(a), b, len(b))
		}
		for _, order := range [][]string{{tools[0], tools[1]}, {tools[1], tools[0]}} {
			s := New(Options{NameMax: limit}, []Provider{provider(slug)})
			put(t, s, slug, named(order...))
			for i, exposed := range []string{a, b} {
				tool, ok := s.Snapshot().Find(exposed)
				if !ok || tool.Name != tools[i] {
					t.Errorf("limit %d: %s is %+v", limit, exposed, tool)
				}
			}
		}
	}
}

// TestC057_CleanedNamesCanBeCalled: six names, none merged, each leads back to
// the server's own.
func TestC057_CleanedNamesCanBeCalled(t *testing.T) {
	originals := []string{"git.get-commit", "do thing", "notion/search", "notion.search", "notion_search", "naïve"}
	s := New(Options{}, []Provider{provider("home-assistant")})
	put(t, s, "home-assistant", named(originals...))
	var got []string
	for _, exposed := range exposedNames(s.Snapshot()) {
		if !regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`).MatchString(exposed) {
			t.Errorf("%q is outside the alphabet", exposed)
		}
		tool, ok := s.Snapshot().Find(exposed)
		if !ok {
			t.Fatalf("%q cannot be found", exposed)
		}
		got = append(got, tool.Name)
	}
	if diff := cmp.Diff(originals, got); diff != "" {
		t.Error(diff)
	}
}

func TestExposed(t *testing.T) {
	for _, c := range []struct {
		slug, tool string
		max        int
		want       string
	}{
		{"a", "search", 64, "a_search"},
		{"a", "_x_y", 64, "a__x_y"},
		{"a", "", 64, "a__" + hash8("")},
		{"a", "naïve", 64, "a_na_ve_" + hash8("naïve")},
		{"a", "x.y", 64, "a_x_y_" + hash8("x.y")},
		{"a", strings.Repeat("t", 63), 64, "a_" + strings.Repeat("t", 53) + "_" + hash8(strings.Repeat("t", 63))},
		{"a", strings.Repeat("t", 62), 64, "a_" + strings.Repeat("t", 62)},
		{strings.Repeat("s", 32), "tool", 20, strings.Repeat("s", 32) + "__" + hash8("tool")},
	} {
		if got := Exposed(c.slug, c.tool, c.max); got != c.want {
			t.Errorf("Exposed(%q, %q, %d) = %q, want %q", c.slug, c.tool, c.max, got, c.want)
		}
	}
}

func TestExposedNamesHoldTheirRules(t *testing.T) {
	slugs := rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?`)
	// Few characters, so that names which clean to the same text are common.
	tools := rapid.OneOf(rapid.StringOfN(rapid.SampledFrom([]rune("ab._-/ é")), 0, 80, -1), rapid.String())
	alphabet := regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	rapid.Check(t, func(t *rapid.T) {
		max := rapid.IntRange(42, 128).Draw(t, "max")
		type key struct{ slug, tool string }
		seen := map[string]key{}
		for range rapid.IntRange(1, 20).Draw(t, "n") {
			k := key{slugs.Draw(t, "slug"), tools.Draw(t, "tool")}
			name := Exposed(k.slug, k.tool, max)
			if name != Exposed(k.slug, k.tool, max) {
				t.Fatalf("%v has two names", k)
			}
			if !alphabet.MatchString(name) || len(name) > max {
				t.Fatalf("%v: %q breaks alphabet or length %d", k, name, max)
			}
			if slug, ok := SlugOf(name); !ok || slug != k.slug {
				t.Fatalf("%v: the first _ of %q does not end the slug", k, name)
			}
			if other, ok := seen[name]; ok && other != k {
				t.Fatalf("%v and %v are both %q", k, other, name)
			}
			seen[name] = k
		}
	})
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true}, {"*", "anything", true}, {"", "", true}, {"", "x", false},
		{"abc", "abc", true}, {"abc", "abcd", false}, {"abc", "ABC", false},
		{"a*", "a", true}, {"a*", "abc", true}, {"a*", "ba", false},
		{"*c", "abc", true}, {"*c", "cb", false},
		{"a*c", "ac", true}, {"a*a", "a", false}, {"ab*ba", "aba", false},
		{"*b*", "abc", true}, {"*b*", "ac", false},
		{"a*b*c", "a1b2b3c", true}, {"a*bc*bc", "abc", false}, {"a**c", "abc", true},
		{"a?c", "abc", false}, {"a.c", "abc", false}, {"[a]", "a", false},
	} {
		if got := Match(c.pattern, c.name); got != c.want {
			t.Errorf("Match(%q, %q) = %v", c.pattern, c.name, got)
		}
	}
}

// FuzzDefinition: whatever a server lists, a definition is shown as it came but
// for its name, or hidden.
func FuzzDefinition(f *testing.F) {
	for _, seed := range []string{
		`{"name":"x"}`, `{"name":"x","annotations":{"readOnlyHint":true}}`, `[]`, `{"name":"a","name":"b"}`,
		`{ "a" : [1.0,{}], "name" : "\u00e9" }`, `{"name":"x"}}`, `{"name":"x"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := New(Options{}, []Provider{provider("p")})
		put(t, s, "p", []json.RawMessage{raw})
		sn := s.Snapshot()
		if len(sn.Tools())+len(sn.Hidden()) != 1 {
			t.Fatalf("%d tools, %d hidden", len(sn.Tools()), len(sn.Hidden()))
		}
		for _, tool := range sn.Tools() {
			d, err := readDefinition(tool.Listed)
			if err != nil || d.name != tool.Exposed {
				t.Fatalf("listed as %s: %v", tool.Listed, err)
			}
			first, _ := readDefinition(raw)
			back := string(tool.Listed[:d.nameStart]) + string(raw[first.nameStart:first.nameEnd]) + string(tool.Listed[d.nameEnd:])
			if back != string(raw) {
				t.Fatalf("%q became %q", raw, tool.Listed)
			}
		}
	})
}
