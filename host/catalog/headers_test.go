package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestHeaderParams reads what the specification lets a schema ask for, wherever
// it may stand.
func TestHeaderParams(t *testing.T) {
	const region = `{"type":"string","x-mcp-header":"Region"}`
	one := []HeaderParam{{"Mcp-Param-Region", []string{"region"}}}
	for schema, want := range map[string][]HeaderParam{
		`{"type":"object"}`: nil,
		`true`:              nil,
		`{"properties":{"region":` + region + `,"other":true}}`: one,
		`{"properties":{"region":{"\u0078-mcp-header":"R\u0065gion","type":["integer","null"]}}}`: {
			{"Mcp-Param-Region", []string{"region"}}},
		`{"properties":{"where":{"type":"object","properties":{"region":` + region + `}},"dry.run":{"type":"boolean","x-mcp-header":"a!b"}}}`: {
			{"Mcp-Param-Region", []string{"where", "region"}}, {"Mcp-Param-a!b", []string{"dry.run"}}},
		// Members of these names are arguments, and these values are data.
		`{"properties":{"x-mcp-header":{"type":"string"},"properties":` + region + `}}`: {
			{"Mcp-Param-Region", []string{"properties"}}},
		`{"default":{"x-mcp-header":"A"},"enum":[{"x-mcp-header":"B"}],"examples":[{"x-mcp-header":1}],"properties":{"region":` + region + `}}`: one,
		`{"$defs":{"x-mcp-header":{"type":"string"}},"properties":{"region":` + region + `}}`:                                                   one,
	} {
		got, fault := headerParams(json.RawMessage(`{"name":"t","inputSchema":` + schema + `}`))
		if diff := cmp.Diff(want, got); diff != "" || fault != "" {
			t.Errorf("%s: fault %q, headers (-want +got)\n%s", schema, fault, diff)
		}
	}
}

// TestHeaderParamsInvalid: one annotation that breaks a rule makes the definition
// invalid, whatever stands beside it.
func TestHeaderParamsInvalid(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"string","x-mcp-header":"A"}`:                                                               "where no header can be made",
		`{"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}}}`:                                "where no header can be made",
		`{"properties":{"a":{"anyOf":[{"type":"string","x-mcp-header":"A"}]}}}`:                              "where no header can be made",
		`{"allOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`:                              "where no header can be made",
		`{"$defs":{"a":{"type":"string","x-mcp-header":"A"}},"properties":{"a":{"$ref":"#/$defs/a"}}}`:       "where no header can be made",
		`{"if":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`:                                   "where no header can be made",
		`{"patternProperties":{"a":{"type":"string","x-mcp-header":"A"}}}`:                                   "where no header can be made",
		`{"properties":{"a":{"type":"string","x-mcp-header":""}}}`:                                           "no name of one",
		`{"properties":{"a":{"type":"string","x-mcp-header":1}}}`:                                            "no name of one",
		`{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}`:                                        "no name of one",
		`{"properties":{"a":{"type":"string","x-mcp-header":"A\r\nB: c"}}}`:                                  "no name of one",
		`{"properties":{"a":{"type":"string","x-mcp-header":"Ä"}}}`:                                          "no name of one",
		`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`:                                          "its type is none of",
		`{"properties":{"a":{"type":"object","x-mcp-header":"A"}}}`:                                          "its type is none of",
		`{"properties":{"a":{"type":["string","array"],"x-mcp-header":"A"}}}`:                                "its type is none of",
		`{"properties":{"a":{"type":"null","x-mcp-header":"A"}}}`:                                            "its type is none of",
		`{"properties":{"a":{"x-mcp-header":"A"}}}`:                                                          "its type is none of",
		`{"properties":{"a":{"$ref":"#/$defs/a","x-mcp-header":"A"}},"$defs":{"a":{"type":"string"}}}`:       "its type is none of",
		`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`: "two of its arguments",
		`{"properties":{"a":{"type":"string","x-mcp-header":"A","x-mcp-header":"B"}}}`:                       "two headers",
		`{"properties":{"a":{"type":"string","x-mcp-header":"A"}},"not":{"items":{"x-mcp-header":"A"}}}`:     "where no header can be made",
		`{"properties":{` + strings.TrimSuffix(many(maxHeaders+1), ",") + `}}`:                               "more than 128",
	} {
		got, fault := headerParams(json.RawMessage(`{"name":"t","inputSchema":` + schema + `}`))
		if got != nil || !strings.Contains(fault, want) {
			t.Errorf("%.200s: fault %q, want one of %q; headers %v", schema, fault, want, got)
		}
	}
}

// many writes n annotated properties, each followed by a comma.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"p%d":{"type":"string","x-mcp-header":"H%d"},`, i, i)
	}
	return b.String()
}

// TestHeaderParamsOfDeepSchema: a schema as deep as JSON may be is walked once.
func TestHeaderParamsOfDeepSchema(t *testing.T) {
	const depth = 4900 // of objects twice as many
	schema := strings.Repeat(`{"properties":{"a":`, depth) + `{"type":"string","x-mcp-header":"A"}` + strings.Repeat(`}}`, depth)
	got, fault := headerParams(json.RawMessage(`{"name":"t","inputSchema":` + schema + `}`))
	if fault != "" || len(got) != 1 || len(got[0].Path) != depth {
		t.Errorf("fault %q, %d headers", fault, len(got))
	}
}

// TestInvalidHeadersAreShownAndReported: to leave such a tool out is a client's
// duty, and its owner is told why some do.
func TestInvalidHeadersAreShownAndReported(t *testing.T) {
	var log bytes.Buffer
	s := New(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, []Provider{provider("p")})
	put(t, s, "p", defs(`{"name":"bad","inputSchema":{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}}`,
		`{"name":"good","inputSchema":{"properties":{"a":{"type":"integer","x-mcp-header":"A"}}}}`))
	bad, ok := s.Snapshot().Find("p_bad")
	if !ok || bad.Headers != nil {
		t.Errorf("the invalid definition: %+v, shown: %v", bad, ok)
	}
	good, _ := s.Snapshot().Find("p_good")
	if diff := cmp.Diff([]HeaderParam{{"Mcp-Param-A", []string{"a"}}}, good.Headers); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(log.String(), "tool=bad") || strings.Contains(log.String(), "tool=good") {
		t.Errorf("log: %s", log.String())
	}
}
