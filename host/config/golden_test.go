package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

var update = flag.Bool("update", false, "write the golden files")

// testSchema is like that of the plugin stdio, with every feature of a schema.
var testSchema = provider.Schema{
	Attributes: []provider.Attribute{
		{Name: "command", Type: json.RawMessage(`"string"`), Required: true},
		{Name: "args", Type: json.RawMessage(`["list","string"]`), Default: json.RawMessage(`[]`)},
		{Name: "env", Type: json.RawMessage(`["map","string"]`)},
		{Name: "cwd", Type: json.RawMessage(`"string"`)},
		{Name: "token", Type: json.RawMessage(`"string"`), Sensitive: true},
		{Name: "keys", Type: json.RawMessage(`["set","string"]`), Sensitive: true},
		{Name: "size", Type: json.RawMessage(`"number"`), Default: json.RawMessage(`12`)},
		{Name: "verbose", Type: json.RawMessage(`"bool"`)},
		{Name: "any", Type: json.RawMessage(`"dynamic"`)},
	},
	Blocks: []provider.Block{
		{Name: "proxy", MaxItems: 1, Schema: provider.Schema{Attributes: []provider.Attribute{
			{Name: "host", Type: json.RawMessage(`"string"`), Required: true},
			{Name: "port", Type: json.RawMessage(`"number"`), Default: json.RawMessage(`80`)},
			{Name: "password", Type: json.RawMessage(`"string"`), Sensitive: true},
		}}},
		{Name: "rule", Schema: provider.Schema{Attributes: []provider.Attribute{
			{Name: "path", Type: json.RawMessage(`"string"`), Required: true},
			{Name: "value", Type: json.RawMessage(`"dynamic"`)},
		}}},
	},
}

// golden compares got with a file, or writes the file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("differs from %s (run with -update if it should):\n%s", name, diff)
	}
}

// everything loads a configuration and decodes every config block in it.
func everything(path string) (*Config, hcl.Diagnostics) {
	c, diags := Load(path)
	diags = slices.Concat(diags, c.Notices)
	for _, p := range c.Providers {
		_, wrong, missing := DecodeBody(p, testSchema, noSecrets)
		diags = slices.Concat(diags, wrong, missing)
	}
	return c, diags
}

// TestGolden prints what is wrong with each file and folder of testdata.
func TestGolden(t *testing.T) {
	t.Chdir("testdata")
	t.Setenv("HOME", "/home/user")
	t.Setenv("DRAWBRIDGE_TEST_SECRET", "s3cret-value")
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, entry := range entries {
		name := entry.Name()
		if !entry.IsDir() && filepath.Ext(name) != extension || name == "fuzz" {
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			c, diags := everything(name)
			var out bytes.Buffer
			if err := WriteDiagnostics(&out, c, diags, false); err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(name, extension)+".golden", out.String())
			for _, d := range diags {
				if d.Severity == hcl.DiagError && d.Subject == nil {
					t.Errorf("no place: %s", d.Summary)
				}
				if strings.TrimSpace(d.Detail) == "" {
					t.Errorf("no remedy: %s", d.Summary)
				}
				if d.Expression != nil || d.EvalContext != nil {
					t.Errorf("HCL's own writer could print values: %s", d.Summary)
				}
			}
			if text := out.String(); strings.Contains(text, "s3cret") {
				t.Errorf("prints a value of a config block:\n%s", text)
			}
		})
	}
	if ran < 8 {
		t.Errorf("only %d cases", ran)
	}
}
