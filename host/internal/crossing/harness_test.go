package crossing

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// TestMain runs a third-party plugin when the binary was started as one. Of tests it
// lets more run side by side than there are processors: those that are parallel
// wait nearly all of their time.
func TestMain(m *testing.M) {
	if role, ok := strings.CutPrefix(filepath.Base(os.Args[0]), thirdParty); ok {
		runPlugin(role)
		return
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(hosttest.Main(m))
}

// provider declares one fake server; its log is in the place, under its name.
type provider struct {
	name string
	// args are the fake server's.
	args []string
	// command replaces the fake server.
	command string
	// config is more HCL for the config block, body for the provider's.
	config, body string
	// plugin is a third-party plugin in place of stdio; its config is config alone.
	plugin string
}

// config writes a configuration. host is more HCL for the block of that name.
func config(t *testing.T, p hosttest.Place, host string, providers ...provider) string {
	t.Helper()
	return p.Write(t, "providers.hcl", hostBlock(p, host)+blocks(t, p, providers...))
}

func hostBlock(p hosttest.Place, more string) string {
	return fmt.Sprintf("host {\n  state_dir = %s\n  %s\n  http {\n    listen = \"127.0.0.1:0\"\n  }\n}\n", quote(p.Path("state")), more)
}

// wholeResults lets results of any size that these tests know pass as they are; what
// becomes of larger ones where nothing is said is the business of artifact_test.go.
const wholeResults = "limits {\n  inline_result = \"64MiB\"\n}\n"

// quick restarts a provider at once.
const quick = "  restart {\n    intensity = 100\n    backoff = \"50ms\"\n    backoff_max = \"100ms\"\n  }\n"

// blocks writes the blocks of providers.
func blocks(t testing.TB, p hosttest.Place, providers ...provider) string {
	t.Helper()
	var b strings.Builder
	for _, one := range providers {
		if !strings.Contains(one.body, "limits") {
			one.body += "\n" + wholeResults
		}
		if one.plugin != "" {
			fmt.Fprintf(&b, "provider %s {\n  plugin = %s\n  config {\n%s\n  }\n%s\n}\n",
				quote(one.name), quote(one.plugin), one.config, one.body)
			continue
		}
		command := one.command
		args := append([]string{"--log", p.Path(one.name + ".log"), "--life", "5m"}, one.args...)
		if command == "" {
			command = fakeserver.Build(t)
		}
		fmt.Fprintf(&b, "provider %s {\n  plugin = \"stdio\"\n  config {\n    command = %s\n    args = [", quote(one.name), quote(command))
		for _, arg := range args {
			fmt.Fprintf(&b, "%s, ", quote(arg))
		}
		fmt.Fprintf(&b, "]\n%s\n  }\n%s\n}\n", one.config, one.body)
	}
	return b.String()
}

// quote writes a string of HCL.
func quote(text string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(encoded(text))
}

// client is a client whose messages can also be written by hand.
type client interface {
	hosttest.Client
	// raw sends a message with $ID where its id belongs.
	raw(t testing.TB, text string) hosttest.Reply
	// begin sends a request that the test has written whole, and returns what
	// waits for the answer. id is the literal that stands in it.
	begin(t testing.TB, id, text string) func() hosttest.Reply
	// hello is the answer to its initialize.
	hello() hosttest.Reply
	// host is the process that serves it.
	host() *hosttest.Run
}

type overStdio struct {
	*hosttest.Stdio
	greeting hosttest.Reply
}

func (c overStdio) raw(t testing.TB, text string) hosttest.Reply {
	t.Helper()
	return c.Raw(t, text)
}

func (c overStdio) begin(t testing.TB, id, text string) func() hosttest.Reply {
	t.Helper()
	p := c.Expect(id, "")
	c.WriteLine(t, text)
	return func() hosttest.Reply { return p.Wait(t) }
}

func (c overStdio) hello() hosttest.Reply { return c.greeting }

func (c overStdio) host() *hosttest.Run { return c.Run }

type overHTTP struct {
	*hosttest.HTTP
	h        hosttest.Host
	greeting hosttest.Reply
}

func (c overHTTP) raw(t testing.TB, text string) hosttest.Reply {
	t.Helper()
	r, status := c.Raw(t, text)
	if status != http.StatusOK && status != http.StatusBadRequest {
		t.Errorf("%.80s: HTTP %d: %s", text, status, r.Raw)
	}
	return r
}

func (c overHTTP) begin(t testing.TB, id, text string) func() hosttest.Reply {
	t.Helper()
	done := make(chan hosttest.Reply, 1)
	if id == `"lost"` { // it ends with the host, and not by an answer
		go func() {
			if res, err := c.Do(t.Context(), http.MethodPost, text); err == nil {
				_ = res.Body.Close()
			}
		}()
		return func() hosttest.Reply { t.Fatal("nobody waits for this call"); return <-done }
	}
	go func() { done <- c.raw(t, text) }()
	return func() hosttest.Reply { return <-done }
}

func (c overHTTP) hello() hosttest.Reply { return c.greeting }

func (c overHTTP) host() *hosttest.Run { return c.h.Run }

// another opens a second session with the same host.
func (c overHTTP) another(t testing.TB) overHTTP {
	t.Helper()
	return dial(t, c.h)
}

// setting is what a host is started with besides its configuration.
type setting struct {
	// env overrides and adds to the place's environment.
	env []string
	// flags follow the command.
	flags []string
}

func (s setting) command(t testing.TB, p hosttest.Place, args ...string) *exec.Cmd {
	cmd := p.Command(t, append(args, s.flags...)...)
	cmd.Env = append(cmd.Env, s.env...)
	return cmd
}

// stdio starts a host for one client on its standard streams.
func (s setting) stdio(t testing.TB, p hosttest.Place, config string) overStdio {
	t.Helper()
	c := hosttest.StartStdio(t, s.command(t, p, "serve", "--stdio", "--config", config))
	return overStdio{c, hosttest.Hello(t, c, hosttest.Initialize)}
}

// http starts a host that serves HTTP.
func (s setting) http(t testing.TB, p hosttest.Place, config string) hosttest.Host {
	t.Helper()
	return hosttest.StartHTTP(t, s.command(t, p, "serve", "--config", config))
}

// leave ends a client, and its host with it, before the test's end does: a command
// then finds no host that runs.
func leave(t testing.TB, c client) {
	t.Helper()
	c.Close(t)
	if h, ok := c.(overHTTP); ok {
		h.h.Stop(t)
	}
}

// dial opens a session with a host.
func dial(t testing.TB, h hosttest.Host) overHTTP {
	t.Helper()
	c := hosttest.DialHTTP(h.URL, h.Token)
	return overHTTP{c, h, hosttest.Hello(t, c, hosttest.Initialize)}
}

// transports runs a test over each, in a place of its own; open starts a host on
// a configuration and connects.
func (s setting) transports(t *testing.T, test func(t *testing.T, p hosttest.Place, open func(config string) client)) {
	t.Run("stdio", func(t *testing.T) {
		p := hosttest.NewPlace(t)
		test(t, p, func(config string) client { return s.stdio(t, p, config) })
	})
	t.Run("http", func(t *testing.T) {
		p := hosttest.NewPlace(t)
		test(t, p, func(config string) client { return dial(t, s.http(t, p, config)) })
	})
}

// transports runs a test over each with nothing set.
func transports(t *testing.T, test func(t *testing.T, p hosttest.Place, open func(config string) client)) {
	setting{}.transports(t, test)
}

// waiting is transports for a test that mostly waits: it does so beside others.
func waiting(t *testing.T, test func(t *testing.T, p hosttest.Place, open func(config string) client)) {
	t.Parallel()
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		t.Parallel()
		test(t, p, open)
	})
}

// logged returns what a fake server has logged.
func logged(t testing.TB, p hosttest.Place, name string) []fakeserver.Entry {
	t.Helper()
	entries, err := fakeserver.ReadLog(p.Path(name + ".log"))
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// waitLog waits until a fake server's log is as it should be.
func waitLog(t testing.TB, p hosttest.Place, name string, ok func([]fakeserver.Entry) bool) []fakeserver.Entry {
	t.Helper()
	return fakeserver.WaitLog(t, p.Path(name+".log"), patience, ok)
}

// patience bounds every wait of a test. Nothing waits for it that goes well.
const patience = 60 * time.Second

// eventually waits until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %s", patience, what)
		}
	}
}

// starts counts the processes that a fake server's log tells of.
func starts(entries []fakeserver.Entry) int { return len(fakeserver.Dir(entries, fakeserver.DirStart)) }

// received returns the calls that a fake server's log shows.
func received(t testing.TB, p hosttest.Place, name string) []fakeserver.Message {
	t.Helper()
	var out []fakeserver.Message
	for _, e := range fakeserver.Method(logged(t, p, name), "tools/call") {
		out = append(out, e.Message())
	}
	return out
}

// hostError is an error that the host answers with.
type hostError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    struct {
		Outcome    string `json:"outcome"`
		Reason     string `json:"reason"`
		Provider   string `json:"provider"`
		Tool       string `json:"tool"`
		Dispatched bool   `json:"dispatched"`
		Retry      string `json:"retry"`
	} `json:"data"`
}

// tool calls a tool and returns whatever comes.
func tool(t testing.TB, c hosttest.Client, name, args string) hosttest.Reply {
	t.Helper()
	return c.Request(t, "tools/call", fmt.Sprintf(`{"name":%s,"arguments":%s}`, encoded(name), args))
}

// called is a request to call a tool, with an id of the test's own.
func called(id, name, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%s,"arguments":%s}}`, id, encoded(name), args)
}

// waitCalls waits until a fake server has received n calls.
func waitCalls(t testing.TB, p hosttest.Place, name string, n int) []fakeserver.Message {
	t.Helper()
	waitLog(t, p, name, func(log []fakeserver.Entry) bool { return len(fakeserver.Method(log, "tools/call")) >= n })
	return received(t, p, name)
}

// textOf is the text of a call that went well.
func textOf(t testing.TB, r hosttest.Reply) string {
	t.Helper()
	if r.Error != nil {
		t.Errorf("error: %s", r.Error)
		return ""
	}
	return hosttest.ParseResult(t, "the call", r.Result).Text()
}

// encoded is text as a string of JSON.
func encoded(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// names are the names of the tools that are listed now.
func names(t testing.TB, c hosttest.Client) []string {
	t.Helper()
	var out []string
	for _, d := range hosttest.Definitions(t, c) {
		out = append(out, d.Name)
	}
	return out
}

func errorOf(t testing.TB, r hosttest.Reply) hostError {
	t.Helper()
	var e hostError
	if r.Error == nil {
		t.Errorf("no error: %.300s", r.Raw)
	} else if err := json.Unmarshal(r.Error, &e); err != nil {
		t.Errorf("%v: %s", err, r.Error)
	}
	return e
}
