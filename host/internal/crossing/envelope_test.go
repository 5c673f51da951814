package crossing

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

const (
	codeParse          = -32700
	codeInvalidRequest = -32600
)

// TestEnvelopeTricks sends messages that two parsers would read as two different
// calls. Each is refused, and the server never hears of it.
func TestEnvelopeTricks(t *testing.T) {
	call := func(params string) string {
		return `{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":` + params + `}`
	}
	tricks := map[string]string{
		"doubled name":           call(`{"name":"fake_echo","name":"fake_pay","arguments":{}}`),
		"folded name":            call(`{"name":"fake_echo","Name":"fake_pay","arguments":{}}`),
		"escaped name":           call(`{"name":"fake_echo","n\u0061me":"fake_pay","arguments":{}}`),
		"folded name alone":      call(`{"Name":"fake_pay","arguments":{}}`),
		"doubled arguments":      call(`{"name":"fake_pay","arguments":{"to":"a"},"arguments":{"to":"b"}}`),
		"folded arguments":       call(`{"name":"fake_pay","arguments":{"to":"a"},"ARGUMENTS":{"to":"b"}}`),
		"doubled _meta":          call(`{"name":"fake_pay","arguments":{},"_meta":{},"_meta":{"progressToken":1}}`),
		"doubled progress token": call(`{"name":"fake_pay","arguments":{},"_meta":{"progressToken":1,"progressToken":2}}`),
		"doubled method":         `{"jsonrpc":"2.0","id":$ID,"method":"tools/list","method":"tools/call","params":{"name":"fake_pay","arguments":{}}}`,
		"folded method":          `{"jsonrpc":"2.0","id":$ID,"method":"tools/list","METHOD":"tools/call","params":{"name":"fake_pay","arguments":{}}}`,
		"doubled params":         `{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":"fake_echo"},"params":{"name":"fake_pay","arguments":{}}}`,
		"long s in params":       `{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":"fake_echo"},"param` + "\u017f" + `":{"name":"fake_pay","arguments":{}}}`,
		"escaped long s":         `{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":"fake_echo"},"param\u017f":{"name":"fake_pay","arguments":{}}}`,
		"with a result":          `{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":"fake_pay","arguments":{}},"result":{}}`,
		"with an error":          `{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":"fake_pay","arguments":{}},"error":{"code":1,"message":"x"}}`,
		"no version":             `{"id":$ID,"method":"tools/call","params":{"name":"fake_pay","arguments":{}}}`,
		"another version":        `{"jsonrpc":"1.0","id":$ID,"method":"tools/call","params":{"name":"fake_pay","arguments":{}}}`,
	}
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		ledger := p.Path("ledger")
		c := open(config(t, p, "", provider{name: "fake", args: []string{"--ledger", ledger}}))
		if r := c.Request(t, "tools/call", `{"name":"fake_echo","arguments":{"text":"before"}}`); r.Error != nil {
			t.Fatalf("%s", r.Error)
		}
		for name, text := range tricks {
			if e := errorOf(t, c.raw(t, text)); e.Code != codeInvalidRequest {
				t.Errorf("%s: %+v, want code %d", name, e, codeInvalidRequest)
			}
		}
		if r := c.Request(t, "tools/call", `{"name":"fake_echo","arguments":{"text":"after"}}`); r.Error != nil {
			t.Errorf("after the tricks: %s", r.Error)
		}
		var heard []string
		for _, m := range received(t, p, "fake") {
			heard = append(heard, string(m.Params))
		}
		if len(heard) != 2 || !strings.Contains(heard[0], "before") || !strings.Contains(heard[1], "after") {
			t.Errorf("the server received %q, want the two calls around the tricks and nothing else", heard)
		}
	})
}

// TestLineBreaks sends line breaks where HTTP lets them through. Between tokens
// they go, and the server gets one line and runs once; inside a string they are
// no JSON.
func TestLineBreaks(t *testing.T) {
	p := hosttest.NewPlace(t)
	h := p.ServeHTTP(t, config(t, p, "", provider{name: "fake", args: []string{"--ledger", p.Path("ledger")}}))
	c := hosttest.DialHTTP(h.URL, h.Token)
	hosttest.Open(t, c)
	forbidden := `{"jsonrpc":"2.0","id":666,"method":"tools/call","params":{"name":"pay","arguments":{"to":"thief"}}}`

	broken := strings.NewReplacer("~", "\r\n", "|", "\n", "^", "\r").Replace(
		`|{~"jsonrpc"|:~"2.0",^"id":$ID,"method":"tools/call","params":{"name":"fake_pay","arguments":|{"to":~~"me"^}|}~}|`)
	r, status := c.Raw(t, broken)
	if r.Error != nil || status != 200 {
		t.Errorf("line breaks between tokens: HTTP %d, %s", status, r.Raw)
	}
	calls := received(t, p, "fake")
	if len(calls) != 1 || !strings.Contains(string(calls[0].Params), `"arguments":{"to":"me"}`) {
		t.Errorf("the server received %d calls: %+v, want one on one line", len(calls), calls)
	}

	for name, text := range map[string]string{
		"LF inside":  "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"method\":\"tools/call\",\"params\":{\"name\":\"fake_pay\",\"arguments\":{\"to\":\"x\n" + forbidden + "\n\"}}}",
		"CR inside":  "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"method\":\"tools/call\",\"params\":{\"name\":\"fake_pay\",\"arguments\":{\"to\":\"x\ry\"}}}",
		"after it":   `{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":"fake_pay","arguments":{}}}` + "\n" + forbidden,
		"as a batch": `[{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":"fake_pay","arguments":{}}},` + forbidden + `]`,
	} {
		r, _ := c.Raw(t, text)
		var e hostError
		if json.Unmarshal(r.Error, &e) != nil || e.Code != codeParse && e.Code != codeInvalidRequest {
			t.Errorf("%s: %s, want it refused", name, r.Raw)
		}
	}
	if n := len(received(t, p, "fake")); n != 1 {
		t.Errorf("the server received %d calls after what was refused, want still one", n)
	}
}
