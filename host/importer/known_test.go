package importer

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPlaces: where each client keeps its file, on each system.
func TestPlaces(t *testing.T) {
	everywhere := map[Client][]string{
		ClaudeCode: {"HOME/.claude.json"}, Cursor: {"HOME/.cursor/mcp.json"},
		Windsurf: {"HOME/.codeium/windsurf/mcp_config.json", "HOME/.codeium/mcp_config.json"},
		Codex:    {"HOME/.codex/config.toml"}, Gemini: {"HOME/.gemini/settings.json"}, Continue: {"HOME/.continue/config.yaml"},
		OpenCode: {"HOME/.config/opencode/opencode.json", "HOME/.config/opencode/opencode.jsonc"},
	}
	for goos, c := range map[string]struct{ app, zed string }{
		"linux":   {"HOME/.config", "HOME/.config/zed/settings.json"},
		"darwin":  {"HOME/Library/Application Support", "HOME/.config/zed/settings.json"},
		"windows": {"HOME/AppData/Roaming", "HOME/AppData/Roaming/Zed/settings.json"},
	} {
		want := map[Client][]string{Zed: {c.zed}, ClaudeDesktop: {c.app + "/Claude/claude_desktop_config.json"}, Cline: {"HOME/.cline/data/settings/cline_mcp_settings.json"}}
		for client, paths := range everywhere {
			want[client] = paths
		}
		for _, editor := range []string{"Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf"} {
			user := c.app + "/" + editor + "/User/"
			want[Cline] = append(want[Cline], user+"globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json")
			want[Roo] = append(want[Roo], user+"globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json")
			if editor != "Cursor" && editor != "Windsurf" {
				want[VSCode] = append(want[VSCode], user+"mcp.json", user+"settings.json")
			}
		}
		if diff := cmp.Diff(want, placesOf(goos, nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", goos, diff)
		}
	}
}

// TestPlacesElsewhere: the variables by which a user tells a client of another folder.
func TestPlacesElsewhere(t *testing.T) {
	for _, c := range []struct {
		name, value, goos string
		client            Client
		want              string
	}{
		{"XDG_CONFIG_HOME", "/else", "linux", OpenCode, "/else/opencode/opencode.json"},
		{"XDG_CONFIG_HOME", "/else", "linux", VSCode, "/else/Code/User/mcp.json"},
		{"XDG_CONFIG_HOME", "relative", "linux", VSCode, "HOME/.config/Code/User/mcp.json"},
		{"APPDATA", "/else", "windows", ClaudeDesktop, "/else/Claude/claude_desktop_config.json"},
		{"CLAUDE_CONFIG_DIR", "/else", "linux", ClaudeCode, "/else/.claude.json"},
		{"CODEX_HOME", "/else", "linux", Codex, "/else/config.toml"},
		{"GEMINI_CLI_HOME", "/else", "linux", Gemini, "/else/.gemini/settings.json"},
		{"CONTINUE_GLOBAL_DIR", "/else", "linux", Continue, "/else/config.yaml"},
		{"CLINE_DIR", "/else", "linux", Cline, "/else/data/settings/cline_mcp_settings.json"},
		{"CLINE_DATA_DIR", "/else", "linux", Cline, "/else/settings/cline_mcp_settings.json"},
	} {
		if got := placesOf(c.goos, map[string]string{c.name: c.value})[c.client]; !slices.Contains(got, c.want) {
			t.Errorf("%s=%s: %s is at %v, want %s", c.name, c.value, c.client, got, c.want)
		}
	}
}

// placesOf are the places on a system, with slashes, of a user whose home is HOME.
func placesOf(goos string, variables map[string]string) map[Client][]string {
	out := map[Client][]string{}
	for _, p := range (System{Home: "HOME", GOOS: goos, Getenv: func(name string) string { return variables[name] }}).Places() {
		out[p.Client] = append(out[p.Client], filepath.ToSlash(p.Path))
	}
	return out
}
