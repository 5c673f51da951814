package config

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

const changesBase = `host {
  state_dir = "s"
  page_size = 50
}
plugin "acme" {
  path   = "bin/acme"
  sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
}
provider "Web Browser" {
  plugin = "stdio"
  tools  = ["a", "b"]
  config {
    command = "x"
  }
  limits {
    call_timeout = "59s"
  }
}
provider "notes" {
  plugin = "acme"
}
principal "ada" {
  token_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
}
project "site" {
  grant {
    principals = ["ada"]
    provider   = "notes"
    tools      = ["*"]
  }
}
`

// TestChanges tells what two configurations differ in beyond access, and where.
func TestChanges(t *testing.T) {
	base, diags := loadText(changesBase)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	for name, c := range map[string]struct {
		old, new string // what is replaced, and by what
		want     []string
	}{
		"nothing":                  {"", "", nil},
		"the same otherwise":       {`call_timeout = "59s"`, `call_timeout = "59000ms"`, nil},
		"a default written out":    {"  state_dir = \"s\"\n", "  state_dir = \"s\"\n  list_wait = \"2s\"\n", nil},
		"a comment":                {"host {", "# more\nhost {", nil},
		"a grant":                  {`tools      = ["*"]`, `tools      = ["a"]`, nil},
		"a principal":              {"principal \"ada\" {", "principal \"ben\" {\n  token_sha256 = \"1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"\n}\nprincipal \"ada\" {", nil},
		"naming in a project":      {"project \"site\" {", "project \"site\" {\n  names = \"bare\"", nil},
		"an attribute":             {"page_size = 50", "page_size = 51", []string{"test.hcl:3:15 host.page_size changed"}},
		"an attribute taken out":   {"  page_size = 50\n", "", []string{"test.hcl:1:1 host.page_size changed"}},
		"a nested one":             {`call_timeout = "59s"`, `call_timeout = "61s"`, []string{`test.hcl:16:20 provider["Web Browser"].limits.call_timeout changed`}},
		"a nested block taken out": {"  limits {\n    call_timeout = \"59s\"\n  }\n", "", []string{`- provider["Web Browser"].limits.call_timeout changed`}},
		"a nested block put in": {"plugin = \"acme\"\n", "plugin = \"acme\"\n  session {\n    scope = \"shared\"\n  }\n",
			[]string{"test.hcl:22:13 provider.notes.session.scope changed"}},
		"the order of a list": {`["a", "b"]`, `["b", "a"]`, []string{`test.hcl:11:12 provider["Web Browser"].tools changed`}},
		"a provider more":     {"principal \"ada\"", "provider \"new\" {\n  plugin = \"stdio\"\n}\nprincipal \"ada\"", []string{"test.hcl:22:1 provider.new is new"}},
		"a label":             {`provider "Web Browser" {`, `provider "web browser" {`, []string{`- provider["Web Browser"] is gone`, `test.hcl:9:1 provider["web browser"] is new`}},
		"a checksum":          {`sha256 = "0123`, `sha256 = "1123`, []string{"test.hcl:7:12 plugin.acme.sha256 changed"}},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(changesBase, c.old) {
				t.Fatal("the base has no such text")
			}
			next, diags := loadText(strings.Replace(changesBase, c.old, c.new, 1))
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			var got []string
			for _, d := range base.Changes(next) {
				at := "-"
				if d.Subject != nil {
					at = where(*d.Subject)
				}
				got = append(got, at+" "+d.Summary)
				if d.Detail == "" || strings.Contains(d.Detail, "61s") {
					t.Errorf("%s: %s", d.Summary, d.Detail)
				}
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestConfigSource(t *testing.T) {
	c, _ := loadText(changesBase)
	if got := string(c.ConfigSource(c.Providers[1])); !strings.Contains(got, `command = "x"`) || strings.Contains(got, "limits") {
		t.Errorf("got %s", got)
	}
}

// TestNoAttributeIsLeftOut: whatever attribute there is, but for those of access, a change
// of it is found.
func TestNoAttributeIsLeftOut(t *testing.T) {
	base, _ := loadText(changesBase)
	again, _ := loadText(changesBase)
	seen := 0
	var walk func(kind blockType, path string)
	walk = func(kind blockType, path string) {
		inner := kind.open()
		for _, a := range inner.attributes {
			path := join(path, a.name)
			was, ok := base.settings[path]
			if !ok {
				t.Errorf("%s is not kept", path)
				continue
			}
			seen++
			again.settings[path] = setting{value: []string{"another"}, at: was.at}
			if diags := base.Changes(again); len(diags) != 1 || diags[0].Summary != path+" changed" || diags[0].Severity != hcl.DiagError {
				t.Errorf("a change of %s: %v", path, diags)
			}
			again.settings[path] = was
		}
		for _, block := range inner.blocks {
			walk(block, join(path, block.name))
		}
	}
	for _, kind := range root(&Config{}, place{home: "~"}).blocks {
		switch kind.name {
		case "principal", "project":
		case "provider":
			walk(kind, "provider.notes")
		case "plugin":
			walk(kind, "plugin.acme")
		default:
			walk(kind, kind.name)
		}
	}
	if seen < 50 {
		t.Errorf("%d attributes were looked at", seen)
	}
}
