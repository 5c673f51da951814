//go:build linux

package crossing

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// TestANewTokenLetsInWhoHasIt: what `token new` prints is the token, and the block to
// paste for it; by that, and by nothing that is on the disk, the host knows its bearer.
func TestANewTokenLetsInWhoHasIt(t *testing.T) {
	p := hosttest.NewPlace(t)
	var made struct{ Token, HCL string }
	out, err := p.Command(t, "token", "new", "dora", "--expires", "1h", "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &made)
	}
	if err != nil || made.Token == "" {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := p.Command(t, "token", "new", "emil").Output()
	if err != nil {
		t.Fatal(err)
	}
	said, block, _ := strings.Cut(string(text), "name the principal in a grant:\n\n")
	token := strings.TrimSpace(strings.Split(said, "\n")[2])
	if entries, err := os.ReadDir(p.Home); err != nil || len(entries) != 0 {
		t.Errorf("something was kept: %v, %v", entries, err)
	}
	path := p.Write(t, "providers.hcl", hostBlock(p, "")+made.HCL+block+
		project("site", grant("dora", "fake", `tools = ["echo"]`), grant("emil", "fake", `tools = ["get"]`))+
		blocks(t, p, provider{name: "fake", args: []string{"--tools", "echo,get"}, body: shared}))
	h := setting{}.http(t, p, path)
	for token, want := range map[string]string{made.Token: "fake_echo", token: "fake_get"} {
		if got := names(t, dialAs(t, h, token)); len(got) != 1 || got[0] != want {
			t.Errorf("a new token lists %v, want %s", got, want)
		}
	}
	for _, token := range []string{access.HashOf(made.Token), made.Token + "A", made.Token[1:]} {
		c := hosttest.DialHTTP(h.URL, token)
		if res, err := c.Do(t.Context(), http.MethodPost, hello); err != nil || res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q is let in: %v, %v", token, res, err)
		}
	}
}
