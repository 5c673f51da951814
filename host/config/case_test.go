package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

// TestC072_ProtectiveSettingsNeverFallBack: a value of a protective setting that
// cannot be used is refused with the attribute's path; it does not become the
// unprotected default without a word.
func TestC072_ProtectiveSettingsNeverFallBack(t *testing.T) {
	for name, c := range map[string]struct{ text, path string }{
		"locked misspelled":                 {"host {\n  locked = \"flase\"\n}", "host.locked"},
		"locked false in quotes":            {"host {\n  locked = \"false\"\n}", "host.locked"},
		"locked null":                       {"host {\n  locked = null\n}", "host.locked"},
		"recheck misspelled":                {"provider \"p\" {\n  plugin = \"stdio\"\n  recheck = \"befor_call\"\n}", "provider.p.recheck"},
		"recheck of another type":           {"provider \"p\" {\n  plugin = \"stdio\"\n  recheck = true\n}", "provider.p.recheck"},
		"unknown attribute":                 {"provider \"p\" {\n  plugin = \"stdio\"\n  alow_tools = []\n}", "provider.p.alow_tools"},
		"misspelled list":                   {"provider \"p\" {\n  plugin = \"stdio\"\n  exept = [\"pay\"]\n}", "provider.p.exept"},
		"a pattern that is none":            {"provider \"p\" {\n  plugin = \"stdio\"\n  except = [\"pay_?\"]\n}", "provider.p.except[0]"},
		"a principal without proof":         {"principal \"x\" {\n}\nproject \"p\" {\n}", "principal.x"},
		"a project for nobody":              {"project \"x\" {\n}", "project.x"},
		"a misspelled list of a grant":      {granting("tool = [\"pay\"]"), "project.p.grant.tool"},
		"a pattern in a grant that is none": {granting("except = [\"pay_?\"]"), "project.p.grant.except[0]"},
		"a grant of a text":                 {granting("tools = \"pay\""), "project.p.grant.tools"},
		"an expiry that is none": {"principal \"x\" {\n  token_sha256 = \"" + aDigest + "\"\n  expires = \"soon\"\n}\nproject \"p\" {\n}",
			"principal.x.expires"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, diags := loadText(c.text)
			for _, f := range Findings(cfg, diags) {
				if f.Severity == "error" && f.Path == c.path {
					return
				}
			}
			t.Errorf("no error at %s: %v", c.path, diags)
		})
	}

	for _, yes := range []string{"true", `"true"`} {
		if cfg, diags := loadText("host {\n  locked = " + yes + "\n}"); diags.HasErrors() || !cfg.Host.Locked {
			t.Errorf("locked = %s: %v, %v", yes, cfg.Host.Locked, diags)
		}
	}

	cfg, diags := loadText(`provider "p" {
  plugin = "stdio"
  tools  = []
  except = ["pay"]
}`)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if p := cfg.Providers[0]; p.Tools == nil || len(p.Tools) != 0 {
		t.Errorf("an empty list of tools became %q", p.Tools)
	}
	cfg, diags = loadText("provider \"p\" {\n  plugin = \"stdio\"\n  tools = [\"pay\", \"get\"]\n  except = [\"pay\"]\n}")
	if diags.HasErrors() || len(cfg.Providers[0].Except) != 1 {
		t.Errorf("both lists are to be kept, for deny to win: %v", diags)
	}
	cfg, diags = loadText(granting("tools = []\n    except = [\"pay\"]"))
	if diags.HasErrors() || cfg.Projects[0].Grants[0].Tools == nil || len(cfg.Projects[0].Grants[0].Tools) != 0 {
		t.Errorf("an empty list of a grant: %v", diags)
	}
}

// granting is a configuration with a grant that says more.
func granting(more string) string {
	return "principal \"x\" {\n  token_sha256 = \"" + aDigest + "\"\n}\nprovider \"a\" {\n  plugin = \"stdio\"\n}\n" +
		"project \"p\" {\n  grant {\n    principals = [\"x\"]\n    provider = \"a\"\n    " + more + "\n  }\n}\n"
}

// TestC075_SpellingIsKept: text reaches the plugin in the spelling it has in the
// file, though HCL turns every string into the form NFC, and the owner is told,
// with path and both spellings.
func TestC075_SpellingIsKept(t *testing.T) {
	const decomposed, composed = "cafe\u0301", "caf\u00e9"
	dir := t.TempDir()
	for _, name := range []string{decomposed, composed} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte(decomposed+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DRAWBRIDGE_TEST_NAME", decomposed)
	file := filepath.Join(dir, "a.hcl")
	text := `provider "p" {
  plugin = "stdio"
  config {
    command = "x"
    cwd     = "` + decomposed + `"
    args    = ["` + decomposed + `", "` + composed + `", "cafe\u0301", env("DRAWBRIDGE_TEST_NAME"), file("text"),
               "${path.config}/` + decomposed + `", <<EOT
` + decomposed + `
EOT
               , "e${env("DRAWBRIDGE_TEST_NONE", "\u0301")}", "\uFDD0", "\u212B"]
    env     = { "` + decomposed + `" = "1", "` + composed + `" = "2" }
    any     = { a = ["` + decomposed + `"] }
  }
}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, diags := Load(file)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	d, diags, missing := DecodeBody(cfg.Providers[0], testSchema, nil)
	if diags.HasErrors() || missing != nil {
		t.Fatal(diags, missing)
	}
	var got struct {
		Cwd  string
		Args []string
		Env  map[string]string
		Any  struct{ A []string }
	}
	if err := json.Unmarshal(d.Config.JSON, &got); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, got.Cwd)); err != nil || got.Cwd != decomposed {
		t.Errorf("cwd is %+q: %v", got.Cwd, err)
	}
	wantArgs := []string{decomposed, composed, decomposed, decomposed, decomposed, dir + "/" + decomposed, decomposed + "\n", "e\u0301", "\ufdd0", "\u212b"}
	for i, want := range wantArgs {
		if got.Args[i] != want {
			t.Errorf("args[%d] is %+q, not %+q", i, got.Args[i], want)
		}
	}
	if got.Env[decomposed] != "1" || got.Env[composed] != "2" {
		t.Errorf("env is %+q", got.Env)
	}
	if len(got.Any.A) != 1 || got.Any.A[0] != decomposed {
		t.Errorf("any is %+q", got.Any)
	}

	var paths []string
	for _, f := range Findings(cfg, diags) {
		if f.Severity == "warning" && strings.Contains(f.Detail, "U+0065 U+0301") && strings.Contains(f.Detail, "U+00E9") {
			paths = append(paths, strings.TrimPrefix(f.Path, "provider.p.config."))
		}
	}
	if want := `cwd args[0] args[2] args[5] args[6] env["` + decomposed + `"] any.a[0]`; strings.Join(paths, " ") != want {
		t.Errorf("warned of %s, not of %s", strings.Join(paths, " "), want)
	}
}

// TestC075_WhereSpellingCannotBeKept: the parser takes white space out of <<-, so
// the literal is no longer what stands in the file; that much is said.
func TestC075_WhereSpellingCannotBeKept(t *testing.T) {
	_, diags := loadText("provider \"p\" {\n  plugin = \"stdio\"\n  config {\n    command = <<-EOT\n      one\n      cafe\u0301\n    EOT\n  }\n}")
	if len(diags) != 1 || diags[0].Severity != hcl.DiagWarning || diags[0].Subject.Start.Line != 5 {
		t.Errorf("no warning: %v", diags)
	}
}
