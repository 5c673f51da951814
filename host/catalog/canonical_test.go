package catalog

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestDigestsOfCanonicalForms: RFC 8785 for objects and strings, every number as
// the literal that it came in. What a definition of I-JSON means the same by has
// one digest, and what it does not has another.
func TestDigestsOfCanonicalForms(t *testing.T) {
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"white space":              {`{"name":"x","a":[1,2]}`, "{ \"name\" : \"x\",\t\"a\" : [ 1 , 2 ] }", true},
		"the order of members":     {`{"name":"x","b":1,"a":2}`, `{"a":2,"b":1,"name":"x"}`, true},
		"of members deep inside":   {`{"name":"x","s":[{"b":{"d":1,"c":2}}]}`, `{"name":"x","s":[{"b":{"c":2,"d":1}}]}`, true},
		"the order of elements":    {`{"name":"x","a":[1,2]}`, `{"name":"x","a":[2,1]}`, false},
		"escapes":                  {`{"name":"x","d":"\u0041\/\u000a\t"}`, `{"name":"x","d":"A/\n\u0009"}`, true},
		"escapes in names":         {`{"name":"x","\u0061":1}`, `{"name":"x","a":1}`, true},
		"letter case of escapes":   {`{"name":"x","d":"\u001F"}`, `{"name":"x","d":"\u001f"}`, true},
		"a surrogate pair":         {`{"name":"x","d":"\ud83d\ude00"}`, `{"name":"x","d":"😀"}`, true},
		"letter case":              {`{"name":"x","d":"A"}`, `{"name":"x","d":"a"}`, false},
		"decomposed text":          {`{"name":"x","d":"\u00e9"}`, `{"name":"x","d":"e\u0301"}`, false},
		"2^53+1":                   {`{"name":"x","n":9007199254740993}`, `{"name":"x","n":9007199254740992}`, false},
		"an exponent":              {`{"name":"x","n":1e3}`, `{"name":"x","n":1000}`, false},
		"the sign of an exponent":  {`{"name":"x","n":1e3}`, `{"name":"x","n":1E+3}`, false},
		"a fraction of nothing":    {`{"name":"x","n":1}`, `{"name":"x","n":1.0}`, false},
		"the sign of zero":         {`{"name":"x","n":0}`, `{"name":"x","n":-0}`, false},
		"beyond a double":          {`{"name":"x","n":1e400}`, `{"name":"x","n":1e401}`, false},
		"null is not absent":       {`{"name":"x","n":null}`, `{"name":"x"}`, false},
		"a string is no number":    {`{"name":"x","n":"1"}`, `{"name":"x","n":1}`, false},
		"a member of another name": {`{"name":"x","a":1}`, `{"name":"x","b":1}`, false},
		// RFC 8785, 3.2.3: names are sorted by their UTF-16 code units, in which 😀
		// (d83d de00) stands before U+FB33, and not by code points.
		"the order of UTF-16": {`{"name":"x","\ufb33":1,"😀":2}`, `{"name":"x","😀":2,"\ufb33":1}`, true},
	} {
		a, b := DigestTool(json.RawMessage(c.a)), DigestTool(json.RawMessage(c.b))
		if (a == b) != c.same {
			t.Errorf("%s: %s and %s: one digest: %v", name, c.a, c.b, a == b)
		}
		if len(a) != 64 || len(b) != 64 {
			t.Errorf("%s: digests %s, %s", name, a, b)
		}
	}
}

// TestDigestsThatAreFixed: lock files hold digests, so that what is hashed must
// never change.
func TestDigestsThatAreFixed(t *testing.T) {
	for raw, canonical := range map[string]string{
		`{"name":"x"}`: `{"name":"x"}`,
		`{ "name":"\u0041\u000a\u001f\u007f\u2028\/\"\\", "b":[ true,null ], "a":{ "z":-0.0, "y":1E5 } }`: "{\"a\":{\"y\":1E5,\"z\":-0.0},\"b\":[true,null],\"name\":\"A\\n\\u001f\u007f\u2028/\\\"\\\\\"}",
		`{"name":"x","\ufb33":1,"😀":2,"é":9007199254740993}`:                                              "{\"name\":\"x\",\"é\":9007199254740993,\"😀\":2,\"\ufb33\":1}",
	} {
		if got := DigestTool(json.RawMessage(raw)); got != sha("tool\n"+canonical) {
			t.Errorf("%s: the digest is not of %s", raw, canonical)
		}
	}
	if got, want := DigestTool(json.RawMessage(`{"name":"x"}`)), "728609f63ea70723f4cefdbed45abdf882f1e4bce42e1ef607226524710a9830"; got != want {
		t.Errorf("the digest of the smallest definition is %s, want %s", got, want)
	}
}

// TestDigestsOfWhatIsNotIJSON: their bytes, and no byte else.
func TestDigestsOfWhatIsNotIJSON(t *testing.T) {
	seen := map[string]string{}
	for _, raw := range []string{
		`{"name":"x","a":1,"a":1}`,
		`{"name":"x", "a":1,"a":1}`,
		`{"name":"x","a":1,"\u0061":1}`,
		`{"name":"x","s":{"a":1,"a":2}}`,
		`{"name":"x","d":"\ud800"}`,
		`{"name":"x","d":"\uD800"}`,
		`{"name":"x","d":"\udc00\ud800"}`,
		`{"name":"x","\udead":1}`,
		"{\"name\":\"x\",\"d\":\"\xff\"}",
		`{"name":"x","d":"` + "\ufffd" + `\ud800"}`,
	} {
		d := DigestTool(json.RawMessage(raw))
		if want := "raw:" + sha("tool\n"+raw); d != want {
			t.Errorf("%s: %s, want %s", raw, d, want)
		}
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s have one digest", raw, other)
		}
		seen[d] = raw
	}
	// What stands for a lone surrogate in other readers is a text of its own.
	if d := DigestTool(json.RawMessage(`{"name":"x","d":"` + "\ufffd" + `"}`)); strings.HasPrefix(d, "raw:") {
		t.Errorf("U+FFFD is a character: %s", d)
	}
}

// TestDigestsHoldTheKind: a prompt of the same words is no tool.
func TestDigestsHoldTheKind(t *testing.T) {
	raw := json.RawMessage(`{"name":"x"}`)
	if Digest("tool", raw) != DigestTool(raw) || Digest("prompt", raw) == DigestTool(raw) {
		t.Error("the kind is no part of the digest")
	}
}
