package lock

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/host/config"
)

var sum = strings.Repeat("ab", 32)

func sample() *File {
	f := New()
	f.ApprovePlugin("acme", "linux_amd64", sum)
	f.ApprovePlugin("acme", "darwin_arm64", strings.Repeat("cd", 32))
	f.Approve("shop", "pay", Tool{Digest: sum, Fields: map[string]string{"name": sum[:16], "inputSchema": sum[:16], "x y": sum[:16]}})
	f.Approve("shop", "get", Tool{Digest: "raw:" + sum})
	for _, odd := range []string{"caf\u0065\u0301", "caf\u00e9", `q"uo\te`, "a${b}%{c}", "line\nbreak", "🙂", "$$ {", "", "-"} {
		f.Approve("odd", odd, Tool{Digest: sum})
	}
	f.Providers["none"] = map[string]Tool{}
	return f
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	f := sample()
	path := filepath.Join(t.TempDir(), "providers.lock.hcl")
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	back, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, back); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	if !bytes.Equal(f.Bytes(), back.Bytes()) {
		t.Error("the text is not stable")
	}
	formatted, diags := config.Format(path, f.Bytes())
	if diags.HasErrors() || !bytes.Equal(formatted, f.Bytes()) {
		t.Errorf("drawbridge fmt would change it: %v\n%s", diags, formatted)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("beside the file stands something else: %v, %v", entries, err)
	}
}

func TestApproves(t *testing.T) {
	f := sample()
	for _, c := range []struct {
		slug, tool, digest string
		want               bool
	}{
		{"shop", "pay", sum, true},
		{"shop", "pay", strings.Repeat("00", 32), false},
		{"shop", "steal", sum, false},
		{"bank", "pay", sum, false},
		{"shop", "steal", "", false},
	} {
		if got := f.Approves(c.slug, c.tool, c.digest); got != c.want {
			t.Errorf("Approves(%q, %q, %.8q) = %v", c.slug, c.tool, c.digest, got)
		}
	}
	if !f.ApprovesPlugin("acme", strings.ToUpper(sum)) || f.ApprovesPlugin("acme", "") || f.ApprovesPlugin("other", sum) {
		t.Error("ApprovesPlugin is wrong")
	}
}

func TestAFileThatCannotBeReliedOn(t *testing.T) {
	whole := string(sample().Bytes())
	for name, c := range map[string]struct{ text, says string }{
		"empty":             {"", `"version" is required`},
		"half a block":      {whole[:len(whole)-3], ":"},
		"newer version":     {"version = 2\n", "version = 2"},
		"unknown attribute": {"version = 1\nsigned = true\n", "signed"},
		"unknown block":     {"version = 1\nresource \"x\" {}\n", "resource"},
		"tool twice":        {"version = 1\nprovider \"a\" {\n tool \"x\" {\n digest = \"" + sum + "\"\n}\n tool \"x\" {\n digest = \"" + sum + "\"\n}\n}\n", ":6,"},
		"provider twice":    {"version = 1\nprovider \"a\" {}\nprovider \"a\" {}\n", ":3,"},
		"no digest":         {"version = 1\nprovider \"a\" {\n tool \"x\" {\n digest = \"abc\"\n}\n}\n", `tool "x"`},
		"no checksum":       {"version = 1\nplugin \"a\" {\n sha256 = { linux_amd64 = \"abc\" }\n}\n", `plugin "a"`},
		"binary":            {"\x00\x01\x02", ":1,"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "providers.lock.hcl")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := Load(path)
			if !errors.Is(err, ErrInvalid) || f != nil {
				t.Fatalf("Load = %v, %v; want ErrInvalid", f, err)
			}
			for _, part := range []string{path, c.says} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
	for name, put := range map[string]func(path string) error{
		"a folder":           func(path string) error { return os.Mkdir(path, 0o700) },
		"a link to nowhere":  func(path string) error { return os.Symlink(path+".gone", path) },
		"a link to itself":   func(path string) error { return os.Symlink(path, path) },
		"a link to a folder": func(path string) error { return os.Symlink(filepath.Dir(path), path) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "providers.lock.hcl")
			if err := put(path); err != nil {
				t.Skip(err)
			}
			if f, err := Load(path); !errors.Is(err, ErrInvalid) || f != nil || !strings.Contains(err.Error(), path) {
				t.Errorf("Load = %v, %v; want ErrInvalid with the file", f, err)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "x.lock.hcl")); !errors.Is(err, ErrMissing) {
		t.Errorf("error = %v, want ErrMissing", err)
	}
}

// TestALinkStaysOne: what is written goes into the file that it leads to.
func TestALinkStaysOne(t *testing.T) {
	dir := t.TempDir()
	path, target := filepath.Join(dir, "providers.lock.hcl"), filepath.Join(dir, "elsewhere")
	if err := New().Write(target); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere", path); err != nil {
		t.Skip(err)
	}
	if err := sample().Write(path); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(path); err != nil || to != "elsewhere" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if f, err := Load(target); err != nil || !f.Approves("shop", "pay", sum) {
		t.Errorf("the file has %v, %v", f, err)
	}
}

func TestPathFor(t *testing.T) {
	dir := t.TempDir()
	for config, want := range map[string]string{
		dir:                                 filepath.Join(dir, "providers.lock.hcl"),
		filepath.Join(dir, "providers.hcl"): filepath.Join(dir, "providers.lock.hcl"),
		filepath.Join(dir, "work.hcl"):      filepath.Join(dir, "work.lock.hcl"),
		filepath.Join(dir, "no-ending"):     filepath.Join(dir, "no-ending.lock.hcl"),
		filepath.Join(dir, "two.dots.hcl"):  filepath.Join(dir, "two.dots.lock.hcl"),
	} {
		if got := PathFor(config); got != want {
			t.Errorf("PathFor(%s) = %s, want %s", config, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample().Bytes())
	f.Add([]byte("version = 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse("x.lock.hcl", text)
		if err != nil {
			if !errors.Is(err, ErrInvalid) || file != nil {
				t.Fatalf("Parse = %v, %v", file, err)
			}
			return
		}
		back, err := Parse("x.lock.hcl", file.Bytes())
		if err != nil {
			t.Fatalf("what was read cannot be written: %v\n%s", err, file.Bytes())
		}
		if !bytes.Equal(back.Bytes(), file.Bytes()) {
			t.Fatal("not stable")
		}
	})
}

// TestALockFileThatWasCheckedOutElsewhere: version control and editors of another system
// may have given it other line ends, and a mark at its beginning. It approves the same.
func TestALockFileThatWasCheckedOutElsewhere(t *testing.T) {
	text := string(sample().Bytes())
	for name, other := range map[string]string{
		"CRLF": strings.ReplaceAll(text, "\n", "\r\n"), "a byte order mark": "\ufeff" + text, "no line break at the end": strings.TrimSuffix(text, "\n"),
	} {
		f, err := Parse("x.lock.hcl", []byte(other))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if string(f.Bytes()) != text {
			t.Errorf("%s: it is read as\n%s", name, f.Bytes())
		}
	}
}
