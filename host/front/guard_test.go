package front

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestC079_OnlyWhoMayGetsIn(t *testing.T) {
	b := newFakeBroker()
	s := newSite(t, newServer(t, b), func(o *HTTPOptions) {
		o.AllowedHosts = []string{"Bridge.example", "port.example:8443"}
		o.AllowedOrigins = []string{"https://app.example"}
	})
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	for name, c := range map[string]struct {
		headers []string
		status  int
	}{
		"host of another":               {[]string{"Host", "evil.example"}, 403},
		"host of another with our port": {[]string{"Host", "evil.example:" + port}, 403},
		"our name with another port":    {[]string{"Host", "127.0.0.1:1"}, 403},
		"our name without its port":     {[]string{"Host", "localhost"}, 403},
		"host that begins like ours":    {[]string{"Host", "localhost.evil.example:" + port}, 403},
		"foreign origin":                {[]string{"Origin", "http://evil.example"}, 403},
		"null origin":                   {[]string{"Origin", "null"}, 403},
		"origin that begins like ours":  {[]string{"Origin", "http://localhost.evil.example"}, 403},
		"origin with another port":      {[]string{"Origin", "http://localhost:1"}, 403},
		"origin with user":              {[]string{"Origin", "http://localhost:" + port + "@evil.example"}, 403},
		"foreign, and no token":         {[]string{"Origin", "http://evil.example", "Authorization", ""}, 403},
		"address":                       {[]string{"Host", "127.0.0.1:" + port}, 200},
		"name":                          {[]string{"Host", "LOCALHOST:" + port}, 200},
		"address of version 6":          {[]string{"Host", "[::1]:" + port}, 200},
		"own origin":                    {[]string{"Origin", "http://localhost:" + port}, 200},
		"allowed host, any port":        {[]string{"Host", "bridge.example:99"}, 200},
		"allowed host without port":     {[]string{"Host", "bridge.example"}, 200},
		"allowed host, its port":        {[]string{"Host", "port.example:8443"}, 200},
		"allowed host, another port":    {[]string{"Host", "port.example:8444"}, 403},
		"allowed origin":                {[]string{"Origin", "https://app.example"}, 200},
		"allowed origin, other scheme":  {[]string{"Origin", "http://app.example"}, 403},
		"no token":                      {[]string{"Authorization", ""}, 401},
		"wrong token":                   {[]string{"Authorization", "Bearer nope"}, 401},
		"token in another scheme":       {[]string{"Authorization", "Basic " + testToken}, 401},
		"token in lower-case scheme":    {[]string{"Authorization", "bearer " + testToken}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			// Nothing of the body counts before: where it fails it fails as such.
			for _, body := range []string{initializeLine("2025-11-25"), "{not JSON"} {
				want := c.status
				if want == 200 && body[1] == 'n' {
					want = 400
				}
				r := s.post(body, c.headers...)
				if r.StatusCode != want {
					t.Errorf("status %d, want %d: %s", r.StatusCode, want, r.body)
				}
				if want == 401 && !strings.HasPrefix(r.Header.Get("WWW-Authenticate"), "Bearer ") {
					t.Errorf("401 without a challenge: %v", r.Header)
				}
			}
		})
	}
}

func TestBrowsersOfAllowedOriginsCanReadTheResponse(t *testing.T) {
	s := newSite(t, newServer(t, newFakeBroker()), func(o *HTTPOptions) { o.AllowedOrigins = []string{"https://app.example/"} })
	r := s.do(http.MethodOptions, "", "Authorization", "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,mcp-session-id")
	if r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Origin") != "https://app.example" || r.Header.Get("Access-Control-Allow-Headers") != "authorization,mcp-session-id" {
		t.Errorf("preflight: %d %v", r.StatusCode, r.Header)
	}
	if r := s.do(http.MethodOptions, "", "Authorization", "", "Origin", "https://evil.example"); r.StatusCode != http.StatusForbidden || r.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("foreign preflight: %d %v", r.StatusCode, r.Header)
	}
	if r := s.post(initializeLine("2025-11-25"), "Origin", "https://app.example"); r.Header.Get("Access-Control-Expose-Headers") != "Mcp-Session-Id, Drawbridge-Call, WWW-Authenticate" {
		t.Errorf("response: %v", r.Header)
	}
}

func TestC082_MalformedBodiesEndNothing(t *testing.T) {
	b := newFakeBroker("echo")
	s := newSite(t, newServer(t, b))
	id := s.open()
	for body, status := range map[string]int{
		`{"jsonrpc":"2.0"`: 400,
		``:                 400,
		`null`:             400,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`:                   400,
		`{"jsonrpc":"2.0","id":1}`:                                     400,
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`:                   400,
		`{"jsonrpc":"2.0","id":1,"method":"ping","METHOD":"x"}`:        400,
		`{"jsonrpc":"2.0","id":"never","result":{}}`:                   202,
		`{"jsonrpc":"2.0","id":9,"error":{"code":-1,"message":"x"}}`:   202,
		`{"jsonrpc":"2.0","method":"notifications/unheard/of"}`:        202,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`:         202,
		strings.Repeat("[", 1000) + strings.Repeat("]", 1000):          400,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0"}`:    400,
		"{\"jsonrpc\":\"2.0\",\r\n\"id\":1,\n\"method\":\"ping\"\n}\n": 200,
	} {
		r := s.post(body, "Mcp-Session-Id", id)
		if r.StatusCode != status {
			t.Errorf("%.60q: %d, want %d: %s", body, r.StatusCode, status, r.body)
		}
		if status == 202 && len(r.body) != 0 {
			t.Errorf("%.60q: body %s", body, r.body)
		}
	}
	if m := s.post(call("1", "echo", "{}", ""), "Mcp-Session-Id", id).last(t); m.Result == nil {
		t.Errorf("the session afterwards: %s", m.text)
	}
}

func TestLineBreaksBetweenTokensDoNotPass(t *testing.T) {
	b := newFakeBroker("echo")
	s := newSite(t, newServer(t, b))
	id := s.open()
	body := "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\r\n\"params\":{\"name\":\"echo\",\"arguments\":{\n\"a\": [1,\n 2]}}}"
	if m := s.post(body, "Mcp-Session-Id", id).last(t); !strings.Contains(string(m.Result), `{"a": [1, 2]}`) {
		t.Errorf("got %s", m.text)
	}
	if r := s.post(strings.ReplaceAll(body, `"a"`, "\"a\nb\""), "Mcp-Session-Id", id); r.StatusCode != http.StatusBadRequest {
		t.Errorf("a line break inside a string: %d %s", r.StatusCode, r.body)
	}
	if n := len(b.received()); n != 1 {
		t.Errorf("the broker got %d calls, want 1", n)
	}
}

func TestFormOfARequest(t *testing.T) {
	const limit = 1 << 20
	s := newSite(t, newServer(t, newFakeBroker("echo"), func(o *Options) { o.MaxRequest = limit }))
	id := s.open()
	sized := func(n int) string {
		head, tail := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"`, `"}}`
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	for name, c := range map[string]struct {
		body    string
		headers []string
		status  int
	}{
		"as large as may be":      {sized(limit), nil, 200},
		"one byte more":           {sized(limit + 1), nil, 413},
		"a type with a charset":   {listLine, []string{"Content-Type", "application/json; charset=utf-8"}, 200},
		"another type":            {listLine, []string{"Content-Type", "text/plain"}, 415},
		"no type":                 {listLine, []string{"Content-Type", ""}, 415},
		"accepts JSON alone":      {listLine, []string{"Accept", "application/json"}, 406},
		"accepts streams alone":   {listLine, []string{"Accept", "text/event-stream"}, 406},
		"accepts anything":        {listLine, []string{"Accept", "*/*"}, 200},
		"says nothing of it":      {listLine, []string{"Accept", ""}, 200},
		"accepts by kind":         {listLine, []string{"Accept", "Application/*;q=0.9, text/*"}, 200},
		"a version it negotiated": {listLine, []string{"Mcp-Protocol-Version", "2025-11-25"}, 200},
		"another known version":   {listLine, []string{"Mcp-Protocol-Version", "2024-11-05"}, 200},
		"an unknown version":      {listLine, []string{"Mcp-Protocol-Version", "2025-01-01"}, 400},
	} {
		r := s.post(c.body, append(c.headers, "Mcp-Session-Id", id)...)
		if r.StatusCode != c.status {
			t.Errorf("%s: %d, want %d: %.200s", name, r.StatusCode, c.status, r.body)
		}
	}
	for method, status := range map[string]int{"PUT": 405, "PATCH": 405, "HEAD": 405} {
		if r := s.do(method, "", "Mcp-Session-Id", id); r.StatusCode != status || r.Header.Get("Allow") != "POST, GET, DELETE" {
			t.Errorf("%s: %d %v", method, r.StatusCode, r.Header)
		}
	}
	for _, method := range []string{"GET", "DELETE"} {
		if r := s.do(method, "", "Mcp-Session-Id", id, "Mcp-Protocol-Version", "2026-07-28"); r.StatusCode != 405 || r.Header.Get("Allow") != "POST" {
			t.Errorf("modern %s: %d %v", method, r.StatusCode, r.Header)
		}
	}
	if r := s.do(http.MethodGet, "", "Mcp-Session-Id", id, "Accept", "application/json"); r.StatusCode != 406 {
		t.Errorf("GET that takes no stream: %d", r.StatusCode)
	}
	res, err := s.client.Do(func() *http.Request {
		r := s.request(context.Background(), http.MethodPost, listLine)
		r.URL.Path = "/elsewhere"
		return r
	}())
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("another path: %d", res.StatusCode)
	}
	// Of a body whose length is not announced.
	for n, status := range map[int]int{limit: 200, limit + 1: 413, 100 << 10: 200} {
		req := s.request(context.Background(), http.MethodPost, "", "Mcp-Session-Id", id)
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(sized(n))), -1
		res, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("%d bytes of unannounced length: %d, want %d", n, res.StatusCode, status)
		}
	}
}
