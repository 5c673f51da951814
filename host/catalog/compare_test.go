package catalog

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		old, new string
		want     []string // path: old → new
	}{
		"same but for form": {`{"name":"a","b":[1, 2],"n":1}`, ` { "n":1,"b":[1,2], "name":"\u0061"}`, nil},
		"description":       {`{"name":"a","description":"x"}`, `{"name":"a","description":"y"}`, []string{`/description: "x" → "y"`}},
		"added and removed": {`{"name":"a","title":"t"}`, `{"name":"a","icon":{}}`, []string{`/icon: - → {}`, `/title: "t" → -`}},
		"deep in the schema": {`{"inputSchema":{"properties":{"to":{"type":"string"}},"required":["to"]}}`, `{"inputSchema":{"properties":{"target":{"type":"string"}},"required":["target"]}}`,
			[]string{`/inputSchema/properties/target: - → {"type":"string"}`, `/inputSchema/properties/to: {"type":"string"} → -`, `/inputSchema/required/0: "to" → "target"`}},
		"arrays of other length":    {`{"e":["a","b"]}`, `{"e":["a"]}`, []string{`/e: ["a","b"] → ["a"]`}},
		"another kind":              {`{"x":{}}`, `{"x":[]}`, []string{`/x: {} → []`}},
		"names with slash or tilde": {`{"a/b":{"c~d":1}}`, `{"a/b":{"c~d":2}}`, []string{`/a~1b/c~0d: 1 → 2`}},
		"numbers by their literal":  {`{"x":9007199254740993}`, `{"x":9007199254740992}`, []string{`/x: 9007199254740993 → 9007199254740992`}},
		"no canonical form":         {`{"a":1,"a":2}`, `{"a":1}`, []string{`: {"a":1,"a":2} → {"a":1}`}},
		"null is not absence":       {`{"x":null}`, `{}`, []string{`/x: null → -`}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, ch := range Compare(json.RawMessage(c.old), json.RawMessage(c.new)) {
				got = append(got, fmt.Sprintf("%s: %s → %s", ch.Path, or(ch.Old), or(ch.New)))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if same := DigestTool(json.RawMessage(c.old)) == DigestTool(json.RawMessage(c.new)); same != (len(c.want) == 0) {
				t.Errorf("the digests are equal: %v", same)
			}
		})
	}
}

func or(v json.RawMessage) string {
	if v == nil {
		return "-"
	}
	return string(v)
}

func TestFieldDigestsNameWhatDiffers(t *testing.T) {
	old := FieldDigests(json.RawMessage(`{"name":"pay","description":"x","inputSchema":{"a":1,"b":2}}`))
	new := FieldDigests(json.RawMessage(`{"inputSchema":{"b":2, "a":1},"description":"y","name":"pay"}`))
	for field, want := range map[string]bool{"name": true, "description": false, "inputSchema": true} {
		if len(old[field]) != 16 || (old[field] == new[field]) != want {
			t.Errorf("%s: %q and %q, equal should be %v", field, old[field], new[field], want)
		}
	}
	if got := FieldDigests(json.RawMessage(`{"a":1,"a":2}`)); got != nil {
		t.Errorf("without a canonical form: %v", got)
	}
}
