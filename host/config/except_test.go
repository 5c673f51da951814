package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestNamesInGrantsKeepTheirSpelling: a tool is excepted by the characters of its name.
// HCL composes decomposed ones, and the name would be another.
func TestNamesInGrantsKeepTheirSpelling(t *testing.T) {
	path := filepath.Join(t.TempDir(), "providers.hcl")
	text := "provider \"p\" {\n  plugin = \"stdio\"\n  tools = [\"*\"]\n  except = [\"pa\\u0308y\", \"*a\u0308*\"]\n  config {\n    command = \"true\"\n  }\n}\n" +
		"principal \"a\" {\n  token_sha256 = \"" + aDigest + "\"\n}\n" +
		"project \"s\" {\n  grant {\n    principals = [\"a\"]\n    provider = \"p\"\n    tools = [\"*\"]\n    except = [\"pa\u0308y\", \"${\"pa\"}\u0308y\"]\n  }\n}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, diags := Load(path)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	const decomposed, composed = "pa\u0308y", "p\u00e4y"
	for _, except := range [][]string{cfg.Providers[0].Except, cfg.Projects[0].Grants[0].Except} {
		if matches := func(name string) bool {
			return slices.ContainsFunc(except, func(p string) bool { return Match(p, name) })
		}; !matches(decomposed) || matches(composed) {
			t.Errorf("%+q excepts the decomposed name: %v, the composed one: %v", except, matches(decomposed), matches(composed))
		}
	}
}
