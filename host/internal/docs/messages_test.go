package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// root is the repository's folder, as seen from this one.
const root = "../../.."

// page is where every message stands, in the first column of a table, each in a code
// span; what stands in the second column is its remedy.
const page = "docs/troubleshoot.md"

// TestEveryMessageHasARemedy compares what the code can print with the page, in both
// directions: a message without a row fails, and so does a row whose message is gone.
//
// What counts as a message is what can be found by reading the source:
//
//   - the text of errors.New, and the format of fmt.Errorf;
//   - the summary of a diagnostic, written in a literal of one or handed to one of the
//     functions in summaries;
//   - the cause of a provider's failure, where it is a literal;
//   - what is logged as an error.
//
// In a message "…" stands for what is only known when it is printed. A format in which
// nothing else stands ("%w: %w"), or no word that says something, only joins messages
// that have rows of their own.
//
// It does not cover: warnings and notices in the log, which keep nothing from working;
// the details of diagnostics, which are the remedy, given on the spot; what HCL, the
// flags' parser, the operating system and servers say, which stands behind a "…"; errors
// of the JSON-RPC envelope, which go to clients and not to people; and how calls end,
// whose reasons docs/outcomes.md has, with a test of their own in host/broker. Texts
// that are put together piece by piece are found only as far as a literal is handed to
// one of the functions above.
func TestEveryMessageHasARemedy(t *testing.T) {
	printed := collect(t)
	listed := rows(t)
	for _, m := range sorted(printed) {
		if _, ok := listed[m]; !ok {
			t.Errorf("%s prints a message that %s does not have; add it, with what to do:\n| %s | … |", printed[m], page, span(m))
		}
	}
	for _, m := range sorted(listed) {
		if _, ok := printed[m]; !ok {
			t.Errorf("%s:%s has a message that nothing prints any more: %s", page, listed[m], m)
		}
	}
	if len(printed) < 300 {
		t.Errorf("only %d messages were found: the collection is broken", len(printed))
	}
}

// summaries are the functions that are handed the summary of a diagnostic, or the cause
// of a failure, by the folder that they are in: which argument it is.
var summaries = map[string]map[string]int{
	"host/config":    {"errorf": 1, "problem": 1, "caution": 1, "fault": 1},
	"host/lock":      {"wrong": 1},
	"plugins/stdio":  {"problem": 0, "problemf": 1, "fail": 0},
	"plugins/http":   {"problem": 0},
	"host/session":   {"failure": 1},
	"host/supervise": {"failure": 1},
}

// aside are folders whose code no person's drawbridge runs.
var aside = []string{
	".ci", ".git", "bin", "docs", "examples", "testdata", "node_modules", "shared/providerpb",
	"host/internal/arrows", "host/internal/bench", "host/internal/crossing", "host/internal/docs", "host/internal/e2e",
	"host/internal/fakeserver", "host/internal/hosttest", "host/internal/killtest", "host/internal/testsummary",
}

// collect finds the messages of the code, each with a place that prints it.
func collect(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		name = filepath.ToSlash(name)
		switch {
		case entry.IsDir() && (slices.Contains(aside, name) || slices.Contains(aside, entry.Name())):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, m := range messagesOf(n, filepath.ToSlash(filepath.Dir(name))) {
				if _, ok := found[m]; !ok {
					found[m] = fmt.Sprintf("%s:%d", name, files.Position(n.Pos()).Line)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// messagesOf are the messages that one node of the syntax holds.
func messagesOf(n ast.Node, folder string) []string {
	switch n := n.(type) {
	case *ast.CallExpr:
		if at := messageArgument(n, folder); at >= 0 && at < len(n.Args) {
			return texts(n.Args[at])
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Summary" {
			return texts(n.Value)
		}
	}
	return nil
}

// messageArgument is which argument of a call is a message, -1 for none.
func messageArgument(call *ast.CallExpr, folder string) int {
	of, name := "", ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
		switch x := f.X.(type) {
		case *ast.Ident:
			of = x.Name
		case *ast.SelectorExpr:
			of = x.Sel.Name
		}
	}
	logger := slices.Contains([]string{"log", "Log", "logger", "Logger"}, of)
	switch {
	case of == "errors" && name == "New", of == "fmt" && name == "Errorf", logger && name == "Error":
		return 0
	}
	if at, ok := summaries[folder][name]; ok {
		return at
	}
	return -1
}

// joining are words that join messages and say nothing by themselves; names are put
// into messages.
var (
	joining = []string{"and", "for", "in"}
	names   = []string{"drawbridge/call_id", "the note", "the plugin", "the server", "the name … …", "… … (uid …)"}
)

// verb is one of fmt's.
var verb = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?[\d.]*[a-zA-Z]`)

// texts are the messages of an expression: a literal, one with something added, or a
// format with its arguments.
func texts(e ast.Expr) []string {
	format := pattern(e)
	if call, ok := e.(*ast.CallExpr); ok && len(call.Args) > 0 {
		format = pattern(call.Args[0])
	}
	words := strings.FieldsFunc(format, func(r rune) bool { return !unicode.IsLetter(r) })
	if !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(joining, w) }) || slices.Contains(names, format) {
		return nil
	}
	return []string{format}
}

// pattern is the text of an expression with "…" for what is not known.
func pattern(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		if err != nil {
			return ""
		}
		s = strings.ReplaceAll(verb.ReplaceAllString(s, "…"), "%%", "%")
		return strings.NewReplacer("`", "'", "|", "/", "\n", " ").Replace(s)
	case *ast.BinaryExpr:
		left, right := pattern(e.X), pattern(e.Y)
		if left == "" {
			left = "…"
		}
		if right == "" {
			right = "…"
		}
		return left + right
	}
	return ""
}

// code is a code span.
var code = regexp.MustCompile("`([^`]+)`")

// rows are the messages that the page has, each with its line. A row without a remedy
// is an error.
func rows(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for i, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || cells[0] != "" {
			continue
		}
		for _, one := range code.FindAllStringSubmatch(cells[1], -1) {
			if before, twice := found[one[1]]; twice {
				t.Errorf("%s:%d: %q stands in line %s already", page, i+1, one[1], before)
			}
			if len(strings.Fields(cells[2])) < 2 {
				t.Errorf("%s:%d: %q has no remedy", page, i+1, one[1])
			}
			found[one[1]] = strconv.Itoa(i + 1)
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
