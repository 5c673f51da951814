package crossing

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// machine is a configuration as it stands on one machine: with a user, a home, paths,
// an environment and secrets of its own.
type machine struct {
	hosttest.Place
	program string // drawbridge, where its user can run it
	uid     int
	// from is the folder in which commands are given, config how they name the
	// configuration there, and lock where its lock file stands.
	from, config, lock string
	env                []string
}

// nobody is a user who is not root.
const nobody = 65534

// newMachine makes a machine. paths says how the paths of its configuration are
// written: "relative" or "absolute".
func newMachine(t *testing.T, paths, configured string, uid int, secret string) machine {
	t.Helper()
	p := hosttest.NewPlace(t)
	m := machine{Place: p, uid: uid, program: p.Path("drawbridge"), from: p.Dir, config: configured, env: p.Env("WHO=" + secret)}
	copyFile(t, filepath.Join(hosttest.Build(t), "drawbridge"), m.program)
	folder := filepath.Join(p.Dir, filepath.Dir(configured))
	if filepath.Ext(configured) == "" { // a folder
		folder = filepath.Join(p.Dir, configured)
	}
	m.lock = filepath.Join(folder, "providers.lock.hcl")
	at := func(name string) string {
		if paths == "absolute" {
			return filepath.Join(folder, name)
		}
		return name
	}
	if paths == "absolute" {
		m.from, m.config = "/", filepath.Join(p.Dir, configured)
	}
	for _, dir := range []string{"plugins", "bin"} {
		if err := os.MkdirAll(filepath.Join(folder, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	copyFile(t, fakeserver.Build(t), filepath.Join(folder, "bin", "fake"))
	copyFile(t, "/proc/self/exe", filepath.Join(folder, "plugins", thirdParty+"good"))
	writeIn(t, folder, "providers.hcl", fmt.Sprintf(`
host {
  state_dir  = %s
  plugin_dir = %s
  locked     = true
}
provider "shop" {
  plugin = "stdio"
  config {
    command = %s
    args    = ["--life", "5m", "--tools", "none", "--tools-file", %s]
    env     = { TOKEN = secret("token"), WHO = env("WHO"), HERE = path.config, HOME_OF = path.home }
  }
}
provider "thing" {
  plugin = "good"
  config {
  }
}
`, quote(at("state")), quote(at("plugins")), quote(at("./bin/fake")), quote(at("tools.json"))))
	m.lists(t, folder, paths, secret)
	if uid != os.Getuid() {
		if err := filepath.WalkDir(p.Dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, uid, uid)
		}); err != nil {
			t.Fatal(err)
		}
	}
	set := m.command("secret", "set", "token", "--config", m.config)
	set.Stdin = strings.NewReader(secret)
	if out, err := set.CombinedOutput(); err != nil {
		t.Fatalf("secret set: %v: %s", err, out)
	}
	return m
}

// lists writes what the server lists: the same definitions on each machine, in another
// order and other white space, and with the secret that is this machine's.
func (m machine) lists(t *testing.T, folder, paths, secret string) {
	t.Helper()
	pay := `{"name":"pay","description":"pays with SECRET","inputSchema":{"type":"object","properties":{"to":{"type":"string","default":"SECRET"},"sum":{"type":"number","maximum":9007199254740993}}}}`
	get := `{"name":"get é","inputSchema":{"type":"object"}}`
	text := "[" + pay + "," + get + "]"
	if paths == "absolute" {
		text = `[ {"inputSchema": {"type": "object"}, "name": "get \u00e9"}, ` +
			`{"inputSchema": {"properties": {"sum": {"maximum": 9007199254740993, "type": "number"}, "to": {"default": "SECRET", "type": "string"}}, "type": "object"}, "description": "pays with SECRET", "name": "pay"} ]`
	}
	writeIn(t, folder, "tools.json", strings.ReplaceAll(text, "SECRET", secret))
}

func writeIn(t *testing.T, folder, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// command is a command of the machine's user.
func (m machine) command(args ...string) *exec.Cmd {
	cmd := exec.Command(m.program, args...)
	cmd.Dir, cmd.Env = m.from, m.env
	if m.uid != os.Getuid() {
		id := uint32(m.uid) // nobody's
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	}
	return cmd
}

// run runs a command and gives all that it prints; it has to end with a code.
func (m machine) run(t *testing.T, code int, args ...string) string {
	t.Helper()
	cmd := m.command(append(args, "--config", m.config)...)
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("%q on %s ended with code %d, want %d: %s", args, m.config, got, code, out)
	}
	return string(out)
}

// TestALockFileFitsAnotherMachine: what it holds depends on what servers list and on
// plugins' bytes alone. Users, homes, state dirs, paths however they are written,
// environments and secrets differ, and each machine makes the same file, byte for
// byte, and takes that of another as its own.
func TestALockFileFitsAnotherMachine(t *testing.T) {
	other := os.Getuid()
	if other == 0 {
		other = nobody
	}
	machines := []machine{
		newMachine(t, "relative", "providers.hcl", os.Getuid(), "first-machines-secret"),
		newMachine(t, "relative", "conf", os.Getuid(), "second-machines-secret"),
		newMachine(t, "absolute", "etc/conf", other, "third-machines-secret"),
		newMachine(t, "absolute", "etc/providers.hcl", other, "fourth-machines-secret"),
	}
	var files []string
	for _, m := range machines {
		m.run(t, 0, "lock") // approves the plugin
		m.run(t, 0, "lock") // and what it lists
		text, err := os.ReadFile(m.lock)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, string(text))
	}
	for _, want := range []string{`tool "pay"`, `tool "get \u00e9"`, `provider "thing" {` + "\n  tool ", `plugin "good"`} {
		if !strings.Contains(files[0], want) {
			t.Errorf("the lock file does not have %s:\n%s", want, files[0])
		}
	}
	for i, m := range machines {
		if files[i] != files[0] {
			t.Errorf("%s has another lock file than %s:\n%s\n%s", m.config, machines[0].config, files[i], files[0])
		}
		for _, own := range append(m.env, m.Dir, "machines-secret") {
			if strings.Contains(files[i], own) {
				t.Errorf("the lock file holds %q:\n%s", own, files[i])
			}
		}
	}
	for i, m := range machines {
		// A machine that has never seen anything takes the file of the next one.
		if err := os.RemoveAll(filepath.Join(filepath.Dir(m.lock), "state", "catalog")); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(filepath.Dir(m.lock), "state", "definitions")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(m.lock, []byte(files[(i+1)%len(files)]), 0o644); err != nil {
			t.Fatal(err)
		}
		if out := m.run(t, 0, "plan", "--refresh"); !strings.Contains(out, "Nothing differs") || strings.Contains(out, "quarantined") {
			t.Errorf("plan: %s", out)
		}
		if out := m.run(t, 0, "tools"); !strings.Contains(out, "shop_pay") || !strings.Contains(out, "thing_") {
			t.Errorf("tools: %s", out)
		}
		m.run(t, 0, "lock")
		if text, err := os.ReadFile(m.lock); err != nil || string(text) != files[0] {
			t.Errorf("lock wrote another file: %v\n%s", err, text)
		}
	}
}
