package front

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// annotated is the definition of echo with arguments that headers repeat.
const annotated = `{"name":"echo","inputSchema":{"type":"object","properties":{
	"region":{"type":"string","x-mcp-header":"Region"},
	"count":{"type":"integer","x-mcp-header":"Count"},
	"options":{"type":"object","properties":{"dry":{"type":"boolean","x-mcp-header":"Dry-Run"}}},
	"plain":{"type":"string"}}}}`

// setAnnotated gives a broker the tools of definitions as the catalog reads them.
func (b *fakeBroker) setAnnotated(t testing.TB, defs ...string) {
	t.Helper()
	b.setTools(defs...)
}

// TestArgumentsMustBeWhatTheirHeadersSay follows the table and the rules of MCP
// 2026-07-28, basic/transports/streamable-http, "Server Behavior for Custom Headers".
func TestArgumentsMustBeWhatTheirHeadersSay(t *testing.T) {
	b := newFakeBroker()
	b.setAnnotated(t, annotated)
	s := newSite(t, newServer(t, b))
	const region, count, dry = "Mcp-Param-Region", "mcp-param-count", "MCP-PARAM-DRY-RUN"
	for name, c := range map[string]struct {
		arguments string
		headers   []string
		ok        bool
	}{
		"all":                   {`{"region":"us","count":-7,"options":{"dry":true}}`, []string{region, "us", count, "-7", dry, "true"}, true},
		"none":                  {`{"plain":"x","options":{}}`, nil, true},
		"no arguments":          {``, nil, true},
		"null arguments":        {`null`, nil, true},
		"null":                  {`{"region":null,"options":null}`, nil, true},
		"another header":        {`{"plain":"x"}`, []string{"Mcp-Param-Plain", "y"}, true},
		"encoded":               {`{"region":"Hello, 世界\n"}`, []string{region, "=?base64?SGVsbG8sIOS4lueVjAo=?="}, true},
		"encoded in the body":   {`{"re\u0067ion":"u\u0073"}`, []string{region, "us"}, true},
		"no end of an encoding": {`{"region":"=?base64?dXM="}`, []string{region, "=?base64?dXM="}, true},
		"empty":                 {`{"region":""}`, []string{region, " "}, true},
		"white space around":    {`{"region":"us"}`, []string{region, "  us "}, true},
		"equal numbers":         {`{"count":42}`, []string{count, "42.0"}, true},
		"equal numbers too":     {`{"count":4.2e1}`, []string{count, "42"}, true},
		"the greatest integer":  {`{"count":9007199254740991}`, []string{count, "9007199254740991"}, true},
		"a value inside a leaf": {`{"options":{"dry":false,"region":"eu"}}`, []string{dry, "false"}, true},

		"another value":           {`{"region":"us"}`, []string{region, "eu"}, false},
		"another value, encoded":  {`{"region":"us"}`, []string{region, "=?base64?ZXU=?="}, false},
		"a value in another case": {`{"region":"us"}`, []string{region, "US"}, false},
		"no header":               {`{"region":"us"}`, nil, false},
		"no header of an inner":   {`{"options":{"dry":false}}`, nil, false},
		"a header of nothing":     {`{"plain":"x"}`, []string{region, "us"}, false},
		"a header of null":        {`{"region":null}`, []string{region, "null"}, false},
		"a header, no arguments":  {``, []string{region, "us"}, false},
		"bad encoding":            {`{"region":"Hello"}`, []string{region, "=?base64?SGVs!!!bG8=?="}, false},
		"characters":              {`{"region":"世界"}`, []string{region, "世界"}, false},
		"a list":                  {`{"region":["us"]}`, []string{region, "us"}, false},
		"a string for a number":   {`{"count":"42"}`, []string{count, "42.0"}, false},
		"a fraction":              {`{"count":4.5}`, []string{count, "4.5"}, false},
		"an unsafe integer":       {`{"count":9007199254740993}`, []string{count, "9007199254740992"}, false},
		"a number no JSON has":    {`{"count":42}`, []string{count, "0x2A"}, false},
		"a number with a tail":    {`{"count":42}`, []string{count, "42 43"}, false},
		"a boolean in words":      {`{"options":{"dry":true}}`, []string{dry, "True"}, false},
		"half a character":        {`{"region":"\ud800"}`, []string{region, "=?base64?77+9?="}, false},
		// A server may read the other one.
		"twice":           {`{"region":"us","region":"eu"}`, []string{region, "eu"}, false},
		"twice, escaped":  {`{"region":"us","\u0072egion":"us"}`, []string{region, "us"}, false},
		"inner twice":     {`{"options":{"dry":true},"options":{"dry":false}}`, []string{dry, "false"}, false},
		"in another case": {`{"region":"us","Region":"eu"}`, []string{region, "us"}, false},
		"only that":       {`{"optionſ":{"dry":true}}`, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			params := `"name":"echo"`
			if c.arguments != "" {
				params += `,"arguments":` + c.arguments
			}
			r := s.modern("tools/call", `"x"`, params, append([]string{"Mcp-Name", "echo"}, c.headers...)...)
			got := r.last(t)
			status, code := http.StatusOK, 0
			if !c.ok {
				status, code = http.StatusBadRequest, -32020
			}
			if r.StatusCode != status || got.code() != code || string(got.ID) != `"x"` {
				t.Errorf("%d %s, want status %d and code %d", r.StatusCode, got.text, status, code)
			}
		})
	}

	// Each once, here too.
	req := s.request(context.Background(), http.MethodPost, modernBody("tools/call", "1", `"name":"echo","arguments":{"region":"us"}`),
		modernHeaders("tools/call", "Mcp-Name", "echo")...)
	req.Header[region] = []string{"us", "us"}
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("two headers: %d", res.StatusCode)
	}
}

// TestOnlyModernRequestsOverHTTPHaveHeadersOfArguments: no other client knows of them.
func TestOnlyModernRequestsOverHTTPHaveHeadersOfArguments(t *testing.T) {
	b := newFakeBroker()
	b.setAnnotated(t, annotated)
	srv := newServer(t, b)
	const arguments = `"name":"echo","arguments":{"region":"us"}`
	if got := connect(t, srv).ask(modernBody("tools/call", "1", arguments)); got.Error != nil {
		t.Errorf("modern, stdio: %s", got.text)
	}
	s := newSite(t, srv)
	if r := s.post(call("1", "echo", `{"region":"us"}`, ""), "Mcp-Session-Id", s.open()); r.last(t).Error != nil {
		t.Errorf("legacy, HTTP: %s", r.body)
	}
}

// TestArgumentsOfALargeCallAreChecked, read from the file that the call is kept in.
func TestArgumentsOfALargeCallAreChecked(t *testing.T) {
	b := newFakeBroker()
	b.setAnnotated(t, strings.Replace(annotated, `"echo"`, `"die"`, 1))
	s := newSite(t, newServer(t, b))
	params := `"name":"die","arguments":{"plain":"` + strings.Repeat("x", 2<<20) + `","region":"us"}`
	if r := s.modern("tools/call", "1", params, "Mcp-Name", "die", "Mcp-Param-Region", "eu"); r.StatusCode != http.StatusBadRequest {
		t.Errorf("a header that differs: %d %.200s", r.StatusCode, r.body)
	}
	if r := s.modern("tools/call", "2", params, "Mcp-Name", "die", "Mcp-Param-Region", "us"); r.StatusCode != http.StatusOK || r.last(t).code() != -31001 {
		t.Errorf("one that does not: %d %.200s", r.StatusCode, r.body)
	}
}
