//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// published is a host behind a reverse proxy with TLS under a name of its own, whose
// principals an issuer tells, and what strangers need to reach it.
type published struct {
	place
	url    string
	issuer *hosttest.Issuer
	// env is for programs on Node: they trust the proxy's authority, find its name,
	// and have a browser in which whoever it is logs in at once.
	env []string
}

// lookup is what a resolver would do for a name that is on no network.
const lookup = `const dns = require("dns"), real = dns.lookup;
dns.lookup = (name, ...rest) => real(name === "bridge.example" ? "127.0.0.1" : name, ...rest);
`

func publish(t *testing.T) *published {
	t.Helper()
	p := newPlace(t)
	authority := hosttest.NewAuthority(t)
	proxy := hosttest.NewProxy(t, authority, "bridge.example")
	_, port, err := net.SplitHostPort(proxy.Address)
	if err != nil {
		t.Fatal(err)
	}
	base := "https://bridge.example:" + port
	s := &published{place: p, url: base + "/mcp/site", issuer: hosttest.NewIssuer(t, hosttest.RSAKey(t, "r"))}
	var b strings.Builder
	fmt.Fprintf(&b, "host {\n  state_dir = %q\n  list_wait = \"60s\"\n  http {\n    listen = \"127.0.0.1:0\"\n    public_url = %q\n  }\n}\n", p.Path("state"), base)
	for _, name := range []string{"everything", "other"} {
		fmt.Fprintf(&b, "provider %q {\n  plugin = \"stdio\"\n  config {\n    command = %q\n    args = [%q, \"stdio\"]\n  }\n}\n", name, node(t), program(t, "mcp-server-everything"))
	}
	for who, granted := range map[string][2]string{"ann": {"site", "everything"}, "bob": {"shop", "other"}} {
		fmt.Fprintf(&b, "principal %q {\n  oidc {\n    issuer = %q\n    audience = %q\n    value = %q\n  }\n}\n", who, s.issuer.URL, base+"/mcp", who)
		fmt.Fprintf(&b, "project %q {\n  grant {\n    principals = [%q]\n    provider = %q\n    tools = [\"*\"]\n  }\n}\n", granted[0], who, granted[1])
	}
	h := p.ServeHTTP(t, p.Write(t, "providers.hcl", b.String()))
	proxy.Forward(t, h.URL)

	browser := p.Path("browser")
	if err := os.Mkdir(browser, 0o700); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\nexec %s -e 'fetch(process.argv[1])' \"$1\"\n", node(t))
	if err := os.WriteFile(browser+"/xdg-open", []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	s.env = []string{
		strings.Replace(newerNode(t), "PATH=", "PATH="+browser+string(os.PathListSeparator), 1),
		"BROWSER=" + browser + "/xdg-open",
		"NODE_EXTRA_CA_CERTS=" + p.Write(t, "authority.pem", string(authority.PEM)),
		"NODE_OPTIONS=--require=" + p.Write(t, "lookup.cjs", lookup),
	}
	return s
}

// user lets one log in at the issuer from now on.
func (s *published) user(name string) {
	u, _ := url.Parse(s.url)
	s.issuer.User(map[string]any{"sub": name, "aud": "https://" + u.Host + "/mcp"})
}

func (s *published) run(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(program(t, name), args...)
	cmd.Dir, cmd.Env = s.Dir, s.Env(s.env...)
	return hosttest.Output(t, cmd)
}

// found checks that a client that has logged in knew from the metadata for what.
func (s *published) found(t *testing.T) {
	t.Helper()
	asked := s.issuer.Asked()
	if len(asked) == 0 {
		t.Error("nobody has come to the issuer")
	}
	for _, one := range asked {
		if got := one.Get("resource"); got != s.url {
			t.Errorf("a token was asked for the resource %q, want %q", got, s.url)
		}
	}
}

// TestInspectorPublished knows the URL alone: it finds the metadata and by it the
// issuer, logs in, lists and calls. Who belongs to the other project gets nothing.
func TestInspectorPublished(t *testing.T) {
	s := publish(t)
	s.env = append(s.env, "MCP_AUTO_OPEN_ENABLED=true", "MCP_INSPECTOR_SECRET_STORE=file")
	ask := func(method string, args ...string) (string, error) {
		all := []string{"--cli", s.url, "--transport", "http", "--client-id", "inspector", "--callback-url", "http://127.0.0.1:0/oauth/callback", "--method", method}
		return s.run(t, "mcp-inspector", append(all, args...)...)
	}
	s.user("ann")
	out, err := ask("tools/list")
	if err != nil {
		t.Fatal(err)
	}
	s.listed(t, names(t, []byte(out)))
	s.found(t)
	out, err = ask("tools/call", "--tool-name", "everything_echo", "--tool-arg", "message=across")
	if err != nil || !strings.Contains(out, "across") {
		t.Errorf("echo: %v %s", err, out)
	}
	s.user("bob")
	if out, err := ask("tools/list", "--relogin"); err == nil {
		t.Errorf("who belongs to another project lists %s", out)
	}
	s.env = append(s.env, "HOME="+s.Path("another")) // in which nobody has logged in
	list := func(token string) (string, error) {
		return s.run(t, "mcp-inspector", "--cli", s.url, "--transport", "http", "--stored-auth-only", "--header", "Authorization: Bearer "+token, "--method", "tools/list")
	}
	s.handed(t, list)
	if out, err := list(s.token(t, "ann", -time.Minute)); err == nil {
		t.Errorf("a token that has expired lists %s", out)
	}
}

// TestMCPCPublished logs in first, as its users do.
func TestMCPCPublished(t *testing.T) {
	s := publish(t)
	s.user("ann")
	run := func(args ...string) (string, error) { return s.run(t, "mcpc", append([]string{"--json"}, args...)...) }
	connect := func(session string, args ...string) error {
		// It gives its own background process five seconds to come up, which a busy machine may not meet.
		for try := 1; ; try++ {
			_, err := run(append([]string{"connect", s.url, session}, args...)...)
			if err == nil || try == 3 || !strings.Contains(err.Error(), "Bridge failed to start") {
				return err
			}
		}
	}
	if _, err := run("login", s.url, "--client-id", "mcpc"); err != nil {
		t.Fatal(err)
	}
	s.found(t)
	if err := connect("@ann"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := run("close", "@ann"); err != nil {
			t.Error(err)
		}
	})
	list := func(session string) (string, error) {
		out, err := run(session, "tools-list")
		if err != nil && strings.Contains(err.Error(), "terminated") {
			// On a busy machine the test's proxy now and then loses its connection to the
			// host in the middle of an answer; what is to be shown is not shown by that.
			t.Logf("asked again: %v", err)
			return run(session, "tools-list")
		}
		return out, err
	}
	out, err := list("@ann")
	if err != nil {
		t.Fatal(err)
	}
	s.listed(t, names(t, []byte(out)))
	if out, err := run("@ann", "tools-call", "everything_echo", "message:=across"); err != nil || !strings.Contains(out, "across") {
		t.Errorf("echo: %v %s", err, out)
	}
	n := 0
	s.handed(t, func(token string) (string, error) {
		n++
		session := fmt.Sprintf("@handed%d", n)
		if err := connect(session, "--no-profile", "--header", "Authorization: Bearer "+token); err != nil {
			return "", err
		}
		defer func() { _, _ = run("close", session) }()
		return list(session)
	})
}

// listed checks what ann's list holds.
func (s *published) listed(t *testing.T, got []string) {
	t.Helper()
	if !slices.Contains(got, "everything_echo") || slices.ContainsFunc(got, func(name string) bool { return strings.HasPrefix(name, "other_") }) {
		t.Errorf("listed: %v", got)
	}
}

// handed lists with tokens that were handed to a client: that of the project lists,
// that of the other project does not.
func (s *published) handed(t *testing.T, list func(token string) (string, error)) {
	t.Helper()
	if out, err := list(s.token(t, "ann", time.Hour)); err != nil {
		t.Error(err)
	} else {
		s.listed(t, names(t, []byte(out)))
	}
	if out, err := list(s.token(t, "bob", time.Hour)); err == nil {
		t.Errorf("a token of the other project lists %s", out)
	}
}

// token is one that the issuer signs, for so long.
func (s *published) token(t *testing.T, who string, end time.Duration) string {
	u, _ := url.Parse(s.url)
	return s.issuer.Token(t, map[string]any{"sub": who, "aud": "https://" + u.Host + "/mcp", "exp": time.Now().Add(end).Unix()})
}
