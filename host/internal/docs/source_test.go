package docs

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module is the path that imports of the repository begin with.
const module = "github.com/drawbridge-mcp/drawbridge/"

// systems are those whose code is read. The types of the standard library are those of
// the system that the test runs on: what another has besides stays unknown, and the
// texts around it are found all the same.
var systems = []string{"linux", "darwin", "windows"}

// source is the code of one system, with types.
type source struct {
	goos   string
	files  *token.FileSet
	syntax []*ast.File
	info   *types.Info

	outside  types.Importer
	packages map[string]*types.Package
}

// load reads the packages in folders, which are relative to root, as they are built for
// one system. exports are the files that hold the types of what is outside.
func load(t *testing.T, goos string, folders []string, exports map[string]string) *source {
	t.Helper()
	files := token.NewFileSet()
	s := &source{
		goos: goos, files: files, packages: map[string]*types.Package{},
		info: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
			Selections: map[*ast.SelectorExpr]*types.Selection{}, Implicits: map[ast.Node]types.Object{},
		},
		outside: importer.ForCompiler(files, "gc", func(name string) (io.ReadCloser, error) {
			if exports[name] == "" {
				return nil, errors.New("another system's")
			}
			return os.Open(exports[name])
		}),
	}
	for _, folder := range folders {
		if _, err := s.Import(module + folder); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// Import implements types.Importer: what is in the repository is read with its bodies.
func (s *source) Import(name string) (*types.Package, error) {
	if known := s.packages[name]; known != nil {
		return known, nil
	}
	folder, inside := strings.CutPrefix(name, module)
	if !inside {
		found, err := s.outside.Import(name)
		if err != nil { // another system's
			found = types.NewPackage(name, path.Base(name))
			found.MarkComplete()
		}
		s.packages[name] = found
		return found, nil
	}
	files, err := s.parse(filepath.Join(root, folder))
	if err != nil {
		return nil, err
	}
	// What another system has besides is unknown here; the rest is as good.
	conf := types.Config{Importer: s, Error: func(error) {}}
	found, _ := conf.Check(name, s.files, files, s.info)
	s.packages[name] = found
	s.syntax = append(s.syntax, files...)
	return found, nil
}

// parse reads the files of one folder that are built for the system.
func (s *source) parse(folder string) ([]*ast.File, error) {
	target := build.Default
	target.GOOS, target.CgoEnabled = s.goos, false
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		if built, err := target.MatchFile(folder, e.Name()); err != nil || !built {
			continue
		}
		file, err := parser.ParseFile(s.files, filepath.Join(folder, e.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// place is where a node stands, as people write it.
func (s *source) place(n ast.Node) string {
	at := s.files.Position(n.Pos())
	name, err := filepath.Rel(root, at.Filename)
	if err != nil {
		name = at.Filename
	}
	return fmt.Sprintf("%s:%d", filepath.ToSlash(name), at.Line)
}

// aside are folders whose code no person's drawbridge runs.
var aside = []string{
	".ci", ".git", "bin", "docs", "examples", "testdata", "node_modules", "shared/providerpb",
	"host/internal/arrows", "host/internal/bench", "host/internal/crossing", "host/internal/docs", "host/internal/e2e",
	"host/internal/fakeserver", "host/internal/hosttest", "host/internal/killtest", "host/internal/testsummary",
}

// folders are those with code that a person's drawbridge runs.
func folders(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, at)
		name = filepath.ToSlash(name)
		switch folder := path.Dir(name); {
		case entry.IsDir() && (slices.Contains(aside, name) || slices.Contains(aside, entry.Name())):
			return filepath.SkipDir
		case !entry.IsDir() && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !slices.Contains(found, folder):
			found = append(found, folder)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// exportsOf asks the go command for the types of everything that packages need.
func exportsOf(t *testing.T, packages ...string) map[string]string {
	t.Helper()
	list := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Export"}, packages...)...)
	list.Dir = root
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := list.Start(); err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for dec := json.NewDecoder(out); ; {
		var p struct{ ImportPath, Export string }
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
	}
	if err := list.Wait(); err != nil {
		t.Fatal(err)
	}
	return exports
}
