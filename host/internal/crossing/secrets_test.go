//go:build linux

package crossing

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// echoing declares servers that have all secrets and say them wherever they can.
func echoing(t *testing.T, p hosttest.Place) string {
	t.Helper()
	p.Write(t, "server.env", "FILE_VALUE="+fromFile+"\n")
	env := fmt.Sprintf(`    env_file = "server.env"
    env = { PLAIN = secret("plain"), ODD = "Bearer ${secret("odd")}", FROM = env("CROSSING_SECRET"), LITERAL = %s }`, quote(literal))
	var said []string
	var described strings.Builder
	for _, v := range []string{keptPlain, keptOdd} {
		described.WriteString(strings.Join(secretForms(v), " and ") + " ")
	}
	for _, v := range []string{keptPlain, keptOdd, fromEnv, literal, fromFile} {
		said = append(said, secretForms(v)...)
	}
	tools, _ := json.Marshal([]map[string]any{{
		"name": "login", "description": "Logs in with " + described.String(),
		"inputSchema": map[string]any{"type": "object", "properties": map[string]any{
			"key": map[string]any{"type": "string", "default": keptOdd, "enum": []string{keptPlain, "other"}}, keptPlain: map[string]any{"type": "string"},
		}},
		"annotations": map[string]any{"readOnlyHint": true},
	}})
	file := p.Write(t, "tools.json", string(tools))
	return config(t, p, "",
		provider{name: "talks", args: []string{"--tools-file", file, "--capabilities", `{"tools":{"listChanged":true},"logging":{},"experimental":{"x":` + encoded(keptPlain) + `}}`}, config: env,
			body: "  restart {\n    intensity = 1000\n    backoff = \"10ms\"\n    backoff_max = \"20ms\"\n  }"},
		provider{name: "dies", args: []string{"--stderr", strings.Join(said, " | "), "--exit-at-start", "3"}, config: env, body: "  restart {\n    intensity = 0\n  }"},
		provider{name: "lacks", config: `    env = { X = secret("never") }`},
	)
}

// TestC086_NoSecretOut: whatever a server says, and wherever, no secret is in what a
// host writes or prints, and none of secret() in what clients are given.
func TestC086_NoSecretOut(t *testing.T) {
	p := hosttest.NewPlace(t)
	file := echoing(t, p)
	keep(t, p, file, "plain", keptPlain)
	keep(t, p, file, "odd", keptOdd)
	all, kept := []string{keptPlain, keptOdd, fromEnv, literal, fromFile}, []string{keptPlain, keptOdd}
	with := setting{env: []string{"CROSSING_SECRET=" + fromEnv}, flags: []string{"--log-level", "debug"}}

	h := with.http(t, p, file)
	c := dial(t, h)
	list := c.Request(t, "tools/list", "{}")
	clean(t, "tools/list", string(list.Raw), kept, secretForms)
	if !strings.Contains(string(list.Raw), "Logs in with [redacted]") {
		t.Errorf("the definition is not there: %s", list.Raw)
	}
	for _, v := range all {
		for _, form := range secretForms(v) {
			say(t, c, form, kept)
		}
	}
	checkEnv(t, c, kept)
	hostErrors(t, c, all)
	commands(t, p, with, file, all)
	for _, note := range c.Heard() {
		clean(t, "a notification", string(note.Raw), kept, plainForms)
	}
	leave(t, c)
	clean(t, "the host's log", h.Said(), all, secretForms)
	if !strings.Contains(h.Said(), "[redacted]") {
		t.Error("the host's log has no mark: nothing was said")
	}
	files := 0
	err := filepath.WalkDir(p.Path("state"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == p.Path("state/secrets") {
			return skipped(err, entry)
		}
		if entry.Type().IsRegular() {
			files++
			text, err := os.ReadFile(path)
			clean(t, path, string(text), all, secretForms)
			return err
		}
		return nil
	})
	if err != nil || files < 3 {
		t.Errorf("%d files in the state dir, %v", files, err)
	}
}

// say has a server say a text by each way there is.
func say(t *testing.T, c client, text string, kept []string) {
	t.Helper()
	for _, to := range []string{"stderr", "stdout", "message"} {
		r := tool(t, c, "talks_log", fmt.Sprintf(`{"text":%s,"to":%q,"parts":3,"gap_ms":1}`, encoded("it says "+text+"."), to))
		for _, note := range r.Notes {
			clean(t, "a notification of a call", string(note.Raw), kept, plainForms)
		}
	}
	answers := []hosttest.Reply{
		tool(t, c, "talks_echo", fmt.Sprintf(`{"text":%s}`, encoded("it says "+text+"."))),
		tool(t, c, "talks_answer", fmt.Sprintf(`{"result":{"isError":true,"content":[{"type":"text","text":%s}],%s:1}}`, encoded(text), encoded(text))),
		tool(t, c, "talks_answer", fmt.Sprintf(`{"error":{"code":-32000,"message":%s,"data":{"why":[%s]}}}`, encoded(text), encoded(text))),
	}
	for _, r := range answers {
		clean(t, "a result", string(r.Raw), kept, plainForms)
	}
	// A message that is none, and whose error names its members. Of a file only the
	// plugin knows what it holds, and it changes no messages.
	if strings.Contains(text, "from-file") || slices.Contains(secretForms(fromFile), text) {
		return
	}
	name := encoded(text)
	tool(t, c, "talks_log", fmt.Sprintf(`{"to":"stdout","text":%s}`, encoded(`{"jsonrpc":"2.0","id":"x",`+name+`:1,`+name+`:2,"result":{}}`)))
}

// checkEnv asks for the environment: what is kept is taken out and the result says
// so, and what comes from elsewhere is the server's to tell.
func checkEnv(t *testing.T, c client, kept []string) {
	t.Helper()
	r := tool(t, c, "talks_env", "{}")
	clean(t, "the environment", string(r.Raw), kept, plainForms)
	var result struct {
		Structured map[string]string `json:"structuredContent"`
		Meta       map[string]any    `json:"_meta"`
	}
	if err := json.Unmarshal(r.Result, &result); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"PLAIN": "[redacted]", "ODD": "Bearer [redacted]", "FROM": fromEnv, "LITERAL": literal, "FILE_VALUE": fromFile,
	} {
		if got := result.Structured[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if result.Meta["drawbridge/redacted"] != true {
		t.Errorf("the result is not marked: %v", result.Meta)
	}
	if r := tool(t, c, "talks_echo", `{"text":"nothing"}`); strings.Contains(string(r.Raw), "drawbridge/redacted") {
		t.Errorf("a result that held nothing is marked: %s", r.Raw)
	}
}

// hostErrors are errors of the host's own, which tell what a server said last.
func hostErrors(t *testing.T, c client, all []string) {
	t.Helper()
	for i, v := range all {
		forms := secretForms(v)
		form := forms[i%len(forms)] // a restart takes its time
		r := tool(t, c, "talks_exit", fmt.Sprintf(`{"stderr":%s,"code":7}`, encoded("panic: "+form)))
		if r.Error == nil {
			t.Errorf("a crash gave no error: %s", r.Raw)
		}
		clean(t, "the error of a crash", string(r.Raw), all, secretForms)
		if r = tool(t, c, "talks_echo", `{"text":"back"}`); r.Error != nil {
			clean(t, "the error after a crash", string(r.Raw), all, secretForms)
		}
	}
	r := tool(t, c, "dies_echo", "{}")
	if r.Error == nil || !strings.Contains(string(r.Error), "[redacted]") {
		t.Errorf("a server that died with its secrets: %s", r.Raw)
	}
	clean(t, "the error of a start", string(r.Raw), all, secretForms)
	if r = tool(t, c, "lacks_echo", "{}"); !strings.Contains(string(r.Error), "drawbridge secret set never") {
		t.Errorf("a missing secret: %s", r.Raw)
	}
}

// commands prints all there is to print.
func commands(t *testing.T, p hosttest.Place, with setting, file string, all []string) {
	t.Helper()
	for _, args := range [][]string{
		{"validate"}, {"validate", "--json"}, {"tools"}, {"tools", "--json"}, {"status"}, {"status", "--json"},
		{"logs", "talks"}, {"logs", "dies"}, {"call", "dies", "echo"}, {"call", "lacks", "echo"}, {"call", "talks", "exit", `{"stderr":"` + literal + `"}`},
		{"secret", "list"}, {"secret", "list", "--json"}, {"plan"}, {"calls"}, {"calls", "--json"}, {"access", "local"},
	} {
		cmd := with.command(t, p, append(args, "--config", file)...)
		out, _ := cmd.CombinedOutput() // some of them are to fail
		if len(out) == 0 {
			t.Errorf("%q printed nothing", args)
		}
		clean(t, fmt.Sprintf("what %q prints", args), string(out), all, secretForms)
	}
}

// TestARotationEndsNoChat: with another value of a secret the tools have the same
// digests, those that were approved stay so, and a client that goes on with what it
// was shown is answered.
func TestARotationEndsNoChat(t *testing.T) {
	p := hosttest.NewPlace(t)
	const tools = `[{"name":"login","description":"with KEPT","inputSchema":{"type":"object"}}]`
	file := p.Path("tools.json")
	talks := provider{name: "talks", args: []string{"--tools-file", file}, config: `    env = { KEY = secret("key") }`}
	cfg := config(t, p, "", talks)
	var before string
	for _, value := range []string{"first-value", "second-value"} {
		keep(t, p, cfg, "key", value)
		p.Write(t, "tools.json", strings.Replace(tools, "KEPT", value, 1))
		c := setting{}.stdio(t, p, cfg)
		if before != "" { // it goes on where it was, without a list
			if r := tool(t, c, "talks_echo", `{"text":"still there"}`); textOf(t, r) != "still there" {
				t.Errorf("after the rotation: %s", r.Raw)
			}
		}
		if r := tool(t, c, "talks_env", "{}"); strings.Contains(string(r.Raw), value) || !strings.Contains(string(r.Raw), "KEY=[redacted]") {
			t.Errorf("the environment: %s", r.Raw)
		}
		r := c.Request(t, "tools/list", "{}")
		if !strings.Contains(string(r.Result), "with [redacted]") {
			t.Errorf("the list is %s", r.Result)
		}
		if after := string(r.Result); before != "" && after != before {
			t.Errorf("the rotation changed the list:\n%s\n%s", before, after)
		}
		before = string(r.Result)
		leave(t, c)
		if value == "first-value" { // from here on what is not approved is not there
			out, err := p.Command(t, "lock", "--config", cfg).CombinedOutput()
			if err != nil {
				t.Fatalf("lock: %v: %s", err, out)
			}
			config(t, p, "locked = true", talks)
		}
	}
	lock, err := os.ReadFile(p.Path("providers.lock.hcl"))
	if err != nil || strings.Contains(string(lock), "-value") {
		t.Errorf("the lock file: %v: %s", err, lock)
	}
}

// TestC084_NoLogHasATokenInIt: neither of the arguments and variables that a server
// is started with, nor of the headers and URLs that it talks of; not at a good start,
// a failing start, a failing call, or when the plugin itself crashes.
func TestC084_NoLogHasATokenInIt(t *testing.T) {
	p := hosttest.NewPlace(t)
	const args = `"run", "-e", "K=s3cr3tA", "--token=s3cr3tB", "http://u:s3cr3tU@127.0.0.1:1/"`
	file := p.Write(t, "providers.hcl", hostBlock(p, "")+fmt.Sprintf(`
provider "good" {
  plugin = "stdio"
  config {
    command = "sh"
    args    = ["-c", %s, "sh", %s]
    env     = { K = "s3cr3tE", H = "Authorization: Bearer s3cr3tH" }
  }
  restart {
    backoff = "10ms"
  }
}

provider "bad" {
  plugin = "stdio"
  config {
    command = "sh"
    args    = ["-c", "echo Authorization: Bearer s3cr3tH, $K at http://u:s3cr3tU@127.0.0.1:1/ >&2; exit 3", "sh", %s]
    env     = { K = "s3cr3tE" }
  }
  restart {
    intensity = 0
  }
}

provider "absent" {
  plugin = "stdio"
  config {
    command = "/no/such/s3cr3tA/program"
    args    = [%s]
    env     = { K = "s3cr3tE" }
  }
}
`, quote("exec "+fakeserver.Build(t)+" --life 5m"), args, args, args))
	with := setting{flags: []string{"--log-level", "debug"}}
	h := with.http(t, p, file)
	c := dial(t, h)
	if got := textOf(t, tool(t, c, "good_echo", `{"text":"up"}`)); got != "up" {
		t.Fatalf("the good start: %q", got)
	}
	var told []string
	told = append(told, string(tool(t, c, "bad_echo", "{}").Raw), string(tool(t, c, "absent_echo", "{}").Raw))
	told = append(told, string(tool(t, c, "good_exit", `{"stderr":"panic: GET http://u:s3cr3tU@127.0.0.1:1/?token=s3cr3tQ with {\"Authorization\":\"Bearer s3cr3tH\"} and s3cr3tE"}`).Raw))
	tool(t, c, "good_echo", `{"text":"up again"}`)
	if err := syscall.Kill(statusOf(t, p, file).provider(t, "good").Instances[0].PluginPID, syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin's crash is known", func() bool {
		return strings.Contains(h.Said(), "SIGQUIT") || statusOf(t, p, file).provider(t, "good").Restarts > 1
	})
	told = append(told, string(tool(t, c, "good_echo", `{"text":"up once more"}`).Raw))
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"logs", "good"}, {"logs", "bad"}, {"validate"}, {"tools"}} {
		out, _ := with.command(t, p, append(args, "--config", file)...).CombinedOutput()
		told = append(told, string(out))
	}
	leave(t, c)
	told = append(told, h.Said())
	for _, text := range told {
		if i := strings.Index(text, "s3cr3t"); i >= 0 {
			t.Errorf("a token was told: …%.200s…", text[max(0, i-100):])
		}
	}
	err := filepath.WalkDir(p.Path("state"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if i := strings.Index(string(text), "s3cr3t"); i >= 0 {
			t.Errorf("%s: …%.200s…", path, text[max(0, i-100):])
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestARotatedSecretDoesNotStandInTheWay of grants that are read anew: the server's process
// stays, with the value that it was started with, its tools are the same, and neither value
// is told, the old one nor the new.
func TestARotatedSecretDoesNotStandInTheWay(t *testing.T) {
	p := hosttest.NewPlace(t)
	tools := p.Write(t, "tools.json", `[{"name":"login","description":"with first-value","inputSchema":{"type":"object"}}]`)
	talks := provider{name: "talks", args: []string{"--tools", "log,echo,notify", "--tools-file", tools}, config: `    env = { KEY = secret("key") }`, body: shared}
	grants := func(tools string) string { return project("site", grant("ada", "talks", tools)) }
	p.Write(t, "providers.hcl", hostBlock(p, "")) // where secrets are
	keep(t, p, p.Path("providers.hcl"), "key", "first-value")
	path := governed(t, p, grants(`tools = ["*"]`), talks)
	h := setting{flags: []string{"--log-level", "debug"}}.http(t, p, path)
	ada := dialAs(t, h, tokenOfAda)
	before := string(ada.Request(t, "tools/list", "{}").Result)
	keep(t, p, path, "key", "second-value")
	governed(t, p, grants(`tools = ["*"]`)+"\n# read anew\n", talks)
	hangUp(t, h.Run, taken)
	p.Write(t, "tools.json", `[{"name":"login","description":"with second-value","inputSchema":{"type":"object"}}]`)
	hosttest.CallTool(t, ada, "talks_notify", "{}")
	for _, value := range []string{"first-value", "second-value"} {
		hosttest.CallTool(t, ada, "talks_log", fmt.Sprintf(`{"text":"it is %s"}`, value))
		if r := tool(t, ada, "talks_echo", fmt.Sprintf(`{"text":%q}`, value)); textOf(t, r) != "[redacted]" {
			t.Errorf("%s is told: %s", value, r.Raw)
		}
	}
	if after := string(ada.Request(t, "tools/list", "{}").Result); after != before || !strings.Contains(after, "with [redacted]") {
		t.Errorf("the list was\n%s\nand is\n%s", before, after)
	}
	governed(t, p, grants(`tools = ["log"]`), talks)
	hangUp(t, h.Run, taken)
	if got := names(t, ada); !slices.Equal(got, []string{"talks_log"}) {
		t.Errorf("ada sees %v", got)
	}
	if log := logged(t, p, "talks"); starts(log) != 1 {
		t.Errorf("the server was started %d times", starts(log))
	}
	leave(t, ada)
	if strings.Contains(h.Said(), "-value") {
		t.Errorf("the log has a value: %s", h.Said())
	}
}
