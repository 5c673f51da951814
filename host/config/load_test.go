package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoad_Folder(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"b.hcl":              `provider "two" { plugin = "stdio" }`,
		"a.hcl":              `provider "one" { plugin = "acme" }`,
		"c.hcl":              "host {\n  page_size = 7\n}\nplugin \"acme\" {\n  path = \"acme\"\n  sha256 = \"" + aDigest + "\"\n}",
		"providers.lock.hcl": "}",
		".hidden.hcl":        "}",
		"notes.txt":          "}",
	})
	c, diags := Load(dir)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if c.Path != dir || len(c.Sources) != 3 || c.Host.PageSize != 7 || c.Plugins["acme"].Path != filepath.Join(dir, "acme") {
		t.Errorf("%+v", c)
	}
	if len(c.Providers) != 2 || c.Providers[0].Slug != "one" || c.Providers[1].BaseDir != dir {
		t.Errorf("%+v", c.Providers)
	}
}

// TestLoad_Names: diagnostics name a file as the user does.
func TestLoad_Names(t *testing.T) {
	dir := writeFiles(t, map[string]string{"a.hcl": "x = 1\n"})
	t.Chdir(dir)
	for given, want := range map[string]string{"a.hcl": "a.hcl", "./a.hcl": "a.hcl", ".": "a.hcl", dir: filepath.Join(dir, "a.hcl")} {
		c, diags := Load(given)
		if len(diags) != 1 || diags[0].Subject.Filename != want || !filepath.IsAbs(c.Path) {
			t.Errorf("%s: %v, %s", given, diags, c.Path)
		}
	}
}

func TestLoad_Unreadable(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"large.hcl":  strings.Repeat("#", maxFileSize+1),
		"binary.hcl": "a = \"\xff\"",
	})
	if err := os.Mkdir(filepath.Join(dir, "folder.hcl"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, diags := Load(dir); len(diags) != 3 {
		t.Errorf("each of three files is to be named: %v", diags)
	}
	for _, path := range []string{filepath.Join(dir, "none.hcl"), filepath.Join(dir, "large.hcl"), filepath.Join(dir, "folder.hcl"), ""} {
		c, diags := Load(path)
		if len(diags) != 1 || !diags.HasErrors() || diags[0].Detail == "" || c == nil {
			t.Errorf("%s: %v", path, diags)
		}
	}
}

// TestLoad_OddFolderName: a folder's name is no pattern.
func TestLoad_OddFolderName(t *testing.T) {
	dir := filepath.Join(writeFiles(t, nil), "a[b]*")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.hcl"), []byte(`provider "p" { plugin = "stdio" }`), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, diags := Load(dir); diags.HasErrors() || len(c.Providers) != 1 {
		t.Error(diags)
	}
}

func TestLoad_WindowsFile(t *testing.T) {
	dir := writeFiles(t, map[string]string{"a.hcl": "\ufeffprovider \"p\" {\r\n  plugin = \"stdio\"\r\n  oops = 1\r\n}\r\n"})
	c, diags := Load(filepath.Join(dir, "a.hcl"))
	if len(diags) != 1 || diags[0].Subject.Start != (hcl.Pos{Line: 3, Column: 3, Byte: 38}) {
		t.Fatal(diags[0].Subject, diags)
	}
	var out strings.Builder
	if err := WriteDiagnostics(&out, c, diags, false); err != nil || strings.Contains(out.String(), "\r") || !strings.Contains(out.String(), "oops") {
		t.Errorf("%q", out.String())
	}
}

// TestLoad_EveryMistake: one run names the mistakes of every block, whatever is
// wrong with the others.
func TestLoad_EveryMistake(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"a.hcl": "provider \"a\" {\n  plugin = \"stdio\n}\n\nprovider \"b\" {\n  plugin = \"stdio\"\n  star = 1\n  limits {\n    max_queue = -1\n  }\n}\n\nprovider \"c\" {\n  plugin = = 1\n",
		"b.hcl": "host {\n  list_wait = 3\n}\n",
	})
	c, diags := Load(dir)
	var got []string
	for _, d := range diags {
		got = append(got, strings.TrimPrefix(where(*d.Subject), dir+"/"))
	}
	want := "a.hcl:2:18 a.hcl:7:3 a.hcl:9:17 a.hcl:14:12 b.hcl:2:15"
	if strings.Join(got, " ") != want {
		t.Errorf("%s\nnot\n%s\n%v", strings.Join(got, " "), want, diags.Errs())
	}
	if len(c.Providers) < 2 {
		t.Errorf("what could be read is not there: %v", c.Providers)
	}
}

// TestLoad_LabelMistakes: a label too many, or one that is missing, leaves no
// default out and hides no other mistake.
func TestLoad_LabelMistakes(t *testing.T) {
	c, diags := loadText("host \"x\" {\n  page_size = 0\n}\nprovider {\n  plugin = \"stdio\"\n  limits {\n    max_queue = -1\n  }\n}\n")
	if len(diags) != 4 || c.Host.StateDir == "" || c.Host.PageSize != 1000 || len(c.Providers) != 0 {
		t.Errorf("%v, %+v", diags.Errs(), c.Host)
	}
}

func TestSlug(t *testing.T) {
	for label, want := range map[string]string{
		"browser": "browser", "My  Browser!": "my-browser", "--a__b--": "a-b", "Ünï": "n", "A1": "a1",
		strings.Repeat("x", 32): strings.Repeat("x", 32), "": "", "---": "", "日本": "", strings.Repeat("x", 33): "",
		"\u212a": "", // the sign of Kelvin, whose lower case is k
	} {
		got, err := Slug(label)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("Slug(%q) = %q, %v; not %q", label, got, err, want)
		}
	}
}

func TestFormat(t *testing.T) {
	got, diags := Format("a.hcl", []byte("host {\nsurface=\"direct\" # c\n  page_size    = 1\n}\n"))
	want := "host {\n  surface   = \"direct\" # c\n  page_size = 1\n}\n"
	if string(got) != want || diags != nil {
		t.Errorf("%s, %v", got, diags)
	}
	if again, _ := Format("a.hcl", got); string(again) != want {
		t.Errorf("formatting twice changes it again:\n%s", again)
	}
	broken := "host {\n surface=\n"
	if got, diags := Format("a.hcl", []byte(broken)); string(got) != broken || !diags.HasErrors() || diags[0].Subject.Filename != "a.hcl" {
		t.Errorf("%s, %v", got, diags)
	}
}

// TestReference keeps the documentation true to the table.
func TestReference(t *testing.T) {
	golden(t, filepath.Join("..", "..", "docs", "reference", "configuration.md"), Reference())
}
