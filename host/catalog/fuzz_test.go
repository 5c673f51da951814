package catalog

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzPut lists an arbitrary definition. Whatever it is, it harms nothing, its
// bytes stay, and what headers it asks for can be asked for.
func FuzzPut(f *testing.F) {
	for _, raw := range []string{
		`{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`,
		`{"name":"t","inputSchema":{"properties":{"a":{"properties":{"b":{"type":["integer","null"],"x-mcp-header":"B"}}}}}}`,
		`{"name":"t","inputSchema":{"anyOf":[{"x-mcp-header":"A"}],"enum":[{"x-mcp-header":1}]}}`,
		`{"name":"\ud800","annotations":{"readOnlyHint":true},"inputSchema":true}`,
		`{"name":"a","name":"b"}`,
		`[]`,
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := New(Options{}, []Provider{provider("p")})
		if err := s.Put("p", "h/p/1", []json.RawMessage{raw}); err != nil {
			t.Fatal(err)
		}
		for _, tool := range s.Snapshot().Tools() {
			if string(tool.Raw) != string(raw) || !json.Valid(tool.Listed) {
				t.Fatalf("listed as %q", tool.Listed)
			}
			for _, p := range tool.Headers {
				name, ok := strings.CutPrefix(p.Header, "Mcp-Param-")
				if !ok || !isToken([]byte(name)) || len(p.Path) == 0 {
					t.Fatalf("header %+v", p)
				}
			}
		}
	})
}
