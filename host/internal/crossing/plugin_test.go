package crossing

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// TestC105_PluginsThatDoNotComeUp: four ways, four messages that say which, where
// and what to do, long before the time for a start is over.
func TestC105_PluginsThatDoNotComeUp(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		programs := []program{
			plugin(t, p, "hello"), plugin(t, p, "dies"),
			file(t, p, "plain", []byte("no program"), 0o640), file(t, p, "text", []byte("just text\nand more"), 0o755),
		}
		text := hostBlock(p, "")
		for _, one := range programs {
			text += one.block + blocks(t, p, provider{name: one.name, plugin: one.name, body: neverAgain})
		}
		path := p.Write(t, "providers.hcl", text+blocks(t, p, provider{name: "fake"}))
		c := open(path)
		seen := map[string]bool{}
		for i, parts := range [][]string{
			{`printed "hello" on its standard output before its handshake`},
			{"exited with code 1 before its handshake", "Error: the licence has expired"},
			{"is not executable", "-rw-r-----"},
			{"is no program for", `"just text"`},
		} {
			one := programs[i]
			began := time.Now()
			e := errorOf(t, tool(t, c, one.name+"_x", "{}"))
			if took := time.Since(began); took > atOnce {
				t.Errorf("%s: it took %v", one.name, took)
			}
			if e.Data.Outcome != "unavailable" || e.Data.Dispatched {
				t.Errorf("%s: %+v", one.name, e)
			}
			says(t, "the error", e.Message, append(parts, fmt.Sprintf("provider %q", one.name), lineOf(t, path, one.name), one.path)...)
			if strings.Contains(e.Message, "nrecognized remote plugin") || seen[e.Message] {
				t.Errorf("%s: %s", one.name, e.Message)
			}
			seen[e.Message] = true
		}
		if got := textOf(t, tool(t, c, "fake_echo", `{"text":"well"}`)); got != "well" {
			t.Errorf("the provider beside them: %q", got)
		}
	})
}

// TestC106_AnyTMPDIR: sockets are in a short private folder of the host's own,
// however long the path of TMPDIR is.
func TestC106_AnyTMPDIR(t *testing.T) {
	for _, length := range []int{60, 90, 93, 120} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			p := hosttest.NewPlace(t)
			dir := p.Dir + "/" + strings.Repeat("t", length-len(p.Dir)-1)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			long := setting{env: []string{"TMPDIR=" + dir}}
			path := config(t, p, "", provider{name: "fake"})
			for _, c := range []client{long.stdio(t, p, path), dial(t, long.http(t, p, path))} {
				if env := environment(t, c, "fake"); env["TMPDIR"] != dir || len(dir) != length {
					t.Errorf("the server has TMPDIR %q", env["TMPDIR"])
				}
			}
			running := plugins(p, "fake")
			if len(running) != 2 {
				t.Errorf("%d plugins, want two", len(running))
			}
			for _, one := range running {
				privateSocket(t, one.PID)
			}
		})
	}
}

// privateSocket checks where a plugin listens.
func privateSocket(t testing.TB, pid int) {
	t.Helper()
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/unix", pid))
	if err != nil {
		t.Fatal(err)
	}
	own, found := sockets(t, pid), 0
	for line := range strings.Lines(string(table)) {
		const listening = "00010000" // flags: it accepts connections
		f := strings.Fields(line)
		if len(f) < 8 || f[3] != listening || !own[f[6]] {
			continue
		}
		found++
		path := f[7]
		dir := path[:strings.LastIndexByte(path, '/')]
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 || len(path) > 103 {
			t.Errorf("the plugin listens on %s (%d bytes), in a folder with mode %v", path, len(path), info.Mode())
		}
	}
	if found == 0 {
		t.Errorf("plugin %d listens on no socket", pid)
	}
}

// TestC106_TMPDIRThatCannotBeUsed is named as such, by every command that starts
// servers.
func TestC106_TMPDIRThatCannotBeUsed(t *testing.T) {
	p := hosttest.NewPlace(t)
	path := config(t, p, "", provider{name: "fake"})
	for dir, why := range map[string]string{
		p.Path("missing"):                 "does not exist",
		p.Write(t, "a-file", "no folder"): "is not a folder",
		"/proc":                           "is not writable", // to root neither
	} {
		for _, args := range [][]string{{"serve", "--stdio"}, {"serve"}, {"tools"}} {
			cmd := setting{env: []string{"TMPDIR=" + dir}}.command(t, p, append(args, "--config", path)...)
			_, err := hosttest.Output(t, cmd)
			if exit, ok := asExit(err); !ok || exit != 1 {
				t.Errorf("%v with TMPDIR %s: %v, want exit 1", args, dir, err)
				continue
			}
			says(t, "the error", err.Error(), "TMPDIR", dir, why)
			if strings.Contains(err.Error(), "nrecognized remote plugin") {
				t.Error(err)
			}
		}
	}
}

// TestC115_VersionsAreAgreedOn with servers that are set in their ways, and with a
// client that is older than we are. (The case's FH, which refuses by a header, comes
// with servers on HTTP.)
func TestC115_VersionsAreAgreedOn(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "",
			provider{name: "old", args: []string{"--version", "2024-11-05"}},
			provider{name: "future", args: []string{"--version", "2099-01-01"}, body: neverAgain},
			provider{name: "silent", args: []string{"--legacy-silent-discover"}, body: limits(`start_timeout = "5m"`)}))
		for _, name := range []string{"old", "silent"} {
			began := time.Now()
			if got := textOf(t, tool(t, c, name+"_echo", `{"text":"here"}`)); got != "here" {
				t.Errorf("%s: %q", name, got)
			}
			if took := time.Since(began); took > atOnce {
				t.Errorf("%s: it took %v", name, took)
			}
			if n := len(fakeserver.Method(logged(t, p, name), "initialize")); n != 1 {
				t.Errorf("%s was asked to initialize %d times", name, n)
			}
		}
		e := errorOf(t, tool(t, c, "future_echo", "{}"))
		if e.Data.Outcome != "unavailable" {
			t.Errorf("a server from the future: %+v", e)
		}
		says(t, "the error", e.Message, `provider "future"`, "initialize", "2099-01-01", "2025-11-25")
		if slices.ContainsFunc(names(t, c), func(name string) bool { return strings.HasPrefix(name, "future_") }) {
			t.Error("a tool of the server from the future is listed")
		}
	})
	older := func(t *testing.T, c hosttest.Client) {
		hello := hosttest.Hello(t, c, strings.Replace(hosttest.Initialize, "2025-11-25", "2025-03-26", 1))
		var said struct{ ProtocolVersion string }
		if err := json.Unmarshal(hello.Result, &said); err != nil || said.ProtocolVersion != "2025-03-26" {
			t.Errorf("asked for 2025-03-26, the host answers %s", hello.Raw)
		}
		if got := textOf(t, tool(t, c, "fake_echo", `{"text":"here"}`)); got != "here" {
			t.Errorf("echo: %q", got)
		}
	}
	t.Run("an older client on stdio", func(t *testing.T) {
		p := hosttest.NewPlace(t)
		older(t, hosttest.StartStdio(t, p.Command(t, "serve", "--stdio", "--config", config(t, p, "", provider{name: "fake"}))))
	})
	t.Run("an older client on HTTP", func(t *testing.T) {
		p := hosttest.NewPlace(t)
		h := p.ServeHTTP(t, config(t, p, "", provider{name: "fake"}))
		older(t, hosttest.DialHTTP(h.URL, h.Token))
	})
}
