package access

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/config"
)

// TestFrom takes a file to a policy.
func TestFrom(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "providers.hcl")
	secret := NewSecret()
	text := `host {
  state_dir = "state"
  name_max  = 50
}
principal "ada" {
  token_sha256 = "` + HashOf(secret) + `"
}
provider "Web Browser" {
  plugin = "stdio"
  config {
    command = "x"
  }
}
project "site" {
  names = "bare"
  grant {
    principals = ["ada"]
    provider   = "Web Browser"
    tools      = ["a*"]
    except     = ["ab"]
  }
}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, diags := config.Load(path)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	g := NewGate(GateOptions{}, New(From(cfg)))
	who, err := g.Authenticate(t.Context(), secret)
	if who != "ada" || err != nil {
		t.Fatal(who, err)
	}
	p := g.Policy()
	if d := p.Decide("ada", "site", Item{KindTool, "web-browser", "ac"}); !d.Allowed || d.Grant.Where != path+":16" {
		t.Errorf("%+v", d)
	}
	if d := p.Decide("ada", "site", Item{KindTool, "web-browser", "ab"}); d.Allowed {
		t.Errorf("%+v", d)
	}
	// The default of server_requests is in the model.
	if d := p.Decide("ada", "site", Item{KindServerRequest, "web-browser", "sampling"}); !d.Allowed {
		t.Errorf("%+v", d)
	}
	if names, most := p.Naming("site"); names != "bare" || most != 50 {
		t.Error(names, most)
	}
}
