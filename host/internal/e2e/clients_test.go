//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// newerNode is the Node that the inspector needs, first in PATH.
func newerNode(t testing.TB) string {
	return "PATH=" + filepath.Dir(program(t, "node")) + string(os.PathListSeparator) + os.Getenv("PATH")
}

// inspector is the MCP inspector's command line: a client, and a connection, for each call.
type inspector struct {
	p place
	// target is what it connects to: a URL, or a command.
	target []string
	// flags are those of the connection.
	flags []string
}

func (i inspector) run(t testing.TB, method string, args ...string) []byte {
	t.Helper()
	all := []string{"--cli"}
	all = append(all, i.target...)
	all = append(all, "--method", method)
	all = append(all, args...)
	all = append(all, i.flags...)
	cmd := exec.Command(program(t, "mcp-inspector"), all...)
	cmd.Dir, cmd.Env = i.p.Dir, i.p.Env(newerNode(t))
	out, err := hosttest.Output(t, cmd)
	if err != nil && out == "" {
		t.Fatal(err)
	}
	return []byte(out)
}

func (i inspector) tools(t testing.TB) []string {
	t.Helper()
	return names(t, i.run(t, "tools/list"))
}

func (i inspector) call(t testing.TB, server, tool, args string) hosttest.Result {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(args), &members); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--tool-name", exposed(server, tool)}
	for name, value := range members {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		flags = append(flags, "--tool-arg", name+"="+text)
	}
	return hosttest.ParseResult(t, tool, i.run(t, "tools/call", flags...))
}

// names reads the names of a printed list of tools.
func names(t testing.TB, printed []byte) []string {
	t.Helper()
	type named struct {
		Name string `json:"name"`
	}
	var list struct {
		Tools []named `json:"tools"`
	}
	if json.Unmarshal(printed, &list) != nil || list.Tools == nil {
		if err := json.Unmarshal(printed, &list.Tools); err != nil {
			t.Fatalf("no list of tools: %v: %.400s", err, printed)
		}
	}
	var out []string
	for _, one := range list.Tools {
		out = append(out, one.Name)
	}
	return out
}

// mcpc is the client mcpc: a session that a process in the background keeps between calls.
type mcpc struct {
	p       place
	session string
}

func (m mcpc) run(t testing.TB, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(program(t, "mcpc"), append([]string{"--json"}, args...)...)
	cmd.Dir, cmd.Env = m.p.Dir, m.p.Env()
	return hosttest.Output(t, cmd)
}

func connectMCPC(t testing.TB, p place, h hosttest.Host, session string) mcpc {
	t.Helper()
	m := mcpc{p, session}
	// It gives its own background process five seconds to come up, which a busy machine may not meet.
	for try := 1; ; try++ {
		_, err := m.run(t, "connect", h.URL, session, "--header", "Authorization: Bearer "+h.Token)
		if err == nil {
			break
		}
		if try == 3 || !strings.Contains(err.Error(), "Bridge failed to start") {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if _, err := m.run(t, "close", session); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (m mcpc) tools(t testing.TB) []string {
	t.Helper()
	out, err := m.run(t, m.session, "tools-list")
	if err != nil {
		t.Fatal(err)
	}
	return names(t, []byte(out))
}

func (m mcpc) call(t testing.TB, server, tool, args string) hosttest.Result {
	t.Helper()
	out, err := m.run(t, m.session, "tools-call", exposed(server, tool), args)
	if err != nil && out == "" {
		t.Fatal(err)
	}
	return hosttest.ParseResult(t, tool, []byte(out))
}

// TestInspectorStdio starts a host for each call of the inspector, so that only
// what a server keeps on disk goes from one call to the next.
func TestInspectorStdio(t *testing.T) {
	p := newPlace(t)
	// The inspector has a flag --config of its own, so the host gets its path from the environment.
	i := inspector{p, []string{filepath.Join(hosttest.Build(t), "drawbridge"), "serve", "--stdio"}, []string{"-e", "DRAWBRIDGE_CONFIG=" + p.config(t)}}
	for _, name := range []string{"HOME=" + p.Home, "TMPDIR=" + p.Dir} {
		i.flags = append(i.flags, "-e", name)
	}
	listed(t, i)
	everything(t, i)
	filesystem(t, i, p.Path("files"))
	remember(t, i, "Tower-Inspector")
	recall(t, i, "Tower-Inspector")
	visit := newPage(t)
	if r := i.call(t, "browser", "browser_navigate", fmt.Sprintf(`{"url":%q}`, visit.url)); !strings.Contains(r.Text(), "The gate") {
		t.Errorf("browser_navigate: %q", r.Text())
	}
}

// TestInspectorHTTP runs all scenarios with the inspector: its calls come over
// connections of their own, and yet find one browser.
func TestInspectorHTTP(t *testing.T) {
	p := newPlace(t)
	h := p.ServeHTTP(t, p.config(t))
	i := inspector{p, []string{h.URL}, []string{"--header", "Authorization: Bearer " + h.Token}}
	listed(t, i)
	everything(t, i)
	filesystem(t, i, p.Path("files"))
	browse(t, i)
	remember(t, i, "Tower-Inspector")
	recall(t, hostFace{h.Client(t)}, "Tower-Inspector")
}

// TestInspectorWithoutToken is refused, and says why it failed.
func TestInspectorWithoutToken(t *testing.T) {
	p := newPlace(t)
	h := p.ServeHTTP(t, p.config(t))
	cmd := exec.Command(program(t, "mcp-inspector"), "--cli", h.URL, "--method", "tools/list")
	cmd.Dir, cmd.Env = p.Dir, p.Env(newerNode(t))
	if out, err := hosttest.Output(t, cmd); err == nil {
		t.Errorf("the inspector listed tools without a token: %s", out)
	}
}

// TestMCPC runs all scenarios with mcpc over HTTP, and lets a second session
// find what the first one stored.
func TestMCPC(t *testing.T) {
	p := newPlace(t)
	h := p.ServeHTTP(t, p.config(t))
	m := connectMCPC(t, p, h, "@one")
	listed(t, m)
	everything(t, m)
	filesystem(t, m, p.Path("files"))
	browse(t, m)
	remember(t, m, "Tower-MCPC")
	recall(t, connectMCPC(t, p, h, "@two"), "Tower-MCPC")
	if _, err := m.run(t, m.session, "ping"); err != nil {
		t.Error(err)
	}
}

// serversTools are the definitions in what the inspector prints of a list, but for
// the host's own tool.
func serversTools(t testing.TB, printed string) []any {
	t.Helper()
	var list struct{ Tools []map[string]any }
	if err := json.Unmarshal([]byte(printed), &list); err != nil || len(list.Tools) == 0 {
		t.Fatalf("no list of tools: %v: %s", err, printed)
	}
	var out []any
	for _, tool := range list.Tools {
		if tool["name"] != "read_artifact" {
			out = append(out, tool)
		}
	}
	return out
}

// TestInspectorStrict lets the inspector judge the schemas of every tool: those of
// the fixture, with all that JSON Schema has, are listed as the server lists them,
// and none of the four servers' is at fault for the host.
func TestInspectorStrict(t *testing.T) {
	strict := func(t *testing.T, p place, flags []string, target ...string) string {
		t.Helper()
		args := append([]string{"--cli"}, target...)
		args = append(args, "--method", "tools/list", "--strict")
		cmd := exec.Command(program(t, "mcp-inspector"), append(args, flags...)...)
		cmd.Dir, cmd.Env = p.Dir, p.Env(newerNode(t))
		out, err := hosttest.Output(t, cmd)
		if err != nil {
			t.Error(err)
		}
		return out
	}
	p := newPlace(t)
	h := p.ServeHTTP(t, p.fixtureConfig(t, false, ""))
	want := strict(t, p, nil, fixture(t, "everything-server"))
	got := strict(t, p, []string{"--header", "Authorization: Bearer " + h.Token}, h.URL)
	if diff := cmp.Diff(serversTools(t, want), serversTools(t, got)); diff != "" {
		t.Errorf("through the host (-direct +through):\n%s", diff)
	}
	four := p.ServeHTTP(t, p.config(t))
	strict(t, p, []string{"--header", "Authorization: Bearer " + four.Token}, four.URL)
}
