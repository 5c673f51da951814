//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

func TestMain(m *testing.M) {
	if server := os.Getenv(olderFixture); server != "" {
		if err := serveOlder(server); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(hosttest.Main(m))
}

// root is the repository; tests run in their package's folder.
func root(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// need returns the path of a file that a test cannot do without.
func need(t testing.TB, remedy string, path ...string) string {
	t.Helper()
	file := filepath.Join(path...)
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("%v; %s", err, remedy)
	}
	return file
}

// packages is the folder of what npm installed.
func packages(t testing.TB) string {
	return need(t, "run make e2e, which installs it with npm ci", root(t), "host/internal/e2e/testdata/npm/node_modules")
}

func program(t testing.TB, name string) string {
	return need(t, "run make e2e, which installs it with npm ci", packages(t), ".bin", name)
}

// node runs servers: the system's own, since that is what people have.
func node(t testing.TB) string {
	path, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("%v; install Node 20", err)
	}
	return path
}

// place is a test's folder, in which the four servers write.
type place struct{ hosttest.Place }

func newPlace(t testing.TB) place { return place{hosttest.NewPlace(t)} }

// config writes the file that declares the four servers, with what they write in p.
func (p place) config(t testing.TB) string {
	t.Helper()
	files := p.Path("files")
	if err := os.MkdirAll(files, 0o700); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "host {\n  state_dir = %q\n  list_wait = \"60s\"\n  http {\n    listen = \"127.0.0.1:0\"\n  }\n}\n", p.Path("state"))
	for _, s := range p.servers(t) {
		fmt.Fprintf(&b, "provider %q {\n  plugin = \"stdio\"\n  config {\n    command = %q\n    args = [", s.name, s.command[0])
		for _, arg := range s.command[1:] {
			fmt.Fprintf(&b, "%q, ", arg)
		}
		fmt.Fprintf(&b, "]\n    cwd = %q\n    env = {", p.Dir)
		for _, one := range s.env {
			name, value, _ := strings.Cut(one, "=")
			fmt.Fprintf(&b, " %s = %q", name, value)
		}
		b.WriteString(" }\n  }\n}\n")
	}
	return p.Write(t, "providers.hcl", b.String())
}

// server is how one of the four is started.
type server struct {
	name    string
	command []string
	env     []string
}

func (p place) servers(t testing.TB) []server {
	t.Helper()
	run := func(name string, args ...string) []string {
		return append([]string{node(t), program(t, name)}, args...)
	}
	chromium := need(t, "install Debian's chromium", "/usr/bin/chromium")
	return []server{
		{name: "everything", command: run("mcp-server-everything", "stdio")},
		{name: "files", command: run("mcp-server-filesystem", p.Path("files"))},
		{name: "memory", command: run("mcp-server-memory"), env: []string{"MEMORY_FILE_PATH=" + p.Path("memory.jsonl")}},
		{name: "browser", command: run("playwright-mcp", "--headless", "--no-sandbox", "--isolated", "--executable-path", chromium)},
	}
}

// direct starts one of the four without the host.
func (p place) direct(t testing.TB, s server) hosttest.Client {
	t.Helper()
	cmd := exec.Command(s.command[0], s.command[1:]...)
	cmd.Dir, cmd.Env = p.Dir, p.Env(s.env...)
	return hosttest.Open(t, hosttest.StartStdio(t, cmd))
}
