package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// TestTrial checks that a trial answers with what stands for values, reads nothing, and
// gives strings as they are spelled.
func TestTrial(t *testing.T) {
	t.Setenv("TRIAL", "read")
	schema := provider.Schema{Attributes: []provider.Attribute{
		{Name: "command", Type: json.RawMessage(`"string"`), Required: true},
		{Name: "args", Type: json.RawMessage(`["list","string"]`)},
	}}
	c, diags := LoadWith("x.hcl", "x.hcl", []byte(`provider "x" {
  plugin = "stdio"
  config {
    command = "cafe\u0301"
    args    = [env("TRIAL"), env("TRIAL", "e\u0301"), "a${secret("s.x")}b", file("/nowhere"), path.home]
  }
}
`))
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	got, diags := Trial(c.Providers[0], schema, Stand{
		Env: func(name string, fallback *string) string {
			if fallback != nil {
				return "env " + name + "|" + *fallback
			}
			return "env " + name
		},
		Secret: func(name string) string { return "secret " + name },
		File:   func(path string) string { return "file " + path },
		Home:   "home",
	})
	want := "{\"command\":\"cafe\u0301\",\"args\":[\"env TRIAL\",\"env TRIAL|e\u0301\",\"asecret s.xb\",\"file /nowhere\",\"home\"]}"
	if diags.HasErrors() || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, diags, want)
	}
}

// TestTrialMistake checks that what is wrong with a block is told without its values.
func TestTrialMistake(t *testing.T) {
	c, diags := LoadWith("x.hcl", "x.hcl", []byte("provider \"x\" {\n  plugin = \"stdio\"\n  config {\n    command = nothing\n  }\n}\n"))
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	schema := provider.Schema{Attributes: []provider.Attribute{{Name: "command", Type: json.RawMessage(`"string"`), Required: true}}}
	if _, diags := Trial(c.Providers[0], schema, Stand{}); !diags.HasErrors() {
		t.Error("an unknown variable passes")
	}
}

// TestLoadWith checks that a text stands for a file of a folder, which stays as it is,
// and that what other files say counts.
func TestLoadWith(t *testing.T) {
	dir := t.TempDir()
	one := filepath.Join(dir, "one.hcl")
	if err := os.WriteFile(one, []byte("provider \"one\" {\n  plugin = \"stdio\"\n  config { command = \"x\" }\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	block := []byte("provider \"two\" {\n  plugin = \"stdio\"\n  config { command = \"x\" }\n}\n")
	for name, want := range map[string]int{filepath.Join(dir, "two.hcl"): 2, one: 1} {
		c, diags := LoadWith(dir, name, block)
		if diags.HasErrors() || len(c.Providers) != want {
			t.Errorf("%s: %d providers, %v; want %d", filepath.Base(name), len(c.Providers), diags, want)
		}
	}
	again := []byte("provider \"ONE\" {\n  plugin = \"stdio\"\n  config { command = \"y\" }\n}\n")
	if _, diags := LoadWith(dir, filepath.Join(dir, "two.hcl"), again); !diags.HasErrors() {
		t.Error("a second provider of one name passes")
	}
	if c, diags := LoadWith(filepath.Join(dir, "new"), filepath.Join(dir, "new", "a.hcl"), block); diags.HasErrors() || len(c.Providers) != 1 {
		t.Errorf("a folder that is not there yet: %v", diags)
	}
}
