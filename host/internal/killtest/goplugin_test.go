//go:build linux

package killtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// The faults of plain go-plugin v1.8.0 that the host's runner is there for. Each test
// shows the fault, so that we learn when it is gone, and the host without it.

// plainArg as the first argument makes this test binary a plugin, or a host, of plain
// go-plugin: the second says which. It is no environment variable, for go-plugin hands
// its host's environment down.
const plainArg = "plain-go-plugin"

// plainLife is when such a process ends by itself, whatever happens.
const plainLife = 2 * time.Minute

var plainHandshake = plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "KILLTEST", MagicCookieValue: "plain"}

// nothing is a plugin with no service of its own.
type nothing struct{ plugin.NetRPCUnsupportedPlugin }

func (nothing) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error { return nil }

func (nothing) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return struct{}{}, nil
}

// plainRole plays the role that the arguments name, and says whether they name one.
func plainRole() bool {
	if len(os.Args) != 3 || os.Args[1] != plainArg {
		return false
	}
	time.AfterFunc(plainLife, func() { os.Exit(99) })
	switch role := os.Args[2]; role {
	case "host-message", "host-thief":
		client := plain(strings.TrimPrefix(role, "host-"))
		if _, err := client.Client(); err != nil {
			panic(err)
		}
		if role == "host-thief" { // both would read; this one comes second
			within(patience, func() bool { _, err := os.Stat(os.Getenv("LOOT")); return err == nil })
		}
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Printf("host read %q\n", line)
		client.Kill()
		return true
	case "heir":
		heir := exec.Command("sleep", "60")
		heir.Stdout, heir.Stderr = os.Stdout, os.Stderr
		if err := heir.Start(); err != nil {
			panic(err)
		}
		fmt.Fprintf(os.Stderr, "heir %d\n", heir.Process.Pid)
	case "message":
		fmt.Fprintln(os.Stderr, `{"@message": 1}`)
	case "thief":
		go func() {
			line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
			_ = os.WriteFile(os.Getenv("LOOT"), []byte(line), 0o600)
		}()
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plainHandshake, Plugins: plugin.PluginSet{"nothing": nothing{}}, GRPCServer: plugin.DefaultGRPCServer,
		Logger: hclog.NewNullLogger(),
	})
	return true
}

// plain is go-plugin as it comes.
func plain(role string) *plugin.Client {
	cmd := exec.Command("/proc/self/exe", plainArg, role)
	return plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: plainHandshake, Plugins: plugin.PluginSet{"nothing": nothing{}}, Cmd: cmd,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, Logger: hclog.NewNullLogger(),
	})
}

// startPlain starts a plain plugin and returns its process.
func startPlain(t *testing.T, client *plugin.Client) entry {
	t.Helper()
	if _, err := client.Client(); err != nil {
		t.Fatal(err)
	}
	pid := client.ReattachConfig().Pid
	return entry{pid: pid, start: readStat(pid).start, role: "plugin"}
}

// plainHost runs a host of plain go-plugin to its end, with a line on its input.
func plainHost(t *testing.T, role, loot string) (out string, err error) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", plainArg, role)
	cmd.Env = append(os.Environ(), "LOOT="+loot)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &text, &text, time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if loot == "" {
		defer func() { _ = in.Close() }() // it has to panic by itself
	} else {
		_, _ = io.WriteString(in, "for the host\n")
		within(patience, func() bool { _, err := os.Stat(loot); return err == nil })
		_ = in.Close()
	}
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err = cmd.Wait()
	return text.String(), err
}

// A plugin that is stopped keeps plain go-plugin's Kill for ever, and the host for as
// long as its ladder.
func TestGoPlugin_StoppedPluginBlocksKill(t *testing.T) {
	t.Parallel()
	client := plain("plugin")
	process := startPlain(t, client)
	process.signal(t, syscall.SIGSTOP)
	if !within(patience, func() bool { return readStat(process.pid).state == "T" }) {
		t.Fatal("the plugin does not stop")
	}
	done := make(chan struct{})
	go func() { defer close(done); client.Kill() }()
	select {
	case <-done:
		t.Error("plain go-plugin: Kill returned")
	case <-time.After(4 * time.Second): // twice what it gives a plugin that answers
	}
	process.signal(t, syscall.SIGKILL)
	<-done

	both(t, func(t *testing.T, p place, flags ...string) {
		h := p.serve(t, p.config(t, "c.hcl", provider{"p", []string{"--life", "5m"}, restarts}), flags...).ready(t, p)
		h.echo(t)
		found := pick(marked(h.id), "plugin")
		if len(found) != 1 || !found[0].signal(t, syscall.SIGSTOP) {
			t.Fatalf("plugins: %v", found)
		}
		began := time.Now()
		h.stop(t)
		// What its server's grace, SIGTERM and SIGKILL take, and a Stop that is not answered.
		if d := time.Since(began); d > 2*3*time.Second {
			t.Errorf("it took %v", d)
		}
		if left := marked(h.id); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// A process that holds the plugin's output hides its exit from plain go-plugin. What
// the host does is in host/supervise, TestHeirDoesNotHideTheExit.
func TestGoPlugin_HeirHidesTheExit(t *testing.T) {
	t.Parallel()
	client := plain("heir")
	process := startPlain(t, client)
	var heir entry
	for _, pid := range pids() {
		if s := readStat(pid); s.parent == process.pid {
			heir = entry{pid: pid, start: s.start}
		}
	}
	process.signal(t, syscall.SIGKILL)
	if within(2*time.Second, client.Exited) {
		t.Error("plain go-plugin: it has seen the exit")
	}
	if !heir.signal(t, syscall.SIGKILL) {
		t.Error("there was no heir")
	}
	if !within(patience, client.Exited) {
		t.Error("plain go-plugin: it does not see the exit without the heir either")
	}
}

// A line on standard error ends a host of plain go-plugin, and is a line of the log of
// ours.
func TestGoPlugin_LinePanicsTheHost(t *testing.T) {
	t.Parallel()
	out, err := plainHost(t, "host-message", "")
	if err == nil || !strings.Contains(out, "panic: interface conversion") {
		t.Errorf("plain go-plugin: %v\n%s", err, out)
	}

	p := newPlace(t, os.Getuid())
	h := p.serve(t, p.config(t, "c.hcl", provider{"p", []string{"--life", "5m", "--stderr", `{"@message": 1}`}, restarts})).ready(t, p)
	h.echo(t)
	eventually(t, "the line in the log", func() bool {
		text, _ := os.ReadFile(p.path("state/logs/p.log"))
		return strings.Contains(string(text), `{"@message": 1}`)
	})
	h.stop(t)
}

// A plugin of plain go-plugin has its host's standard input, where a client's requests
// are; below ours nobody has.
func TestGoPlugin_StolenInput(t *testing.T) {
	t.Parallel()
	loot := filepath.Join(t.TempDir(), "loot")
	out, err := plainHost(t, "host-thief", loot)
	stolen, _ := os.ReadFile(loot)
	if err != nil || string(stolen) != "for the host\n" || !strings.Contains(out, `host read ""`) {
		t.Errorf("plain go-plugin: %v, stolen %q\n%s", err, stolen, out)
	}

	p := newPlace(t, os.Getuid())
	h := p.serve(t, p.config(t, "c.hcl", provider{"p", p.stubborn(everything), restarts})).ready(t, p)
	h.echo(t)
	mine, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", h.pid()))
	if err != nil {
		t.Fatal(err)
	}
	all := marked(h.id)
	for _, e := range all {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", e.pid))
		for _, file := range files {
			if target, _ := os.Readlink(file); target == mine {
				t.Errorf("%v has the host's input as %s", e, file)
			}
		}
	}
	if len(all) < 3 {
		t.Errorf("there are %v", all)
	}
	h.stop(t)
}

// A client of plain go-plugin that is started again tells of the process that is gone;
// the host's next instance answers.
func TestGoPlugin_ReusedClient(t *testing.T) {
	t.Parallel()
	client := plain("plugin")
	process := startPlain(t, client)
	before := client.ReattachConfig().Addr
	client.Kill()
	after, err := client.Start()
	if err != nil || after.String() != before.String() || !client.Exited() || process.lives() {
		t.Errorf("plain go-plugin: started again it says %v, %v, exited %v", after, err, client.Exited())
	}

	p := newPlace(t, os.Getuid())
	h := p.serve(t, p.config(t, "c.hcl", provider{"p", []string{"--life", "5m"}, restarts})).ready(t, p)
	h.echo(t)
	old := pick(marked(h.id), "plugin")
	if len(old) != 1 || !old[0].signal(t, syscall.SIGKILL) {
		t.Fatalf("plugins: %v", old)
	}
	eventually(t, "its end", func() bool { return len(instance(old[0].mark)) == 0 })
	h.echo(t)
	if now := pick(marked(h.id), "plugin"); len(now) != 1 || now[0].mark == old[0].mark {
		t.Errorf("plugins: %v", now)
	}
	h.stop(t)
}
