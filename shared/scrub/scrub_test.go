package scrub

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestFormsAreFoundWhereTheyStand in a log.
func TestFormsAreFoundWhereTheyStand(t *testing.T) {
	for _, secret := range []string{
		`s3cr"et/<va lue>+1"`, "plain-s3cret", "ünïcödé-\U0001F511-key", "tab\tand\\slash", "0123456789",
		"two lines,\nboth long enough", "~.-_!'()*", "a+b/c==d",
	} {
		quoted, _ := json.Marshal(secret)
		nested, _ := json.Marshal(string(quoted))
		for name, form := range map[string]string{
			"plain": secret, "JSON": string(quoted[1 : len(quoted)-1]), "JSON in JSON": string(nested), "Go": strconv.Quote(secret),
			"query": "?token=" + url.QueryEscape(secret) + "&x=1", "path": url.PathEscape(secret),
			"lower case": strings.ToLower(url.PathEscape(strings.ToLower(secret))),
		} {
			if name == "lower case" {
				if got := New(Forms(strings.ToLower(secret))).Text(form); got != Mark {
					t.Errorf("%q %s: %q became %q", secret, name, form, got)
				}
				continue
			}
			got := New(Forms(secret)).Text("<" + form + ">")
			if strings.Contains(got, form) || !strings.Contains(got, Mark) {
				t.Errorf("%q %s: %q became %q", secret, name, form, got)
			}
		}
	}
}

// TestBase64AtEveryPlace: of a secret within a longer text in base64 no more is left
// than the characters at its edges, which hold a few bits of it.
func TestBase64AtEveryPlace(t *testing.T) {
	const secret = "s3cr\xffet-\xfe\xfdvalue"
	set := New(Forms(secret))
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		for _, before := range []string{"", "u", "u:", "us:", "user:"} {
			for _, after := range []string{"", "x", "xy", "xyz"} {
				whole := enc.EncodeToString([]byte(before + secret + after))
				got := set.Text(whole)
				left := len(strings.Replace(got, Mark, "", 1))
				if most := len(enc.EncodeToString([]byte(before+after))) + 4; left > most || !strings.Contains(got, Mark) {
					t.Errorf("%q: %q became %q", before+"…"+after, whole, got)
				}
			}
		}
	}
}

func TestAKeyIsKnownByItsParts(t *testing.T) {
	pem := "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA7\r\nend\n"
	if got := New(Forms(pem)).Text("bad key: MIIEpAIBAAKCAQEA7 in the end"); got != "bad key: "+Mark+" in the end" {
		t.Errorf("one line of a secret became %q", got)
	}
	account := `{"type":"x","id":"12345678-abc","nested":[{"key":"-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA7\n"}]}`
	if got := New(Plain(account)).Text("id 12345678-abc, key MIIEpAIBAAKCAQEA7, x"); got != "id "+Mark+", key "+Mark+", x" {
		t.Errorf("the parts of a key file became %q", got)
	}
}

func TestWhatOverlapsGoesAsOne(t *testing.T) {
	for _, c := range []struct {
		patterns   []string
		text, want string
	}{
		{[]string{"abcd", "cdef"}, "xabcdefx", "x" + Mark + "x"},
		{[]string{"secret", "secret-longer"}, "secret-longer secret", Mark + " " + Mark},
		{[]string{"bcde", "abcdef"}, "abcdef abcde", Mark + " a" + Mark},
		{[]string{"aaaa"}, "aaaaaaa", Mark},
		{[]string{"abcd"}, "abcdabcd", Mark + Mark},
		{[]string{"abc"}, "abc", "abc"},
	} {
		if got := New(c.patterns).Text(c.text); got != c.want {
			t.Errorf("%q of %q: %q, want %q", c.patterns, c.text, got, c.want)
		}
	}
	var none *Set
	if got := none.Text("abcd") + none.Head("abcd") + none.Tail("abcd"); got != "abcdabcdabcd" {
		t.Errorf("no set changed the text to %q", got)
	}
}

func TestCutTexts(t *testing.T) {
	s := New([]string{"secret-one", "one-more"})
	for text, want := range map[string]string{
		"a secret-o": "a ", "secret-one": Mark, "a secret-one-mo": "a " + Mark, "a one": "a ", "a on": "a ", "plain": "plain", "a secret-one b": "a " + Mark + " b",
	} {
		if got := s.Head(text); got != want {
			t.Errorf("Head(%q) = %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"t-one b": " b", "secret-one b": " b", "ore": "", "more b": " b", "plain": "plain", "x secret-one b": "x " + Mark + " b",
	} {
		if got := s.Tail(text); got != want {
			t.Errorf("Tail(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestAgainstASearchByHand: what remains is what lies in no occurrence of any pattern.
func TestAgainstASearchByHand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		patterns := rapid.SliceOfN(rapid.StringMatching(`[ab]{4,7}`), 1, 5).Draw(t, "patterns")
		text := rapid.StringMatching(`[abc]{0,40}`).Draw(t, "text")
		hidden := make([]bool, len(text))
		for _, p := range patterns {
			for i := 0; i+len(p) <= len(text); i++ {
				if text[i:i+len(p)] == p {
					for j := range len(p) {
						hidden[i+j] = true
					}
				}
			}
		}
		var want strings.Builder
		for i := range len(text) {
			if !hidden[i] {
				want.WriteByte(text[i])
			}
		}
		if got := strings.ReplaceAll(New(patterns).Text(text), Mark, ""); got != want.String() {
			t.Fatalf("%q without %q: %q, want %q", text, patterns, got, want.String())
		}
	})
}

// TestManySecretsCostWhatOneDoes, and not each a search of its own.
func TestManySecretsCostWhatOneDoes(t *testing.T) {
	var patterns []string
	for i := range 1000 {
		patterns = append(patterns, Forms(fmt.Sprintf("secret-number-%d-of-many", i))...)
	}
	s := New(patterns)
	text := strings.Repeat("secret-number-x ", 1<<12)
	steps := 0
	at := State(0)
	for i := range len(text) {
		for next := at; ; steps++ { // as Next does it
			if s.childOf(next, text[i]) != 0 || next == 0 {
				break
			}
			next = s.nodes[next].fail
		}
		at = s.Next(at, text[i])
	}
	if steps > 2*len(text) {
		t.Errorf("%d steps back for a text of %d bytes", steps, len(text))
	}
	if got := s.Text(text); got != text {
		t.Error("a text without secrets was changed")
	}
}

// TestWriterInPieces gives what Text gives, however the text comes.
func TestWriterInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := New(rapid.SliceOfN(rapid.StringMatching(`[ab]{4,7}`), 1, 5).Draw(t, "patterns"))
		text := rapid.StringMatching(`[abc]{0,60}`).Draw(t, "text")
		var got strings.Builder
		w := NewWriter(set, &got)
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if want := set.Text(text); got.String() != want || w.Found() != (want != text) {
			t.Fatalf("%q became %q, want %q; found %v", text, got.String(), want, w.Found())
		}
	})
	var got strings.Builder
	if _, err := NewWriter(nil, &got).Write([]byte("abcd")); err != nil || got.String() != "abcd" {
		t.Errorf("without a set: %q, %v", got.String(), err)
	}
}
