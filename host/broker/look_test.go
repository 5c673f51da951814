package broker

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/shape"
)

// looked notes what it is shown.
type looked []string

func (l *looked) Answered(provider, tool, digest string, schema, value []byte) {
	if digest == "" {
		provider = "no digest"
	}
	*l = append(*l, strings.Join([]string{provider, tool, string(schema), string(value)}, " "))
}

// TestWhichResultsAreLookedAt: those that are one value, of calls that went well, of
// tools that say what they return; as the server wrote them.
func TestWhichResultsAreLookedAt(t *testing.T) {
	const schema = `{"type":"object"}`
	for name, c := range map[string]struct {
		definition, result string
		want               bool
	}{
		"with an outputSchema":   {`"outputSchema":` + schema, `{"structuredContent":{"a":1},"content":[]}`, true},
		"isError false":          {`"outputSchema":` + schema, `{"structuredContent":{"a":1},"isError":false,"resultType":"complete"}`, true},
		"with a secret":          {`"outputSchema":` + schema, `{"structuredContent":{"a":1},"content":["s3cret-1"]}`, true},
		"without":                {`"x":1`, `{"structuredContent":{"a":1}}`, false},
		"null":                   {`"outputSchema":null`, `{"structuredContent":{"a":1}}`, false},
		"two":                    {`"outputSchema":` + schema + `,"outputSchema":` + schema, `{"structuredContent":{"a":1}}`, false},
		"isError":                {`"outputSchema":` + schema, `{"structuredContent":{"a":1},"isError":true}`, false},
		"isError of some kind":   {`"outputSchema":` + schema, `{"structuredContent":{"a":1},"isError":"no"}`, false},
		"nothing structured":     {`"outputSchema":` + schema, `{"content":[]}`, false},
		"null structured":        {`"outputSchema":` + schema, `{"structuredContent":null}`, false},
		"structured twice":       {`"outputSchema":` + schema, `{"structuredContent":{"a":1},"structuredContent":{"a":1}}`, false},
		"a question":             {`"outputSchema":` + schema, `{"structuredContent":{"a":1},"resultType":"input_required"}`, false},
		"more than is looked at": {`"outputSchema":` + schema, `{"structuredContent":"` + strings.Repeat("a", shape.MaxValue) + `"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			f, b := newFake(t, map[string][]string{"shop": nil})
			f.defs["shop"] = []json.RawMessage{json.RawMessage(`{"name":"pay",` + c.definition + `}`)}
			var got looked
			b.opts.Results = &got
			b.opts.Cleaner = cleaner(t, "s3cret-1")
			f.answers(t, `{"jsonrpc":"2.0","id":1,"result":`+c.result+`}`)
			if reply := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`)); reply.Message == nil {
				t.Fatalf("%s: %+v", reply.Outcome, reply.Err)
			}
			var want looked
			if c.want {
				want = looked{"shop pay " + schema + ` {"a":1}`}
			}
			if !slices.Equal(got, want) {
				t.Errorf("looked at: %.300q, want %q", got, want)
			}
		})
	}
	f, b := newFake(t, map[string][]string{"shop": nil})
	f.defs["shop"] = []json.RawMessage{json.RawMessage(`{"name":"pay","outputSchema":` + schema + `}`)}
	var got looked
	b.opts.Results = &got
	f.answers(t, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}`)
	if reply := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`)); reply.Outcome != RPCError || got != nil {
		t.Errorf("%s; looked at: %q", reply.Outcome, got)
	}
}

// TestWhatASecretMadeFit: a result is looked at as it was before a secret was taken out.
func TestWhatASecretMadeFit(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": nil})
	f.defs["shop"] = []json.RawMessage{json.RawMessage(`{"name":"pay","outputSchema":{}}`)}
	var got looked
	b.opts.Results = &got
	b.opts.Cleaner = cleaner(t, "12345678")
	f.answers(t, `{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"n":12345678}}}`)
	reply := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`))
	if !reply.Redacted || len(got) != 1 || !strings.Contains(got[0], `{"n":12345678}`) {
		t.Errorf("redacted: %v; looked at: %q", reply.Redacted, got)
	}
}
