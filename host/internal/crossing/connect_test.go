//go:build linux

package crossing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// goneSoon is within what a client's share of a host is gone when the client is.
const goneSoon = 5 * time.Second

// connector starts a client of `connect` without a word.
func connector(t testing.TB, p hosttest.Place, path string, flags ...string) *hosttest.Stdio {
	t.Helper()
	return hosttest.StartStdio(t, p.Command(t, append([]string{"connect", "--config", path}, flags...)...))
}

// connected starts a client of `connect` and does the handshake.
func connected(t testing.TB, p hosttest.Place, path string, flags ...string) overStdio {
	t.Helper()
	c := connector(t, p, path, flags...)
	return overStdio{c, hosttest.Hello(t, c, hosttest.Initialize)}
}

// hosts are the processes of hosts in a place.
func hosts(p hosttest.Place) []hosttest.Process {
	return slices.DeleteFunc(p.Processes(), func(one hosttest.Process) bool {
		return one.Mark != "" || !strings.Contains(one.Command, " serve ") || strings.Contains(one.Command, " guard")
	})
}

// stopHosts ends, at the test's end, the hosts that clients have started: nobody else does.
func stopHosts(t testing.TB, p hosttest.Place) {
	t.Cleanup(func() {
		for _, one := range hosts(p) {
			_ = syscall.Kill(one.PID, syscall.SIGTERM)
		}
		eventually(t, "a host that was started is left", func() bool { return len(hosts(p)) == 0 })
	})
}

// onlyHost is the pid of the one host.
func onlyHost(t testing.TB, p hosttest.Place) int {
	t.Helper()
	found := hosts(p)
	if len(found) != 1 {
		t.Fatalf("%d hosts: %+v", len(found), found)
	}
	return found[0].PID
}

// TestFiveConnectAtOnce: of five that are to start a host in the same moment one does,
// and all five share it, its servers and their sessions.
func TestFiveConnectAtOnce(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	stopHosts(t, p)
	path := config(t, p, "", provider{name: "fake"}, provider{name: "other"})
	var clients [5]*hosttest.Stdio
	for i := range clients {
		clients[i] = connector(t, p, path, "--start")
	}
	var all sync.WaitGroup
	counts := make([]string, len(clients))
	for i, c := range clients {
		all.Go(func() {
			hosttest.Open(t, c)
			counts[i] = textOf(t, tool(t, c, "fake_inc", "{}"))
			textOf(t, tool(t, c, "other_echo", `{"text":"hello"}`))
		})
	}
	all.Wait()
	slices.Sort(counts)
	if want := []string{"1", "2", "3", "4", "5"}; !slices.Equal(counts, want) {
		t.Errorf("five calls of one session have counted %v", counts)
	}
	pid := onlyHost(t, p)
	for _, name := range []string{"fake", "other"} {
		if n := starts(logged(t, p, name)); n != 1 {
			t.Errorf("%d servers of %q were started", n, name)
		}
	}
	// The host that they started is nobody's alone: it stays when all are gone.
	for _, c := range clients {
		c.Close(t)
	}
	if now := onlyHost(t, p); now != pid {
		t.Errorf("host %d, it was %d", now, pid)
	}
	late := connected(t, p, path)
	if got := textOf(t, tool(t, late, "fake_get", "{}")); got != "5" {
		t.Errorf("who comes later finds %s", got)
	}
}

// TestConnectOutlivesItsHost: SIGKILL of the host ends what was in flight with an error
// that says that it may have happened, never with silence, and it is not sent again; then
// each session goes on with the next host, which one of them starts.
func TestConnectOutlivesItsHost(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	stopHosts(t, p)
	path := config(t, p, "", provider{name: "fake"})
	var clients []overStdio
	for range 5 {
		clients = append(clients, connected(t, p, path, "--start"))
	}
	first := onlyHost(t, p)
	var waits []func() hosttest.Reply
	for i, c := range clients {
		id := fmt.Sprintf(`"slow-%d"`, i)
		waits = append(waits, c.begin(t, id, called(id, "fake_slow", never)))
	}
	waitCalls(t, p, "fake", len(clients))
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, wait := range waits {
		e := errorOf(t, wait())
		if e.Code != -31004 || e.Data.Outcome != "unknown" || e.Data.Reason != "host_lost" || !e.Data.Dispatched ||
			e.Data.Retry != "only_after_looking" || e.Data.Tool != "fake_slow" || !strings.Contains(e.Message, "may have had its effect") {
			t.Errorf("what was in flight: %+v", e)
		}
	}
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() { textOf(t, tool(t, c, "fake_inc", "{}")) })
	}
	all.Wait()
	if second := onlyHost(t, p); second == first {
		t.Error("the host was not killed")
	}
	log := logged(t, p, "fake")
	if n := starts(log); n != 2 {
		t.Errorf("%d servers were started, want one for each host", n)
	}
	slow := 0
	for _, m := range received(t, p, "fake") {
		if strings.Contains(string(m.Params), `"slow"`) {
			slow++
		}
	}
	if slow != len(clients) {
		t.Errorf("%d calls that take for ever were received, %d were made", slow, len(clients))
	}
	for _, c := range clients {
		if !slices.ContainsFunc(c.Heard(), func(m hosttest.Message) bool { return m.Method == "notifications/tools/list_changed" }) {
			t.Error("a client was not told to list the tools again")
		}
	}
}

// TestTheHostHoldsNothingOfItsClient: a host that a client has started holds none of the
// files that the client was given, so that who reads them to their end is not kept waiting.
func TestTheHostHoldsNothingOfItsClient(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	stopHosts(t, p)
	path := config(t, p, "", provider{name: "fake"})
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := p.Command(t, "connect", "--config", path, "--start")
	cmd.ExtraFiles = []*os.File{write}
	c := hosttest.StartStdio(t, cmd)
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	hosttest.Open(t, c)
	textOf(t, tool(t, c, "fake_inc", "{}"))
	given := map[string]bool{}
	for _, fd := range []string{"0", "1", "2", "3"} {
		file, err := os.Readlink(filepath.Join("/proc", fmt.Sprint(cmd.Process.Pid), "fd", fd))
		if err != nil || !strings.HasPrefix(file, "pipe:") {
			t.Fatalf("file %s of the client is %q: %v", fd, file, err)
		}
		given[file] = true
	}
	looked := 0
	for _, one := range p.Processes() {
		if one.PID == cmd.Process.Pid {
			continue
		}
		dir := filepath.Join("/proc", fmt.Sprint(one.PID), "fd")
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			looked++
			if file, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && given[file] {
				t.Errorf("%q holds %s of the client as its file %s", one.Command, file, f.Name())
			}
		}
	}
	if looked == 0 || t.Failed() {
		t.Fatalf("of %d files that the host holds", looked)
	}
	c.Close(t)
	onlyHost(t, p)
	if rest, err := io.ReadAll(read); err != nil || len(rest) != 0 {
		t.Errorf("what the client was given: %q, %v", rest, err)
	}
}

// TestTheHostIsBelowNoClient: a client that kills all that is below the process that it has
// started, as some do when they end, does not end the host that others share.
func TestTheHostIsBelowNoClient(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	stopHosts(t, p)
	path := config(t, p, "", provider{name: "fake"})
	cmd := p.Command(t, "connect", "--config", path, "--start")
	first := hosttest.StartStdio(t, cmd)
	hosttest.Open(t, first)
	textOf(t, tool(t, first, "fake_inc", "{}"))
	host := onlyHost(t, p)
	for pid := host; pid > 1; pid = parentOf(t, pid) {
		if pid == cmd.Process.Pid {
			t.Fatal("the host is below the client that started it")
		}
	}
	for _, one := range p.Processes() {
		for pid := one.PID; pid > 1; pid = parentOf(t, pid) {
			if pid == cmd.Process.Pid {
				_ = syscall.Kill(one.PID, syscall.SIGTERM)
			}
		}
	}
	<-first.Ended()
	second := connected(t, p, path)
	if got := textOf(t, tool(t, second, "fake_get", "{}")); got != "1" || onlyHost(t, p) != host {
		t.Errorf("the next client finds %s, and host %d where it was %d", got, onlyHost(t, p), host)
	}
}

// parentOf is the parent of a process, 0 where it is gone.
func parentOf(t testing.TB, pid int) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "stat"))
	if err != nil {
		return 0
	}
	// The name, in brackets, may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

// TestConnectFindsTheNextHost: without --start the next host is the owner's to start;
// until then requests are answered with what to do, and nothing is started.
func TestConnectFindsTheNextHost(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	path := config(t, p, "", provider{name: "fake"})
	h := p.ServeHTTP(t, path)
	c := connected(t, p, path)
	textOf(t, tool(t, c, "fake_inc", "{}"))
	h.Stop(t)
	e := errorOf(t, c.Request(t, "tools/list", "{}"))
	if e.Code != -31003 || e.Data.Reason != "no_host" || e.Data.Dispatched || e.Data.Retry != "safe" || !strings.Contains(e.Message, "drawbridge serve --config "+path) {
		t.Errorf("without a host: %+v", e)
	}
	eventually(t, "stderr does not say why", func() bool { return strings.Contains(c.Said(), "no host is running") })
	p.ServeHTTP(t, path)
	eventually(t, "it does not find the next host", func() bool {
		return c.Request(t, "ping", "").Error == nil
	})
	if got := textOf(t, tool(t, c, "fake_get", "{}")); got != "0" {
		t.Errorf("a new server has counted to %s", got)
	}
}

// TestConnectEndsWithItsClient: when a client is killed, `connect` and what the host has
// of its session end, and what it waited for is cancelled; the others' go on.
func TestConnectEndsWithItsClient(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	path := config(t, p, "", provider{name: "fake"})
	p.ServeHTTP(t, path)
	other := connected(t, p, path)
	id := `"other"`
	wait := other.begin(t, id, called(id, "fake_slow", `{"ms":8000}`))
	// The client is a shell that has `connect` as its child, and both ends of its pipes.
	mine := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":%s}`, hosttest.Initialize)
	script := fmt.Sprintf(`{ echo '%s'; echo '%s'; exec sleep 300; } | "$0" connect --config %s > answers`, mine, called(`"mine"`, "fake_slow", never), path)
	shell := p.Command(t, "")
	binary := shell.Path
	shell.Path, shell.Args = "/bin/sh", []string{"sh", "-c", script, binary}
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	waitCalls(t, p, "fake", 2)
	connects := func() (found []hosttest.Process) {
		for _, one := range p.Processes() {
			if strings.HasPrefix(one.Command, binary+" connect") {
				found = append(found, one)
			}
		}
		return found
	}
	if n := len(connects()); n != 2 {
		t.Fatalf("%d of `connect` run", n)
	}
	// All of the client's group but `connect` itself is killed.
	for _, one := range p.Processes() {
		if group, err := syscall.Getpgid(one.PID); err == nil && group == shell.Process.Pid && !strings.HasPrefix(one.Command, binary) {
			_ = syscall.Kill(one.PID, syscall.SIGKILL)
		}
	}
	began := time.Now()
	_ = shell.Wait()
	eventually(t, "`connect` is left", func() bool { return len(connects()) == 1 })
	waitLog(t, p, "fake", func(log []fakeserver.Entry) bool { return len(fakeserver.Method(log, "notifications/cancelled")) == 1 })
	if took := time.Since(began); took > goneSoon {
		t.Errorf("it took %v", took)
	}
	if got := textOf(t, wait()); got != "slept" {
		t.Errorf("another's call ended as %q", got)
	}
	answers, err := os.ReadFile(filepath.Join(shell.Dir, "answers"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(answers)) {
		if !json.Valid([]byte(line)) {
			t.Errorf("on stdout: %q", line)
		}
	}
}

// TestConnectCarriesWhatComes: large messages both ways, as they are, and refusals of the
// host's that the session outlives.
func TestConnectCarriesWhatComes(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	path := config(t, p, `max_request = "4MiB"`, provider{name: "fake"})
	p.ServeHTTP(t, path)
	c := connected(t, p, path)
	text := strings.Repeat("0123456789abcdef", 3<<16) // 3 MiB
	r := tool(t, c, "fake_echo", fmt.Sprintf(`{"text":%q,"n":9007199254740993}`, text))
	if r.Error != nil || !strings.Contains(string(r.Raw), text) || !strings.Contains(string(r.Raw), "9007199254740993") {
		t.Errorf("3 MiB came back as %d bytes: %.200s", len(r.Raw), r.Raw)
	}
	if e := errorOf(t, tool(t, c, "fake_echo", fmt.Sprintf(`{"text":%q}`, text+text))); e.Code != -32600 {
		t.Errorf("6 MiB: %+v", e)
	}
	refused := c.Expect("null", "")
	c.WriteLine(t, `{"jsonrpc":"2.0","id":1,`)
	if e := errorOf(t, refused.Wait(t)); e.Code != -32700 {
		t.Errorf("what is no message: %+v", e)
	}
	textOf(t, tool(t, c, "fake_inc", "{}"))
}

// TestConnectSaysWhyItCannotStart: the reason is in the answer and on stderr.
func TestConnectSaysWhyItCannotStart(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	for name, c := range map[string]struct{ text, want string }{
		"no file":           {"", "could not be started: Configuration not readable"},
		"a mistake":         {"host {\n  nonsense = 1\n}\n", "nonsense"},
		"an address in use": {fmt.Sprintf("host {\n  state_dir = %s\n  http {\n    listen = %q\n  }\n}\n", quote(p.Path("state")), busy(t)), "address already in use"},
	} {
		t.Run(name, func(t *testing.T) {
			path := p.Path("nowhere.hcl")
			if c.text != "" {
				path = p.Write(t, "bad.hcl", c.text)
			}
			client := connector(t, p, path, "--start")
			defer client.Close(t)
			e := errorOf(t, client.Request(t, "initialize", hosttest.Initialize))
			if e.Code != -31003 || e.Data.Reason != "no_host" || !strings.Contains(e.Message, "could not be started") || !strings.Contains(e.Message, c.want) {
				t.Errorf("%+v", e)
			}
			eventually(t, "stderr does not say why", func() bool { return strings.Contains(client.Said(), c.want) })
		})
	}
}

// busy is an address at which somebody listens.
func busy(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// TestConnectTellsThatAStateIsLost: a session that goes on with the next host is told once
// that the process which it relied on is another one, as by one host; a new one is not.
func TestConnectTellsThatAStateIsLost(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	stopHosts(t, p)
	path := config(t, p, "", provider{name: "fake", body: "  session {\n    stateful = true\n  }"})
	c := connected(t, p, path, "--start")
	if got := textOf(t, tool(t, c, "fake_inc", "{}")); got != "1" {
		t.Fatalf("it counts %s", got)
	}
	if err := syscall.Kill(onlyHost(t, p), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it does not see that its host is gone", func() bool { return strings.Contains(c.Said(), "the host is gone") })
	e := errorOf(t, tool(t, c, "fake_inc", "{}"))
	if e.Data.Outcome != "stale" || e.Data.Reason != "instance_replaced" || e.Data.Dispatched {
		t.Errorf("%+v", e)
	}
	if got := textOf(t, tool(t, c, "fake_inc", "{}")); got != "1" {
		t.Errorf("the next counts %s", got)
	}
	if got := textOf(t, tool(t, connected(t, p, path), "fake_inc", "{}")); got != "2" {
		t.Errorf("a new session counts %s", got)
	}
}

// TestConnectHearsAHostOut: a host that is asked to stop answers what is in flight of a
// client that is connected, as of any other.
func TestConnectHearsAHostOut(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	path := config(t, p, `stop_budget = "5m"`, provider{name: "fake", body: limits(`stop_grace = "2m"`)})
	h := p.ServeHTTP(t, path)
	c := connected(t, p, path)
	wait := c.begin(t, `"slow"`, called(`"slow"`, "fake_slow", `{"ms":3000}`))
	waitCalls(t, p, "fake", 1)
	h.Stop(t)
	if got := textOf(t, wait()); got != "slept" {
		t.Errorf("the call in flight: %q", got)
	}
}
