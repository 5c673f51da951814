package front

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// modern posts a request of the stateless era, with headers that fit.
func (s *site) modern(method, id, params string, headers ...string) response {
	s.t.Helper()
	return s.post(modernBody(method, id, params), modernHeaders(method, headers...)...)
}

func modernBody(method, id, params string) string {
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + modernMeta + `}}`
}

func modernHeaders(method string, more ...string) []string {
	return append([]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}, more...)
}

func TestModernHeadersMustSayWhatTheBodySays(t *testing.T) {
	b := newFakeBroker("echo")
	s := newSite(t, newServer(t, b))
	list, echo := modernBody("tools/list", `"x"`, ""), modernBody("tools/call", `"x"`, `"name":"echo"`)
	const v, m, n = "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"
	for name, c := range map[string]struct {
		body    string
		headers []string
		status  int
		code    int
	}{
		"good list":                  {list, []string{v, "2026-07-28", m, "tools/list"}, 200, 0},
		"good list in lower case":    {list, []string{"mcp-protocol-version", "2026-07-28", "mcp-method", "tools/list"}, 200, 0},
		"a session is ignored":       {list, []string{v, "2026-07-28", m, "tools/list", "Mcp-Session-Id", "nope"}, 200, 0},
		"good call":                  {echo, []string{v, "2026-07-28", m, "tools/call", n, "echo"}, 200, 0},
		"encoded name":               {echo, []string{v, "2026-07-28", m, "tools/call", n, "=?base64?ZWNobw==?="}, 200, 0},
		"white space around it":      {echo, []string{v, "2026-07-28", m, "tools/call", n, "  echo  "}, 200, 0},
		"badly encoded name":         {echo, []string{v, "2026-07-28", m, "tools/call", n, "=?base64?ZWN%bw==?="}, 400, -32020},
		"another name, encoded":      {echo, []string{v, "2026-07-28", m, "tools/call", n, "=?base64?aG9sZA==?="}, 400, -32020},
		"another name":               {echo, []string{v, "2026-07-28", m, "tools/call", n, "hold"}, 400, -32020},
		"no name":                    {echo, []string{v, "2026-07-28", m, "tools/call"}, 400, -32020},
		"another method":             {list, []string{v, "2026-07-28", m, "prompts/list"}, 400, -32020},
		"method in upper case":       {list, []string{v, "2026-07-28", m, "TOOLS/LIST"}, 400, -32020},
		"no method":                  {list, []string{v, "2026-07-28"}, 400, -32020},
		"no version":                 {list, []string{m, "tools/list"}, 400, -32020},
		"another version":            {list, []string{v, "2025-11-25", m, "tools/list"}, 400, -32020},
		"version in the header only": {listLine, []string{v, "2026-07-28", m, "tools/list"}, 400, -32602},
		"unknown version":            {strings.ReplaceAll(list, "2026-07-28", "2099-01-01"), []string{v, "2099-01-01"}, 400, -32022},
		"unknown version, other header": {strings.ReplaceAll(list, "2026-07-28", "2099-01-01"),
			[]string{v, "2026-07-28", m, "tools/list"}, 400, -32020},
		"no capabilities": {strings.ReplaceAll(list, "clientCapabilities", "other"), []string{v, "2026-07-28", m, "tools/list"}, 400, -32602},
		"unknown method":  {modernBody("vendor/x", `"x"`, ""), []string{v, "2026-07-28", m, "vendor/x"}, 404, -32601},
		"removed method":  {modernBody("ping", `"x"`, ""), []string{v, "2026-07-28", m, "ping"}, 404, -32601},
		"initialize":      {modernBody("initialize", `"x"`, ""), []string{v, "2026-07-28", m, "initialize"}, 404, -32601},
		"bad cursor":      {modernBody("tools/list", `"x"`, `"cursor":"garbage"`), []string{v, "2026-07-28", m, "tools/list"}, 200, -32602},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.post(c.body, c.headers...)
			got := r.last(t)
			if r.StatusCode != c.status || got.code() != c.code {
				t.Errorf("%d %s, want status %d and code %d", r.StatusCode, got.text, c.status, c.code)
			}
			if c.body != listLine && string(got.ID) != `"x"` {
				t.Errorf("id %s", got.ID)
			}
			if r.Header.Get("Mcp-Session-Id") != "" {
				t.Error("a modern answer names a session")
			}
		})
	}
	// A server's word that a capability is missing shows in the status, and only to modern clients.
	lacking := `"name":"raw","arguments":{"response":{"jsonrpc":"2.0","id":7,"error":{"code":-32021,"message":"m","data":{"requiredCapabilities":{"sampling":{}}}}}}`
	if r := s.modern("tools/call", "1", lacking, n, "raw"); r.StatusCode != http.StatusBadRequest || r.last(t).code() != -32021 {
		t.Errorf("missing capability: %d %s", r.StatusCode, r.body)
	}
	if r := s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+lacking+`}}`, "Mcp-Session-Id", s.open()); r.StatusCode != http.StatusOK || r.last(t).code() != -32021 {
		t.Errorf("missing capability, legacy: %d %s", r.StatusCode, r.body)
	}
	// Twice is once too often: who stands between might have read the other.
	req := s.request(context.Background(), http.MethodPost, echo, v, "2026-07-28", m, "tools/call")
	req.Header["Mcp-Name"] = []string{"echo", "hold"}
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("two names: %d", res.StatusCode)
	}
	// What a modern client need not send is taken without a word.
	if r := s.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, v, "2026-07-28"); r.StatusCode != http.StatusAccepted {
		t.Errorf("modern notification: %d %s", r.StatusCode, r.body)
	}
}
