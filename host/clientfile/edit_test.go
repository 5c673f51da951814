package clientfile

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden file")

var overStdio = Entry{Name: "drawbridge", Command: `C:\bin\drawbridge.exe`, Args: []string{"connect", "--start", "--config", "/home/ana/a b/p.hcl"}}

var overHTTP = Entry{Name: "drawbridge", URL: "http://127.0.0.1:7420/mcp", TokenEnv: "DRAWBRIDGE_TOKEN"}

// files are the texts that every kind's entry goes into and out of.
var files = map[format][]string{
	inJSON: {
		"{}", "{ }\n", "{\n}\n", "// nothing yet\n{\n  // really\n}\n",
		"{\"a\": 1}", "{\"a\": 1, \"b\": [1,2,],}", "{\n\t\"a\": 1.50e3 // one\n\t// two\n}\n", "{\r\n    \"a\": {\r\n        \"x\": \"\\u00e9\"\r\n    },\r\n}\r\n",
		bom + "{\n  \"SERVERS\": {\n    \"one\": {\"command\": \"x\"}\n  },\n  \"z\": 12345678901234567890\n}",
		"{\n  \"SERVERS\": {\n    \"one\": {\"command\": \"x\"}, // the first\n    /* the second */\n    \"two\": {\"command\": \"y\"}, // with a comma\n  },\n}\n",
		"{\"SERVERS\":{\"one\":{\"command\":\"x\"}}}", "{\"SERVERS\": {}}", "{\n  \"SERVERS\": {\n    // none\n  }\n}\n",
		"{\n  \"SERVERS\": {\n    \"one\": {\"command\": \"x\"} // no comma\n  }\n}",
	},
	inTOML: {
		"model = \"m\"\n", "# only a comment\n", "model = \"m\"\n\n[mcp_servers.one]\ncommand = \"x\" # why\nargs = [\n  \"[a]\",\n]\n\n[tools]\nx = 1\n",
		"a = 1\r\n[mcp_servers.one]\r\ncommand = \"x\"\r\n", "[mcp_servers]\n[mcp_servers.\"a.b\"]\nurl = \"u\"\n",
	},
	inYAML: {
		"name: a\n", "# only a comment\nname: a\n", "name: a\nmcpServers:\n# mine\nLIST\n\nother: |\n  text\n  more\n", "mcpServers:\nLIST",
		"a: 1\r\nmcpServers:\r\nLIST\r\nz: 0123\r\n",
	},
}

// samples are the texts for a shape, with servers where it has them.
func samples(s shape) []string {
	var out []string
	for _, text := range files[s.format] {
		if s.format == inJSON && len(s.at) == 1 {
			text = strings.ReplaceAll(text, "SERVERS", s.at[0])
		}
		list := "  one:\n    command: x\n    args: [\"a\", 012]\n  two: { command: y }"
		if s.list {
			list = "  - name: one\n    command: x\n  - name: two\n    env: { A: no }"
		}
		if strings.Contains(text, "\r\n") {
			list = strings.ReplaceAll(list, "\n", "\r\n")
		}
		out = append(out, strings.ReplaceAll(text, "LIST", list))
	}
	return out
}

// TestPutAndTake: an entry in and out leaves the bytes as they were where the file had
// servers, and its meaning where it had none; in between only the entry is there more.
func TestPutAndTake(t *testing.T) {
	for _, kind := range Kinds() {
		s := shapes[kind]
		for _, e := range []Entry{overStdio, overHTTP} {
			if e.URL != "" && s.http == nil {
				if _, err := Put(kind, "f", nil, e); !errors.Is(err, ErrNoHTTP) {
					t.Errorf("%s: %v", kind, err)
				}
				continue
			}
			for _, text := range samples(s) {
				with, err := Put(kind, "f", []byte(text), e)
				if err != nil {
					t.Errorf("%s: Put into %q: %v", kind, text, err)
					continue
				}
				again, err := Put(kind, "f", with, e)
				if err != nil || string(again) != string(with) {
					t.Errorf("%s: a second time gives %v, %s", kind, err, cmp.Diff(string(with), string(again)))
				}
				found, err := Look(kind, "f", with)
				ours := slices.DeleteFunc(slices.Clone(found), func(s Server) bool { return !s.Ours })
				if want := []Server{{e.Name, true}}; err != nil || !slices.Equal(ours, want) {
					t.Errorf("%s: looked at, %v %v", kind, found, err)
				}
				if strings.Contains(text, "\r\n") && strings.Count(string(with), "\n") != strings.Count(string(with), "\r\n") {
					t.Errorf("%s: line ends are mixed in %q", kind, with)
				}
				without, err := Take(kind, "f", with, e.Name)
				if err != nil {
					t.Errorf("%s: Take out of %q: %v", kind, with, err)
					continue
				}
				hadServers := len(found) > 1
				if hadServers && string(without) != text && !(e.URL != "" && s.input) {
					t.Errorf("%s: in and out:\n%s", kind, cmp.Diff(text, string(without)))
				}
				if _, err := Take(kind, "f", without, e.Name); !errors.Is(err, ErrNoEntry) {
					t.Errorf("%s: a second time: %v", kind, err)
				}
			}
		}
	}
}

// TestPutKeepsEveryLine: what stood in a file before stands in it after, line by line.
func TestPutKeepsEveryLine(t *testing.T) {
	for file, kind := range map[string]string{
		"01-claude-desktop.json": "claude-desktop", "02-claude-code.mcp.json": "claude-code", "03-vscode.mcp.json": "vscode", "06-commented.mcp.json": "cursor",
		"07-windsurf.mcp_config.json": "windsurf", "08-cline_mcp_settings.json": "cline", "10-zed.settings.json": "zed", "11-codex.config.toml": "codex",
		"12-gemini.settings.json": "gemini", "13-bom-crlf-windows.json": "generic", "14-continue.config.yaml": "continue", "21-librechat.yaml": "librechat",
		"30-written-by-claude-code.json": "claude-code", "31-written-by-codex.toml": "codex", "32-written-by-gemini.json": "gemini",
		"33-written-by-opencode.jsonc": "opencode", "34-written-by-cline.json": "cline",
	} {
		text, err := os.ReadFile(filepath.Join("..", "importer", "testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		with, err := Put(kind, file, text, overStdio)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		after := string(with)
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\r\n")
			i := strings.Index(after, line)
			if i < 0 {
				t.Errorf("%s: lost or moved: %q", file, line)
				break
			}
			after = after[i+len(line):]
		}
		without, err := Take(kind, file, with, "drawbridge")
		if err != nil || string(without) != string(text) {
			t.Errorf("%s: %v\n%s", file, err, cmp.Diff(string(text), string(without)))
		}
	}
}

// TestWhatIsWritten: the entry of each kind, as its client reads it.
func TestWhatIsWritten(t *testing.T) {
	var b strings.Builder
	for _, kind := range Kinds() {
		for _, e := range []Entry{overStdio, overHTTP} {
			if text, err := Put(kind, "f", nil, e); err == nil {
				b.WriteString("--- " + kind + "\n" + string(text))
			}
		}
	}
	golden := filepath.Join("testdata", "entries.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Error(diff)
	}
}

// TestWhatIsRefused: a file that cannot be edited so that nothing else changes stays, and
// no error repeats what it holds.
func TestWhatIsRefused(t *testing.T) {
	const secret = "s3cr3t"
	for _, c := range []struct {
		kind, text string
		want       error
	}{
		{"cursor", `{"mcpServers": {"a": "s3cr3t"`, ErrUnusable},
		{"cursor", `["s3cr3t"]`, ErrUnusable},
		{"cursor", `{"mcpServers": ["s3cr3t"]}`, ErrForm},
		{"cursor", `{"mcpServers": {}, "mcpServers": {"a": "s3cr3t"}}`, ErrForm},
		{"cursor", "\x00\xff s3cr3t", ErrUnusable},
		{"cursor", strings.Repeat(" ", maxFile+1), ErrUnusable},
		{"codex", `mcp_servers = { a = { command = "s3cr3t" } }`, ErrForm},
		{"codex", `a = s3cr3t`, ErrUnusable},
		{"continue", "mcpServers: [{name: s3cr3t}]\n", ErrForm},
		{"continue", "a: 1\n---\nb: 2\n...\n", ErrForm},
		{"continue", "- s3cr3t\n", ErrUnusable},
		{"librechat", "x: &a\n  s: {command: s3cr3t}\nmcpServers: *a\n", ErrForm},
		{"emacs", "{}", ErrKind},
	} {
		_, err := Put(c.kind, "f", []byte(c.text), overStdio)
		if !errors.Is(err, c.want) {
			t.Errorf("%s, %.60q: %v, want %v", c.kind, c.text, err, c.want)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("the error holds what the file does: %v", err)
		}
	}
}
