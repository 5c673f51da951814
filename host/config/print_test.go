package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
)

func TestFindings(t *testing.T) {
	c, diags := loadText("provider \"My One\" {\n  plugin = \"stdio\"\n  tools = [\"a\", \"\"]\n}\n")
	got, err := json.Marshal(Findings(c, append(diags, caution(hcl.Range{Filename: "gone.hcl", Start: hcl.InitialPos, End: hcl.InitialPos}, "s", ""), &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "no place"})))
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"severity":"error","summary":"Bad value for \"tools\"","detail":"tools[1] must not be empty.","file":"test.hcl","line":3,"column":17,"end_line":3,"end_column":19,"path":"provider[\"My One\"].tools[1]"},` +
		`{"severity":"warning","summary":"s","detail":"","file":"gone.hcl","line":1,"column":1,"end_line":1,"end_column":1},` +
		`{"severity":"error","summary":"no place","detail":""}]`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	if got := Findings(nil, nil); got == nil {
		t.Error("no findings are null in JSON, not an empty list")
	}
}

func TestWriteDiagnostics_Color(t *testing.T) {
	c, diags := loadText("x = 1\n")
	var plain, coloured bytes.Buffer
	if err := errors.Join(WriteDiagnostics(&plain, c, diags, false), WriteDiagnostics(&coloured, c, diags, true)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(plain.String(), "\x1b") || !strings.Contains(coloured.String(), "\x1b[1;31mError") {
		t.Errorf("%q, %q", plain.String(), coloured.String())
	}
	if err := WriteDiagnostics(brokenWriter{}, c, diags, false); err == nil {
		t.Error("an error of the writer is lost")
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken") }

// TestWriteDiagnostics_Terminal: text of a file or of a plugin does not command
// the terminal.
func TestWriteDiagnostics_Terminal(t *testing.T) {
	c, diags := loadText("host {\n  surface = \"\x1b]0;owned\x07 \u202e\"\n}\n")
	diags = append(diags, &hcl.Diagnostic{Summary: "a\x1b[2Jb", Detail: "c\x00\rd"})
	var out bytes.Buffer
	if err := WriteDiagnostics(&out, c, diags, false); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\x07\x00\r\u202e") {
		t.Errorf("%q", out.String())
	}
}

func TestLine(t *testing.T) {
	for name, c := range map[string]struct {
		src         string
		start, end  int
		text, marks string
	}{
		"a word":             {"host {\n  watch = true\n}", 9, 14, "  watch = true", "  ^^^^^"},
		"after a tab":        {"host {\n\twatch = true\n}", 8, 13, "\twatch = true", "\t^^^^^"},
		"an empty range":     {"ab = 1", 5, 5, "ab = …", "     ^"},
		"at the end":         {"ab = 1", 6, 6, "ab = …", "      ^"},
		"over lines":         {"host {\n}\n", 0, 8, "host {", "^^^^^^"},
		"combining":          {"# e\u0301 x", 6, 7, "# e\u0301 x", "    ^"},
		"what is hidden":     {"ab = \"secret\" # more", 5, 13, "ab = …", "     ^"},
		"hidden twice":       {"provider \"p\" {\n config {\n a = 1\n a = 2\n a = [\n1]\n b = [\n \"x\"]\n }\n}", 57, 60, " …", " ^"},
		"beyond the file":    {"ab", 99, 100, "", ""},
		"before the file":    {"ab", -1, 0, "", ""},
		"far along the line": {"# " + strings.Repeat("x", 500), 400, 401, "# " + strings.Repeat("x", maxLine-2), ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := newView([]byte(c.src), "a.hcl")
			text, marks := v.line(hcl.Range{Start: hcl.Pos{Byte: c.start}, End: hcl.Pos{Byte: c.end}})
			if text != c.text || marks != c.marks {
				t.Errorf("%q, %q; not %q, %q", text, marks, c.text, c.marks)
			}
		})
	}
}

// TestManyMistakes: a file full of mistakes is told in bounded time and space.
func TestManyMistakes(t *testing.T) {
	c, diags := loadText(strings.Repeat("x {\n}\n", 50_000))
	if len(diags) != 50_000 {
		t.Fatal(len(diags))
	}
	list := Findings(c, diags)
	if len(list) != maxShown+1 || list[maxShown].Summary != "49000 more, not shown" || list[maxShown].Line != 2001 {
		t.Errorf("%d, %+v", len(list), list[len(list)-1])
	}
	var out bytes.Buffer
	if err := WriteDiagnostics(&out, c, diags, false); err != nil || out.Len() > 1<<20 {
		t.Error(out.Len(), err)
	}
}

// TestNoValueIsShown plants a secret wherever a config block, or what was meant
// for one, can hold it, breaks the file in many ways, and looks for it in all
// that comes out.
func TestNoValueIsShown(t *testing.T) {
	t.Setenv("DRAWBRIDGE_TEST_SECRET", "s3cret-value")
	bodies := []string{
		`token = "s3cret"`, `token = s3cret`, `token = s3cret s3cret`, `token = "s3cret`, `token = 's3cret'`, `token = "s3cret"; size = "s3cret"`,
		`token = ["s3cret"]`, `size = "s3cret"`, `size = env("DRAWBRIDGE_TEST_SECRET")`, `verbose = "s3cret" # s3cret`, `# s3cret` + "\n" + `unknown = "s3cret"`,
		"unknown = <<EOT\ns3cret\nEOT", "token = <<EOT\ns3cret\ns3cret = 1\n", `env = { A = "s3cret", A = "s3cret" }`, `env = { A = ["s3cret"] }`, `any = { a = "s3cret" }.b`,
		`any = { a = "s3cret" }["s3cret"]`, `any = path["s3cret"]`, `any = path.s3cret`, `any = s3cret.a.b`, `token = "%{ s3cret }"`, `token = "a${s3cret}b"`,
		`token = upper("s3cret" "s3cret")`, `size = -"s3cret"`, `size = 1 + "s3cret"`, `any = "s3cret" ? 1 : 2`, `any = true ? {a = "s3cret"} : "s3cret"`,
		`any = [for x in ["s3cret"] : x]`, "args = [\n\"s3cret\",\n\"s3cret\"\n\"s3cret\"\n]", `proxy { host = "s3cret" }`, "proxy {\nhost = [\"s3cret\"]\n}\nproxy {\nhost = \"s3cret\"\n}",
		"rule {\npath = \"s3cret\"\npth = \"s3cret\" # s3cret\n}", "ruel {\npath = \"s3cret\"\n}", `token "s3cret" {`, `"s3cret"`, `= "s3cret"`, `token = "\xs3cret"`, "token = \"s3cret\"\ntoken = \"s3cret\"",
		`command = "s3cre` + "\u0301" + `t"`, `args = ["%{ if s3cret }s3cret%{ endif }"]`, `token = "s3cret"}`, `token == "s3cret"`, `token = "s3cret" &`, `/* s3cret`, "token = \"s3cret\x01\"", `token = null("s3cret")`,
	}
	frames := []string{
		"provider \"p\" {\n  plugin = \"stdio\"\n  config {\n    BODY\n  }\n}\n",
		"provider \"p\" {\n  plugin = \"stdio\"\n  confg {\n    BODY\n  }\n}\n",
		"provider \"p\" {\n  plugin = \"stdio\"\n  BODY\n}\n",
		"provider \"p\" {\n  plugin = \"stdio\"\n  config { BODY }\n  config { BODY }\n}\n",
		"providr \"p\" {\n  BODY\n}\n",
		"BODY\n",
		"provider \"p\" {\n  plugin = \"stdio\"\n  config = { BODY }\n}\n",
		"provider \"p\" {\n  plugin = \"stdio\"\n  config {\n    BODY\n\nprovider \"q\" {\n  plugin = \"stdi\"\n}\n",
	}
	for _, frame := range frames {
		for _, body := range bodies {
			text := strings.ReplaceAll(frame, "BODY", body)
			c, diags := loadText(text)
			for _, p := range c.Providers {
				_, wrong, missing := DecodeBody(p, testSchema, nil)
				diags = append(append(diags, wrong...), missing...)
			}
			var out bytes.Buffer
			if err := WriteDiagnostics(&out, c, diags, false); err != nil {
				t.Fatal(err)
			}
			list, err := json.Marshal(Findings(c, diags))
			if err != nil {
				t.Fatal(err)
			}
			for _, shown := range []string{out.String(), string(list), diags.Error()} {
				if strings.Contains(shown, "s3cret") {
					t.Errorf("shown of\n%s\n%s", text, shown)
				}
			}
		}
	}
}
