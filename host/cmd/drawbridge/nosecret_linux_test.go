package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// The secrets of these tests, by where they come from. Those of secret() may not be
// in results either.
const (
	keptToken = "kept-token-0123456789"
	keptOdd   = "kept \"odd\".*+(\\d)?[z]\\ <v\u00e4lue>/+\U0001F511&x=1"
	keptLines = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\n-----END KEY-----\n"
	keptShort = "Zq7$"
	envValue  = "from \"env\"/v\u00e4lue+1"
	literal   = "literal-s3cret/+value"
	fileValue = "from-file-s3cret+/9"
	imported  = "imported-s3cret-0123456789"
)

var (
	keptSecrets = []string{keptToken, keptOdd, keptLines, keptShort}
	allSecrets  = append([]string{envValue, literal, fileValue, imported}, keptSecrets...)
)

// plainly are the forms of a secret that may not be in results: plain and JSON-escaped.
func plainly(secret string) []string {
	escaped := func(html bool) string {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(html)
		_ = enc.Encode(secret) // a string always encodes
		text := strings.TrimSpace(b.String())
		return text[1 : len(text)-1]
	}
	return []string{secret, escaped(false), escaped(true)}
}

// anyhow are those that may be nowhere else.
func anyhow(secret string) []string {
	forms := append(plainly(secret), url.QueryEscape(secret), url.PathEscape(secret))
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		forms = append(forms, enc.EncodeToString([]byte(secret)))
	}
	return forms
}

// holds says which secret a text has in one of these forms, "" for none.
func holds(text string, secrets []string, forms func(string) []string) string {
	for _, secret := range secrets {
		for _, form := range forms(secret) {
			if i := strings.Index(text, form); i >= 0 {
				return fmt.Sprintf("%q: …%.300s…", form, text[max(0, i-100):])
			}
		}
	}
	return ""
}

// scene is a folder in which a configuration has secrets wherever it can.
type scene struct {
	dir string
	env []string
	// call is one whose outcome is unknown, artifact one that is kept, for the commands
	// that take an id of them.
	call, artifact string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	dir, err := os.MkdirTemp("", "db") // short, for sockets stand below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &scene{dir: dir, env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "TMPDIR=" + dir, "LANG=C.UTF-8", "TEST_SECRET=" + envValue,
	}}
	if err := os.Mkdir(filepath.Join(dir, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.write(t, "server.env", "FILE_VALUE="+fileValue+"\n")
	s.write(t, "client.json", fmt.Sprintf(`{"mcpServers":{"one":{"command":"fakeserver","env":{"API_KEY":%q}},"two":{"url":"http://127.0.0.1:1/mcp","headers":{"Authorization":"Bearer %s"}}}}`, imported, imported))
	s.write(t, "cursor.json", fmt.Sprintf("{\n  \"mcpServers\": {\n    \"one\": { \"command\": \"fakeserver\", \"env\": { \"API_KEY\": %q } }\n  }\n}\n", imported))
	s.write(t, "tools.json", s.tools())
	s.write(t, "providers.hcl", s.config())
	for name, value := range map[string]string{"token": keptToken, "odd": keptOdd, "lines": keptLines, "short": keptShort} {
		out, err := s.run(t, value, "secret", "set", "--exact", name)
		if err != nil {
			t.Fatalf("secret set: %v: %s%s", err, out.stdout, out.stderr)
		}
		if found := holds(out.stdout+out.stderr, allSecrets, anyhow); found != "" {
			t.Errorf("secret set prints %s", found)
		}
	}
	return s
}

func (s *scene) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tools are definitions with the secrets that may not be in lists.
func (s *scene) tools() string {
	var said strings.Builder
	for _, secret := range keptSecrets {
		said.WriteString(strings.Join(anyhow(secret), " and ") + " ")
	}
	text, _ := json.Marshal([]map[string]any{{
		"name": "login", "title": keptToken, "description": "Logs in with " + said.String(),
		"inputSchema": map[string]any{"type": "object", "properties": map[string]any{keptToken: map[string]any{"default": keptOdd, "enum": []string{keptLines, keptShort}}}},
		"_meta":       map[string]any{"key": keptToken, keptOdd: 1},
	}})
	return string(text)
}

func (s *scene) config() string {
	quote := func(text string) string {
		out, _ := json.Marshal(text)
		return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(string(out))
	}
	var said []string
	for _, secret := range append([]string{envValue, literal, fileValue}, keptSecrets...) {
		said = append(said, anyhow(secret)...)
	}
	env := fmt.Sprintf(`
    env_file = "server.env"
    env = {
      TOKEN = secret("token"), ODD = "Bearer ${secret("odd")}", LINES = secret("lines"), SHORT = secret("short")
      FROM = env("TEST_SECRET"), LITERAL = %s
    }`, quote(literal))
	return fmt.Sprintf(`
host {
  state_dir = "state"
  http {
    listen = "127.0.0.1:0"
  }
}

provider "talks" {
  plugin = "stdio"
  config {
    command = "fakeserver"
    args    = ["--life", "5m", "--tools-file", "tools.json", "--list-changed", "--stderr", %[1]s, "--instructions", %[1]s]
%[2]s
  }
  limits {
    inline_result = "4KiB"
  }
}

provider "dies" {
  plugin = "stdio"
  config {
    command = "fakeserver"
    args    = ["--stderr", %[1]s, "--exit-at-start", "3"]
%[2]s
  }
  restart {
    intensity = 0
  }
}

provider "lacks" {
  plugin = "stdio"
  config {
    command = "fakeserver"
    args    = ["--token=${env("TEST_SECRET")}", secret("token")]
    env     = { X = secret("never") }
  }
}

provider "web" {
  plugin = "http"
  config {
    url     = "http://127.0.0.1:1/${secret("token")}?token=${secret("token")}&from=${env("TEST_SECRET")}"
    headers = { Authorization = "Bearer ${secret("token")}", X-Key = %[3]s }
  }
}
`, quote(strings.Join(said, " | ")), env, quote(literal))
}

// output is what a command has printed.
type output struct{ stdout, stderr string }

// run runs a command in the scene. The error is how it ended.
func (s *scene) run(t *testing.T, stdin string, args ...string) (output, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "drawbridge", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = s.dir, s.env, strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	return output{out.String(), errs.String()}, err
}

// serve starts a host. The function returned ends it and gives what it has printed.
func (s *scene) serve(t *testing.T) (stop func() output) {
	t.Helper()
	cmd := exec.Command("drawbridge", "serve", "--log-level", "debug")
	cmd.Dir, cmd.Env = s.dir, s.env
	var out, errs bytes.Buffer
	cmd.Stderr = &errs
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		out.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "token is in") {
			break
		}
	}
	return func() output {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		for lines.Scan() {
			out.WriteString(lines.Text() + "\n")
		}
		_ = cmd.Wait()
		return output{out.String(), errs.String()}
	}
}

// crash has a call end as unknown, a large result become an artifact, and calls denied,
// and finds the ids of the first two.
func (s *scene) crash(t *testing.T) {
	t.Helper()
	said := strings.Join(anyhow(keptOdd), " ")
	text, _ := json.Marshal(map[string]any{"stderr": "panic: " + said + "\n\ngoroutine 1 [running]:\nmain.main()", "code": 2})
	_, _ = s.run(t, "", "call", "talks", "exit", string(text))
	large, _ := json.Marshal(map[string]any{"text": strings.Repeat("so much of "+said+" "+keptLines, 100)})
	_, _ = s.run(t, "", "call", "talks", "echo", string(large))
	_, _ = s.run(t, "", "call", "talks", keptToken)
	_, _ = s.run(t, "", "call", "talks", envValue)
	id := regexp.MustCompile(`"id": *"([^"]+)"`)
	for args, to := range map[string]*string{"calls --json --outcome unknown": &s.call, "artifacts --json": &s.artifact} {
		out, _ := s.run(t, "", strings.Fields(args)...)
		found := id.FindStringSubmatch(out.stdout)
		if found == nil {
			t.Fatalf("%s gives no id: %s%s", args, out.stdout, out.stderr)
		}
		*to = found[1]
	}
}

// measure is what may not be in what a command prints on stdout. On stderr nothing may.
type measure int

const (
	sink    measure = iota // no secret in any form
	listing                // no value of secret() in any form
	result                 // no value of secret() in plain or JSON-escaped
)

// told is one command line, its words parted by spaces, with what stands on its stdin.
// ID stands for an id that the command takes.
type told struct {
	words string
	out   measure
	stdin string
	// quiet says that it may print nothing.
	quiet bool
}

const speech = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"` + keptToken + `","version":"` + keptToken + `","title":"` + keptToken + `"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"talks_env","arguments":{}}}
{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"dies_echo","arguments":{}}}
{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"talks_echo","arguments":{"text":"` + literal + `"},"_meta":{"drawbridge/call_id":"` + keptToken + `","drawbridge/digest":"` + keptToken + `","drawbridge/instance":"` + keptToken + `"}}}
{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"talks_echo","arguments":{"text":"x"},"_meta":{"drawbridge/call_id":"` + keptToken + `"}}}
`

// commandLines are the command lines of every command, by its path.
func (s *scene) commandLines() map[string][]told {
	lines := map[string][]told{
		"validate":      {{words: "validate"}, {words: "validate --json"}},
		"fmt":           {{words: "fmt --check"}, {words: "fmt"}},
		"plan":          {{words: "plan"}, {words: "plan --json"}, {words: "plan --refresh --log-level debug"}, {words: "plan --offline"}},
		"lock":          {{words: "lock"}, {words: "lock talks"}},
		"tools":         {{words: "tools", out: listing}, {words: "tools --json", out: listing}},
		"call":          {{words: "call talks env", out: result}, {words: "call --json talks env", out: result}, {words: "call dies echo", quiet: true}, {words: "call lacks echo"}, {words: "call web echo"}, {words: "call --json dies echo"}, {words: "call talks nothing --log-level debug"}},
		"access":        {{words: "access local"}, {words: "access local talks/echo"}, {words: "access local --json"}},
		"token new":     {{words: "token new laptop"}, {words: "token new laptop --json"}},
		"secret":        {{words: "secret"}},
		"secret set":    {{words: "secret set again", stdin: keptToken}},
		"secret list":   {{words: "secret list"}, {words: "secret list --json"}},
		"secret rm":     {{words: "secret rm again"}, {words: "secret rm never"}},
		"status":        {{words: "status"}, {words: "status --json"}, {words: "status dies"}, {words: "status talks"}},
		"restart":       {{words: "restart talks"}, {words: "restart dies"}, {words: "restart lacks"}, {words: "restart talks --json"}},
		"logs":          {{words: "logs talks -n -1", quiet: true}, {words: "logs dies -n -1", quiet: true}, {words: "logs lacks", quiet: true}},
		"calls":         {{words: "calls"}, {words: "calls --json"}},
		"calls settle":  {{words: "calls settle " + s.call + " ok --note I-looked-with-" + keptToken}},
		"artifacts":     {{words: "artifacts"}, {words: "artifacts --json"}},
		"artifacts rm":  {{words: "artifacts rm " + s.artifact, quiet: true}},
		"doctor":        {{words: "doctor"}, {words: "doctor --json"}, {words: "doctor --offline"}},
		"version":       {{words: "version"}, {words: "version --json"}},
		"serve":         {{words: "serve --stdio --log-level debug", out: result, stdin: speech}},
		"connect":       {{words: "connect --log-level debug", out: result, stdin: speech}},
		"init":          {{words: "init --from client.json --dry-run"}, {words: "init --from client.json --out imported.hcl"}, {words: "init --from client.json --out imported.hcl --json"}},
		"client":        {{words: "client"}},
		"token":         {{words: "token"}},
		"client list":   {{words: "client list"}, {words: "client list --json"}},
		"client add":    {{words: "client add cursor --file cursor.json --dry-run"}, {words: "client add cursor --file cursor.json"}},
		"client remove": {{words: "client remove cursor --file cursor.json --dry-run"}, {words: "client remove cursor --file cursor.json"}},
		"help":          {{words: "help"}, {words: "help plan"}},
	}
	for _, shell := range []string{"bash", "fish", "powershell", "zsh"} {
		lines["completion "+shell] = []told{{words: "completion " + shell}}
	}
	return lines
}

// runnable are the paths of all commands that do something, hidden ones too.
func runnable() []string {
	root := newRoot(process{})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var paths []string
	var walk func(cmd *cobra.Command, path string)
	walk = func(cmd *cobra.Command, path string) {
		if cmd.Runnable() && path != "" {
			paths = append(paths, path)
		}
		for _, sub := range cmd.Commands() {
			walk(sub, strings.TrimSpace(path+" "+sub.Name()))
		}
	}
	walk(root, "")
	return paths
}

// TestC086_NoCommandPrintsASecret: every command that there is, beside a host that runs
// and without one. A command that is added has to be told here how it is run.
func TestC086_NoCommandPrintsASecret(t *testing.T) {
	paths := runnable()
	for _, path := range paths {
		if len((&scene{}).commandLines()[path]) == 0 {
			t.Errorf("there is a command %q, and commandLines does not say how it is run", path)
		}
	}
	// What is changed for those that follow comes last.
	last := []string{"lock", "artifacts rm", "calls settle", "secret rm", "help"}
	slices.SortStableFunc(paths, func(a, b string) int { return slices.Index(last, a) - slices.Index(last, b) })
	for _, beside := range []bool{true, false} {
		t.Run(map[bool]string{true: "beside a host", false: "alone"}[beside], func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			stop := s.serve(t)
			s.crash(t)
			served := output{}
			if !beside {
				served = stop()
			}
			for _, path := range paths {
				for _, line := range s.commandLines()[path] {
					s.check(t, line)
				}
			}
			if beside {
				served = stop()
			}
			if found := holds(served.stdout+served.stderr, allSecrets, anyhow); found != "" {
				t.Errorf("the host prints %s", found)
			}
			if !strings.Contains(served.stderr, "[redacted]") {
				t.Error("the host's log has no mark: nothing was said")
			}
			s.checkFiles(t)
		})
	}
}

// check runs a command line and looks at what it prints.
func (s *scene) check(t *testing.T, line told) {
	t.Helper()
	began := time.Now()
	out, _ := s.run(t, line.stdin, strings.Fields(line.words)...) // some of them are to fail
	if out.stdout+out.stderr == "" && !line.quiet {
		t.Errorf("%q printed nothing", line.words)
	}
	if found := holds(out.stderr, allSecrets, anyhow); found != "" {
		t.Errorf("%q says on stderr %s", line.words, found)
	}
	secrets, forms := allSecrets, anyhow
	switch line.out {
	case listing:
		secrets = keptSecrets
	case result:
		secrets, forms = keptSecrets, plainly
	}
	if found := holds(out.stdout, secrets, forms); found != "" {
		t.Errorf("%q prints %s", line.words, found)
	}
	t.Logf("%q took %v and printed %d and %d bytes", line.words, time.Since(began).Round(time.Millisecond), len(out.stdout), len(out.stderr))
}

// checkFiles looks at all files that were written, but for those that a person has put
// his secrets into. Artifacts are results.
func (s *scene) checkFiles(t *testing.T) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(s.dir, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "secrets":
			return filepath.SkipDir
		case !entry.Type().IsRegular() || slices.Contains([]string{"server.env", "client.json", "tools.json", "providers.hcl"}, rel) || strings.HasPrefix(rel, "cursor.json"):
			return nil
		}
		files++
		text, err := os.ReadFile(path)
		secrets, forms := allSecrets, anyhow
		if strings.HasPrefix(rel, "state/artifacts") {
			secrets, forms = keptSecrets, plainly
		}
		if found := holds(string(text), secrets, forms); found != "" {
			t.Errorf("%s holds %s", rel, found)
		}
		return err
	})
	if err != nil || files < 5 {
		t.Errorf("%d files were written, %v", files, err)
	}
}
