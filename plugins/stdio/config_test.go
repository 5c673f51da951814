//go:build unix

package stdio

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

const secret = "s3cr3t-value"

func pathText(path provider.Path) string {
	var b strings.Builder
	for _, step := range path {
		switch s := step.(type) {
		case provider.AttributeStep:
			b.WriteString("." + string(s))
		case provider.KeyStep:
			b.WriteString("[" + string(s) + "]")
		case provider.IndexStep:
			b.WriteString("#")
		}
	}
	return b.String()
}

// check expects errors at exactly these paths, and no secret in what they say.
func check(t *testing.T, diags provider.Diagnostics, want ...string) {
	t.Helper()
	var got []string
	for _, d := range diags {
		got = append(got, pathText(d.Path))
		if d.Severity != provider.Error || d.Summary == "" || d.Detail == "" {
			t.Errorf("incomplete: %+v", d)
		}
		if strings.Contains(d.Summary+d.Detail, secret) {
			t.Errorf("a value is in %q: %q", d.Summary, d.Detail)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got errors at %v, want %v: %+v", got, want, diags)
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		config map[string]any
		want   []string
	}{
		"the least":               {map[string]any{"command": "npx"}, nil},
		"everything":              {map[string]any{"command": "./x", "args": []string{""}, "env": map[string]string{"A": ""}, "env_file": "e", "unset_env": []string{"LANG"}, "cwd": "."}, nil},
		"no command":              {nil, []string{".command"}},
		"an empty command":        {map[string]any{"command": ""}, []string{".command"}},
		"a null argument":         {map[string]any{"command": "x", "args": []any{secret, nil}}, []string{".args#"}},
		"NUL bytes":               {map[string]any{"command": "x\x00", "args": []any{"\x00"}, "env": map[string]any{"A": secret + "\x00"}, "cwd": "\x00"}, []string{".command", ".cwd", ".args#", ".env[A]"}},
		"bad names":               {map[string]any{"command": "x", "env": map[string]any{"": "1", "A=B": "1"}, "unset_env": []any{"", "A=", nil}}, []string{".env[]", ".env[A=B]", ".unset_env#", ".unset_env#", ".unset_env#"}},
		"a null variable":         {map[string]any{"command": "x", "env": map[string]any{"A": nil}}, []string{".env[A]"}},
		"the mark":                {map[string]any{"command": "x", "env": map[string]any{provider.MarkEnv: secret}, "unset_env": []string{provider.MarkEnv}}, []string{".env[" + provider.MarkEnv + "]", ".unset_env#"}},
		"set and unset":           {map[string]any{"command": "x", "env": map[string]any{"A": secret}, "unset_env": []string{"A"}}, []string{".unset_env#"}},
		"empty paths":             {map[string]any{"command": "x", "cwd": "", "env_file": ""}, []string{".cwd", ".env_file"}},
		"a config of other types": {map[string]any{"command": []string{secret}}, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			diags, err := New().Validate(t.Context(), provider.Config{JSON: configJSON(t, c.config)})
			if err != nil {
				t.Fatal(err)
			}
			if name == "a config of other types" {
				diags = diags[:1] // it decodes to nothing, so more is wrong
			}
			check(t, diags, c.want...)
		})
	}
}

func write(t *testing.T, dir, name, content string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func TestStartSaysWhatIsMissing(t *testing.T) {
	base := t.TempDir()
	write(t, base, "plain", "#!/bin/sh\n", 0o644)
	write(t, base, "bin/denied", "#!/bin/sh\n", 0o644)
	write(t, base, "no-interpreter", "#!/nowhere/"+secret+"\n", 0o755)
	write(t, base, "no-program", "hello\n", 0o755)
	write(t, base, "env", "A=1\nB='"+secret+"\n", 0o600)
	for name, c := range map[string]struct {
		config map[string]any
		path   string
		says   []string
	}{
		"C017: not in PATH": {map[string]any{"command": "no-such-program", "env": map[string]any{"PATH": "/usr/bin:/opt/here"}},
			".command", []string{"no-such-program", "/usr/bin:/opt/here"}},
		"no PATH":                 {map[string]any{"command": "sh", "unset_env": []string{"PATH"}}, ".command", []string{"sh", "PATH"}},
		"PATH, not executable":    {map[string]any{"command": "denied", "env": map[string]any{"PATH": base + "/bin"}}, ".command", []string{"denied", base + "/bin"}},
		"relative, missing":       {map[string]any{"command": "./" + secret + "/x"}, ".command", []string{"x", "no such file"}},
		"relative, not a program": {map[string]any{"command": "./plain"}, ".command", []string{"plain", "permission denied"}},
		"a folder":                {map[string]any{"command": "./bin"}, ".command", []string{"bin", "directory"}},
		"interpreter missing":     {map[string]any{"command": "./no-interpreter"}, ".command", []string{"interpreter"}},
		"no #! line":              {map[string]any{"command": "./no-program"}, ".command", []string{"no-program", "#!"}},
		"cwd missing":             {map[string]any{"command": "sh", "cwd": secret}, ".cwd", []string{"no such file"}},
		"cwd is a file":           {map[string]any{"command": "sh", "cwd": "plain"}, ".cwd", []string{"folder"}},
		"env_file missing":        {map[string]any{"command": "sh", "env_file": secret}, ".env_file", []string{"no such file"}},
		"env_file is a folder":    {map[string]any{"command": "sh", "env_file": "bin"}, ".env_file", []string{"regular"}},
		"env_file is wrong":       {map[string]any{"command": "sh", "env_file": "env"}, ".env_file", []string{"line 2", "quote"}},
	} {
		t.Run(name, func(t *testing.T) {
			diags, err := New().Start(t.Context(), provider.StartRequest{
				Config: provider.Config{JSON: configJSON(t, c.config), BaseDir: base},
			})
			if err != nil {
				t.Fatal(err)
			}
			check(t, diags, c.path)
			for _, want := range c.says {
				if len(diags) > 0 && !strings.Contains(diags[0].Summary+" "+diags[0].Detail, want) {
					t.Errorf("%q is not in %q", want, diags[0].Detail)
				}
			}
		})
	}
}

// environmentOf starts the fake server and returns its environment and more.
func environmentOf(t *testing.T, set settings) (env map[string]string, who struct{ Cwd string }) {
	t.Helper()
	r := fakeWith(t, set)
	r.call("env", `{}`)
	if err := json.Unmarshal([]byte(structured(t, r.answer())), &env); err != nil {
		t.Fatal(err)
	}
	r.call("whoami", `{}`)
	if err := json.Unmarshal([]byte(structured(t, r.answer())), &who); err != nil {
		t.Fatal(err)
	}
	return env, who
}

var hostEnviron = []string{
	"PATH=" + os.Getenv("PATH"), "HOME=/home/x", "LANG=xx", "LC_ALL=C", "TMPDIR=/tmp", "TZ=UTC", "USER=x", "SHELL=/bin/sh",
	"CANARY_A=leak1", "AWS_SECRET_ACCESS_KEY=leak2", "HTTP_PROXY=A", "DRAWBRIDGE_PROVIDER=a-gate-not-a-tunnel",
	"PLUGIN_CLIENT_CERT=leak3", "PLUGIN_UNIX_SOCKET_DIR=leak4", "PLUGIN_PROTOCOL_VERSIONS=1", "DRAWBRIDGE_INSTANCE=leak5",
}

func TestC083_NothingOfTheHostsEnvironment(t *testing.T) {
	env, _ := environmentOf(t, settings{
		config:  map[string]any{"env": map[string]string{"TOKEN": "t1"}},
		environ: hostEnviron, mark: "0af3/p/1",
	})
	want := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": "/home/x", "LANG": "xx", "LC_ALL": "C", "TMPDIR": "/tmp", "TZ": "UTC", "USER": "x",
		"SHELL": "/bin/sh", "TOKEN": "t1", provider.MarkEnv: "0af3/p/1",
	}
	for name, value := range env {
		if value != want[name] {
			t.Errorf("%s is %q, want %q", name, value, want[name])
		}
	}
	if len(env) != len(want) {
		t.Errorf("got %v", env)
	}
}

func TestC113_TheProvidersOwnWins(t *testing.T) {
	base := t.TempDir()
	write(t, base, "sub/e.env", "HTTP_PROXY=from-file\nexport X='from file'\nLANG=yy\nY=gone\n", 0o600)
	for name, c := range map[string]struct {
		config map[string]any
		want   map[string]string // "-" for absent
	}{
		"a value":   {map[string]any{"env": map[string]string{"HTTP_PROXY": "B", "LANG": "zz"}}, map[string]string{"HTTP_PROXY": "B", "LANG": "zz"}},
		"empty":     {map[string]any{"env": map[string]string{"HTTP_PROXY": ""}}, map[string]string{"HTTP_PROXY": "", "LANG": "xx"}},
		"nothing":   {nil, map[string]string{"HTTP_PROXY": "-", "LANG": "xx"}},
		"unset":     {map[string]any{"unset_env": []string{"LANG", "NEVER"}}, map[string]string{"LANG": "-"}},
		"from file": {map[string]any{"env_file": "sub/e.env"}, map[string]string{"HTTP_PROXY": "from-file", "X": "from file", "LANG": "yy"}},
		"env wins over file, unset over both": {
			map[string]any{"env_file": "sub/e.env", "env": map[string]string{"X": "env"}, "unset_env": []string{"Y"}},
			map[string]string{"X": "env", "Y": "-", "LANG": "yy"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			env, _ := environmentOf(t, settings{config: c.config, environ: hostEnviron, base: base})
			for variable, want := range c.want {
				got, there := env[variable]
				if !there {
					got = "-"
				}
				if got != want {
					t.Errorf("%s is %q, want %q", variable, got, want)
				}
			}
		})
	}
}

func TestPathsAreRelativeToTheFile(t *testing.T) {
	base := t.TempDir()
	write(t, base, "folder/x", "", 0o600)
	if _, who := environmentOf(t, settings{base: base}); who.Cwd != base {
		t.Errorf("without cwd it runs in %s, want %s", who.Cwd, base)
	}
	if _, who := environmentOf(t, settings{base: base, config: map[string]any{"cwd": "folder"}}); who.Cwd != filepath.Join(base, "folder") {
		t.Errorf("with cwd it runs in %s", who.Cwd)
	}
	write(t, base, "run/server", "#!/bin/sh\nexec sh -c 'exit 21'\n", 0o755)
	for _, config := range []map[string]any{
		{"command": "run/server"},
		{"command": "../run/server", "cwd": "folder"},
		{"command": "server", "env": map[string]any{"PATH": filepath.Join(base, "run") + ":/bin:/usr/bin"}},
	} {
		set := settings{base: base, config: config}
		if config["cwd"] != nil { // not to cwd
			set.base = filepath.Join(base, "run")
			config["cwd"] = "../folder"
		}
		r := run(t, set)
		if status := r.end(nil); status.Code != 21 {
			t.Errorf("%v: exited with %+v", config, status)
		}
	}
}

func TestC075_ArgumentsKeepTheirSpelling(t *testing.T) {
	base := t.TempDir()
	decomposed := "cafe\u0301"
	if err := os.Mkdir(filepath.Join(base, decomposed), 0o700); err != nil {
		t.Fatal(err)
	}
	r := run(t, settings{base: base, config: map[string]any{
		"command": "sh", "args": []string{"-c", `[ "$1" = "$(basename "$PWD")" ] && exit 9; exit 1`, "x", decomposed}, "cwd": decomposed,
	}})
	if status := r.end(nil); status.Code != 9 {
		t.Errorf("exited with %+v", status)
	}
}

func TestNoShellSeesTheArguments(t *testing.T) {
	args := []string{"a b", "$HOME", "`id`", "*", "", "'", "\n", "--", "é"}
	r := fakeWith(t, settings{}, args...)
	r.call("whoami", `{}`)
	var who struct{ Args []string }
	if err := json.Unmarshal([]byte(structured(t, r.answer())), &who); err != nil {
		t.Fatal(err)
	}
	if n := len(who.Args); n < len(args) || !slices.Equal(who.Args[n-len(args):], args) {
		t.Errorf("got %q", who.Args)
	}
}

func TestParseEnvFile(t *testing.T) {
	good := "\ufeff# comment\r\n\r\nA=1\r\nB = two words \nexport C='#not $x \\n'  # comment\n\texport\tD=\"a\\n\\\"b\\\\ \\$ #\"\nE=\nF=a#b\nG==\nexportH=1\n"
	want := map[string]string{"A": "1", "B": "two words", "C": "#not $x \\n", "D": "a\n\"b\\ $ #", "E": "", "F": "a#b", "G": "=", "exportH": "1"}
	got, err := parseEnvFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for name, c := range map[string]struct{ text, says string }{
		"no =":           {"A=1\n" + secret, "line 2: no ="},
		"no name":        {"=x", "line 1"},
		"a bad name":     {"\n\nA B=" + secret, "line 3"},
		"a digit":        {"1A=x", "line 1"},
		"twice":          {"A=1\nB=2\nA=" + secret, "line 3: A is set a second time, first in line 1"},
		"open quote":     {"A='" + secret, "quote"},
		"open double":    {`A="` + secret, "quote"},
		"open escape":    {`A="` + secret + `\`, "quote"},
		"after quote":    {`A="x"` + secret, "closing quote"},
		"unknown escape": {`A="\x` + secret + `"`, `\`},
		"a # or comment": {"A=" + secret + " # x", "needs quotes"},
		"NUL":            {"A=\x00" + secret, "NUL"},
		"the mark":       {provider.MarkEnv + "=" + secret, provider.MarkEnv},
	} {
		if _, err := parseEnvFile(c.text); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func FuzzParseEnvFile(f *testing.F) {
	f.Add("A=1\nexport B='x'\nC=\"\\n\"")
	f.Fuzz(func(t *testing.T, text string) {
		values, err := parseEnvFile(text)
		if (values == nil) == (err == nil) {
			t.Fatalf("%v and %v", values, err)
		}
		for name, value := range values {
			if !plainName(name) || strings.ContainsRune(value, 0) {
				t.Errorf("%q=%q", name, value)
			}
		}
	})
}

func TestDescribe(t *testing.T) {
	d, err := New().Describe(t.Context())
	if err != nil || d.Name != "stdio" {
		t.Fatalf("%+v, %v", d, err)
	}
	var names []string
	for _, a := range d.Config.Attributes {
		names = append(names, a.Name)
		if !json.Valid(a.Type) || a.Description == "" || a.Sensitive != (a.Name == "env") || a.Required != (a.Name == "command") {
			t.Errorf("%+v", a)
		}
	}
	if want := []string{"command", "args", "env", "env_file", "unset_env", "cwd"}; !slices.Equal(names, want) {
		t.Errorf("attributes are %v", names)
	}
}
