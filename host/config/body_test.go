package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// bodyOf is the one provider of a file that holds this config block.
func bodyOf(t *testing.T, lines string) *Provider {
	t.Helper()
	c, diags := loadText("provider \"p\" {\n  plugin = \"stdio\"\n  config {\n" + lines + "\n  }\n}\n")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return c.Providers[0]
}

func TestDecodeBody(t *testing.T) {
	for name, c := range map[string]struct{ lines, want string }{
		"defaults and nulls": {`command = "x"`,
			`{"command":"x","args":[],"env":null,"cwd":null,"token":null,"keys":null,"size":12,"verbose":null,"any":null,"proxy":null,"rule":[]}`},
		"null is absent": {"command = \"x\"\nargs = null\nsize = null",
			`{"command":"x","args":[],"env":null,"cwd":null,"token":null,"keys":null,"size":12,"verbose":null,"any":null,"proxy":null,"rule":[]}`},
		"conversions of HCL": {"command = \"x\"\nargs = [\"--port\", 8080, true]\nenv = { B = 2, A = \"1\" }\nverbose = \"true\"\nsize = \"9007199254740993\"\nkeys = [\"b\", \"a\", \"b\"]",
			`{"command":"x","args":["--port","8080","true"],"env":{"A":"1","B":"2"},"cwd":null,"token":null,"keys":["a","b"],"size":9007199254740993,"verbose":true,"any":null,"proxy":null,"rule":[]}`},
		"numbers keep their digits": {"command = \"x\"\nany = [9007199254740993, 123456789012345678901234567890, -1, 0.1, 1e3, 1.5e-7, 2.50]",
			`{"command":"x","args":[],"env":null,"cwd":null,"token":null,"keys":null,"size":12,"verbose":null,"any":[9007199254740993,123456789012345678901234567890,-1,0.1,1000,1.5e-07,2.5],"proxy":null,"rule":[]}`},
		"blocks": {"command = \"x\"\nproxy {\n host = \"h\"\n}\nrule {\n path = \"a\"\n value = 1\n}\nrule {\n path = \"b\"\n value = \"two\"\n}",
			`{"command":"x","args":[],"env":null,"cwd":null,"token":null,"keys":null,"size":12,"verbose":null,"any":null,"proxy":{"host":"h","port":80,"password":null},"rule":[{"path":"a","value":1},{"path":"b","value":"two"}]}`},
		"expressions": {"command = \"a${1 + 1}\"\ncwd = true ? path.config : path.home\nany = { a = \"<&>\", b = null, \"c d\" = [] }",
			`{"command":"a2","args":[],"env":null,"cwd":"/etc/drawbridge","token":null,"keys":null,"size":12,"verbose":null,"any":{"a":"\u003c\u0026\u003e","b":null,"c d":[]},"proxy":null,"rule":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			d, diags, missing := DecodeBody(bodyOf(t, c.lines), testSchema, nil)
			if diags != nil && diags.HasErrors() || missing != nil {
				t.Fatal(diags, missing)
			}
			if diff := cmp.Diff(c.want, string(d.Config.JSON)); diff != "" {
				t.Error(diff)
			}
			if !json.Valid(d.Config.JSON) || d.Config.BaseDir != "/etc/drawbridge" {
				t.Errorf("%+v", d.Config)
			}
		})
	}
}

// TestDecodeBody_Places: a wrong type, an unknown name and a missing value are
// each told at file, line and column, all in one run.
func TestDecodeBody_Places(t *testing.T) {
	p := bodyOf(t, "args = [\"a\", [\"b\"]]\n  colour = 1\nverbose = \"maybe\"\nproxy {\n host = null\n}\nproxyy {\n}")
	_, diags, missing := DecodeBody(p, testSchema, nil)
	if missing != nil {
		t.Error(missing)
	}
	var got []string
	for _, d := range diags {
		got = append(got, fmt.Sprintf("%s %s", where(*d.Subject), d.Summary))
	}
	want := []string{
		`test.hcl:3:3 Missing attribute "command"`,
		`test.hcl:4:8 Incorrect attribute value type`,
		`test.hcl:5:3 Unknown attribute "colour"`,
		`test.hcl:6:11 Incorrect attribute value type`,
		`test.hcl:10:1 Unknown block "proxyy"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	_, diags, _ = DecodeBody(bodyOf(t, "command = \"x\"\nproxy {\n host = null\n}"), testSchema, nil)
	if len(diags) != 1 || where(*diags[0].Subject) != "test.hcl:6:9" {
		t.Errorf("a required attribute that is null: %v", diags)
	}
}

func TestDecodeBody_Missing(t *testing.T) {
	c, diags := loadText(`provider "a" {
  plugin      = "stdio"
  description = env("DRAWBRIDGE_TEST_UNSET")
  config {
    command = env("DRAWBRIDGE_TEST_UNSET_COMMAND")
    args    = [file("none"), env("DRAWBRIDGE_TEST_UNSET", "default")]
    cwd     = env("DRAWBRIDGE_TEST_UNSET", null)
  }
}
provider "b" {
  plugin = "stdio"
  config {
    command = env("DRAWBRIDGE_TEST_UNSET", "b")
  }
}`)
	if diags.HasErrors() {
		t.Fatalf("what the machine lacks fails one provider, not the file: %v", diags)
	}
	d, diags, missing := DecodeBody(c.Providers[0], testSchema, nil)
	if diags.HasErrors() || len(missing) != 3 || d.Config.JSON != nil {
		t.Errorf("%v, %v, %s", diags, missing, d.Config.JSON)
	}
	for i, want := range []string{"DRAWBRIDGE_TEST_UNSET", "DRAWBRIDGE_TEST_UNSET_COMMAND", `"none"`} {
		if !strings.Contains(missing[i].Detail, want) {
			t.Errorf("%q does not name %s", missing[i].Detail, want)
		}
	}
	if _, diags, missing := DecodeBody(c.Providers[1], testSchema, nil); diags != nil && diags.HasErrors() || missing != nil {
		t.Errorf("the other provider fails too: %v, %v", diags, missing)
	}
	if _, diags := loadText(`host { state_dir = env("DRAWBRIDGE_TEST_UNSET") }`); !diags.HasErrors() {
		t.Error("the host goes on without what its own attribute needs")
	}
}

func TestDecodeBody_Secrets(t *testing.T) {
	t.Setenv("DRAWBRIDGE_TEST_LONG", "long-enough")
	t.Setenv("DRAWBRIDGE_TEST_SHORT", "short")
	t.Setenv("DRAWBRIDGE_TEST_BIN", "/opt/long-enough-bin")
	d, diags, missing := DecodeBody(bodyOf(t, `
    command = "/usr/bin/node --token=abc/def"
    args    = [env("DRAWBRIDGE_TEST_LONG"), "x-${env("DRAWBRIDGE_TEST_SHORT")}", "plain-value"]
    token   = "hunter2"
    keys    = ["first-key", "false"]
    proxy {
      host     = "h"
      password = "pass-word"
    }`), testSchema, nil)
	if diags.HasErrors() || missing != nil {
		t.Fatal(diags, missing)
	}
	if diff := cmp.Diff([]string{"first-key", "hunter2", "long-enough", "pass-word"}, d.Secrets); diff != "" {
		t.Error(diff)
	}
	if d.Command != "node" {
		t.Errorf("command is %q", d.Command)
	}
	d, _, _ = DecodeBody(bodyOf(t, `command = env("DRAWBRIDGE_TEST_BIN")`), testSchema, nil)
	if d.Command != "" {
		t.Errorf("a command out of the environment is shown: %q", d.Command)
	}
	d, diags, _ = DecodeBody(bodyOf(t, `
    command = "x"
    size    = env("DRAWBRIDGE_TEST_LONG")`), testSchema, nil)
	if !diags.HasErrors() || !slices.Contains(d.Secrets, "long-enough") {
		t.Errorf("secrets of a block that failed are lost: %q, %v", d.Secrets, diags)
	}
}

// TestDecodeBody_NamesFromEnv: what env() gives is not shown as the name of
// something else.
func TestDecodeBody_NamesFromEnv(t *testing.T) {
	t.Setenv("DRAWBRIDGE_TEST_SHORT", "s3cret")
	for _, expr := range []string{`env(env("DRAWBRIDGE_TEST_SHORT"))`, `file(env("DRAWBRIDGE_TEST_SHORT"))`} {
		_, diags, missing := DecodeBody(bodyOf(t, "command = "+expr), testSchema, nil)
		if diags.HasErrors() || len(missing) != 1 || strings.Contains(missing[0].Detail, "s3cret") {
			t.Errorf("%s: %v, %v", expr, diags, missing)
		}
	}
}

func TestDecodeBody_Infinity(t *testing.T) {
	for _, expr := range []string{"any = 1 / 0", "size = -1 / 0"} {
		d, diags, _ := DecodeBody(bodyOf(t, "command = \"x\"\n"+expr), testSchema, nil)
		if len(diags) != 1 || d.Config.JSON != nil {
			t.Errorf("%s: %v, %s", expr, diags, d.Config.JSON)
		}
	}
	if d, diags, _ := DecodeBody(bodyOf(t, "command = \"x\"\nany = [1 / 0]"), testSchema, nil); len(diags) != 1 {
		t.Errorf("%v, %s", diags, d.Config.JSON)
	}
}

// TestDecodeBody_BadSchema: nonsense from a plugin is told as the plugin's fault, and
// fails its own provider alone.
func TestDecodeBody_BadSchema(t *testing.T) {
	attribute := func(a provider.Attribute) provider.Schema {
		return provider.Schema{Attributes: []provider.Attribute{a}}
	}
	deep := provider.Schema{}
	for range maxBlockDepth + 2 {
		deep = provider.Schema{Blocks: []provider.Block{{Name: "b", Schema: deep}}}
	}
	str := json.RawMessage(`"string"`)
	for name, s := range map[string]provider.Schema{
		"no type":          attribute(provider.Attribute{Name: "a"}),
		"unknown type":     attribute(provider.Attribute{Name: "a", Type: json.RawMessage(`"strong"`)}),
		"broken type":      attribute(provider.Attribute{Name: "a", Type: json.RawMessage(`["list"`)}),
		"no name":          attribute(provider.Attribute{Type: str}),
		"bad name":         attribute(provider.Attribute{Name: "a b", Type: str}),
		"bad default":      attribute(provider.Attribute{Name: "a", Type: str, Default: json.RawMessage(`[`)}),
		"default of other": attribute(provider.Attribute{Name: "a", Type: str, Default: json.RawMessage(`{}`)}),
		"required default": attribute(provider.Attribute{Name: "a", Type: str, Required: true, Default: json.RawMessage(`"x"`)}),
		"name twice":       {Attributes: []provider.Attribute{{Name: "a", Type: str}}, Blocks: []provider.Block{{Name: "a"}}},
		"counts":           {Blocks: []provider.Block{{Name: "a", MinItems: 2, MaxItems: 1}}},
		"too deep":         deep,
	} {
		t.Run(name, func(t *testing.T) {
			_, diags, missing := DecodeBody(bodyOf(t, ""), s, nil)
			if len(diags) != 0 || len(missing) != 1 || missing[0].Summary != "Bad schema of a plugin" {
				t.Error(diags, missing)
			}
		})
	}
}

func TestDecodeBody_BlockCounts(t *testing.T) {
	schema := provider.Schema{Blocks: []provider.Block{
		{Name: "one", MinItems: 1, MaxItems: 1}, {Name: "some", MinItems: 1, MaxItems: 2},
	}}
	if _, diags, _ := DecodeBody(bodyOf(t, ""), schema, nil); len(diags) != 2 {
		t.Errorf("two blocks are missing: %v", diags)
	}
	if _, diags, _ := DecodeBody(bodyOf(t, "one {\n}\nsome {\n}\nsome {\n}\nsome {\n}"), schema, nil); len(diags) != 1 {
		t.Errorf("one block is too many: %v", diags)
	}
	if d, diags, _ := DecodeBody(bodyOf(t, "one {\n}\nsome {\n}"), schema, nil); len(diags) != 0 || string(d.Config.JSON) != `{"one":{},"some":[{}]}` {
		t.Errorf("%s, %v", d.Config.JSON, diags)
	}
}

func TestFileFunction(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("token", "abc\n")
	write("windows", "abc\r\n")
	write("lines", "a\nb\n\n")
	write("binary", "\xff\xfe")
	write("large", strings.Repeat("x", maxFileSize+1))
	load := func(expr string) (string, hcl.Diagnostics, hcl.Diagnostics) {
		c, diags := load(map[string][]byte{"test.hcl": []byte("provider \"p\" {\nplugin = \"stdio\"\nconfig {\ncommand = " + expr + "\n}\n}")}, place{base: dir, home: dir}, false)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		d, diags, missing := DecodeBody(c.Providers[0], provider.Schema{Attributes: testSchema.Attributes[:1]}, nil)
		var got struct{ Command string }
		if d.Config.JSON != nil {
			if err := json.Unmarshal(d.Config.JSON, &got); err != nil {
				t.Fatal(err)
			}
		}
		return got.Command, diags, missing
	}
	t.Setenv("HOME", dir)
	for expr, want := range map[string]string{
		`file("token")`: "abc", `file("windows")`: "abc", `file("lines")`: "a\nb\n", `file("~/token")`: "abc", `file("${path.home}/token")`: "abc",
	} {
		if got, diags, missing := load(expr); got != want || diags.HasErrors() || missing != nil {
			t.Errorf("%s is %q, not %q: %v %v", expr, got, want, diags, missing)
		}
	}
	for _, expr := range []string{`file("none")`, `file("binary")`, `file("large")`, `file(".")`, `file("/dev/zero")`} {
		if _, diags, missing := load(expr); diags.HasErrors() || len(missing) != 1 {
			t.Errorf("%s: %v, %v", expr, diags, missing)
		}
	}
	for _, expr := range []string{`file("")`, `file()`, `file(1, 2)`, `env("A", "b", "c")`, `file("~x/y")`, `secret("a")`} {
		if _, diags, missing := load(expr); !diags.HasErrors() || missing != nil {
			t.Errorf("%s: %v, %v", expr, diags, missing)
		}
	}
}

// TestDecodeBody_Masked: what a rotated secret changes is not in it, and
// everything else is.
func TestDecodeBody_Masked(t *testing.T) {
	t.Setenv("DRAWBRIDGE_TEST_SET", "one")
	masked := func(lines string) string {
		t.Helper()
		d, diags, missing := DecodeBody(bodyOf(t, lines), testSchema, nil)
		if diags.HasErrors() || missing != nil {
			t.Fatal(diags, missing)
		}
		if !json.Valid(d.Masked) {
			t.Fatalf("no JSON: %s", d.Masked)
		}
		return string(d.Masked)
	}
	lines := `
    command = env("DRAWBRIDGE_TEST_UNSET", "fallback")
    args    = ["a", "x-${env("DRAWBRIDGE_TEST_SET")}"]
    token   = "hunter2"
    keys    = ["first-key"]
    env     = { A = "1", B = env("DRAWBRIDGE_TEST_SET") }
    any     = { c = [env("DRAWBRIDGE_TEST_SET"), 1], "k-${env("DRAWBRIDGE_TEST_SET")}" = 2 }
    proxy {
      host     = "h"
      password = "pass-word"
    }`
	const m = `{"masked":true}`
	want := `{"command":"(hidden)","args":["a","x-(hidden)"],"env":{"A":"1","B":"(hidden)"},"cwd":null,"token":` + m +
		`,"keys":[` + m + `],"size":12,"verbose":null,"any":{"c":["(hidden)",1],"k-(hidden)":2},"proxy":{"host":"h","port":80,"password":` + m + `},"rule":[]}`
	if diff := cmp.Diff(want, masked(lines)); diff != "" {
		t.Error(diff)
	}
	t.Setenv("DRAWBRIDGE_TEST_SET", "another")
	t.Setenv("DRAWBRIDGE_TEST_UNSET", "now it is")
	rotated := strings.NewReplacer("hunter2", "hunter3", "first-key", "other-key", "pass-word", "word-pass").Replace(lines)
	if diff := cmp.Diff(want, masked(rotated)); diff != "" {
		t.Errorf("a rotated secret shows: %s", diff)
	}
	if masked(strings.Replace(lines, `"a"`, `"b"`, 1)) == want {
		t.Error("another argument does not show")
	}
	d, _, _ := DecodeBody(bodyOf(t, `command = env("DRAWBRIDGE_TEST_NEVER", "/bin/tool")`), testSchema, nil)
	if d.Command != "tool" {
		t.Errorf("the command of a default is shown as %q", d.Command)
	}
}
