package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/clientfile"
)

// TestWarnings checks that what each file has to warn of is told, at its path, and that
// what must not happen to it does not.
func TestWarnings(t *testing.T) {
	type note struct{ path, text string }
	for name, c := range map[string]struct {
		notes []note
		// not are texts that no note, error or server may hold.
		not []string
	}{
		"01-claude-desktop.json": {notes: []note{
			{"mcpServers.tracker.env.TRACKER_TOKEN", "placeholder"}, {"mcpServers.tracker", "docker run"}, {"mcpServers.filesystem", "not pinned (@latest)"},
		}},
		"02-claude-code.mcp.json": {notes: []note{
			{"mcpServers.wrong-keys.transport", "not this client's name"}, {"mcpServers.wrong-keys.environment", "taken as env"},
			{"mcpServers.old-sse", "SSE is the older transport"}, {"mcpServers.plugin-tool.command", "CLAUDE_PLUGIN_ROOT is set by that client alone"},
		}},
		"03-vscode.mcp.json": {notes: []note{
			{"servers.runner.env.PORT", "was a number"}, {"servers.runner.dev", "ignored"}, {"inputs.dyn", "command inputs cannot be imported"},
			{"servers.badRef.args[0]", "`nope`, which is not declared"}, {"servers.badRef.args[1]", "${config:…} cannot be imported"},
			{"servers.runner.args", "secret input is passed on the command line"},
		}},
		"05-cursor.mcp.json":    {notes: []note{{"mcpServers.bare-url.url", "suggests SSE"}, {"mcpServers.node.envFile", "relative to the workspace"}}},
		"06-commented.mcp.json": {notes: []note{{"(file)", "JSON with comments"}}, not: []string{"switched-off", "old"}},
		"07-windsurf.mcp_config.json": {notes: []note{
			{"mcpServers.remote-b.serverUrl", "carries a credential"}, {"mcpServers.tools.env.K", "plain ${WS_PLAIN} is not this client's documented form"},
		}, not: []string{"EXAMPLE-PAT"}},
		"08-cline_mcp_settings.json": {notes: []note{
			{`mcpServers["github.com/example/linear-mcp"].autoApprove`, "(list_issues, delete_issue) was NOT turned into a permission"},
			{`mcpServers["github.com/example/linear-mcp"]`, `named "linear"; the original name is "github.com/example/linear-mcp"`},
			{`mcpServers["github.com/example/linear-mcp"].env.LINEAR_KEY`, "moved to the secret linear.LINEAR_KEY"},
		}, not: []string{"lin_api_"}},
		"10-zed.settings.json": {notes: []note{{"context_servers.ext.settings.token", "not copied anywhere"}}, not: []string{"EXAMPLE-TOKEN"}},
		"11-codex.config.toml": {notes: []note{
			{"mcp_servers.files", "`list` is both enabled and disabled; deny wins, so what is left is [read]"},
			{"mcp_servers.files.default_tools_approval_mode", "not imported"}, {"mcp_servers.sub.tools.delete_item.approval_mode", `except = ["delete_item"]`},
			{`mcp_servers["team.docs"]`, `named "team-docs"`},
		}},
		"12-gemini.settings.json": {notes: []note{
			{"mcpServers.files.trust", "NOT turned into a permission"}, {"mcpServers.files.env.BAD", "kept as text"}, {"mcpServers.files.env.TILDE", "kept as text"},
			{"mcpServers.files.env.BRACE", "kept as text"}, {"mcpServers.both-urls.url", "httpUrl wins"}, {"mcpServers.legacy", "mcp.excluded names it"},
			{"mcpServers.not-listed", "mcp.allowed does not name it"}, {"mcpServers.files.cwd", "relative"}, {"mcpServers.legacy.url", "takes a url alone for SSE"},
		}},
		"13-bom-crlf-windows.json": {notes: []note{
			{"mcpServers.files", "will not run on this system"}, {"mcpServers.exe", "will not run on this system"}, {"mcpServers.exe.env.APPDATA_DIR", "kept as text"},
			{"mcpServers.ümlaut", `named "umlaut"`},
		}, not: []string{"\r", "\ufeff"}},
		"14-continue.config.yaml": {notes: []note{
			{"mcpServers[2]", `another entry is named "Docs" too; this one is called "Docs-2"`}, {"mcpServers[0].env.LEVEL", "as"}, {"mcpServers[0].env.ON", "kept as it is written"},
			{"mcpServers[0].env.AT", "kept as it is written"}, {"mcpServers[0].args[3]", "number"}, {"mcpServers[0].args[4]", "number"},
		}},
		"17-remote-and-bridges.json": {notes: []note{{"mcpServers.bridge.args[4]", "${AUTH_HEADER} is set by the entry's own env"}}, not: []string{"EXAMPLEKEY3333", "EXAMPLE-TOKEN"}},
		"20-literal-secrets.json": {notes: []note{
			{"mcpServers.a.args[3]", "ps shows it"}, {"mcpServers.a.args[4]", "ps shows it"}, {"mcpServers.c.args[4]", "ps shows it"}, {"mcpServers.d.args[0]", "ps shows it"},
			{"mcpServers.a.env.API_KEY", "placeholder"}, {"mcpServers.b.headers.Cookie", "credential"}, {"mcpServers.b.url", "credential"},
		}, not: []string{"hunter", "EXAMPLE-"}},
		"21-librechat.yaml": {notes: []note{
			{"mcpServers.sheets.headers.X-User-ID", "a value per end user"}, {"mcpServers.per-user.headers.X-Auth-Token", "a value per end user"},
			{"mcpServers.sheets.requiresOAuth", "ignored"}, {"mcpServers.sheets.serverInstructions", "ignored"}, {"mcpServers.per-user.customUserVars", "ignored"},
			{"mcpServers.everything.url", "transport is not given"},
		}},
	} {
		im, err := Read(name, source(t, name), forTests)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.notes {
			if !slices.ContainsFunc(im.Notes, func(n Note) bool { return n.Path == want.path && strings.Contains(n.Text, want.text) }) {
				t.Errorf("%s: nothing says at %s %q; it says %v", name, want.path, want.text, im.Notes)
			}
		}
		all := fmt.Sprint(im.Notes)
		for _, e := range im.Entries {
			all += fmt.Sprint(e.Source, e.Error, e.Off)
			if e.Server != nil {
				e.Server.texts(func(t *Text) { all += t.String() })
			}
		}
		for _, not := range c.not {
			if strings.Contains(all, not) {
				t.Errorf("%s: %q is among what it says: %s", name, not, all)
			}
		}
	}
}

// entryOf reads one entry of a client.
func entryOf(t *testing.T, client Client, entry string) (*Entry, *Import) {
	t.Helper()
	opts := forTests
	opts.Client = client
	im, err := Read("a.json", []byte(`{"mcpServers": {"x": `+entry+`}}`), opts)
	if err != nil || len(im.Entries) != 1 {
		t.Fatalf("%s: %v", entry, err)
	}
	return im.Entries[0], im
}

// TestOff checks that every spelling of off means off, and what is unclear too.
func TestOff(t *testing.T) {
	for members, enabled := range map[string]bool{
		``: true, `, "disabled": false`: true, `, "enabled": true`: true, `, "isActive": true`: true,
		`, "disabled": true`: false, `, "enabled": false`: false, `, "isActive": false`: false,
		`, "disabled": "false"`: false, `, "enabled": 1`: false, `, "enabled": null`: false, `, "disabled": []`: false,
		`, "disabled": false, "enabled": false`: false, `, "disabled": true, "enabled": true`: false,
	} {
		e, _ := entryOf(t, Generic, `{"command": "x"`+members+`}`)
		if e.Server.Enabled != enabled {
			t.Errorf("%s: enabled is %v", members, e.Server.Enabled)
		}
	}
}

// TestReferences checks what each client's references come to.
func TestReferences(t *testing.T) {
	for _, c := range []struct {
		client     Client
		text, want string
		enabled    bool
	}{
		{ClaudeDesktop, "${A}", "${A}", true},
		{ClaudeCode, "${A}-${B:-x}", "«env:A»-«env:B|x»", true},
		{ClaudeCode, "${A:-${B}}", "«unresolved:nested»«env:B»}", false},
		{VSCode, "${env:A}${userHome}", "«env:A»«home»", true},
		{VSCode, "a${/}b", "a/b", true},
		{VSCode, "${command:x}", "«unresolved:command:x»", false},
		{Windsurf, "${file:/run/k}", "«file:/run/k»", true},
		{OpenCode, "{env:A}{file:~/k}", "«env:A»«file:~/k»", true},
		{Codex, "${A} $A %A%", "${A} $A %A%", true},
		{Gemini, "$A %B% ${C}", "«env:A» «env:B» «env:C»", true},
		{LibreChat, "{{X}}", "«unresolved:X»", false},
		{Generic, "${env:A} ${B}", "«env:A» «env:B»", true},
		{ClaudeCode, "${TOKEN:-ghp_0123456789abcdefghij}", "«env:TOKEN|«secret:x/TOKEN»»", true},
	} {
		e, im := entryOf(t, c.client, `{"command": "x", "env": {"V": "`+c.text+`"}}`)
		if e.Server == nil {
			t.Errorf("%s: %s: %s", c.client, c.text, e.Error)
			continue
		}
		if got := e.Server.Env[0].Value.String(); got != c.want || e.Server.Enabled != c.enabled {
			t.Errorf("%s: %s is %s, enabled %v; want %s", c.client, c.text, got, e.Server.Enabled, c.want)
		}
		if strings.Contains(fmt.Sprint(im.Notes), "ghp_") {
			t.Errorf("a note holds a credential: %v", im.Notes)
		}
	}
}

// TestTimeouts checks the unit of each client, and that an unknown one is not guessed.
func TestTimeouts(t *testing.T) {
	for _, c := range []struct {
		client         Client
		members, start string
		call           string
	}{
		{Cline, `"timeout": 60`, "", "60s"}, {Roo, `"timeout": 1.5`, "", "1.5s"}, {Codex, `"timeout": 5`, "", "5s"}, {Zed, `"timeout": 90`, "", "90s"}, {Continue, `"connectionTimeout": 20000`, "20s", ""},
		{Gemini, `"timeout": 60000`, "", "60s"}, {OpenCode, `"timeout": 1500`, "", "1.5s"}, {LibreChat, `"timeout": 30000, "initTimeout": 10000`, "10s", "30s"},
		{Cursor, `"timeout": 60`, "", ""}, {ClaudeCode, `"timeout": 60`, "", ""}, {Codex, `"startup_timeout_ms": 20000`, "20s", ""},
		{Cline, `"timeout": 0`, "", ""}, {Cline, `"timeout": -3`, "", ""}, {Cline, `"timeout": "soon"`, "", ""}, {Cline, `"timeout": 1e300`, "", ""},
		{Cline, `"timeout": 100000000`, "", "86400s"},
	} {
		e, im := entryOf(t, c.client, `{"command": "x", `+c.members+`}`)
		if e.Server.StartTimeout != c.start || e.Server.CallTimeout != c.call {
			t.Errorf("%s: %s is start %q, call %q", c.client, c.members, e.Server.StartTimeout, e.Server.CallTimeout)
		}
		if c.start+c.call == "" && len(im.Notes) == 0 {
			t.Errorf("%s: %s: nothing is said of it", c.client, c.members)
		}
	}
}

// TestCommand checks where a command is taken apart, and where not.
func TestCommand(t *testing.T) {
	for text, want := range map[string]string{
		`npx -y x-mcp`: "npx|-y|x-mcp|a b", `/opt/my tools/x`: "/opt/my tools/x|a b", `C:\\my tools\\x.exe`: `C:\my tools\x.exe|a b`, `x`: "x|a b",
		`node \"my file.js\"`: `node "my file.js"|a b`,
	} {
		e, _ := entryOf(t, Generic, `{"command": "`+text+`", "args": ["a b"]}`)
		got := e.Server.Command.String()
		for _, arg := range e.Server.Args {
			got += "|" + arg.String()
		}
		if got != want || e.Server.Enabled == strings.Contains(text, `"`) {
			t.Errorf("%s is %s, enabled %v; want %s", text, got, e.Server.Enabled, want)
		}
	}
}

// TestCredentials checks what is taken for a credential, and what is not.
func TestCredentials(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"GITHUB_TOKEN", "abcdef", "«secret:x/GITHUB_TOKEN»"}, {"apiKey", "abcdef", "«secret:x/apiKey»"}, {"DB_PASSWORD", "1", "«secret:x/DB_PASSWORD»"},
		{"MAX_TOKENS", "4096", "4096"}, {"TOKEN_LIMIT", "4096", "4096"}, {"KEY_FILE", "/etc/key", "/etc/key"}, {"API_KEY", "/etc/key", "/etc/key"},
		{"GOOGLE_APPLICATION_CREDENTIALS", "/home/ana/c.json", "/home/ana/c.json"}, {"USE_TOKEN", "true", "true"}, {"PUBLIC_KEY", "abcdef", "abcdef"},
		{"KEYBOARD", "de", "de"}, {"MONKEY", "banana", "banana"}, {"API_KEY", "your-api-key", "«placeholder»"}, {"API_KEY", "<key>", "«placeholder»"},
		{"URL", "postgres://a:b@localhost/d", "postgres://a:«secret:x/password»@localhost/d"}, {"URL", "http://localhost/?token=abc&x=1", "http://localhost/?token=«secret:x/token»&x=1"},
		{"HEADERS", `{\"Authorization\": \"Bearer abcdefgh\"}`, `{"Authorization": "Bearer «secret:x/Authorization»"}`},
		{"FIGMA", "figd_0123456789abcdefghij", "«secret:x/FIGMA»"}, {"NAME", "some-mcp-server-with-a-very-long-name-indeed", "some-mcp-server-with-a-very-long-name-indeed"},
		{"HASH", "0123456789abcdef0123456789abcdef", "«secret:x/HASH»"}, {"LEVEL", "debug", "debug"}, {"AUTH_MODE", "oauth", "oauth"}, {"TOKEN", "$TOKEN", "$TOKEN"},
	} {
		e, _ := entryOf(t, ClaudeDesktop, `{"command": "x", "env": {"`+c.name+`": "`+c.value+`"}}`)
		if got := e.Server.Env[0].Value.String(); got != c.want {
			t.Errorf("%s=%s is %s, want %s", c.name, c.value, got, c.want)
		}
	}
	for args, want := range map[string]string{
		`"--token", "abcdef"`: "--token|«secret:x/token»", `"--token", "--verbose"`: "--token|--verbose", `"--api-key=abc def"`: "--api-key=«secret:x/api-key»",
		`"--header", "X-Api-Key: abcdef"`: "--header|X-Api-Key: «secret:x/X-Api-Key»", `"-e", "SECRET=a=b"`: "-e|SECRET=«secret:x/SECRET»",
		`"-c", "export TOKEN=abcdef && run"`: "-c|export TOKEN=«secret:x/TOKEN» && run", `"--token-file", "/run/t"`: "--token-file|/run/t",
		`"--token", "abcdef", "--token", "ghijkl"`: "--token|«secret:x/token»|--token|«secret:x/token-2»", `"TOKEN=$TOKEN"`: "TOKEN=$TOKEN",
	} {
		e, _ := entryOf(t, ClaudeDesktop, `{"command": "x", "args": [`+args+`]}`)
		var got []string
		for _, arg := range e.Server.Args {
			got = append(got, arg.String())
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%s is %s, want %s", args, strings.Join(got, "|"), want)
		}
	}
	// What looks like a reference in a password is none, and no note shows it.
	for client, want := range map[Client]string{
		ClaudeDesktop: "«secret:x/PASSWORD»", Cursor: "«secret:x/PASSWORD»", ClaudeCode: "«secret:x/PASSWORD»", Gemini: "«secret:x/PASSWORD»«env:word»",
	} {
		e, im := entryOf(t, client, `{"command": "x", "env": {"PASSWORD": "s3cr3t$word", "DSN": "db://u:s3cr3t$word@h/", "NOTE": "s3cr3t$word%word%{{word}}"}}`)
		if got := e.Server.Env[0].Value.String(); got != want {
			t.Errorf("%s: the password is %s, want %s", client, got, want)
		}
		if got := e.Server.Env[1].Value.String(); strings.Contains(got, "s3cr3t") {
			t.Errorf("%s: the URL is %s", client, got)
		}
		if all := fmt.Sprint(im.Notes); strings.Contains(all, "s3cr3t") || strings.Contains(all, "word;") || strings.Contains(all, "$word") {
			t.Errorf("%s: a note shows a part of the password: %s", client, all)
		}
	}
	// One that is told in one place is taken out of every other.
	e, _ := entryOf(t, ClaudeDesktop, `{"command": "x", "args": ["run abcdefghij"], "env": {"TOKEN": "abcdefghij"}}`)
	if got := e.Server.Args[0].String(); got != "run «secret:x/TOKEN»" {
		t.Errorf("the argument is %s", got)
	}
}

// TestNames checks that each entry has a name of its own, the same each time.
func TestNames(t *testing.T) {
	im, err := Read("a.json", []byte(`{"mcpServers": {
		"a b": {"command": "x"}, "a.b": {"command": "x"}, "A-B": {"command": "x"}, "日本": {"command": "x"}, "": {"command": "x"},
		"@scope/mcp-server-files": {"command": "x"}, "@scope/mcp": {"command": "x"}, "a-very-long-name-that-goes-on-and-on-and-on": {"command": "x"}
	}}`), forTests)
	if err != nil {
		t.Fatal(err)
	}
	// What ends with a checksum is told by how it begins.
	want := []string{"a-b", "a-b-2", "a-b-3", "server-", "server-e3b0c442", "files", "scope-mcp", "a-very-long-name-that-g"}
	for i, e := range im.Entries {
		checksum := i == 3 || i == 7
		if e.Name != want[i] && !(checksum && strings.HasPrefix(e.Name, want[i])) || len(e.Name) > 32 {
			t.Errorf("%q is %q, want %q", e.Source, e.Name, want[i])
		}
	}
}

// TestLoop checks that an entry which leads back to this program is refused.
func TestLoop(t *testing.T) {
	for entry, loop := range map[string]bool{
		`{"command": "drawbridge", "args": ["connect"]}`: true, `{"command": "/opt/drawbridge/bin/drawbridge"}`: true, `{"command": "C:\\bin\\Drawbridge.EXE"}`: true,
		`{"command": "sh", "args": ["-c", "exec /usr/bin/drawbridge serve --stdio"]}`: true, `{"command": "env", "args": ["A=b", "drawbridge", "serve"]}`: true,
		`{"url": "http://localhost:7420/mcp"}`: true, `{"command": "npx", "args": ["mcp-remote", "http://127.0.0.1:7420/mcp"]}`: true,
		`{"command": "cat", "args": ["drawbridge"]}`: false, `{"command": "drawbridges"}`: false, `{"url": "http://localhost:7421/mcp"}`: false,
	} {
		e, _ := entryOf(t, Generic, entry)
		if got := strings.Contains(e.Error, "(loop)"); got != loop {
			t.Errorf("%s: %q, want a loop %v", entry, e.Error, loop)
		}
	}
}

// TestTokensOfTheirOwn checks that a token which a client sends by a name of its own is the
// header that it comes to.
func TestTokensOfTheirOwn(t *testing.T) {
	for _, c := range []struct {
		client        Client
		members, want string
	}{
		{Codex, `"bearer_token_env_var": "MY_TOKEN"`, "Bearer «env:MY_TOKEN»"},
		{Codex, `"bearer_token": "s3cr3t-1"`, "Bearer «secret:x/Authorization»"},
		{Codex, `"env_http_headers": {"Authorization": "MY_TOKEN"}`, "«env:MY_TOKEN»"},
		{Continue, `"apiKey": "s3cr3t-1"`, "Bearer «secret:x/Authorization»"},
		{Continue, `"apiKey": "${{ secrets.MY_TOKEN }}"`, "Bearer «secret:MY_TOKEN»"},
	} {
		e, _ := entryOf(t, c.client, `{"url": "http://127.0.0.1:9/", `+c.members+`}`)
		if e.Server == nil || pairs(e.Server.Headers)["Authorization"] != c.want {
			t.Errorf("%s: %s is %+v, want %s; %s", c.client, c.members, e.Server, c.want, e.Error)
		}
	}
}

// TestOwnEntries checks that an entry which this program writes into a client's file is
// refused wherever its host answers, and one with a token of another name is not.
func TestOwnEntries(t *testing.T) {
	for _, kind := range clientfile.Kinds() {
		for _, c := range []struct {
			entry clientfile.Entry
			loop  bool
		}{
			{clientfile.Entry{Name: "gate", Command: "/opt/drawbridge/bin/drawbridge", Args: []string{"connect", "--start"}}, true},
			{clientfile.Entry{Name: "gate", URL: "http://127.0.0.1:45678/mcp", TokenEnv: "DRAWBRIDGE_TOKEN"}, true},
			{clientfile.Entry{Name: "gate", URL: "http://127.0.0.1:45678/mcp", TokenEnv: "OTHER_TOKEN"}, false},
		} {
			text, err := clientfile.Put(kind, "f", nil, c.entry)
			if errors.Is(err, clientfile.ErrNoHTTP) {
				continue
			}
			if err != nil {
				t.Fatal(kind, err)
			}
			opts := forTests
			opts.Client = Client(kind)
			im, err := Read(map[string]string{"codex": "f.toml", "continue": "f.yaml", "librechat": "f.yaml"}[kind], text, opts)
			if err != nil || len(im.Entries) != 1 {
				t.Fatalf("%s: %v: %s", kind, err, text)
			}
			e := im.Entries[0]
			if got := strings.Contains(e.Error, "(loop)"); got != c.loop {
				t.Errorf("%s: %q, want a loop %v: %s", kind, e.Error, c.loop, text)
			}
			if c.loop && len(im.Notes) > 0 {
				t.Errorf("%s: of what is not imported it says %v", kind, im.Notes)
			}
		}
	}
}

// TestForsaken checks that a credential in an entry which is not imported is told, and that
// a reference is not taken for one.
func TestForsaken(t *testing.T) {
	for value, told := range map[string]bool{
		"Bearer ${env:TOKEN}": false, "${TOKEN}": false, "Bearer ${{ secrets.TOKEN }}": false, "Bearer {env:TOKEN}": false, "Bearer $TOKEN": false, "": false,
		"Bearer s3cr3t-EXAMPLE": true, "s3cr3t-${TOKEN}": true, "Bearer ${TOKEN:-s3cr3t-EXAMPLE}": true,
	} {
		e, im := entryOf(t, Cursor, `{"url": "http://elsewhere.example.test/", "headers": {"Authorization": "`+value+`"}}`)
		if e.Error == "" {
			t.Fatal("it is imported")
		}
		if got := strings.Contains(fmt.Sprint(im.Notes), "not copied anywhere"); got != told {
			t.Errorf("%q: said %v, want %v", value, im.Notes, told)
		}
	}
}

// TestTOML checks that a literal token of Codex is one, and that a number which may not
// be as it was written is told.
func TestTOML(t *testing.T) {
	im, err := Read("a.toml", []byte("[mcp_servers.x]\nurl = \"http://localhost:3/\"\nbearer_token = \"s3cr3t-1\"\nother_token = \"s3cr3t-2\"\n[mcp_servers.y]\ncommand = \"y\"\nenv = { N = 1e3 }\n"), forTests)
	if err != nil {
		t.Fatal(err)
	}
	x := im.Entries[0].Server
	if got := pairs(x.Headers)["Authorization"]; got != "Bearer «secret:x/Authorization»" {
		t.Errorf("the header is %s", got)
	}
	for path, text := range map[string]string{
		"mcp_servers.x.bearer_token": "moved to the secret x.Authorization", "mcp_servers.x.other_token": "not copied anywhere", "mcp_servers.y.env.N": "may be spelled otherwise",
	} {
		if !slices.ContainsFunc(im.Notes, func(n Note) bool { return n.Path == path && strings.Contains(n.Text, text) }) {
			t.Errorf("nothing says at %s %q: %v", path, text, im.Notes)
		}
	}
	if all := fmt.Sprint(im.Notes); strings.Contains(all, "s3cr3t") {
		t.Errorf("a note holds a credential: %s", all)
	}
}
