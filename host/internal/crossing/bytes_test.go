package crossing

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// odd is a value in which a decoder that knows better would change something:
// numbers by their literal, the order of members, escapes, white space, what no
// field is there for.
const odd = `{"z":1,"a": 1.0 ,"big":9223372036854775807,"exp":1E400,"neg":-0,"e":"\u00fc\/\ud83c\udf09 <&> \"","\u006be":[ ],"deep":{"b":{},"a":[1,[2,[3]]]},"":null}`

// definitions of tools as no SDK would write them.
var odds = []string{
	`{"name":"plain","inputSchema":{"type":"object"}}`,
	`{"inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"urn:x","type":"object","allOf":[{"if":{"a":1},"then":{"b":2}}],"patternProperties":{"^x-":{}},"definitions":{"d":{"const":9007199254740993}},"$defs":{"e":true},"x-vendor":[1.0,1e2]},"description":"root keywords","name":"keywords"}`,
	`{"title":"","name":"unknown","annotations":{"category":"x","readOnlyHint":true,"n":1.50},"icons":[{"src":"data:,","theme":"dark","x":0}],"execution":{"taskSupport":"optional"},"vendor":` + odd + `,"_meta":` + odd + `,"inputSchema":{"type":"object","properties":{"name":{"type":"string"},"b":{},"a":{}}}}`,
	`{"name":"output","inputSchema":{"$ref":"#/$defs/x","$defs":{"x":{"type":"object"}}},"outputSchema":{"anyOf":[{"type":"array","items":{"type":["string","null"]}},{"type":"object"}]}}`,
}

// TestDefinitionBytes: each definition, with its name put back, is the bytes
// that the server sent.
func TestDefinitionBytes(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		file := p.Write(t, "tools.json", "["+strings.Join(odds, ",")+"]")
		c := open(config(t, p, "", provider{name: "fake", args: []string{"--tools", "none", "--tools-file", file, "--pages", "3"}}))
		got := hosttest.Definitions(t, c)
		if len(got) != len(odds) {
			t.Fatalf("%d definitions, want %d", len(got), len(odds))
		}
		for i, d := range got {
			name, ok := strings.CutPrefix(d.Name, "fake_")
			if back := hosttest.Rename(t, d.Raw, name); !ok || string(back) != odds[i] {
				t.Errorf("%s:\n%s\nwant\n%s", d.Name, back, odds[i])
			}
		}
	})
}

// TestArgumentBytes: what the server received as arguments is what the client
// sent, and so are the keys of _meta that are nobody's business.
func TestArgumentBytes(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake"}))
		for i, args := range []string{odd, `{}`, `{ "text" : "x" }`, `{"text":"` + strings.Repeat("ü", 2<<20) + `"}`} {
			r := c.Request(t, "tools/call", fmt.Sprintf(`{"name":"fake_echo","_meta":{"vendor/x":%s},"arguments":%s}`, odd, args))
			if r.Error != nil {
				t.Fatalf("%s", r.Error)
			}
			calls := received(t, p, "fake")
			if len(calls) != i+1 {
				t.Fatalf("the server received %d calls, want %d", len(calls), i+1)
			}
			params := calls[i].Params
			if !bytes.Contains(params, []byte(`"arguments":`+args)) {
				t.Errorf("the server received %.300s, want arguments %.300s", params, args)
			}
			if !bytes.Contains(params, []byte(`"vendor/x":`+odd)) {
				t.Errorf("the server received %.300s, want the client's _meta", params)
			}
		}
	})
}

// TestResultBytes: a result, an error's code, message and data, and blocks of
// unknown kinds reach the client as the server wrote them.
func TestResultBytes(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake", args: []string{"--tool-count", "1"}}))
		block := `{"type":"x-new","payload":` + odd + `}`
		for _, result := range []string{
			`{"content":[` + block + `]}`,
			`{"structuredContent":` + odd + `,"content":[],"isError":false,"vendor":` + odd + `}`,
			`{"content":[{"type":"resource_link","uri":"fake://x","icons":[],"annotations":{"n":1.0}}],"_meta":{"vendor/x":` + odd + `}}`,
			`{"content":[{"text":"` + strings.Repeat("ü", 2<<20) + `","type":"text"}]}`,
		} {
			r := c.Request(t, "tools/call", `{"name":"fake_answer","arguments":{"result":`+result+`}}`)
			if string(r.Result) != result {
				t.Errorf("result\n%.400s\nwant\n%.400s", r.Raw, result)
			}
		}
		failure := `{"code":-32042,"message":"\u00fc","data":` + odd + `}`
		r := c.Request(t, "tools/call", `{"name":"fake_answer","arguments":{"error":`+failure+`}}`)
		if string(r.Error) != failure {
			t.Errorf("error\n%s\nwant\n%s", r.Raw, failure)
		}
	})
}
