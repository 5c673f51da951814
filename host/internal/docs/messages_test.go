package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// root is the repository's folder, as seen from this one.
const root = "../../.."

// manual are the pages with every message, in tables whose first column is headed
// "message"; what stands in the last column is the remedy.
const manual = "docs/troubleshoot/"

// TestEveryMessageHasARemedy compares what the code can say is wrong with the pages, in
// both directions: a text without a row fails, and so does a row whose text is gone.
//
// doc.go says what is collected, what is left out, and what to do when it fails.
func TestEveryMessageHasARemedy(t *testing.T) {
	printed := printed(t)
	for _, problem := range compare(printed, rows(t)) {
		t.Error(problem)
	}
	if len(printed) < 1000 {
		t.Errorf("only %d messages were found: the collection is broken", len(printed))
	}
}

// compare says which messages have no row, and which rows no message.
func compare(printed, listed map[string]string) (problems []string) {
	for _, m := range sorted(printed) {
		if _, ok := listed[m]; !ok {
			problems = append(problems, fmt.Sprintf("%s says what %s does not have; add it, with what to do:\n| %s | … |", printed[m], manual, span(m)))
		}
	}
	for _, m := range sorted(listed) {
		if _, ok := printed[m]; !ok {
			problems = append(problems, fmt.Sprintf("%s has a message that nothing prints any more: %s", listed[m], m))
		}
	}
	return problems
}

// code is a code span.
var code = regexp.MustCompile("`([^`]+)`")

// rows are the messages that the pages have, each with its place. A row without a remedy
// is an error.
func rows(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for name, text := range pages(t) {
		if strings.HasPrefix(filepath.ToSlash(name), manual) {
			for _, problem := range read(name, text, found) {
				t.Error(problem)
			}
		}
	}
	return found
}

// read adds the messages of one page to found, and says what is wrong with its rows.
func read(name, text string, found map[string]string) (problems []string) {
	messages := false
	for i, line := range strings.Split(text, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || cells[0] != "" {
			messages = false
			continue
		}
		if first := strings.TrimSpace(cells[1]); first == "message" {
			messages = true
		}
		if !messages || strings.HasPrefix(cells[1], "---") {
			continue
		}
		place := fmt.Sprintf("%s:%d", filepath.ToSlash(name), i+1)
		last := len(cells) - 2
		for _, one := range code.FindAllStringSubmatch(strings.Join(cells[1:last], "|"), -1) {
			if before, twice := found[one[1]]; twice {
				problems = append(problems, fmt.Sprintf("%s: %q stands at %s already", place, one[1], before))
			}
			if len(strings.Fields(cells[last])) < 2 {
				problems = append(problems, fmt.Sprintf("%s: %q has no remedy", place, one[1]))
			}
			found[one[1]] = place
		}
	}
	return problems
}

// printed are the messages of the code, as it is built for every system, each with a
// place that prints it.
func printed(t *testing.T) map[string]string {
	t.Helper()
	all := folders(t)
	exports := exportsOf(t, "./host/...", "./plugins/...", "./shared/...")
	found := map[string]string{}
	for _, goos := range systems {
		code := load(t, goos, all, exports)
		collect(code, found)
		if goos == runtime.GOOS {
			for _, name := range strangers(code) {
				t.Errorf("there is no %s any more, of which this test looks for messages", name)
			}
		}
	}
	return found
}

func span(m string) string { return "`" + m + "`" }

func sorted(of map[string]string) []string {
	var all []string
	for m := range of {
		all = append(all, m)
	}
	slices.Sort(all)
	return all
}
