package importer

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestUnusable checks what a file that is no client's says: why, and where.
func TestUnusable(t *testing.T) {
	for name, c := range map[string]struct{ file, src, want string }{
		"empty":         {"a.json", "", "it is empty"},
		"white space":   {"a.json", "\ufeff \r\n", "it is empty"},
		"empty YAML":    {"a.yaml", "# nothing\n", "it is empty"},
		"binary":        {"a.json", "\x7fELF\x02\x00\x00", "it is not a text file"},
		"UTF-16":        {"a.json", "\xff\xfe{\x00}\x00", "it is written in UTF-16"},
		"no UTF-8":      {"a.json", "{\"a\":\n \"\xe9\"}", "line 2, column 3: it is not a text in UTF-8"},
		"an open brace": {"a.json", `{"mcpServers": {"a": {"command": "x"}`, "the file ends in the middle"},
		"no name":       {"a.json", "{\n  mcpServers: {}\n}", "line 2, column 3: "},
		"single quotes": {"a.json", "{'mcpServers': {}}", "line 1, column 2: "},
		"a value":       {"a.json", "{\"a\":\n  }", "line 2, column 3: expected a value"},
		"a second one":  {"a.json", "{}\n{}", "line 2, column 1: something follows the end"},
		"a list":        {"a.json", "[]", "it holds a list, where an object with servers was expected"},
		"no servers":    {"a.json", `{"model": "x", "keys": ["s3cr3t"]}`, `it holds no MCP servers: looked for mcpServers, servers, context_servers, mcp_servers and mcp; it has "model", "keys"`},
		"a text":        {"a.json", `{"mcpServers": "s3cr3t"}`, "line 1, column 16: mcpServers is a text, where an object of servers was expected"},
		"TOML":          {"a.toml", "[mcp_servers.x]\nargs = [\"s3cr3t\"\nx = 1", "line 3, column "},
		"TOML twice":    {"a.toml", "[mcp_servers.x]\na = 1\n[mcp_servers.x]\na = 2", "line 3, column "},
		"YAML":          {"a.yaml", "mcpServers:\n  x:\n    command: \"s3cr3t\n", "line "},
		"YAML alias":    {"a.yaml", "mcpServers: *s3cr3t\n", "line 1, column "},
	} {
		_, err := Read(c.file, []byte(c.src), forTests)
		var broken *FileError
		if !errors.As(err, &broken) || !strings.Contains(broken.Place(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: the error holds a value: %v", name, err)
		}
	}
}

// TestTooMuch gives files that would exhaust a parser's time or stack. Each is refused
// at once.
func TestTooMuch(t *testing.T) {
	big := filepath.Join(t.TempDir(), "big.json")
	f, err := os.Create(big)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(50<<20), f.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(big, forTests); err == nil || !strings.Contains(err.Error(), "it is larger than 16 MiB") {
		t.Errorf("50 MiB: %v", err)
	}
	aliases := "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
		"d: &d [*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nmcpServers: [*e,*e,*e,*e,*e,*e]\n"
	for name, c := range map[string]struct{ file, src string }{
		"brackets of JSON":    {"a.json", strings.Repeat("[", 8<<20)},
		"brackets of TOML":    {"a.toml", "x = " + strings.Repeat("[", 900_000)},
		"tables of TOML":      {"a.toml", "x = " + strings.Repeat("{a=", 300_000)},
		"parts of a name":     {"a.toml", strings.Repeat("a.", 400_000) + "b = 1"},
		"hidden in strings":   {"a.toml", "x = " + strings.Repeat(`["]",`, 180_000)},
		"brackets of YAML":    {"a.yaml", strings.Repeat("[", 900_000)},
		"lists of YAML":       {"a.yaml", strings.Repeat("- ", 400_000)},
		"aliases of YAML":     {"a.yaml", aliases},
		"an alias of itself":  {"a.yaml", "a: &a [*a]\n"},
		"more than 1 MiB":     {"a.yaml", "#" + strings.Repeat(" ", 1<<20)},
		"more than 1 MiB, it": {"a.toml", "#" + strings.Repeat(" ", 1<<20)},
	} {
		began := time.Now()
		_, err := Read(c.file, []byte(c.src), forTests)
		var broken *FileError
		if !errors.As(err, &broken) {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > 20*time.Second { // each takes milliseconds; without a bound, minutes
			t.Errorf("%s took %s", name, took)
		}
	}
}

// TestNotRegular reads what is no file.
func TestNotRegular(t *testing.T) {
	if _, err := ReadFile(t.TempDir(), forTests); err == nil || !strings.Contains(err.Error(), "it is not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	if os.Geteuid() != 0 {
		closed := filepath.Join(t.TempDir(), "closed.json")
		if err := os.WriteFile(closed, []byte("{}"), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadFile(closed, forTests); err == nil || !strings.Contains(err.Error(), "it may not be read by this user") {
			t.Errorf("a file without rights: %v", err)
		}
	}
}

const oneServer = `{"mcpServers": {"one": {"command": "one-mcp", "env": {"TOKEN": "s3cr3t-EXAMPLE"}}}}`

// merged reads and merges without applying.
func merged(t *testing.T, target Target, src string) *Merged {
	t.Helper()
	im, err := Read("a.json", []byte(src), forTests)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Merge(im, target)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestNothingHalf checks that a file which cannot be written, or that changed meanwhile,
// leaves neither a part of it nor a secret.
func TestNothingHalf(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, file string){
		"read-only": func(t *testing.T, file string) {
			if err := os.Chmod(file, 0o400); err != nil {
				t.Fatal(err)
			}
		},
		"changed": func(t *testing.T, file string) {
			if err := os.WriteFile(file, []byte("# changed\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"gone": func(t *testing.T, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		},
		"a folder": func(t *testing.T, file string) {
			if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			target := target(t)
			if err := os.WriteFile(target.File, []byte("# mine\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			m := merged(t, target, oneServer)
			spoil(t, target.File)
			before, _ := os.ReadFile(target.File)
			written, kept, err := m.Apply()
			if err == nil || written || len(kept) != 0 {
				t.Errorf("got %v, %v, %v, want an error", written, kept, err)
			}
			if err != nil && strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("the error holds a value: %v", err)
			}
			if after, _ := os.ReadFile(target.File); !bytes.Equal(before, after) {
				t.Errorf("the file is now %q", after)
			}
			if _, err := target.store().Get("one.TOKEN"); err == nil {
				t.Error("the secret is kept")
			}
			left, err := filepath.Glob(filepath.Join(filepath.Dir(target.File), ".drawbridge-*"))
			if err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// TestKeepsFile checks that a file which is there keeps its bytes, its rights and that
// it is a link.
func TestKeepsFile(t *testing.T) {
	for name, old := range map[string]string{
		"empty": "", "no line end": "# mine", "CRLF": "# mine\r\nprovider \"x\" {\r\n  plugin = \"stdio\"\r\n  config {\r\n    command = \"x\"\r\n  }\r\n}\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			target := target(t)
			real := filepath.Join(t.TempDir(), "real.hcl")
			if err := errors.Join(os.WriteFile(real, []byte(old), 0o640), os.Symlink(real, target.File)); err != nil {
				t.Fatal(err)
			}
			m := merged(t, target, oneServer)
			if written, _, err := m.Apply(); err != nil || !written {
				t.Fatal(written, err)
			}
			got, err := os.ReadFile(real)
			if err != nil || !bytes.HasPrefix(got, []byte(old)) {
				t.Errorf("%q (%v) does not begin with what was there", got, err)
			}
			if strings.Contains(old, "\r\n") && strings.Count(string(got), "\n") != strings.Count(string(got), "\r\n") {
				t.Errorf("line ends are mixed: %q", got)
			}
			link, err := os.Lstat(target.File)
			if err != nil || link.Mode()&fs.ModeSymlink == 0 {
				t.Errorf("the link is gone: %v, %v", link.Mode(), err)
			}
			if info, err := os.Stat(real); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("rights: %v, %v", info.Mode(), err)
			}
			if again := merged(t, target, oneServer); again.Results[0].Outcome != Unchanged || !bytes.Equal(again.New, got) {
				t.Errorf("again: %s", again.Results[0].Outcome)
			}
		})
	}
}

// FuzzRead gives any bytes in any format: every entry ends as one server or one error,
// and what is written reads back or is refused.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"01-claude-desktop.json", "11-codex.config.toml", "14-continue.config.yaml", "20-literal-secrets.json", "03-vscode.mcp.json"} {
		src, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(name, src)
	}
	f.Fuzz(func(t *testing.T, name string, src []byte) {
		im, err := Read(name, src, forTests)
		if err != nil {
			return
		}
		for _, e := range im.Entries {
			if (e.Server == nil) == (e.Error == "") {
				t.Errorf("%s: a server %v and an error %q", e.Source, e.Server != nil, e.Error)
			}
			if e.Server != nil && e.Server.Transport == "" {
				t.Errorf("%s has no transport", e.Source)
			}
		}
	})
}
