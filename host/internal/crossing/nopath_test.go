//go:build linux

package crossing

import (
	"os"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// TestWhoCallsFromElsewhereLearnsNoPath: why a provider does not run may name files. A
// principal with a token is told what and why, and not where; "local" is told where.
func TestWhoCallsFromElsewhereLearnsNoPath(t *testing.T) {
	p := hosttest.NewPlace(t)
	providers := []provider{
		{name: "open", config: `    env = { K = secret("open") }`, body: shared},
		{name: "found", plugin: "acme", body: shared},
		{name: "dies", args: []string{"--stderr", "no such file: " + p.Path("state/logs/x") + " of " + p.Home, "--exit-at-start", "3"}, body: shared + "\nrestart {\n  intensity = 0\n}"},
		{name: "nowhere", config: "    cwd = " + quote(p.Path("no-folder")), body: shared + "\nrestart {\n  intensity = 0\n}"},
		{name: "absent", command: p.Path("no-program"), body: shared + "\nrestart {\n  intensity = 0\n}"},
	}
	var ofBen, ofLocal strings.Builder
	for _, one := range providers {
		ofBen.WriteString(grant("ben", one.name, `tools = ["*"]`))
		ofLocal.WriteString(grant("local", one.name, `tools = ["*"]`))
	}
	path := p.Write(t, "providers.hcl", hostBlock(p, "plugin_dir = "+quote(p.Path("plugins")))+people+
		project("site", ofBen.String(), ofLocal.String(), grant("ada", "open", `tools = ["*"]`))+blocks(t, p, providers...))
	if err := os.MkdirAll(p.Path("plugins"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.Path("plugins/"+thirdParty+"acme"), []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keep(t, p, path, "open", "kept-by-who-left-it-open")
	if err := os.Chmod(p.Path("state/secrets/open.secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := setting{}.http(t, p, path)
	c := dialAs(t, h, tokenOfBen)
	for name, want := range map[string]string{
		"open": "STATE_DIR/secrets/open.secret is open to other users", "found": "found at PLUGIN_DIR/" + thirdParty + "acme",
		"dies": "no such file: STATE_DIR/logs/x of ~", "nowhere": "The folder that cwd names", "absent": "no-program",
	} {
		r := tool(t, c, name+"_echo", "{}")
		if text := string(r.Raw); r.Error == nil || !strings.Contains(text, want) || strings.Contains(text, p.Dir) {
			t.Errorf("from elsewhere %s gives %s, want %q and no %s", name, text, want, p.Dir)
		}
	}
	out, _ := p.Command(t, "call", "open", "echo", "--config", path).CombinedOutput()
	if !strings.Contains(string(out), p.Path("state/secrets/open.secret")) {
		t.Errorf("who is on this machine is not told where: %s", out)
	}
}
