package crossing

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }

// provider declares one fake server; its log is in the place, under its name.
type provider struct {
	name string
	// args are the fake server's.
	args []string
	// command replaces the fake server.
	command string
	// body is more HCL for the block.
	body string
}

// config writes a configuration.
func config(t *testing.T, p hosttest.Place, host string, providers ...provider) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "host {\n  state_dir = %q\n  %s\n  http {\n    listen = \"127.0.0.1:0\"\n  }\n}\n", p.Path("state"), host)
	for _, one := range providers {
		command := one.command
		args := append([]string{"--log", p.Path(one.name + ".log"), "--life", "5m"}, one.args...)
		if command == "" {
			command = fakeserver.Build(t)
		}
		fmt.Fprintf(&b, "provider %q {\n  plugin = \"stdio\"\n  config {\n    command = %q\n    args = [", one.name, command)
		for _, arg := range args {
			fmt.Fprintf(&b, "%s, ", quote(t, arg))
		}
		fmt.Fprintf(&b, "]\n  }\n%s\n}\n", one.body)
	}
	return p.Write(t, "providers.hcl", b.String())
}

// quote writes a string of HCL.
func quote(t testing.TB, text string) string {
	t.Helper()
	b, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(string(b))
}

// client is a client whose messages can also be written by hand.
type client interface {
	hosttest.Client
	// raw sends a message with $ID where its id belongs.
	raw(t testing.TB, text string) hosttest.Reply
}

type overStdio struct{ *hosttest.Stdio }

func (c overStdio) raw(t testing.TB, text string) hosttest.Reply {
	t.Helper()
	return c.Raw(t, text)
}

type overHTTP struct{ *hosttest.HTTP }

func (c overHTTP) raw(t testing.TB, text string) hosttest.Reply {
	t.Helper()
	r, status := c.Raw(t, text)
	if status != http.StatusOK && status != http.StatusBadRequest {
		t.Errorf("%.80s: HTTP %d: %s", text, status, r.Raw)
	}
	return r
}

// transports runs a test over each, in a place of its own; open starts a host on
// a configuration and connects.
func transports(t *testing.T, test func(t *testing.T, p hosttest.Place, open func(config string) client)) {
	t.Run("stdio", func(t *testing.T) {
		p := hosttest.NewPlace(t)
		test(t, p, func(config string) client {
			c := hosttest.StartStdio(t, p.Command(t, "serve", "--stdio", "--config", config))
			hosttest.Open(t, c)
			return overStdio{c}
		})
	})
	t.Run("http", func(t *testing.T) {
		p := hosttest.NewPlace(t)
		test(t, p, func(config string) client {
			h := p.ServeHTTP(t, config)
			c := hosttest.DialHTTP(h.URL, h.Token)
			hosttest.Open(t, c)
			return overHTTP{c}
		})
	})
}

// received returns the calls that a fake server's log shows.
func received(t testing.TB, p hosttest.Place, name string) []fakeserver.Message {
	t.Helper()
	entries, err := fakeserver.ReadLog(p.Path(name + ".log"))
	if err != nil {
		t.Fatal(err)
	}
	var out []fakeserver.Message
	for _, e := range fakeserver.Method(entries, "tools/call") {
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
		Dispatched bool   `json:"dispatched"`
	} `json:"data"`
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
