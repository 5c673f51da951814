//go:build linux

package crossing

import (
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// TestASecretReachesItsServerAlone: neither the guard nor the plugin above that server,
// nor anything of another provider, has it in its environment or among its arguments; and
// of the host's environment nobody has what no file gives him.
func TestASecretReachesItsServerAlone(t *testing.T) {
	p := hosttest.NewPlace(t)
	file := config(t, p, "",
		provider{name: "has", args: []string{"--tools", "echo"}, config: `    env = { KEPT = secret("kept"), FROM = env("CROSSING_SECRET") }`},
		provider{name: "other", args: []string{"--tools", "echo"}})
	keep(t, p, file, "kept", keptPlain)
	h := setting{env: []string{"CROSSING_SECRET=" + fromEnv, "CROSSING_OTHER=" + literal}}.http(t, p, file)
	c := dial(t, h)
	for _, name := range []string{"has_echo", "other_echo"} {
		if got := textOf(t, tool(t, c, name, `{"text":"up"}`)); got != "up" {
			t.Fatalf("%s: %q", name, got)
		}
	}
	have := map[string]int{}
	for _, one := range p.Processes() {
		_, slug, _ := strings.Cut(one.Mark, "/")
		slug, _, _ = strings.Cut(slug, "/")
		what := strings.Join(one.Env, "\n") + "\n" + one.Command
		isHost := one.PID == h.PID()
		for _, v := range []string{keptPlain, fromEnv, literal} {
			switch found := strings.Contains(what, v); {
			case !found:
			case isHost && v != keptPlain: // it was started with it
			case slug == "has" && v != literal && strings.Contains(one.Command, "--tools") && slices.Contains(one.Env, "KEPT="+keptPlain):
				have[v]++
			default:
				t.Errorf("process %d (%.100s) of %q has %q", one.PID, one.Command, slug, v)
			}
		}
	}
	if have[keptPlain] != 1 || have[fromEnv] != 1 {
		t.Errorf("in how many servers the secrets are: %v", have)
	}
}
