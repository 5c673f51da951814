//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// The conformance suite's fixture server, which is the Go SDK's, behind a host.

// fixtureConfig writes a file that declares the fixture under the names that the
// suite knows; older takes its newer era from it. http are further attributes of
// the listener.
func (p place) fixtureConfig(t testing.TB, older bool, http string) string {
	t.Helper()
	command, env := fixture(t, "everything-server"), ""
	if older {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		command, env = self, fmt.Sprintf("\n    env     = { %s = %q }", olderFixture, command)
	}
	return p.Write(t, "providers.hcl", fmt.Sprintf(`host {
  state_dir = %q
  names     = "bare"
  list_wait = "60s"
  http {
    listen = "127.0.0.1:0"
    %s
  }
}
provider "fixture" {
  plugin = "stdio"
  config {
    command = %q%s
  }
}
`, p.Path("state"), http, command, env))
}

// serveFixture starts a host with the fixture behind it and returns a URL that
// needs no token: the suite can send none.
func (p place) serveFixture(t *testing.T, older bool) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	h := p.ServeHTTP(t, p.fixtureConfig(t, older, fmt.Sprintf(`allowed_hosts   = ["127.0.0.1:%[1]s", "localhost:%[1]s"]
    allowed_origins = ["http://127.0.0.1:%[1]s", "http://localhost:%[1]s"]`, port)))
	target, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	// Host and Origin pass, for the suite tries those that are not allowed.
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+h.Token)
	}}
	handler := func(w http.ResponseWriter, r *http.Request) {
		// Read whole before it goes on: net/http closes the body of a request whose
		// response has begun, and its transport, which may still look for the end of
		// that body, then drops the connection that the response comes on.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the suite has hung up
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}
	front := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(handler), ReadHeaderTimeout: time.Minute}}
	front.Start()
	t.Cleanup(front.Close)
	return front.URL + "/mcp"
}

var fixtures struct {
	once sync.Once
	err  error
}

// fixture builds the Go programs of .ci/conformance, at the version of the Go SDK
// that it pins, and returns the path of one of them.
func fixture(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(hosttest.Build(t), "fixtures") + string(filepath.Separator)
	fixtures.once.Do(func() {
		cmd := exec.Command("go", "build", "-C", filepath.Join(root(t), ".ci/conformance"), "-o", dir,
			"./client", "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
		if out, err := cmd.CombinedOutput(); err != nil {
			fixtures.err = fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
		}
	})
	if fixtures.err != nil {
		t.Fatal(fixtures.err)
	}
	return filepath.Join(dir, name)
}

// olderFixture names, in the environment of this test's own binary, the server
// that it is to make an older one of.
const olderFixture = "E2E_OLDER_FIXTURE"

// serveOlder runs a server of both eras without its newer one: server/discover is
// refused, as older servers do, and everything else passes.
func serveOlder(server string) error {
	cmd := exec.Command(server)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewReader(os.Stdin); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(line, &m) == nil && m.Method == "server/discover" {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`+"\n", m.ID)
			continue
		}
		if _, err := in.Write(line); err != nil {
			break
		}
	}
	_ = in.Close()
	return cmd.Wait()
}
