package arrows

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/drawbridge-mcp/drawbridge"

// TestModule checks the module as it stands.
func TestModule(t *testing.T) {
	pkgs := list(t)
	for _, want := range []string{"shared/provider", "host/rpc", "host/internal/arrows"} {
		if !slices.ContainsFunc(pkgs, func(p Package) bool { return p.ImportPath == module+"/"+want }) {
			t.Errorf("go list names no package %s: this test would pass without looking", want)
		}
	}
	for _, v := range Check(module, pkgs) {
		t.Error(v)
	}
}

// list reads the import graph of the whole module, end-to-end tests included.
func list(t *testing.T) []Package {
	t.Helper()
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "list", "-e", "-tags", "e2e", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = filepath.Dir(strings.TrimSpace(string(mod)))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var pkgs []Package
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Package
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// TestPicture lists the arrows of the picture: none of them may be reported.
func TestPicture(t *testing.T) {
	for _, arrow := range []string{
		"host/front > host/broker",
		"host/front > host/catalog", // skipping a layer
		"host/front > host/rpc",
		"host/front > host/config",
		"host/broker > host/access host/catalog host/journal host/artifact host/session",
		"host/importer > host/config host/internal/secretstore shared/provider",
		"host/cmd/drawbridge > host/importer",
		"host/session > host/supervise",
		"host/session > host/rpc",
		"host/session > shared/provider",
		"host/supervise > host/containment",
		"host/supervise > shared/provider",
		"host/config > shared/provider",
		"host/config/internal/x > host/config", // one room
		"host/rpc > shared/jsonscan",
		"host/front > host/internal/redact",
		"host/cmd/drawbridge > host/internal/identity",
		"host/control > host/broker host/catalog host/session host/supervise host/internal/peer",
		"host/supervise > host/internal/peer",
		"host/broker > host/internal/shape",
		"host/internal/shape > shared/scrub",
		"host/connect > host/broker host/rpc",
		"host/cmd/drawbridge > host/internal/redact host/front host/session host/config plugins/stdio shared/sdk",
		"host/internal/e2e > host/session plugins/stdio",
		"plugins/stdio > shared/provider shared/sdk",
		"shared/sdk > shared/provider shared/providerpb",
		"examples/servers/notebook > shared/sdk",
		"host/rpc > fmt github.com/spf13/cobra",
	} {
		if got := Check(module, graph(arrow, false)); len(got) != 0 {
			t.Errorf("%s: reported as %v", arrow, got)
		}
	}
}

// TestBroken breaks each rule once, and each layer against each that it may not reach.
func TestBroken(t *testing.T) {
	cases := map[string][]string{
		ruleShared:     {"shared/provider > host/rpc", "shared/sdk > plugins/stdio"},
		rulePlugins:    {"plugins/stdio > host/rpc", "plugins/stdio > host/config", "plugins/stdio > plugins/http"},
		ruleExamples:   {"examples/servers/notebook > host/rpc", "examples/servers/notebook > plugins/stdio"},
		ruleRunPlugins: {"host/supervise > plugins/stdio", "host/rpc > plugins/stdio", "host/front > plugins/http"},
		ruleCmd:        {"host/front > host/cmd/drawbridge", "plugins/stdio > host/cmd/drawbridge", "host/internal/e2e > host/cmd/drawbridge"},
		ruleInternal:   {"host/front > host/internal/fakeserver", "host/cmd/drawbridge > host/internal/fakeserver", "host/rpc > host/internal/x"},
		ruleLeaf:       {"host/internal/peer > host/supervise", "host/rpc > host/config", "host/config > host/rpc", "host/rpc > host/session", "host/config > host/supervise", "host/internal/redact > host/rpc", "host/internal/identity > host/config"},
		ruleApart:      {"host/containment > shared/provider"},
		ruleExample:    {"host/front > examples/servers/notebook", "shared/sdk > examples/servers/notebook"},
		rulePlace:      {"host/misc > fmt", "tools > fmt", "host > fmt"},
	}
	names := make([]string, 0, len(layers))
	for name := range layers {
		names = append(names, name)
	}
	for _, from := range names {
		for _, to := range names {
			if from != to && layers[to] >= layers[from] {
				cases[ruleDown] = append(cases[ruleDown], "host/"+from+" > host/"+to)
			}
		}
	}
	// 15 rooms make 105 pairs; the 74 of different height have one broken direction, the 31 of one height two.
	if got := len(cases[ruleDown]); got != 136 {
		t.Errorf("%d broken arrows between layers, want 136", got)
	}
	for rule, arrows := range cases {
		for _, arrow := range arrows {
			got := Check(module, graph(arrow, false))
			if len(got) != 1 || got[0].Rule != rule {
				t.Errorf("%s: got %v, want one %q", arrow, got, rule)
			}
		}
	}
}

// TestTests checks what tests may do, and what they may not.
func TestTests(t *testing.T) {
	for _, arrow := range []string{
		"host/session > host/internal/fakeserver plugins/stdio host/front",
		"plugins/stdio > shared/sdk",
	} {
		if got := Check(module, graph(arrow, true)); len(got) != 0 {
			t.Errorf("%s in a test: reported as %v", arrow, got)
		}
	}
	for _, arrow := range []string{
		"shared/provider > host/rpc",
		"plugins/stdio > host/rpc",
		"host/front > host/cmd/drawbridge",
	} {
		got := Check(module, graph(arrow, true))
		if len(got) != 1 || !got[0].Test || !strings.Contains(got[0].String(), "in a test") {
			t.Errorf("%s in a test: got %v, want one violation in a test", arrow, got)
		}
	}
}

// graph reads "from > to to…", with paths inside the module where they start with one of its folders.
func graph(arrow string, test bool) []Package {
	from, to, _ := strings.Cut(arrow, " > ")
	p := Package{ImportPath: module + "/" + from}
	for _, path := range strings.Fields(to) {
		top, _, _ := strings.Cut(path, "/")
		if slices.Contains([]string{"host", "plugins", "shared", "examples"}, top) {
			path = module + "/" + path
		}
		if test {
			p.XTestImports = append(p.XTestImports, path)
		} else {
			p.Imports = append(p.Imports, path)
		}
	}
	return []Package{p}
}
