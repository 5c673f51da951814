//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// read reads a file of the repository.
func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRunConfig serves what `make run` serves, on a free port: the default
// provider works with nothing but what `make build` made, and keeps its memory.
func TestRunConfig(t *testing.T) {
	p := newPlace(t)
	if err := os.Symlink(hosttest.Build(t), p.Path("bin")); err != nil {
		t.Fatal(err)
	}
	text := read(t, "providers.hcl")
	if !strings.Contains(text, `"127.0.0.1:7420"`) {
		t.Fatal("providers.hcl does not say where it listens, as the README does")
	}
	h := p.ServeHTTP(t, p.Write(t, "providers.hcl", strings.ReplaceAll(text, `"127.0.0.1:7420"`, `"127.0.0.1:0"`)))
	first, second := h.Client(t), h.Client(t)
	if got := hosttest.CallTool(t, first, "notebook_note_add", `{"text":"mind the gap"}`).Text(); got != "note 1: mind the gap" {
		t.Errorf("note_add: %q", got)
	}
	if got := hosttest.CallTool(t, second, "notebook_note_list", `{}`).Text(); got != "1. mind the gap" {
		t.Errorf("note_list of another client: %q", got)
	}
	for _, want := range []string{"1", "2", "3"} {
		if got := hosttest.CallTool(t, second, "notebook_counter", `{}`).Text(); got != want {
			t.Errorf("counter: %q, want %q: not the same process?", got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(p.Home, ".local/state/drawbridge/token")); err != nil {
		t.Errorf("the token is not where the README says: %v", err)
	}
}

// TestTryIt runs the commands of the README's first section.
func TestTryIt(t *testing.T) {
	p := newPlace(t)
	config := filepath.Join(root(t), "providers.hcl")
	out, err := hosttest.Output(t, p.Command(t, "tools", "--config", config))
	if err != nil || !strings.Contains(out, "notebook_note_add") {
		t.Errorf("tools: %v\n%s", err, out)
	}
	out, err = hosttest.Output(t, p.Command(t, "call", "--config", config, "notebook", "note_add", `{"text": "mind the gap"}`))
	if err != nil || strings.TrimSpace(out) != "note 1: mind the gap" {
		t.Errorf("call: %v\n%s", err, out)
	}
}

// TestExamplesAreValid checks every block of HCL that a reader may copy: in
// providers.hcl with the comments taken off, and in the documents.
func TestExamplesAreValid(t *testing.T) {
	p := newPlace(t)
	examples := map[string]string{"providers.hcl": uncomment(read(t, "providers.hcl"))}
	if n := strings.Count(examples["providers.hcl"], "\nprovider "); n != 4 {
		t.Errorf("%d providers in providers.hcl without its comments, want 4", n)
	}
	for name, block := range blocks(t, "hcl") {
		if strings.Contains(block, "…") { // a piece to be filled in; host/internal/docs holds those to the language
			continue
		}
		examples[name] = block
	}
	if len(examples) < 2 {
		t.Error("no HCL in the documents: this test does not look where it should")
	}
	for name, text := range examples {
		path := p.Write(t, "example.hcl", text)
		for _, secret := range regexp.MustCompile(`secret\("([^"]+)"\)`).FindAllStringSubmatch(text, -1) {
			set := p.Command(t, "secret", "set", "--config", path, secret[1])
			set.Stdin = strings.NewReader("a value for the example")
			if out, err := hosttest.Output(t, set); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, out)
			}
		}
		if out, err := hosttest.Output(t, p.Command(t, "validate", "--config", path)); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// uncomment takes the # off the commented-out blocks, and only those.
func uncomment(text string) string {
	var out []string
	inside := false
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "# provider ") {
			inside = true
		}
		if inside {
			inside = line != "# }"
			line = strings.TrimPrefix(strings.TrimPrefix(line, "#"), " ")
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// blocks finds the fenced blocks of a language in the README and docs, by file and ordinal.
func blocks(t testing.TB, language string) map[string]string {
	t.Helper()
	fence := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$")
	found := map[string]string{}
	files := []string{"README.md"}
	err := filepath.WalkDir(filepath.Join(root(t), "docs"), func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			rel, _ := filepath.Rel(root(t), path)
			files = append(files, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for i, m := range fence.FindAllStringSubmatch(read(t, file), -1) {
			found[file+" "+language+" "+string(rune('1'+i))] = m[1]
		}
	}
	return found
}

// TestClientConfigs checks that the client configurations are JSON, that those of the
// README are those of examples, and that what else is shown as JSON is.
func TestClientConfigs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root(t), "examples/client-configs/*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no client configurations: %v", err)
	}
	known := map[string]any{}
	for _, file := range files {
		var v any
		rel, _ := filepath.Rel(root(t), file)
		if err := json.Unmarshal([]byte(read(t, rel)), &v); err != nil {
			t.Errorf("%s: %v", rel, err)
		}
		known[filepath.Base(file)] = v
	}
	configs := 0
	for name, text := range blocks(t, "json") {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.HasPrefix(name, "README.md") {
			continue
		}
		configs++
		if !reflect.DeepEqual(v, known["http.json"]) && !reflect.DeepEqual(v, known["stdio.json"]) {
			t.Errorf("%s is none of the examples", name)
		}
	}
	if configs != 2 {
		t.Errorf("%d client configurations in the README, want 2", configs)
	}
}
