package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeIsForANewcomer holds the README to what somebody new looks for, in the order
// in which it is needed: what it is in three sentences, a picture, the two commands, how
// a client is connected, a server added, and access to it restricted.
func TestReadmeIsForANewcomer(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "\n\n")
	if n := len(regexp.MustCompile(`[.!?](\s|$)`).FindAllString(parts[1], -1)); n != 3 {
		t.Errorf("it says what it is in %d sentences, want 3:\n%s", n, parts[1])
	}
	rest := string(text)
	for _, next := range []string{
		"──▶", "## Try it", "\nmake run ", "\nmake test ", "## Connect a client", "drawbridge client add ", "## Add a server",
		"\nprovider ", "drawbridge validate", "## Restrict it", "\nproject ", "drawbridge access ",
	} {
		_, after, found := strings.Cut(rest, next)
		if !found {
			t.Errorf("%q is missing, or stands before what is needed first", next)
			continue
		}
		rest = after
	}
}
