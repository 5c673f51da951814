package crossing

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// published is a host with two projects behind a reverse proxy with TLS, under a name
// of its own, with principals of an OpenID Connect issuer and one with a token.
type published struct {
	p      hosttest.Place
	h      hosttest.Host
	issuer *hosttest.Issuer
	keys   [2]hosttest.SigningKey // RS256 and ES256
	via    *http.Transport
	text   string // of the configuration
}

const (
	publicURL = "https://bridge.example"
	forUs     = "https://bridge.example/mcp"
	ciToken   = "ci-s3cr3t-token"
)

// principal writes a block.
func principal(name, body string) string {
	return fmt.Sprintf("principal %q {\n%s\n}\n", name, body)
}

// oidcBlock writes how an issuer's token tells a principal.
func oidcBlock(issuer, value string) string {
	return fmt.Sprintf("  oidc {\n    issuer = %q\n    audience = %q\n    value = %q\n  }", issuer, forUs, value)
}

func tokenAttribute(token string) string {
	return fmt.Sprintf("  token_sha256 = \"%x\"", sha256.Sum256([]byte(token)))
}

// publish starts it all: ann is granted fake in the project site, bob and ci are
// granted till in shop.
func publish(t *testing.T, flags ...string) *published {
	t.Helper()
	p := hosttest.NewPlace(t)
	out := &published{p: p, keys: [2]hosttest.SigningKey{hosttest.RSAKey(t, "r1"), hosttest.ECKey(t, "e1")}}
	out.issuer = hosttest.NewIssuer(t, out.keys[:]...)
	text := fmt.Sprintf("host {\n  state_dir = %s\n  http {\n    listen = \"127.0.0.1:0\"\n    public_url = %q\n  }\n}\n", quote(p.Path("state")), publicURL+"/") +
		blocks(t, p, provider{name: "fake"}, provider{name: "till", body: "  session {\n    scope = \"shared\"\n  }\n"}) +
		principal("ann", oidcBlock(out.issuer.URL, "a1")) + principal("bob", oidcBlock(out.issuer.URL, "b2")) + principal("ci", tokenAttribute(ciToken)) +
		"project \"site\" {\n  grant {\n    principals = [\"ann\"]\n    provider = \"fake\"\n    tools = [\"*\"]\n  }\n}\n" +
		"project \"shop\" {\n  grant {\n    principals = [\"bob\", \"ci\"]\n    provider = \"till\"\n    tools = [\"*\"]\n  }\n}\n"
	out.text = text
	out.h = hosttest.StartHTTP(t, setting{flags: flags}.command(t, p, "serve", "--config", p.Write(t, "providers.hcl", text)))
	proxy := hosttest.NewProxy(t, hosttest.NewAuthority(t), "bridge.example")
	proxy.Forward(t, out.h.URL)
	out.via = proxy.Transport()
	t.Cleanup(out.via.CloseIdleConnections)
	return out
}

// token is one that the issuer signs for us.
func (s *published) token(t testing.TB, sub string, change map[string]any) string {
	t.Helper()
	claims := map[string]any{"sub": sub, "aud": forUs}
	for name, value := range change {
		claims[name] = value
	}
	return s.issuer.Token(t, claims)
}

// open opens a session at a path of the proxy.
func (s *published) open(t testing.TB, path, token string) *hosttest.HTTP {
	t.Helper()
	c := hosttest.DialVia(s.via, publicURL+path, token)
	hosttest.Open(t, c)
	return c
}

// ask sends one request through the proxy and returns its answer whole.
func (s *published) ask(t testing.TB, method, path, token, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, publicURL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := (&http.Client{Transport: s.via}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

var hello = hosttest.Envelope(1, "initialize", hosttest.Initialize)

// TestPublishedBehindAProxy: a client that knows no more than the URL finds where to
// get a token, and with one it lists and calls what its project grants it.
func TestPublishedBehindAProxy(t *testing.T) {
	s := publish(t)
	res, _ := s.ask(t, http.MethodPost, "/mcp/site", "", hello)
	want := `Bearer realm="drawbridge", resource_metadata="` + publicURL + `/.well-known/oauth-protected-resource/mcp/site"`
	if res.StatusCode != http.StatusUnauthorized || res.Header.Get("Www-Authenticate") != want {
		t.Fatalf("without a token: %s, %q; want 401, %q", res.Status, res.Header.Get("Www-Authenticate"), want)
	}
	res, text := s.ask(t, http.MethodGet, "/.well-known/oauth-protected-resource/mcp/site", "", "")
	var metadata struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
	}
	if err := json.Unmarshal([]byte(text), &metadata); err != nil || metadata.Resource != publicURL+"/mcp/site" || !slices.Equal(metadata.Servers, []string{s.issuer.URL}) {
		t.Errorf("metadata: %s %s", res.Status, text)
	}

	for _, key := range s.keys {
		for _, path := range []string{"/mcp/site", "/mcp"} {
			c := s.open(t, path, s.issuer.TokenBy(t, key, map[string]any{"sub": "a1", "aud": forUs}))
			for _, name := range names(t, c) {
				if !strings.HasPrefix(name, "fake_") {
					t.Errorf("%s at %s lists %s", key.Algorithm, path, name)
				}
			}
			if got := textOf(t, tool(t, c, "fake_echo", `{"text":"across"}`)); got != "across" {
				t.Errorf("%s at %s: %q", key.Algorithm, path, got)
			}
			if e := errorOf(t, tool(t, c, "till_echo", `{"text":"x"}`)); e.Data.Outcome != "denied" {
				t.Errorf("another project's tool: %+v", e)
			}
		}
	}
	for _, token := range []string{s.token(t, "b2", nil), ciToken} {
		if got := names(t, s.open(t, "/mcp/shop", token)); !slices.Contains(got, "till_echo") || slices.Contains(got, "fake_echo") {
			t.Errorf("in the other project: %v", got)
		}
	}
	if got := received(t, s.p, "till"); len(got) != 0 {
		t.Errorf("till received %v", got)
	}
	s.portless(t)
	for _, line := range []string{
		"drawbridge: ready at http://127.0.0.1:", "drawbridge: published at https://bridge.example/mcp\n",
		"drawbridge: project site is at https://bridge.example/mcp/site\n", "drawbridge: project shop is at https://bridge.example/mcp/shop\n",
	} {
		if !strings.Contains(s.h.Printed(), line) {
			t.Errorf("it has not said %q but\n%s", line, s.h.Printed())
		}
	}
}

// portless checks that of all processes the host alone listens, on loopback.
func (s *published) portless(t testing.TB) {
	t.Helper()
	below := 0
	for _, one := range s.p.Processes() {
		listening := listeners(t, one.PID)
		if one.Mark == "" {
			continue
		}
		below++
		if len(listening) != 0 {
			t.Errorf("process %d (%s) listens on %v", one.PID, one.Command, listening)
		}
	}
	if below == 0 {
		t.Error("no server runs, so that none listens shows nothing")
	}
	for _, ip := range listeners(t, s.h.PID()) {
		if !ip.IsLoopback() {
			t.Errorf("the host listens on %v", ip)
		}
	}
}

// TestATokenOfTheOtherProjectIsRefused in the same words as one project that is not
// there, and so is a session of another.
func TestATokenOfTheOtherProjectIsRefused(t *testing.T) {
	s := publish(t)
	ann, bob := s.token(t, "a1", nil), s.token(t, "b2", nil)
	_, none := s.ask(t, http.MethodPost, "/mcp/nowhere", ann, hello)
	for _, c := range []struct{ path, token string }{{"/mcp/shop", ann}, {"/mcp/site", bob}, {"/mcp/site", ciToken}, {"/mcp/nowhere", ciToken}} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			if res, text := s.ask(t, method, c.path, c.token, hello); res.StatusCode != http.StatusNotFound || text != none {
				t.Errorf("%s %s: %s %q, want 404 %q", method, c.path, res.Status, text, none)
			}
		}
	}
	mine := s.open(t, "/mcp/shop", ciToken)
	list := hosttest.Envelope(7, "tools/list", "{}")
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		res, theirs := s.ask(t, method, "/mcp/shop", bob, list, "Mcp-Session-Id", mine.Session())
		_, nobodys := s.ask(t, method, "/mcp/shop", bob, list, "Mcp-Session-Id", "AAAAAAAAAAAAAAAAAAAAAA")
		if res.StatusCode != http.StatusNotFound || theirs != nobodys {
			t.Errorf("%s with another's session: %s %q, want %q", method, res.Status, theirs, nobodys)
		}
	}
	if got := names(t, mine); len(got) == 0 {
		t.Error("the session that others asked for has ended")
	}
}

// TestTokensThatAreRefused: 401, and why in the log and nowhere else; nothing of a
// token is in either.
func TestTokensThatAreRefused(t *testing.T) {
	s := publish(t, "--log-level", "debug")
	foreign := hosttest.RSAKey(t, "r1")
	stranger := hosttest.NewIssuer(t, foreign)
	good := s.token(t, "a1", nil)
	if res, _ := s.ask(t, http.MethodPost, "/mcp/site", good, hello); res.StatusCode != http.StatusOK {
		t.Fatalf("a good token: %s", res.Status)
	}
	_, answer := s.ask(t, http.MethodPost, "/mcp/site", "nonsense", hello)
	claims := map[string]any{"sub": "a1", "aud": forUs}
	for _, c := range []struct{ what, token, why string }{
		{"expired", s.token(t, "a1", map[string]any{"exp": time.Now().Add(-time.Second).Unix()}), "expired"},
		{"not yet valid", s.token(t, "a1", map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), "not valid yet"},
		{"malformed", "ey." + good, "JWT"},
		{"wrongly signed", s.issuer.TokenBy(t, foreign, claims), "signature"},
		{"of another audience", s.token(t, "a1", map[string]any{"aud": "https://elsewhere.example"}), "audience"},
		{"of another issuer", stranger.Token(t, claims), "issuer"},
		{"of nobody", s.token(t, "s3cr3t-sub", nil), "no principal's"},
		{"cut short", good[:len(good)-40], "signature"},
	} {
		res, text := s.ask(t, http.MethodPost, "/mcp/site", c.token, hello)
		if res.StatusCode != http.StatusUnauthorized || text != answer || !strings.Contains(res.Header.Get("Www-Authenticate"), `error="invalid_token"`) {
			t.Errorf("%s: %s %q %v, want 401 %q", c.what, res.Status, text, res.Header, answer)
		}
		if strings.Contains(fmt.Sprint(text, res.Header), c.why) {
			t.Errorf("%s: the answer says why: %v", c.what, res.Header)
		}
		eventually(t, "the log says why a token that is "+c.what+" was refused", func() bool { return strings.Contains(s.h.Said(), c.why) })
		for _, part := range strings.Split(c.token, ".") {
			if len(part) > 8 && strings.Contains(s.h.Said(), part) {
				t.Errorf("%s: the log has %s", c.what, part)
			}
		}
	}
	if strings.Contains(s.h.Said(), "s3cr3t-sub") {
		t.Error("the log has a claim of a token")
	}
}

// TestATokenThatExpiresEndsItsSessions: in the midst of one.
func TestATokenThatExpiresEndsItsSessions(t *testing.T) {
	s := publish(t)
	brief := s.token(t, "a1", map[string]any{"exp": time.Now().Add(4 * time.Second).Unix()})
	c := s.open(t, "/mcp/site", brief)
	if got := textOf(t, tool(t, c, "fake_echo", `{"text":"in time"}`)); got != "in time" {
		t.Errorf("in time: %q", got)
	}
	eventually(t, "the token has expired", func() bool {
		_, status := c.Raw(t, `{"jsonrpc":"2.0","id":$ID,"method":"ping"}`)
		return status == http.StatusUnauthorized
	})
	c.Bearer(s.token(t, "a1", nil)) // a new one of the same principal finds the session
	if got := textOf(t, tool(t, c, "fake_echo", `{"text":"again"}`)); got != "again" {
		t.Errorf("with a new token: %q", got)
	}
}

// TestWhoAnIssuersTokensTellIsReloaded with the files, at once and for who is there.
func TestWhoAnIssuersTokensTellIsReloaded(t *testing.T) {
	s := publish(t)
	before, after := s.token(t, "a1", nil), s.token(t, "a9", nil)
	c := s.open(t, "/mcp/site", before)
	if got := names(t, c); !slices.Contains(got, "fake_echo") {
		t.Errorf("at first: %v", got)
	}
	s.p.Write(t, "providers.hcl", strings.Replace(s.text, `value = "a1"`, `value = "a9"`, 1))
	s.h.Signal(t, syscall.SIGHUP)
	eventually(t, "the new rule is in force", func() bool {
		res, _ := s.ask(t, http.MethodPost, "/mcp/site", after, hello)
		return res.StatusCode == http.StatusOK
	})
	if _, status := c.Raw(t, `{"jsonrpc":"2.0","id":$ID,"method":"ping"}`); status != http.StatusUnauthorized {
		t.Errorf("the token of before: %d, want 401", status)
	}
	c.Bearer(after) // the same principal: the session is still its own
	if got := textOf(t, tool(t, c, "fake_echo", `{"text":"on"}`)); got != "on" {
		t.Errorf("the session: %q", got)
	}
	if n := starts(logged(t, s.p, "fake")); n != 1 {
		t.Errorf("%d processes of the server, want one", n)
	}
}

// TestAnIssuerThatIsDownKeepsNoHostFromStarting, nor those with tokens of their own.
func TestAnIssuerThatIsDownKeepsNoHostFromStarting(t *testing.T) {
	s := publish(t)
	s.issuer.Answer(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "down", http.StatusBadGateway)
		return true
	})
	if res, text := s.ask(t, http.MethodPost, "/mcp/site", s.token(t, "a1", nil), hello); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("a token of the issuer: %s %s", res.Status, text)
	}
	if got := names(t, s.open(t, "/mcp/shop", ciToken)); !slices.Contains(got, "till_echo") {
		t.Errorf("a token of the host's own: %v", got)
	}
	s.issuer.Answer(nil)
	eventually(t, "the issuer's tokens are taken", func() bool {
		res, _ := s.ask(t, http.MethodPost, "/mcp/site", s.token(t, "a1", nil), hello)
		return res.StatusCode == http.StatusOK
	})
}

// TestOwnTLS serves with a certificate of the host's own, and with its successor.
func TestOwnTLS(t *testing.T) {
	p := hosttest.NewPlace(t)
	authority := hosttest.NewAuthority(t)
	renew := func(name string) {
		cert, key := authority.Issue(t, name, "127.0.0.1")
		for file, text := range map[string][]byte{"cert.pem": cert, "key.pem": key} {
			if err := os.Rename(p.Write(t, file+".new", string(text)), p.Path(file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	renew("first.example")
	text := fmt.Sprintf("host {\n  state_dir = %s\n  http {\n    listen = \"0.0.0.0:0\"\n    allowed_hosts = [\"first.example\", \"second.example\"]\n"+
		"    tls {\n      cert = \"cert.pem\"\n      key = \"key.pem\"\n    }\n  }\n}\n", quote(p.Path("state"))) +
		blocks(t, p, provider{name: "fake"}) + principal("ci", tokenAttribute(ciToken)) +
		"project \"site\" {\n  grant {\n    principals = [\"ci\"]\n    provider = \"fake\"\n    tools = [\"echo\"]\n  }\n}\n"
	h := p.ServeHTTP(t, p.Write(t, "providers.hcl", text))
	address, err := url.Parse(h.URL)
	if err != nil || address.Scheme != "https" || address.Hostname() != "localhost" {
		t.Fatalf("ready at %s, %v; want https://localhost:…", h.URL, err)
	}
	dial := func(name string) error {
		config := authority.Client()
		config.ServerName = name
		conn, err := tls.Dial("tcp", "127.0.0.1:"+address.Port(), config)
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	if err := dial("first.example"); err != nil {
		t.Fatal(err)
	}
	via := &http.Transport{TLSClientConfig: authority.Client()}
	c := hosttest.DialVia(via, "https://127.0.0.1:"+address.Port()+"/mcp/site", ciToken)
	hosttest.Open(t, c)
	if got := names(t, c); !slices.Equal(got, []string{"fake_echo"}) {
		t.Errorf("listed: %v", got)
	}
	renew("second.example")
	eventually(t, "the new certificate is served", func() bool { return dial("second.example") == nil })
	if got := textOf(t, tool(t, c, "fake_echo", `{"text":"still"}`)); got != "still" {
		t.Errorf("who was connected: %q", got)
	}
}

// TestC084_TokensOfClients are in nothing that a host writes or answers, whatever
// becomes of them.
func TestC084_TokensOfClients(t *testing.T) {
	s := publish(t, "--log-level", "debug")
	var answers strings.Builder
	for _, token := range []string{ciToken, "s3cr3tH", "s3cr3tH/+~=", strings.Repeat("s3cr3tH", 1000), "s3cr3tH with spaces"} {
		for _, path := range []string{"/mcp/shop", "/mcp/site", "/elsewhere"} {
			for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete, http.MethodPut} {
				res, text := s.ask(t, method, path, token, hello)
				answers.WriteString(text + fmt.Sprint(res.Header))
			}
		}
	}
	res, text := s.ask(t, http.MethodPost, "/mcp/shop?access_token=s3cr3tQ", "", hello) // where MCP takes no token from
	if answers.WriteString(text); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a token in the URL: %s", res.Status)
	}
	c := s.open(t, "/mcp/shop", ciToken)
	_ = tool(t, c, "till_echo", `{"text":"x"}`)
	_ = tool(t, c, "till_none", `{}`)
	c.Close(t)
	s.h.Stop(t)
	if all := answers.String() + s.h.Said() + s.h.Printed(); strings.Contains(all, "s3cr3t") {
		t.Errorf("answers and log:\n%s", all)
	}
	err := filepath.WalkDir(s.p.Path("state"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "s3cr3t") {
			t.Errorf("%s has it", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
