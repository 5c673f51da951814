package broker

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/config"
)

// policyOf is the policy of a file with two providers, a principal and more.
func policyOf(t *testing.T, more string) *access.Policy {
	t.Helper()
	path := filepath.Join(t.TempDir(), "providers.hcl")
	head := "host {\n  state_dir = \"state\"\n}\nprincipal \"ann\" {\n  token_sha256 = \"" + access.HashOf(access.NewSecret()) + "\"\n}\n" +
		"provider \"shop\" {\n  plugin = \"stdio\"\n  config {\n    command = \"x\"\n  }\n  session {\n    scope = \"shared\"\n  }\n}\n"
	if err := os.WriteFile(path, []byte(head+"project \"site\" {\n"+more+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, diags := config.Load(path)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return access.New(access.From(cfg))
}

// TestARateOutlivesAReload: what a principal has used up of a grant's rate stays used
// up when the grant moves in its file or gives other tools; the same rate of another
// grant is another rate, and a rate that is changed begins anew.
func TestARateOutlivesAReload(t *testing.T) {
	grant := func(tools, rate string) string {
		return "  grant {\n    principals = [\"ann\"]\n    provider = \"shop\"\n    tools = [" + tools + "]\n    rate = \"" + rate + "\"\n  }\n"
	}
	ann := Caller{Principal: "ann", Project: "site"}
	var r rates
	now := time.Now()
	take := func(p *access.Policy, tool string) bool {
		t.Helper()
		g := p.Decide(ann.Principal, ann.Project, access.Item{Kind: access.KindTool, Provider: "shop", Name: tool}).Grant
		if g == nil {
			t.Fatalf("no grant gives %s", tool)
		}
		return r.take(ann, g, now) == 0
	}
	two := grant(`"pay"`, "1/1h") + grant(`"get"`, "1/1h")
	before := policyOf(t, two)
	if !take(before, "pay") || take(before, "pay") {
		t.Error("of a rate of one not exactly one call passes")
	}
	if !take(before, "get") {
		t.Error("the rate of one grant is used up by calls of another")
	}
	moved := policyOf(t, "\n  # A remark, and a line.\n"+grant(`"pay", "list"`, "1/1h")+"\n\n"+grant(`"get"`, "1/1h"))
	for _, tool := range []string{"pay", "list", "get"} {
		if take(moved, tool) {
			t.Errorf("%s: a rate that was used up begins anew when its block moves", tool)
		}
	}
	others := "  grant {\n    principals = [\"local\"]\n    provider = \"shop\"\n    tools = [\"pay\"]\n    rate = \"1/1h\"\n  }\n"
	if take(policyOf(t, others+two), "pay") {
		t.Error("a rate that was used up begins anew when another principal gets the same")
	}
	// A grant that ann has with another is not the one that she has alone.
	shared := "  grant {\n    principals = [\"ann\", \"local\"]\n    provider = \"shop\"\n    tools = [\"add\"]\n    rate = \"1/1h\"\n  }\n"
	if !take(policyOf(t, two+shared), "add") {
		t.Error("the rate of one grant is used up by calls of another, which has other principals")
	}
	changed, passed := policyOf(t, grant(`"pay"`, "2/1h")), 0
	for range 4 {
		if take(changed, "pay") {
			passed++
		}
	}
	if passed != 2 {
		t.Errorf("of a new rate of two %d calls pass", passed)
	}
}
