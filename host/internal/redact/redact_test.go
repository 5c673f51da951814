package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/drawbridge-mcp/drawbridge/shared/scrub"
)

func TestTextRemovesEveryForm(t *testing.T) {
	const secret = `s3cr"et/<va lue>+1"`
	var r Redactor
	r.Add("", secret, secret+"-longer")
	for _, form := range []string{
		secret, `s3cr\"et/<va lue>+1\"`, `s3cr\"et/\u003cva lue\u003e+1\"`, url.QueryEscape(secret), url.PathEscape(secret),
		base64.StdEncoding.EncodeToString([]byte(secret)), secret + "-longer",
	} {
		got := r.Text("<" + form + ">")
		if got != "<"+Mark+">" {
			t.Errorf("Text(%q) = %q", form, got)
		}
	}
}

func TestTextWithoutSecretsIsUnchanged(t *testing.T) {
	var r Redactor
	if got := r.Text("plain"); got != "plain" {
		t.Errorf("an empty redactor changed the text to %q", got)
	}
	r.Add("", "abc")
	r.AddSecret("", "abc")
	if got := r.Text("plain abc"); got != "plain abc" || r.Results() != nil {
		t.Errorf("values too short to tell changed the text to %q", got)
	}
}

// TestEachKindOfTextHasItsMeasure: results keep what is no secret(), and what was
// encoded.
func TestEachKindOfTextHasItsMeasure(t *testing.T) {
	var r Redactor
	r.Add("from-the-environment")
	r.AddSecret("from-the-store")
	coded := base64.StdEncoding.EncodeToString([]byte("from-the-store"))
	text := `"from-the-environment from-the-store ` + coded + `"`
	if got, want := r.Text(text), `"`+Mark+" "+Mark+" "+Mark+`"`; got != want {
		t.Errorf("sink: %s", got)
	}
	if got, want := string(r.Definition([]byte(text))), `"from-the-environment `+Mark+" "+Mark+`"`; got != want {
		t.Errorf("list: %s", got)
	}
	if got, want := string(scrubJSON(r.Results(), []byte(text))), `"from-the-environment `+Mark+" "+coded+`"`; got != want {
		t.Errorf("result: %s", got)
	}
}

func TestCredentialsInHeadersAndURLs(t *testing.T) {
	for text, want := range map[string]string{
		"Authorization: Bearer abc.def":                     "Authorization: Bearer " + Mark,
		"authorization: basic dTpwYXNz\r\nHost: x":          "authorization: basic " + Mark + "\r\nHost: x",
		`{"Authorization":"Bearer abcdef","x":1}`:           `{"Authorization":"Bearer ` + Mark + `","x":1}`,
		`{\"authorization\":\"Bearer abcdef\"}`:             `{\"authorization\":\"Bearer ` + Mark + `\"}`,
		"map[Authorization:[Bearer abc] Accept:[x]]":        "map[Authorization:[Bearer " + Mark + "] Accept:[x]]",
		"authorization=abc123 status=401":                   "authorization=" + Mark + " status=401",
		`Proxy-Authorization: Digest username="u", nonce=1`: "Proxy-Authorization: " + Mark,
		"X-Api-Key: abc":                                    "X-Api-Key: " + Mark,
		"Cookie: session=1":                                 "Cookie: " + Mark,
		"sent bearer eyJ0eXAi.x1 to it":                     "sent bearer " + Mark + " to it",
		"a bearer token is needed":                          "a bearer token is needed",
		"http://u:s3cr3tU@127.0.0.1:1/":                     "http://u:" + Mark + "@127.0.0.1:1/",
		"postgres://u:p@ss@host/db":                         "postgres://u:" + Mark + "@host/db",
		`http:\/\/u:pw@h`:                                   `http:\/\/u:` + Mark + `@h`,
		"https://ghp_token@github.com/x":                    "https://" + Mark + "@github.com/x",
		"ssh://git@github.com/x":                            "ssh://git@github.com/x",
		"GET /x?access_token=abc&page=2":                    "GET /x?access_token=" + Mark + "&page=2",
		"GET /x?page=2&api_key=abc#top":                     "GET /x?page=2&api_key=" + Mark + "#top",
		"http://127.0.0.1:7420/mcp?x=1":                     "http://127.0.0.1:7420/mcp?x=1",
		"see https://example.com/a:b@c":                     "see https://example.com/a:b@c",
		"time=12:30 mail=a@b.example":                       "time=12:30 mail=a@b.example",
	} {
		var r Redactor
		got := r.Text(text)
		if got != want {
			t.Errorf("Text(%q) = %q, want %q", text, got, want)
		}
		if again := r.Text(got); again != got {
			t.Errorf("looked at twice, %q became %q", got, again)
		}
	}
}

func TestJSONStaysJSON(t *testing.T) {
	set := scrub.New(scrub.Plain("s3cret\"é\U0001F511"))
	digits := scrub.New(scrub.Plain("12345"))
	for _, c := range []struct {
		set        *scrub.Set
		text, want string
	}{
		{set, `{"a":"x s3cret\"é🔑 y"}`, `{"a":"x [redacted] y"}`},
		{set, `["\u0073\u0033cret\"\u00e9\ud83d\udd11"]`, `["[redacted]"]`},
		{set, `["s3cret\"\u00E9\uD83D\uDD11\n"]`, `["[redacted]\n"]`},
		{set, `{"s3cret\"é🔑":1}`, `{"[redacted]":1}`},
		{set, `["{\"k\":\"s3cret\\\"é🔑\"}"]`, `["{\"k\":\"[redacted]\"}"]`},
		{set, `["s3cret\"é\ud83d","🔑"]`, `["s3cret\"é\ud83d","🔑"]`},
		{set, `["\ud83d\ud83d\udd11 s3cret\"é\ud83d\udd11"]`, `["\ud83d\ud83d\udd11 [redacted]"]`},
		{set, `["\ud83dx","\ud83d\n","\udd11"]`, `["\ud83dx","\ud83d\n","\udd11"]`},
		{set, `["s3cre","t\"é🔑"]`, `["s3cre","t\"é🔑"]`},
		{digits, `{"n": 12345, "m":-12345.5e1 ,"o":[1234,5]}`, `{"n": "[redacted]", "m":"[redacted]" ,"o":[1234,5]}`},
		{digits, `["a12345b",true,null,12345]`, `["a[redacted]b",true,null,"[redacted]"]`},
		{digits, `12345`, `"[redacted]"`},
	} {
		for size := 1; size <= len(c.text); size++ {
			var out bytes.Buffer
			j := NewJSON(c.set, &out)
			for i := 0; i < len(c.text); i += size {
				if _, err := j.Write([]byte(c.text[i:min(i+size, len(c.text))])); err != nil {
					t.Fatal(err)
				}
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.want || j.Found() != (c.text != c.want) {
				t.Errorf("in pieces of %d: %s\nbecame %s (found: %v)\nwant   %s", size, c.text, out.String(), j.Found(), c.want)
				break
			}
		}
	}
}

// TestJSONPassesWhatHoldsNothing byte for byte, and what is no JSON too.
func TestJSONPassesWhatHoldsNothing(t *testing.T) {
	set := scrub.New([]string{"aabb", "bbaa\\", "\"\n\u00e9"})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ab"\\u0dn8é,0-9{}]{0,60}`).Draw(t, "text")
		cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
		var out bytes.Buffer
		j := NewJSON(set, &out)
		_, _ = j.Write([]byte(text[:cut]))
		_, _ = j.Write([]byte(text[cut:]))
		_ = j.Close()
		if !j.Found() && out.String() != text {
			t.Fatalf("%q became %q", text, out.String())
		}
	})
}

// TestJSONAgainstDecoding: whatever the escapes, what a reader decodes holds none
// of the secrets, and is else what it was.
func TestJSONAgainstDecoding(t *testing.T) {
	secrets := []string{"abab", "ba\"ba", "aéa\U0001F511"}
	set := scrub.New(secrets)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab\"é\U0001F511")), 0, 30, -1).Draw(t, "text")
		var quoted strings.Builder
		quoted.WriteByte('"')
		for _, r := range text {
			one, _ := json.Marshal(string(r))
			if rapid.Bool().Draw(t, "escaped") {
				one = []byte(`"` + escapeAll(r) + `"`)
			}
			quoted.Write(one[1 : len(one)-1])
		}
		quoted.WriteByte('"')
		got := scrubJSON(set, []byte(quoted.String()))
		var decoded string
		if err := json.Unmarshal(got, &decoded); err != nil {
			t.Fatalf("%s became %s: %v", quoted.String(), got, err)
		}
		if want := set.Text(text); decoded != want {
			t.Fatalf("%s became %s, which reads %q, want %q", quoted.String(), got, decoded, want)
		}
	})
}

func escapeAll(r rune) string {
	units := []rune{r}
	if r > 0xFFFF {
		r -= 0x10000
		units = []rune{0xD800 + r>>10, 0xDC00 + r&0x3FF}
	}
	var b strings.Builder
	for _, u := range units {
		b.WriteString(`\u`)
		for shift := 12; shift >= 0; shift -= 4 {
			b.WriteByte("0123456789aBcDeF"[u>>shift&15])
		}
	}
	return b.String()
}

func TestDefinitionWithoutSecretIsTheSame(t *testing.T) {
	var r Redactor
	raw := []byte(`{"name":"x"}`)
	if got := r.Definition(raw); &got[0] != &raw[0] {
		t.Error("a redactor that knows nothing made a copy")
	}
	r.AddSecret("s3cret")
	if got := r.Definition(raw); &got[0] != &raw[0] {
		t.Error("a definition that holds nothing was copied")
	}
}

func TestHeadOfACutText(t *testing.T) {
	var r Redactor
	r.Add("secret-one")
	if got := r.Head("the token is secret-o"); got != "the token is " {
		t.Errorf("%q", got)
	}
}
