package jsonscan

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

var seeds = []string{
	``, ` `, `{}`, `[]`, `""`, `0`, `-0`, `-`, `01`, `1.`, `1.5e+10`, `1e`, `-1E-2`, `1.5.1`, `+1`, `.5`, `1e400`,
	`true`, `false`, `null`, `tru`, `nulll`, `True`, `{"a":1}`, `{"a":1,}`, `{"a" 1}`, `{a:1}`, `{"a":1 "b":2}`,
	`[1,2,3]`, `[1,]`, `[,1]`, `[1 2]`, `[1}`, `{"a":[}`, `{"a":1]`, `{}{}`, `1 2`, `"a" "b"`, "\ufeff{}",
	`"\u0041\n\"\\\/\b\f\r\t"`, `"\x"`, `"\u12g4"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00"`, `"\ud83d\ud83d"`, `"\ud83dx"`, `"\ud83d\n"`,
	"\"\x01\"", "\"a\nb\"", "\"a\rb\"", "\"\x7f\"", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"",
	"\"\xe2\x82\"", "\"\xe2\x82\xac\"", "\"\xf0\x9f\x98\x80\"", "\"\xe0\x9f\xbf\"", "\"\xf0\x8f\xbf\xbf\"", "\"é漢字😀 and a long ascii tail of text\"",
	"{\"a\":\r\n1,\n\"b\":[\n{\"c\":null}\n]}", `{"n\u0061me":"x","a":{"b":{"c":1}},"a":[{"a":2}],"é":{"b":"😀"}}`,
	`{"a":"0123456789012345678901234567890123456789\u00e9 0123456789"}`,
}

// testOptions record enough to see a difference: two levels, small values captured.
func testOptions() Options {
	return Options{
		Into:     func(depth int, name string) bool { return depth < 3 && name < "n" },
		Capture:  func(depth int, name string) bool { return name != "b" },
		MaxDepth: 10001, MaxMembers: 1 << 20, MaxName: 1 << 20, MaxCapture: 1 << 20,
	}
}

func scanWhole(text []byte, opts Options) ([]Member, *Scanner, error) {
	s := New(opts)
	err := s.Feed(text)
	if err == nil {
		err = s.End()
	}
	return s.Members(), s, err
}

// valid is what the scanner must say, by jsontext.
func valid(text []byte, paired bool) bool {
	opts := []jsontext.Options{jsontext.AllowDuplicateNames(true)}
	if !paired {
		// jsontext has one option for both, bytes and escapes.
		if !utf8.Valid(text) {
			return false
		}
		opts = append(opts, jsontext.AllowInvalidUTF8(true))
	}
	return jsontext.Value(text).IsValid(opts...)
}

// FuzzScan holds the scanner against jsontext, and any way of cutting the text
// into pieces against feeding it whole.
func FuzzScan(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), uint64(len(s)))
	}
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		opts := testOptions()
		opts.PairedSurrogates = seed%2 == 0
		members, whole, err := scanWhole(text, opts)
		if want := valid(text, opts.PairedSurrogates); (err == nil) != want && !(want && unpairedName(err)) {
			t.Fatalf("%q: scanner says %v, jsontext says valid=%v", text, err, want)
		}

		r := rand.New(rand.NewPCG(seed, 1))
		s := New(opts)
		var cutErr error
		for rest := text; len(rest) > 0 && cutErr == nil; {
			n := min(len(rest), 1+r.IntN(1+r.IntN(24)))
			piece := bytes.Clone(rest[:n])
			cutErr = s.Feed(piece)
			clear(piece) // the scanner must not look at it again
			rest = rest[n:]
		}
		if cutErr == nil {
			cutErr = s.End()
		}
		if !reflect.DeepEqual(err, cutErr) {
			t.Fatalf("%q: whole %v, in pieces %v", text, err, cutErr)
		}
		if s.Root() != whole.Root() || s.Breaks() != whole.Breaks() {
			t.Fatalf("%q: root or breaks differ", text)
		}
		if err == nil {
			checkMembers(t, text, members)
			if len(members)+len(s.Members()) > 0 && !reflect.DeepEqual(members, s.Members()) {
				t.Fatalf("%q:\nwhole     %+v\nin pieces %+v", text, members, s.Members())
			}
			checkOmitted(t, text, members, opts)
		}
	})
}

func unpairedName(err error) bool {
	var syntax *SyntaxError
	return errors.As(err, &syntax) && syntax.Problem == problemName
}

// checkMembers holds the spans against the text.
func checkMembers(t *testing.T, text []byte, members []Member) {
	t.Helper()
	for _, m := range members {
		name, value := text[m.NameAt.Start:m.NameAt.End], text[m.Value.Start:m.Value.End]
		unquoted, err := jsontext.AppendUnquote(nil, name)
		if err != nil || string(unquoted) != m.Name {
			t.Fatalf("%q: name %q is recorded as %q (%v)", text, name, m.Name, err)
		}
		if got := jsontext.Value(value).Kind(); byte(got) != m.Kind {
			t.Fatalf("%q: value %q has kind %q, recorded %q", text, value, got, m.Kind)
		}
		if m.Captured != nil && !bytes.Equal(m.Captured, value) {
			t.Fatalf("%q: value %q was captured as %q", text, value, m.Captured)
		}
	}
}

// checkOmitted holds OmitBreaks against scanning the text without its breaks.
func checkOmitted(t *testing.T, text []byte, members []Member, opts Options) {
	t.Helper()
	plain := opts
	opts.OmitBreaks = true
	omitted, _, err := scanWhole(text, opts)
	if err != nil {
		t.Fatalf("%q: with OmitBreaks: %v", text, err)
	}
	clean := bytes.NewBuffer(nil)
	for _, c := range text {
		if c != '\r' && c != '\n' {
			clean.WriteByte(c)
		}
	}
	want, _, err := scanWhole(clean.Bytes(), plain)
	if err != nil {
		t.Fatalf("%q without breaks: %v", text, err)
	}
	if len(members) > 0 && !reflect.DeepEqual(omitted, want) {
		t.Fatalf("%q:\nomitting %+v\nwithout  %+v", text, omitted, want)
	}
}
