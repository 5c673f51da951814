package docs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// link is one of Markdown's, with its target; fenced is a block of code.
var (
	link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fenced = regexp.MustCompile("(?ms)^```.*?^```")
)

// TestNoLinkIsDead follows every link from a page to a file, or to a heading of one.
// What is elsewhere on the net is not asked for.
func TestNoLinkIsDead(t *testing.T) {
	links := 0
	for name, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			target := m[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			links++
			file, heading, _ := strings.Cut(target, "#")
			at := filepath.Join(root, filepath.Dir(name), file)
			if file == "" {
				at = filepath.Join(root, name)
			}
			content, err := os.ReadFile(at)
			if info, statErr := os.Stat(at); statErr != nil {
				t.Errorf("%s: %s leads nowhere", name, target)
				continue
			} else if heading == "" || info.IsDir() {
				continue
			}
			if err != nil || !hasHeading(string(content), heading) {
				t.Errorf("%s: %s: there is no such heading", name, target)
			}
		}
	}
	if links < 30 {
		t.Errorf("only %d links were found: the search is broken", links)
	}
}

// TestEveryPageIsInTheIndex keeps a page from being written and not found: it is linked
// from docs/README.md, or from the page that has the name of its folder.
func TestEveryPageIsInTheIndex(t *testing.T) {
	all := pages(t)
	for name := range all {
		inside, ok := strings.CutPrefix(filepath.ToSlash(name), "docs/")
		if !ok || inside == "README.md" || strings.HasPrefix(inside, "decisions/") {
			continue
		}
		over := all[filepath.FromSlash("docs/"+path.Dir(inside)+".md")]
		if link := "](" + inside + ")"; !strings.Contains(all["docs/README.md"], link) && !strings.Contains(over, link) {
			t.Errorf("no index has a link to %s", inside)
		}
	}
}

// pages are README.md, CHANGELOG.md and everything in docs/, by name.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	read := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		found[name] = string(text)
	}
	read(filepath.Join(root, "README.md"))
	read(filepath.Join(root, "CHANGELOG.md"))
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			read(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// hasHeading says whether a page has a heading that GitHub gives this anchor.
func hasHeading(text, anchor string) bool {
	for line := range strings.SplitSeq(fenced.ReplaceAllString(text, ""), "\n") {
		if strings.HasPrefix(line, "#") && anchorOf(line) == anchor {
			return true
		}
	}
	return false
}

// anchorOf is a heading in lower case, without marks, with dashes for spaces.
func anchorOf(heading string) string {
	var b strings.Builder
	for _, r := range strings.TrimSpace(strings.TrimLeft(heading, "#")) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// TestTablesAreWhole looks for rows that lack a cell, or have one too many: whoever
// reads the page would see a piece of the table as text.
func TestTablesAreWhole(t *testing.T) {
	rows := 0
	for name, text := range pages(t) {
		cells := 0
		for i, line := range strings.Split(fenced.ReplaceAllStringFunc(text, blank), "\n") {
			if !strings.HasPrefix(line, "|") {
				cells = 0
				continue
			}
			rows++
			n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
			if cells == 0 {
				cells = n
			}
			if n != cells || !strings.HasSuffix(line, "|") {
				t.Errorf("%s:%d: a row of %d cells in a table of %d: %s", name, i+1, n-1, cells-1, line)
			}
		}
	}
	if rows < 500 {
		t.Errorf("only %d rows were found: the search is broken", rows)
	}
}

// blank keeps the lines of a text and nothing in them.
func blank(text string) string { return strings.Repeat("\n", strings.Count(text, "\n")) }
