package docs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEveryFormOfAMessageIsFound reads a package that says what is wrong in every form.
func TestEveryFormOfAMessageIsFound(t *testing.T) {
	found := map[string]string{}
	collect(load(t, "linux", []string{"host/internal/docs/testdata/fixture"}, exportsOf(t, "./host/session", "./host/config")), found)
	var got []string
	for _, m := range sorted(found) {
		if strings.Contains(found[m], "testdata/fixture") {
			got = append(got, m)
		}
	}
	want := []string{
		", and what is added to it", "A detail", "A plugin's summary", "A summary",
		"a cause in a field", "a cause in a table", "a constant put together of constants", "a kind that says itself",
		"a reason among the attributes", "a warning in the log", "an error in the log", "an error of grpc",
		"an error of json-rpc", "formatted into a builder …", "logged at some level", "one piece", "plain error", "refused: …",
		"said behind an interface", "said over http", "through a function in a field", "wrapped for …: …",
		"written to a builder", "written to standard error: …", "…, and more",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestPagesAreComparedBothWays gives the comparison what it is to find.
func TestPagesAreComparedBothWays(t *testing.T) {
	page := `
| message | what to do |
|---|---|
| ` + "`known: …`<br>`gone`" + ` | Do this. |
| ` + "`known: …`" + ` | Do that. |
| ` + "`bare`" + ` |  |

| you see | what it is |
|---|---|
| ` + "`no message`" + ` | It is not looked at. |
`
	listed := map[string]string{}
	got := read("page.md", page, listed)
	got = append(got, compare(map[string]string{"known: …": "a.go:1", "bare": "a.go:2", "new": "a.go:3"}, listed)...)
	want := []string{
		`page.md:5: "known: …" stands at page.md:4 already`,
		`page.md:6: "bare" has no remedy`,
		"a.go:3 says what docs/troubleshoot/ does not have; add it, with what to do:\n| `new` | … |",
		"page.md:4 has a message that nothing prints any more: gone",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
