package redact

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/shared/scrub"
)

// FuzzJSON: whatever a server sends, in whatever pieces, what is valid stays valid
// and holds no secret, and what holds none passes as it is.
func FuzzJSON(f *testing.F) {
	const secret = "s3cr\"\u00e9t\U0001F511-1234"
	set := scrub.New([]string{secret, "1234", "aaaa"})
	for _, seed := range []string{
		`{"a":"s3cr\"ét🔑-1234","1234":12345,"b":[aaaa]}`, `["s3cr\u0022\u00e9t\ud83d\udd11-1234"]`, `"\ud83d\ud83d"`, `"\u12`, `"\`, `-1234e5`, `"aaaaaaa"`,
	} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		cut = min(max(cut, 0), len(text))
		var out bytes.Buffer
		j := NewJSON(set, &out)
		for _, piece := range [][]byte{text[:cut], text[cut:]} {
			if _, err := j.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if !j.Found() && !bytes.Equal(out.Bytes(), text) {
			t.Fatalf("%q became %q", text, out.Bytes())
		}
		look := NewJSON(set, nil)
		_, _ = look.Write(text)
		if _ = look.Close(); look.Found() != j.Found() {
			t.Fatalf("%q: found when looking: %v, when writing: %v", text, look.Found(), j.Found())
		}
		if !json.Valid(text) {
			return
		}
		if !json.Valid(out.Bytes()) {
			t.Fatalf("%q became %q", text, out.Bytes())
		}
		dec := json.NewDecoder(&out)
		dec.UseNumber()
		for {
			token, err := dec.Token()
			if err != nil {
				return
			}
			var s string
			switch token := token.(type) {
			case string:
				s = token
			case json.Number:
				s = token.String()
			}
			if strings.Contains(s, secret) || strings.Contains(s, "1234") || strings.Contains(s, "aaaa") {
				t.Fatalf("%q still holds %q", text, s)
			}
		}
	})
}
