//go:build linux

package crossing

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
	"github.com/drawbridge-mcp/drawbridge/shared/checksum"
)

// script writes a script that leaves a trace and becomes a plugin, and declares it.
func script(t testing.TB, p hosttest.Place, name string) program {
	t.Helper()
	path := p.Write(t, name+".sh", fmt.Sprintf("echo started >> %q\nexec %q plugin stdio\n", p.Path(name+".started"), hosttest.Build(t)+"/drawbridge"))
	sum := scriptSum(t, path, name+".sh")
	return program{name, path, fmt.Sprintf("plugin %s {\n  command = \"sh\"\n  args = [%[2]s]\n  files = [%[2]s]\n  sha256 = %[3]s\n}\n",
		quote(name), quote(name+".sh"), quote(sum))}
}

func scriptSum(t testing.TB, path, name string) string {
	t.Helper()
	sum, err := checksum.Files([]checksum.Named{{Name: name, Path: path}})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// TestScriptAsPlugin: a plugin that is a script serves calls like any other; once its
// file has changed it is not started, and the error names both checksums.
func TestScriptAsPlugin(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		one := script(t, p, "mine")
		declared := scriptSum(t, one.path, "mine.sh")
		path := p.Write(t, "providers.hcl", hostBlock(p, "")+one.block+blocks(t, p, provider{
			name: "fake", plugin: "mine", body: "  restart {\n    intensity = 0\n  }\n",
			config: fmt.Sprintf("    command = %s\n    args = [\"--log\", %s, \"--life\", \"5m\"]", quote(fakeserver.Build(t)), quote(p.Path("fake.log"))),
		}))
		c := open(path)
		if got := textOf(t, tool(t, c, "fake_echo", `{"text":"well"}`)); got != "well" {
			t.Errorf("echo: %q", got)
		}
		starts := func() int {
			text, err := os.ReadFile(p.Path("mine.started"))
			if err != nil {
				t.Fatal(err)
			}
			return strings.Count(string(text), "started\n")
		}
		before := starts()
		text, err := os.ReadFile(one.path)
		if err != nil {
			t.Fatal(err)
		}
		p.Write(t, "mine.sh", string(text)+"# changed\n")
		changed := scriptSum(t, one.path, "mine.sh")
		_, errs, code := cli(t, p, "restart", "fake", "--config", path)
		if code == 0 {
			t.Error("what has changed was started")
		}
		says(t, "restart", errs, declared, changed, one.path)
		e := errorOf(t, tool(t, c, "fake_echo", "{}"))
		if e.Data.Outcome != "unavailable" || e.Data.Dispatched {
			t.Errorf("%+v", e)
		}
		if starts() != before {
			t.Errorf("the script ran %d times after it had changed", starts()-before)
		}
		if left := servers(p, "fake"); len(left) != 0 {
			t.Errorf("%d servers run", len(left))
		}
	})
}
