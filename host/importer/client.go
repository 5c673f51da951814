package importer

import (
	"path/filepath"
	"slices"
	"strings"
)

// Client is a kind of MCP client.
type Client string

// The clients whose files are known. Generic is any other with a file of their shape.
const (
	ClaudeDesktop Client = "claude-desktop"
	ClaudeCode    Client = "claude-code"
	VSCode        Client = "vscode"
	Cursor        Client = "cursor"
	Windsurf      Client = "windsurf"
	Cline         Client = "cline"
	Roo           Client = "roo"
	Zed           Client = "zed"
	Codex         Client = "codex"
	Gemini        Client = "gemini"
	Continue      Client = "continue"
	OpenCode      Client = "opencode"
	LibreChat     Client = "librechat"
	Generic       Client = "generic"
)

// Clients are all of them.
var Clients = []Client{ClaudeDesktop, ClaudeCode, VSCode, Cursor, Windsurf, Cline, Roo, Zed, Codex, Gemini, Continue, OpenCode, LibreChat, Generic}

// unit is what a client counts a timeout in.
type unit int

const (
	unknownUnit unit = iota
	seconds
	milliseconds
)

// dialect is what one client's file differs in.
type dialect struct {
	// timeout is the unit of `timeout`, where that is known.
	timeout unit
	// bareURL is how a url without a type is reached, and fallback what comes second.
	bareURL, fallback Transport
	// refs says what the client puts in the place of references.
	refs references
}

var webThenSSE = dialect{bareURL: HTTP, fallback: SSE}

func (d dialect) with(timeout unit, refs references) dialect {
	d.timeout, d.refs = timeout, refs
	return d
}

// dialects hold what is known of each client. The units of Roo, LibreChat and Continue
// are not confirmed by a public file.
var dialects = map[Client]dialect{
	ClaudeDesktop: webThenSSE.with(unknownUnit, references{}),
	ClaudeCode:    webThenSSE.with(unknownUnit, references{dollar: true}),
	VSCode:        webThenSSE.with(unknownUnit, references{prefixed: true, editor: true}),
	Cursor:        webThenSSE.with(unknownUnit, references{prefixed: true, editor: true, tolerated: true}),
	Windsurf:      webThenSSE.with(unknownUnit, references{prefixed: true, tolerated: true, files: true}),
	Cline:         webThenSSE.with(seconds, references{prefixed: true, tolerated: true}),
	Roo:           webThenSSE.with(seconds, references{prefixed: true, tolerated: true, editor: true}),
	Zed:           {bareURL: HTTP, timeout: seconds},
	Codex:         {bareURL: HTTP, timeout: seconds},
	Gemini:        {bareURL: SSE, timeout: milliseconds, refs: references{dollar: true, bare: true, percent: true}},
	Continue:      webThenSSE.with(unknownUnit, references{continues: true}),
	OpenCode:      webThenSSE.with(milliseconds, references{braced: true}),
	LibreChat:     webThenSSE.with(milliseconds, references{dollar: true, perUser: true}),
	Generic:       webThenSSE.with(unknownUnit, references{prefixed: true, tolerated: true, editor: true}),
}

// nativeTo names the clients that know a name; of any other it is told that it is not
// theirs. Names that are not here are everybody's.
var nativeTo = map[string][]Client{
	"environment":      {OpenCode},
	"transport":        {},
	"transportType":    {Cline, Roo},
	"serverUrl":        {Windsurf},
	"httpUrl":          {Gemini},
	"baseUrl":          {},
	"http_headers":     {Codex},
	"httpHeaders":      {},
	"env_file":         {},
	"workingDirectory": {},
	"isActive":         {},
}

// group is a map or list of entries in a file.
type group struct {
	path  string
	value *node
	// workspace is the folder that the file says the entries belong to.
	workspace string
}

// groupsOf finds where a file keeps its servers, and whose file that makes it; "" where
// the place does not tell.
func groupsOf(root *node, in format) ([]group, Client) {
	var groups []group
	whose := Client("")
	add := func(path string, value *node, c Client) {
		if value != nil {
			groups = append(groups, group{path: path, value: value})
			if whose == "" {
				whose = c
			}
		}
	}
	add("context_servers", root.get("context_servers"), Zed)
	if in == inTOML {
		add("mcp_servers", root.get("mcp_servers"), Codex)
	} else {
		add("mcp_servers", root.get("mcp_servers"), "")
	}
	if servers := root.get("servers"); root.get("inputs") != nil || looksLikeEntries(servers) {
		add("servers", servers, VSCode)
	}
	add("mcp.servers", root.at("mcp", "servers"), VSCode)
	if mcp := root.get("mcp"); looksLikeEntries(mcp) {
		add("mcp", mcp, OpenCode)
	}
	if servers := root.get("mcpServers"); servers != nil {
		c := Client("")
		if in == inYAML && servers.kind == list {
			c = Continue
		} else if in == inYAML {
			c = LibreChat
		}
		add("mcpServers", servers, c)
	}
	if projects := root.get("projects"); projects != nil {
		for _, p := range projects.members {
			if servers := p.value.get("mcpServers"); !servers.empty() {
				groups = append(groups, group{path: step("projects", p.key) + ".mcpServers", value: servers, workspace: p.key})
				whose = ClaudeCode
			}
		}
	}
	if len(groups) == 0 {
		groups = elsewhere(root)
	}
	return groups, whose
}

// elsewhere looks for a name like mcpServers one level down, and takes a file that is
// nothing but entries for what it is.
func elsewhere(root *node) []group {
	var groups []group
	look := func(path string, n *node) {
		for _, m := range n.members {
			plain := strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(m.key))
			if strings.HasSuffix(plain, "mcpservers") && m.value.kind >= list {
				groups = append(groups, group{path: step(path, m.key), value: m.value})
			}
		}
	}
	look("", root)
	for _, m := range root.members {
		look(step("", m.key), m.value)
	}
	if len(groups) == 0 && looksLikeEntries(root) {
		groups = []group{{value: root}}
	}
	return groups
}

// looksLikeEntries says whether a value is an object of objects of which one at least
// is a server's.
func looksLikeEntries(n *node) bool {
	if n == nil || n.kind != table {
		return false
	}
	found := false
	for _, m := range n.members {
		if m.value.kind != table {
			return false
		}
		for _, name := range slices.Concat([]string{"command"}, urlNames) {
			found = found || m.value.get(name) != nil
		}
	}
	return found
}

// byName are what names of files and folders tell.
var byName = []struct {
	part   string
	client Client
}{
	{"claude_desktop", ClaudeDesktop}, {"claude-desktop", ClaudeDesktop}, {"claude-code", ClaudeCode}, {"cursor", Cursor},
	{"windsurf", Windsurf}, {"codeium", Windsurf}, {"saoudrizwan", Cline}, {"cline", Cline}, {"roo-cline", Roo}, {".roo", Roo},
	{"gemini", Gemini}, {"vscode", VSCode}, {"opencode", OpenCode}, {"librechat", LibreChat}, {"continue", Continue}, {"codex", Codex},
}

// clientOf tells whose file it is: from the place of its servers, from its name, from
// names in it that only one client has.
func clientOf(name string, root *node, whose Client) Client {
	if whose != "" {
		return whose
	}
	base := strings.ToLower(filepath.Base(name))
	dir := strings.ToLower(filepath.Base(filepath.Dir(name)))
	switch base {
	case ".mcp.json", ".claude.json":
		return ClaudeCode
	case "mcp_settings.json":
		return Roo
	case "mcp_config.json":
		return Windsurf
	}
	for _, part := range []string{base, dir} {
		for _, known := range byName {
			if strings.Contains(part, known.part) {
				return known.client
			}
		}
	}
	if mcp := root.get("mcp"); mcp.get("allowed") != nil || mcp.get("excluded") != nil {
		return Gemini
	}
	return byFeature(root.get("mcpServers"))
}

// byFeature looks at the names of members that only one client has.
func byFeature(servers *node) Client {
	features := []struct {
		name   string
		client Client
	}{
		{"httpUrl", Gemini}, {"includeTools", Gemini}, {"excludeTools", Gemini}, {"trust", Gemini},
		{"serverUrl", Windsurf}, {"disabledTools", Windsurf}, {"alwaysAllow", Roo}, {"transportType", Cline}, {"autoApprove", Cline},
	}
	if servers != nil && servers.kind == table {
		for _, f := range features {
			for _, m := range servers.members {
				if m.value.get(f.name) != nil {
					return f.client
				}
			}
		}
	}
	return Generic
}
