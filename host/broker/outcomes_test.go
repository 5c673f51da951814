package broker

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// words are the outcomes, reasons, codes and advice that the source of some packages
// can produce: constants of these types and names, and literals that are given as one.
func words(t *testing.T, folders ...string) map[string]string {
	t.Helper()
	found := map[string]string{} // word → where
	set := token.NewFileSet()
	var files []*ast.File
	for _, folder := range folders {
		paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s holds no source: %v", folder, err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
	}
	takes := takers(files)
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			for _, word := range append(wordsOf(n), given(n, takes)...) {
				found[word] = set.Position(n.Pos()).String()
			}
			return true
		})
	}
	return found
}

// takers are the functions that are given a reason, and as which of their arguments.
func takers(files []*ast.File) map[string]int {
	takes := map[string]int{}
	for _, file := range files {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			i := 0
			for _, field := range f.Type.Params.List {
				for _, name := range field.Names {
					if reasonName.MatchString(name.Name) {
						takes[f.Name.Name] = i
					}
					i++
				}
			}
		}
	}
	return takes
}

// given are the reasons that a call hands to a taker.
func given(n ast.Node, takes map[string]int) []string {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	name := ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
	}
	if i, ok := takes[name]; ok && i < len(call.Args) {
		return literal(call.Args[i])
	}
	return nil
}

var (
	reasonName = regexp.MustCompile(`^((r|.*R)eason[A-Za-z]*|audit[A-Z].*)$`)
	codeName   = regexp.MustCompile(`^Code[A-Z]`)
)

// wordsOf are the words that one node produces.
func wordsOf(n ast.Node) []string {
	switch n := n.(type) {
	case *ast.ValueSpec:
		var out []string
		kind, _ := n.Type.(*ast.Ident)
		for i, name := range n.Names {
			typed := kind != nil && slices.Contains([]string{"Reason", "Outcome", "Retry"}, kind.Name)
			if i < len(n.Values) && (typed || reasonName.MatchString(name.Name) || codeName.MatchString(name.Name)) {
				out = append(out, literal(n.Values[i])...)
			}
		}
		return out
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && reasonName.MatchString(key.Name) {
			return literal(n.Value)
		}
	case *ast.AssignStmt:
		var out []string
		for i, left := range n.Lhs {
			if s, ok := left.(*ast.SelectorExpr); ok && reasonName.MatchString(s.Sel.Name) && len(n.Rhs) == len(n.Lhs) {
				out = append(out, literal(n.Rhs[i])...)
			}
		}
		return out
	}
	return nil
}

// literal is the word of a literal; of anything else there is none.
func literal(e ast.Expr) []string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.INT {
			return []string{e.Value}
		}
		if word, err := strconv.Unquote(e.Value); err == nil && word != "" {
			return []string{word}
		}
	case *ast.UnaryExpr: // a code
		if e.Op == token.SUB {
			if of := literal(e.X); of != nil {
				return []string{"−" + of[0]}
			}
		}
	}
	return nil
}

// TestOutcomesAreDocumented: docs/outcomes.md has every outcome, reason, code and
// advice that a call can end with.
func TestOutcomesAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "outcomes.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := words(t, ".", filepath.Join("..", "session"), filepath.Join("..", "journal"))
	for word, where := range found {
		if !strings.Contains(string(page), "`"+word+"`") && !strings.Contains(string(page), "error "+word+",") && !strings.Contains(string(page), "error "+word+" ") {
			t.Errorf("%s can end a call with %q, which docs/outcomes.md does not explain", where, word)
		}
	}
	// What is looked for must be found, or this test would pass without looking.
	for _, word := range []string{
		string(OK), string(Unknown), string(RetryAfterLook), "−31001", "−31004", "unknown_tool", "provider_failed", "not_started",
		"timeout", "host_died", "call_id_reused", "quarantined", "queue_full",
	} {
		if _, ok := found[word]; !ok {
			t.Errorf("%q was not found in the source", word)
		}
	}
	for _, o := range []Outcome{OK, ToolError, RPCError, Denied, Stale, Unavailable, Cancelled, Unknown} {
		if !strings.Contains(string(page), "\n`"+string(o)+"`") {
			t.Errorf("docs/outcomes.md has no example of %s", o)
		}
	}
}
