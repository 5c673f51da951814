package crossing

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// TestC048_SchemasStayTheServersOwn: what a struct with a few known fields would
// rename, drop or make permissive.
func TestC048_SchemasStayTheServersOwn(t *testing.T) {
	schemas := map[string]string{
		"definitions": `{"type":"object","properties":{"to":{"$ref":"#/definitions/Addr"}},"definitions":{"Addr":{"type":"object","required":["zip"]}}}`,
		"defs":        `{"type":"object","properties":{"to":{"$ref":"#/$defs/Addr"}},"$defs":{"Addr":{"type":"object","additionalProperties":false}}}`,
		"closed":      `{"type":"object","properties":{"a":true,"b":false},"additionalProperties":false,"x-vendor":1}`,
		"oneof":       `{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}],"$schema":"http://json-schema.org/draft-07/schema#"}`,
		"reference":   `{"$ref":"#/$defs/Addr","$defs":{"Addr":{"anyOf":[{"type":["object","null"]},true]}}}`,
	}
	var defs []string
	for name, schema := range schemas {
		defs = append(defs, fmt.Sprintf(`{"name":%q,"inputSchema":%s,"outputSchema":%s}`, name, schema, schema))
	}
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		file := p.Write(t, "tools.json", "["+strings.Join(defs, ",")+"]")
		c := open(config(t, p, "", provider{name: "fake", args: []string{"--tools", "none", "--tools-file", file}}))
		listed := hosttest.Definitions(t, c)
		if len(listed) != len(schemas) {
			t.Errorf("%d tools are listed, want %d", len(listed), len(schemas))
		}
		for _, d := range listed {
			var got struct{ InputSchema, OutputSchema json.RawMessage }
			if err := json.Unmarshal(d.Raw, &got); err != nil {
				t.Fatal(err)
			}
			want := schemas[strings.TrimPrefix(d.Name, "fake_")]
			if string(got.InputSchema) != want || string(got.OutputSchema) != want {
				t.Errorf("%s:\n%s\n%s\nwant twice\n%s", d.Name, got.InputSchema, got.OutputSchema, want)
			}
		}
	})
}

// TestC049_NumbersKeepTheirDigits on the way to the server and back.
func TestC049_NumbersKeepTheirDigits(t *testing.T) {
	const numbers = `{"id":9007199254740993,"max":9223372036854775807,"u":18446744073709551615,"f":1.0,"e":1e2}`
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake"}))
		r := hosttest.CallTool(t, c, "fake_echo", numbers)
		if string(r.Structured) != numbers {
			t.Errorf("the client got %s", r.Structured)
		}
		if got := received(t, p, "fake"); len(got) != 1 || !strings.Contains(string(got[0].Params), `"arguments":`+numbers) {
			t.Errorf("the server got %s", got)
		}
	})
}

// TestC053_AbsentEmptyAndNull arguments are three things, and `required` stays
// where no property is there for it.
func TestC053_AbsentEmptyAndNull(t *testing.T) {
	const schema = `{"type":"object","required":["q"]}`
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		file := p.Write(t, "tools.json", `[{"name":"ask_it","inputSchema":`+schema+`}]`)
		c := open(config(t, p, "", provider{name: "fake", args: []string{"--tools", "none", "--tools-file", file}}))
		if listed := hosttest.Definitions(t, c); len(listed) != 1 || !strings.Contains(string(listed[0].Raw), `"inputSchema":`+schema) {
			t.Errorf("listed: %+v", listed)
		}
		for i, arguments := range []string{"", "{}", `{"q":null}`} {
			params := `{"name":"fake_ask_it"}`
			if arguments != "" {
				params = `{"name":"fake_ask_it","arguments":` + arguments + `}`
			}
			if r := c.Request(t, "tools/call", params); r.Error != nil {
				t.Errorf("%s: %s", params, r.Error)
			}
			calls := received(t, p, "fake")
			if len(calls) != i+1 {
				t.Fatalf("the server received %d calls, want %d", len(calls), i+1)
			}
			var got struct{ Arguments json.RawMessage }
			if err := json.Unmarshal(calls[i].Params, &got); err != nil {
				t.Fatal(err)
			}
			if string(got.Arguments) != arguments || arguments == "" && strings.Contains(string(calls[i].Params), "arguments") {
				t.Errorf("of arguments %q the server got %s", arguments, calls[i].Params)
			}
		}
	})
}

// TestC075_SpellingIsKept: a folder and an argument that are spelled with a combining
// accent reach the server in that spelling, `validate` says that they will, and
// what a call carries is not touched by HCL at all.
func TestC075_SpellingIsKept(t *testing.T) {
	const decomposed, composed = "cafe\u0301", "caf\u00e9"
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		if err := os.Mkdir(p.Path(decomposed), 0o700); err != nil {
			t.Fatal(err)
		}
		path := config(t, p, "", provider{
			name: "fake", args: []string{"--instructions", decomposed, "--ledger", composed},
			config: "    cwd = " + quote(p.Path(decomposed)),
		})
		c := open(path)
		var is struct {
			Cwd  string
			Args []string
		}
		if err := json.Unmarshal(hosttest.CallTool(t, c, "fake_whoami", "{}").Structured, &is); err != nil {
			t.Fatal(err)
		}
		if is.Cwd != p.Path(decomposed) {
			t.Errorf("the server runs in %+q", is.Cwd)
		}
		if all := fmt.Sprintf("%+q", is.Args); !strings.Contains(all, `e\u0301`) || !strings.Contains(all, `caf\u00e9`) {
			t.Errorf("its arguments are %s", all)
		}
		if got := hosttest.CallTool(t, c, "fake_echo", fmt.Sprintf(`{"text":%q}`, decomposed)).Text(); got != decomposed {
			t.Errorf("a call brought back %+q", got)
		}
		out, err := hosttest.Output(t, p.Command(t, "validate", "--json", "--config", path))
		if err != nil {
			t.Fatal(err)
		}
		var found struct {
			Diagnostics []struct{ Severity, Path, Detail string }
		}
		if err := json.Unmarshal([]byte(out), &found); err != nil {
			t.Fatal(err)
		}
		warned := map[string]bool{}
		for _, d := range found.Diagnostics {
			if d.Severity == "warning" && strings.Contains(d.Detail, "U+0065 U+0301") && strings.Contains(d.Detail, "U+00E9") {
				warned[d.Path] = true
			}
		}
		// --log FILE --life 5m --instructions: the fifth argument, from 0.
		if !warned["provider.fake.config.cwd"] || !warned["provider.fake.config.args[5]"] || len(warned) != 2 {
			t.Errorf("validate warned of %v:\n%s", warned, out)
		}
	})
}
