package scrub

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// minPart is the length from which a part of a value, such as a line of a key,
// counts by itself: below it, it may be a common word.
const minPart = 8

// Forms are the texts by which a value is known in a log: each of Plain, and the
// value URL-encoded and in base64, at whatever place of a longer text it stands.
func Forms(value string) []string {
	forms := append(Plain(value), percentEncoded(value)...)
	forms = append(forms, inBase64(value)...)
	slices.Sort(forms)
	return slices.Compact(forms)
}

// Plain are the texts by which a value is known where it was not encoded: as it
// is and JSON-escaped; of one with several lines, such as a private key, each line
// too, for logs are read by the line; of one that is JSON, such as an account's
// key file, each text in it, for whoever reads it will name them one by one.
func Plain(value string) []string {
	var forms []string
	for _, part := range append([]string{value}, parts(value)...) {
		forms = append(forms, part)
		forms = append(forms, escaped(part)...)
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// parts are what of a value counts by itself.
func parts(value string) []string {
	var out []string
	keep := func(s string) {
		for line := range strings.Lines(s) {
			if line = strings.TrimSpace(line); line != value && len(line) >= minPart {
				out = append(out, line)
			}
		}
	}
	keep(value)
	if text := strings.TrimSpace(value); strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		var v any
		if json.Unmarshal([]byte(text), &v) == nil {
			eachText(v, func(s string) {
				if len(s) >= minPart {
					out = append(out, s)
				}
				keep(s)
			})
		}
	}
	return out
}

func eachText(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, one := range v {
			eachText(one, f)
		}
	case map[string]any:
		for _, one := range v {
			eachText(one, f)
		}
	}
}

// escaped is the value as it stands inside a quoted string: as the encoders of Go
// (with and without the escapes for HTML), JavaScript, Python and PHP write JSON,
// as Go quotes, and as JSON inside of JSON.
func escaped(value string) []string {
	bare, html := jsonString(value, false), jsonString(value, true)
	ascii := asciiOnly(value)
	quoted := strconv.Quote(value)
	return []string{
		bare, html, ascii, strings.ReplaceAll(ascii, "/", `\/`), strings.ReplaceAll(bare, "/", `\/`),
		quoted[1 : len(quoted)-1],
		jsonString(bare, false), jsonString(html, false), jsonString(ascii, false),
	}
}

// jsonString is a JSON string without its quotes.
func jsonString(value string, html bool) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	if err := enc.Encode(value); err != nil {
		return value // a string always encodes
	}
	quoted := strings.TrimSuffix(b.String(), "\n")
	return quoted[1 : len(quoted)-1]
}

// asciiOnly is jsonString with an escape for everything beyond ASCII.
func asciiOnly(value string) string {
	text := jsonString(value, false)
	if strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// unreserved are the characters that RFC 3986 never escapes, spared those that
// JavaScript's encodeURIComponent leaves as they are besides.
const (
	unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	spared     = unreserved + "!'()*"
)

// percentEncoded is the value in a URL, with either case of the digits.
func percentEncoded(value string) []string {
	var out []string
	for _, form := range []string{url.QueryEscape(value), url.PathEscape(value), percent(value, unreserved), percent(value, spared)} {
		out = append(out, form, lowerDigits(form))
	}
	return out
}

func percent(value, keep string) string {
	var b strings.Builder
	for i := range len(value) {
		if strings.IndexByte(keep, value[i]) >= 0 {
			b.WriteByte(value[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", value[i])
		}
	}
	return b.String()
}

// lowerDigits writes the digits of percent-encoded bytes in lower case.
func lowerDigits(form string) string {
	b := []byte(form)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(string(b[i+1:i+3])))
			i += 2
		}
	}
	return string(b)
}

// inBase64 is the value in base64: alone, and as it stands in the encoding of a
// longer text (a password in that of "user:password"), where it may begin at each
// of three places and its first and last characters depend on what is around it.
func inBase64(value string) []string {
	var out []string
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		padded := enc.EncodeToString([]byte(value))
		out = append(out, padded, strings.TrimRight(padded, "="))
		for before := range 3 {
			text := enc.EncodeToString([]byte(strings.Repeat("\x00", before) + value))
			start, end := (8*before+5)/6, 8*(before+len(value))/6
			out = append(out, text[start:end])
		}
	}
	return out
}
