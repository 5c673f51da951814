package front

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

func TestC093_OnlyWhatIsThereIsOffered(t *testing.T) {
	b := newFakeBroker("a")
	b.noLogging = true
	s := newServer(t, b)
	c := connect(t, s)
	m := c.initialize("2025-11-25")
	var r struct{ Capabilities map[string]json.RawMessage }
	if err := json.Unmarshal(m.Result, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Capabilities) != 1 || r.Capabilities["tools"] == nil {
		t.Errorf("capabilities %v, want tools alone", r.Capabilities)
	}
	for _, method := range []string{"prompts/list", "resources/list", "resources/templates/list", "completion/complete", "logging/setLevel", "roots/list", "vendor/x"} {
		if m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"level":"info"}}`); m.code() != -32601 {
			t.Errorf("%s: %s", method, m.text)
		}
	}
	if n := len(b.received()); n != 0 {
		t.Errorf("the broker got %d calls", n)
	}
}

func TestBothErasShareAPipe(t *testing.T) {
	b := newFakeBroker("echo", "hold")
	s := newServer(t, b)
	c := connect(t, s)
	// A modern probe, a legacy handshake, then both mixed.
	m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + modernMeta + `}}`)
	for _, want := range []string{
		`"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`,
		`"resultType":"complete"`, `"ttlMs":0`, `"cacheScope":"private"`, `"io.modelcontextprotocol/serverInfo":{"name":"drawbridge","version":"1.2.3"`,
	} {
		if !strings.Contains(string(m.Result), want) {
			t.Errorf("discover lacks %s: %s", want, m.Result)
		}
	}
	c.initialize("2024-11-05")
	legacyList := c.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	modernList := c.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{` + modernMeta + `}}`)
	for _, key := range []string{"resultType", "ttlMs", "cacheScope", "serverInfo"} {
		if strings.Contains(legacyList.text, key) || !strings.Contains(modernList.text, key) {
			t.Errorf("%s: legacy %s, modern %s", key, legacyList.text, modernList.text)
		}
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(modernMeta, `"_meta":{`), "}")
	if m := c.ask(call("3", "echo", "{}", inner)); !strings.Contains(string(m.Result), `"resultType":"complete"`) {
		t.Errorf("modern call: %s", m.text)
	}
	if m := c.ask(call("3", "echo", "{}", "")); string(m.Result) != `{"content":[],"structuredContent":{}}` {
		t.Errorf("legacy call: %s", m.text)
	}
	calls := b.received()
	if !calls[0].Caller.Modern || calls[1].Caller.Modern || calls[0].Caller.Session == "" || calls[0].Caller.Session != calls[1].Caller.Session {
		t.Errorf("callers %+v and %+v", calls[0].Caller, calls[1].Caller)
	}
	if calls[0].Caller.Principal != "local" || calls[1].Caller.Principal != "local" {
		t.Errorf("principals %q and %q, want local", calls[0].Caller.Principal, calls[1].Caller.Principal)
	}
	// The modern cancel works on the pipe too.
	c.send(call("9", "hold", "", inner))
	<-b.held
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`)
	eventually(t, "9 is cancelled", func() bool { return slices.Equal(b.ended(), []string{"9 cancelled"}) })
}

func TestVersionsAreNegotiated(t *testing.T) {
	s := newServer(t, newFakeBroker())
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2026-07-28": "2025-11-25", "2099-01-01": "2025-11-25", "1999-01-01": "2025-11-25", "draft": "2025-11-25",
	} {
		c := connect(t, s)
		m := c.initialize(asked)
		var r struct {
			ProtocolVersion string
			ServerInfo      struct{ Name, Version string }
		}
		if err := json.Unmarshal(m.Result, &r); err != nil {
			t.Fatal(err)
		}
		if r.ProtocolVersion != want || r.ServerInfo.Name != "drawbridge" || r.ServerInfo.Version != "1.2.3" {
			t.Errorf("initialize for %s: %s", asked, m.Result)
		}
	}
	c := connect(t, s)
	if m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`); m.code() != -32602 {
		t.Errorf("initialize without a version: %s", m.text)
	}
}

func TestModernRequestsAreChecked(t *testing.T) {
	s := newServer(t, newFakeBroker("echo"))
	c := connect(t, s)
	const version, capabilities = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, `"io.modelcontextprotocol/clientCapabilities":{}`
	for name, tc := range map[string]struct {
		method, meta string
		code         int
	}{
		"no _meta":                  {"server/discover", "", -32602},
		"no version":                {"server/discover", capabilities, -32602},
		"no capabilities":           {"tools/list", version, -32602},
		"capabilities of a string":  {"tools/list", version + `,"io.modelcontextprotocol/clientCapabilities":"all"`, -32602},
		"version of a number":       {"subscriptions/listen", `"io.modelcontextprotocol/protocolVersion":2026,` + capabilities, -32602},
		"unknown level":             {"tools/list", version + `,"io.modelcontextprotocol/logLevel":"loud",` + capabilities, -32602},
		"newer version":             {"tools/list", `"io.modelcontextprotocol/protocolVersion":"2099-01-01",` + capabilities, -32022},
		"older than all":            {"tools/list", `"io.modelcontextprotocol/protocolVersion":"1900-01-01",` + capabilities, -32022},
		"no version of any kind":    {"tools/list", `"io.modelcontextprotocol/protocolVersion":"v9",` + capabilities, -32022},
		"removed: initialize":       {"initialize", version + "," + capabilities, -32601},
		"removed: ping":             {"ping", version + "," + capabilities, -32601},
		"removed: logging/setLevel": {"logging/setLevel", version + "," + capabilities, -32601},
		"unknown":                   {"resources/list", version + "," + capabilities, -32601},
		"good":                      {"tools/list", version + "," + capabilities, 0},
		"good, with a level":        {"tools/list", version + `,"io.modelcontextprotocol/logLevel":"info",` + capabilities, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := c.ask(`{"jsonrpc":"2.0","id":"x","method":"` + tc.method + `","params":{"_meta":{` + tc.meta + `}}}`)
			if m.code() != tc.code || string(m.ID) != `"x"` {
				t.Errorf("got %s, want code %d", m.text, tc.code)
			}
			if tc.code == -32022 && !strings.Contains(string(m.Error.Data), `"supported":["2026-07-28"`) {
				t.Errorf("data %s does not name what is supported", m.Error.Data)
			}
		})
	}
}

// Who a client says that it is stands deeper in a message than the envelope's parser
// looks.
func TestWhoAClientIs(t *testing.T) {
	meta := []string{"params", "_meta", "io.modelcontextprotocol/clientInfo"}
	for _, c := range []struct {
		path []string
		in   string
		want broker.Client
	}{
		{[]string{"params", "clientInfo"}, `{"clientInfo":{"name":"pro\u0062e","version":"1.0","title":"T","icons":[{}]}}`, broker.Client{Name: "probe", Version: "1.0"}},
		{meta, `{"_meta":{"io.modelcontextprotocol/clientInfo":{"version":"2","name":"probe"}}}`, broker.Client{Name: "probe", Version: "2"}},
		{[]string{"params", "clientInfo"}, `{"clientInfo":{"name":7,"Name":"x","version":"1"}}`, broker.Client{Version: "1"}},
		{[]string{"params", "clientInfo"}, `{"clientInfo":"probe"}`, broker.Client{}},
		{[]string{"params", "clientInfo"}, `{}`, broker.Client{}},
		{[]string{"params", "clientInfo"}, `{"clientInfo":{"name":"` + strings.Repeat("n", 1000) + `"}}`, broker.Client{Name: strings.Repeat("n", maxClientName)}},
	} {
		m, err := rpc.Parse(rpc.FromClient, []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":`+c.in+`}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := clientOf(m, c.path...); got != c.want {
			t.Errorf("%.80s: %+v, want %+v", c.in, got, c.want)
		}
	}
}
