package front

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// get fetches a path without a token.
func (s *site) get(path string, headers ...string) (int, http.Header, string) {
	s.t.Helper()
	return s.send(http.MethodGet, path, "", headers...)
}

func (s *site) send(method, path, body string, headers ...string) (int, http.Header, string) {
	s.t.Helper()
	req := s.request(s.t.Context(), method, body, headers...)
	if len(headers) == 0 || headers[0] != "Authorization" {
		req.Header.Del("Authorization")
	}
	u, err := req.URL.Parse(path)
	if err != nil {
		s.t.Fatal(err)
	}
	req.URL = u
	res, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(res.Body); err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, res.Header, text.String()
}

// projectGate has "secret" for a principal of one project, "other" for one of two,
// and "third" for one of another.
func projectGate() *fakeGate {
	g := newFakeGate()
	g.tokens["third"] = "outsider"
	g.projects["local"] = []string{"site"}
	g.projects["stranger"] = []string{"site", "shop"}
	g.projects["outsider"] = []string{"shop"}
	return g
}

func TestEachProjectHasAnEndpoint(t *testing.T) {
	b := newFakeBroker("echo")
	s := newSite(t, newServer(t, b), func(o *HTTPOptions) { o.Gate = projectGate() })
	hello := initializeLine("2025-11-25")
	for _, c := range []struct{ token, path, project string }{
		{testToken, "/mcp", "site"},
		{testToken, "/mcp/site", "site"},
		{"other", "/mcp/site", "site"},
		{"other", "/mcp/shop", "shop"},
		{"third", "/mcp", "shop"},
	} {
		auth := "Bearer " + c.token
		status, header, text := s.send(http.MethodPost, c.path, hello, "Authorization", auth)
		if status != 200 {
			t.Errorf("%s at %s: %d %s", c.token, c.path, status, text)
			continue
		}
		session := header.Get("Mcp-Session-Id")
		if status, _, text = s.send(http.MethodPost, c.path, call("1", "echo", "{}", ""), "Authorization", auth, "Mcp-Session-Id", session); status != 200 {
			t.Errorf("a call of %s at %s: %d %s", c.token, c.path, status, text)
		}
		if status, _, text = s.send(http.MethodPost, c.path, modernBody("tools/call", "3", `"name":"echo"`),
			append([]string{"Authorization", auth}, modernHeaders("tools/call", "Mcp-Name", "echo")...)...); status != 200 {
			t.Errorf("a modern call of %s at %s: %d %s", c.token, c.path, status, text)
		}
		for _, got := range b.received() {
			if got.Caller.Project != c.project {
				t.Errorf("%s at %s calls in project %q, want %q", c.token, c.path, got.Caller.Project, c.project)
			}
		}
		b.mu.Lock()
		b.calls = nil
		b.mu.Unlock()
	}
	// What there is not and what is not for this principal look the same.
	_, _, want := s.send(http.MethodPost, "/mcp/none", hello, "Authorization", "Bearer "+testToken)
	for _, c := range []struct{ token, path string }{
		{testToken, "/mcp/shop"}, {testToken, "/mcp/none"}, {testToken, "/mcp/SITE"}, {testToken, "/mcp/site/"}, {testToken, "/mcp/"},
		{testToken, "/mcp/site/shop"}, {testToken, "/mcp/site%2Fshop"}, {testToken, "/mcpsite"}, {testToken, "/"}, {"other", "/mcp"}, {"third", "/mcp/site"},
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			status, header, text := s.send(method, c.path, hello, "Authorization", "Bearer "+c.token)
			if status != http.StatusNotFound || text != want || header.Get("Mcp-Session-Id") != "" {
				t.Errorf("%s %s of %s: %d %q, want 404 %q", method, c.path, c.token, status, text, want)
			}
		}
	}
}

func TestASessionBelongsToPrincipalAndProject(t *testing.T) {
	b := newFakeBroker("echo")
	s := newSite(t, newServer(t, b), func(o *HTTPOptions) { o.Gate = projectGate() })
	status, header, text := s.send(http.MethodPost, "/mcp/site", initializeLine("2025-11-25"), "Authorization", "Bearer other")
	session := header.Get("Mcp-Session-Id")
	if status != 200 {
		t.Fatalf("initialize: %d %s", status, text)
	}
	strange := func(method, path, token, id string) string {
		t.Helper()
		body := ""
		if method == http.MethodPost {
			body = call("1", "echo", "{}", "")
		}
		status, _, text := s.send(method, path, body, "Authorization", "Bearer "+token, "Mcp-Session-Id", id)
		if status != http.StatusNotFound {
			t.Errorf("%s %s with the session of another: %d %s", method, path, status, text)
		}
		return text
	}
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		for _, c := range []struct{ path, token string }{
			{"/mcp/shop", "other"}, // the same principal, in another project
			{"/mcp/site", testToken},
			{"/mcp/shop", "third"},
		} {
			if got, want := strange(method, c.path, c.token, session), strange(method, c.path, c.token, "never-given"); got != want {
				t.Errorf("%s %s tells a session of another from none: %s", method, c.path, got)
			}
		}
	}
	if status, _, text := s.send(http.MethodPost, "/mcp/site", call("1", "echo", "{}", ""), "Authorization", "Bearer other", "Mcp-Session-Id", session); status != 200 {
		t.Errorf("its own principal: %d %s", status, text)
	}
	if n := len(b.received()); n != 1 {
		t.Errorf("the broker got %d calls, want 1", n)
	}
}

// TestATokenThatIsOverEndsAccess at once: for the next request of a session, and for
// a stream before anything more is written to it.
func TestATokenThatIsOverEndsAccess(t *testing.T) {
	gate := newFakeGate()
	b := newFakeBroker("echo")
	s := newSite(t, newServer(t, b), func(o *HTTPOptions) { o.Gate = gate })
	id := s.open()
	legacy := s.listen(http.MethodGet, "", "Mcp-Session-Id", id)
	newer := s.listen(http.MethodPost, modernBody("subscriptions/listen", "9", `"notifications":{"toolsListChanged":true}`), modernHeaders("subscriptions/listen")...)
	newer.next() // the acknowledgement
	b.changes(s.front)
	newer.next()
	legacy.next()
	gate.set(func() { delete(gate.tokens, testToken) })
	for _, body := range []string{listLine, `{"jsonrpc":"2.0","id":1,"method":"ping"}`} {
		if r := s.post(body, "Mcp-Session-Id", id); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", body, r.StatusCode, r.body)
		}
	}
	s.front.ToolsChanged()
	for what, stream := range map[string]*stream{"GET": legacy, "subscriptions/listen": newer} {
		select {
		case <-stream.ended:
		case <-time.After(patience):
			t.Errorf("%s goes on", what)
		}
		stream.none()
	}
}

// TestATokenThatIsAnothersEndsStreams: the files give it to somebody else, who is no heir
// to what is open.
func TestATokenThatIsAnothersEndsStreams(t *testing.T) {
	gate := newFakeGate()
	s := newSite(t, newServer(t, newFakeBroker("echo")), func(o *HTTPOptions) { o.Gate = gate })
	id := s.open()
	stream := s.listen(http.MethodGet, "", "Mcp-Session-Id", id)
	gate.set(func() { gate.tokens[testToken] = "heir" })
	s.front.ToolsChanged()
	select {
	case <-stream.ended:
	case <-time.After(patience):
		t.Error("the stream goes on")
	}
	stream.none()
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		body := ""
		if method == http.MethodPost {
			body = listLine
		}
		if r := s.do(method, body, "Mcp-Session-Id", id); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s of the session: %d %s", method, r.StatusCode, r.body)
		}
	}
}

func TestAGrantThatIsGoneEndsStreams(t *testing.T) {
	gate := projectGate()
	s := newSite(t, newServer(t, newFakeBroker("echo")), func(o *HTTPOptions) { o.Gate = gate })
	id := s.open()
	stream := s.listen(http.MethodGet, "", "Mcp-Session-Id", id)
	gate.set(func() { gate.projects["local"] = []string{"shop"} })
	s.front.ToolsChanged()
	<-stream.ended
	stream.none()
	if r := s.post(listLine, "Mcp-Session-Id", id); r.StatusCode != http.StatusNotFound {
		t.Errorf("the session in another project: %d", r.StatusCode)
	}
}

// said is a log that a test reads.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *said) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *said) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestWhyIsInTheLogAlone(t *testing.T) {
	var log said
	s := newSite(t, newServer(t, newFakeBroker(), func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }))
	r := s.post(listLine, "Authorization", "Bearer t0ken-of-nobody")
	if r.StatusCode != http.StatusUnauthorized || strings.Contains(string(r.body)+fmt.Sprint(r.Header), errFakeToken.Error()) {
		t.Errorf("the answer: %d %v %s", r.StatusCode, r.Header, r.body)
	}
	if r.Header.Get("Www-Authenticate") != `Bearer realm="drawbridge", error="invalid_token"` {
		t.Errorf("challenge %q", r.Header.Get("Www-Authenticate"))
	}
	if r := s.post(listLine, "Authorization", ""); r.Header.Get("Www-Authenticate") != `Bearer realm="drawbridge"` {
		t.Errorf("challenge without a token: %q", r.Header.Get("Www-Authenticate"))
	}
	if text := log.String(); !strings.Contains(text, errFakeToken.Error()) || !strings.Contains(text, errNoToken.Error()) || strings.Contains(text, "t0ken") {
		t.Errorf("the log: %s", text)
	}
	// Two tokens are none: something before us may have checked the other.
	req := s.request(t.Context(), http.MethodPost, listLine)
	req.Header["Authorization"] = []string{"Bearer " + testToken, "Bearer " + testToken}
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("two tokens: %d", res.StatusCode)
	}
	if r := s.post(listLine, "Authorization", "Bearer later"); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" || r.Header.Get("Www-Authenticate") != "" {
		t.Errorf("a token of which nothing can be told now: %d %v", r.StatusCode, r.Header)
	}
	for range 5 * denialLines {
		s.post(listLine, "Authorization", "Bearer t0ken-of-nobody")
	}
	if n := strings.Count(log.String(), errFakeToken.Error()); n > denialLines {
		t.Errorf("%d lines in the log, want %d at most", n, denialLines)
	}
}

func TestDenialsAreCountedWhereTheyAreNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log said
		d := newDenials(slog.New(slog.NewTextHandler(&log, nil)))
		r := &http.Request{RemoteAddr: "127.0.0.1:1"}
		for range denialLines + 7 {
			d.note("refused", r, errFakeToken)
		}
		d.note("refused", r, errNoToken)
		time.Sleep(denialSpan)
		d.note("refused", r, errFakeToken)
		text := log.String()
		if n := strings.Count(text, "\n"); n != denialLines+2 {
			t.Errorf("%d lines, want %d: %s", n, denialLines+2, text)
		}
		if strings.Count(text, "not_logged_before") != 1 || !strings.Contains(text, "not_logged_before=7") {
			t.Errorf("the 7 are not told: %s", text)
		}
		for i := range 10 * denialReasons {
			d.note("refused", r, fmt.Errorf("reason %d", i))
		}
		if len(d.counts) > denialReasons+1 {
			t.Errorf("%d reasons are kept", len(d.counts))
		}
	})
}

func TestMetadataSaysWhereTokensComeFrom(t *testing.T) {
	const issuer = "https://login.example/realm"
	issuers := []string{issuer}
	published := func(address string) *site {
		return newSite(t, newServer(t, newFakeBroker()), func(o *HTTPOptions) {
			o.PublicURL, o.Gate, o.Issuers = address, projectGate(), func() []string { return issuers }
		})
	}
	for _, c := range []struct {
		public, path, metadata, resource string
	}{
		{"", "/mcp", "$/.well-known/oauth-protected-resource/mcp", "$/mcp"},
		{"", "/mcp/site", "$/.well-known/oauth-protected-resource/mcp/site", "$/mcp/site"},
		{"https://Bridge.example", "/mcp", "https://bridge.example/.well-known/oauth-protected-resource/mcp", "https://bridge.example/mcp"},
		{"https://bridge.example/", "/mcp/site", "https://bridge.example/.well-known/oauth-protected-resource/mcp/site", "https://bridge.example/mcp/site"},
		{"https://bridge.example:8443//", "/mcp/no such", "https://bridge.example:8443/.well-known/oauth-protected-resource/mcp/no%20such", "https://bridge.example:8443/mcp/no%20such"},
		{"https://host.example/tools/", "/tools/mcp/site", "https://host.example/.well-known/oauth-protected-resource/tools/mcp/site", "https://host.example/tools/mcp/site"},
		{"https://host.example/tools/", "/mcp/site", "https://host.example/.well-known/oauth-protected-resource/tools/mcp/site", "https://host.example/tools/mcp/site"},
	} {
		s := published(c.public)
		c.metadata, c.resource = strings.Replace(c.metadata, "$", s.URL, 1), strings.Replace(c.resource, "$", s.URL, 1)
		for _, given := range []string{"", "Bearer nope"} {
			path := strings.ReplaceAll(c.path, " ", "%20")
			status, header, _ := s.send(http.MethodPost, path, listLine, "Authorization", given)
			want := `Bearer realm="drawbridge", resource_metadata="` + c.metadata + `"`
			if given != "" {
				want = `Bearer realm="drawbridge", error="invalid_token", resource_metadata="` + c.metadata + `"`
			}
			if status != http.StatusUnauthorized || header.Get("Www-Authenticate") != want {
				t.Errorf("%q %s: %d %q, want 401 %q", c.public, c.path, status, header.Get("Www-Authenticate"), want)
			}
		}
		_, path, _ := strings.Cut(c.metadata, "/.well-known/")
		status, header, text := s.get("/.well-known/" + path)
		var got protectedResource
		if err := json.Unmarshal([]byte(text), &got); err != nil || status != 200 || header.Get("Content-Type") != typeJSON {
			t.Errorf("%s: %d %v %s", c.metadata, status, header, text)
		}
		if got.Resource != c.resource || len(got.AuthorizationServers) != 1 || got.AuthorizationServers[0] != issuer || len(got.BearerMethods) != 1 {
			t.Errorf("%s: %s, want the resource %s", c.metadata, text, c.resource)
		}
	}
	s := published("https://bridge.example")
	if _, _, text := s.get("/.well-known/oauth-protected-resource"); !strings.Contains(text, `"resource":"https://bridge.example"`) {
		t.Errorf("at the root: %s", text)
	}
	for path, want := range map[string]int{
		"/.well-known/oauth-protected-resource/elsewhere": 404, "/.well-known/oauth-protected-resourceful": 404,
		"/.well-known/oauth-authorization-server": 404, "/.well-known/oauth-protected-resource/mcp/a/b": 404,
	} {
		if status, _, text := s.get(path); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, header, _ := s.send(http.MethodPost, "/.well-known/oauth-protected-resource/mcp", "{}"); status != http.StatusMethodNotAllowed || header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST of the metadata: %d %v", status, header)
	}
	if status, _, _ := s.get("/.well-known/oauth-protected-resource/mcp", "Host", "evil.example"); status != http.StatusForbidden {
		t.Errorf("for another host: %d", status)
	}
	issuers = nil // the owner hands out all tokens himself
	if status, _, _ := s.get("/.well-known/oauth-protected-resource/mcp"); status != http.StatusNotFound {
		t.Errorf("without an issuer: %d", status)
	}
	if _, header, _ := s.send(http.MethodPost, "/mcp", listLine); strings.Contains(header.Get("Www-Authenticate"), "resource_metadata") {
		t.Errorf("without an issuer: %v", header)
	}
}

func TestThePublicURLsHostMayCome(t *testing.T) {
	s := newSite(t, newServer(t, newFakeBroker()), func(o *HTTPOptions) { o.PublicURL = "https://Bridge.example/tools" })
	for _, c := range []struct {
		host, origin string
		status       int
	}{
		{"bridge.example", "", 200}, {"BRIDGE.example:443", "", 200}, {"bridge.example", "https://bridge.example", 200},
		{"bridge.example:8443", "", 200}, {"bridge.example", "https://bridge.example:8443", 403}, {"bridge.example", "http://bridge.example", 403},
		{"other.bridge.example", "", 403}, {"bridge.example", "https://bridge.example.evil", 403},
	} {
		headers := []string{"Host", c.host}
		if c.origin != "" {
			headers = append(headers, "Origin", c.origin)
		}
		if r := s.post(initializeLine("2025-11-25"), headers...); r.StatusCode != c.status {
			t.Errorf("%v: %d, want %d", c, r.StatusCode, c.status)
		}
	}
	// And an address that the listener has of its own.
	g := newGuard(HTTPOptions{Listen: "192.0.2.7:443"}, slog.New(slog.DiscardHandler))
	for host, want := range map[string]bool{"192.0.2.7": true, "192.0.2.7:443": true, "192.0.2.8": false, "localhost": true, "0.0.0.0": false, "192.0.2.7:80": false} {
		if got := g.admits(&http.Request{Host: host}); got != want {
			t.Errorf("Host %s is let in: %v, want %v", host, got, want)
		}
	}
	if g := newGuard(HTTPOptions{Listen: net.JoinHostPort("::", "7420")}, slog.New(slog.DiscardHandler)); g.admits(&http.Request{Host: "[::]:7420"}) {
		t.Error("no address in particular is let in")
	}
}
