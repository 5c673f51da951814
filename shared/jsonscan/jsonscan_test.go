package jsonscan

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func scanString(t *testing.T, text string, opts Options) (*Scanner, error) {
	t.Helper()
	s := New(opts)
	err := s.Feed([]byte(text))
	if err == nil {
		err = s.End()
	}
	return s, err
}

func TestSpansOfMembers(t *testing.T) {
	const text = ` {"id": 7 ,"params":{"n\u0061me":"x","_meta":{"k":[1, 2]},"arguments":{"name":1}},"z":null}`
	into := func(depth int, name string) bool { return name == "params" || name == "_meta" }
	s, err := scanString(t, text, Options{Into: into})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range s.Members() {
		got = append(got, fmt.Sprintf("%d %d %s %s %s %c", m.Parent, m.Depth, m.Name,
			text[m.NameAt.Start:m.NameAt.End], text[m.Value.Start:m.Value.End], m.Kind))
	}
	want := []string{
		`-1 1 id "id" 7 0`,
		`-1 1 params "params" {"n\u0061me":"x","_meta":{"k":[1, 2]},"arguments":{"name":1}} {`,
		`1 2 name "n\u0061me" "x" "`,
		`1 2 _meta "_meta" {"k":[1, 2]} {`,
		`3 3 k "k" [1, 2] [`,
		`1 2 arguments "arguments" {"name":1} {`,
		`-1 1 z "z" null n`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestKeepRecordsNoOthers(t *testing.T) {
	keep := func(depth int, name string) bool { return name == "id" }
	s, err := scanString(t, `{"a":1,"id":2,"b":{"id":3},"c":4}`, Options{Keep: keep, MaxMembers: 1})
	if err != nil || len(s.Members()) != 1 || s.Members()[0].Name != "id" {
		t.Errorf("%v, %+v", err, s.Members())
	}
}

func TestNestingIsBounded(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	if _, err := scanString(t, nested(999), Options{}); err != nil {
		t.Errorf("999 levels: %v", err)
	}
	for _, text := range []string{nested(1000), strings.Repeat("[", 10_000_000), strings.Repeat(`{"a":`, 5000)} {
		_, err := scanString(t, text, Options{})
		var limit *LimitError
		if !errors.As(err, &limit) {
			t.Errorf("%.10s…, %d bytes: %v", text, len(text), err)
		}
	}
	if _, err := scanString(t, `{"a":[[1]]}`, Options{MaxDepth: 3}); err == nil {
		t.Error("3 levels passed a bound of 3")
	}
}

func TestMembersAndNamesAreBounded(t *testing.T) {
	var many strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&many, `,"%d":1`, i)
	}
	long := strings.Repeat("n", 1025)
	limits := map[string]bool{ // text: is it over a limit
		`{"x":1` + many.String() + `}`:                          true,
		`{"a":{"x":1` + many.String() + `}}`:                    false, // not recorded
		`{"` + long + `":1}`:                                    true,
		`{"` + long[:1024] + `":1}`:                             false,
		`{"` + strings.Repeat(`\u006e`, 1024) + `":1}`:          false,
		`{"` + strings.Repeat(`\u006e`, 1025) + `":1}`:          true,
		`{"` + strings.Repeat("n", 1<<20):                       true, // before its end
		`{"a":{"` + long + `":1}}`:                              false,
		`{"a":"` + strings.Repeat(long, 100) + `","b":{"c":1}}`: false,
	}
	for text, want := range limits {
		s := New(Options{})
		var err error
		for rest := text; rest != "" && err == nil; rest = rest[min(len(rest), 1000):] {
			err = s.Feed([]byte(rest[:min(len(rest), 1000)]))
		}
		var limit *LimitError
		if errors.As(err, &limit) != want {
			t.Errorf("%.20s…, %d bytes: %v", text, len(text), err)
		}
	}
}

func TestErrorsNameTheOffset(t *testing.T) {
	for text, want := range map[string]int64{
		"{\"a\":\"b\nc\"}":  7,
		"{\"a\":\"b\rc\"}":  7,
		"{\n\n\"a\" 1}":     7,
		"{\"a\":\"\xc3(\"}": 7,
		`{"a":1} x`:         8,
		`{"a":1`:            6,
		`{"a":01}`:          6,
		``:                  0,
	} {
		for _, omit := range []bool{false, true} {
			_, err := scanString(t, text, Options{OmitBreaks: omit})
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset != want {
				t.Errorf("%q: %v, want offset %d", text, err, want)
			}
		}
	}
}

func TestAfterAnErrorNothingIsTaken(t *testing.T) {
	s := New(Options{})
	first := s.Feed([]byte(`{,`))
	if first == nil {
		t.Fatal("no error")
	}
	if again := s.Feed([]byte(`{}`)); !errors.Is(again, first) {
		t.Errorf("then %v", again)
	}
	if end := s.End(); !errors.Is(end, first) {
		t.Errorf("at the end %v", end)
	}
	s.Reset()
	if err := errors.Join(s.Feed([]byte(`{}`)), s.End()); err != nil {
		t.Errorf("after Reset: %v", err)
	}
}

func TestBreaks(t *testing.T) {
	for text, want := range map[string]bool{
		`{"a": [1,	2]}`:    false,
		"{\"a\":1}\n":      true,
		"\r{\"a\":1}":      true,
		`{"a":"\r\n"}`:     false,
		"{\"a\":[1,\n2] }": true,
	} {
		s, err := scanString(t, text, Options{})
		if err != nil || s.Breaks() != want {
			t.Errorf("%q: %v, %v", text, s.Breaks(), err)
		}
	}
}

func TestSurrogates(t *testing.T) {
	for text, want := range map[string][2]bool{ // valid if paired, valid if not
		`["\ud83d\ude00"]`:          {true, true},
		`["\ud83d"]`:                {false, true},
		`["\ude00"]`:                {false, true},
		`["\ud83d\u0041"]`:          {false, true},
		`["\ud83d\n"]`:              {false, true},
		`{"\ud83d\ude00":1}`:        {true, true},
		`{"\ud83d":1}`:              {false, false}, // recorded
		`{"a\ud83d\ud83d\ude00":1}`: {false, false},
		`{"a":{"\ud83d":1}}`:        {false, true},
		"[\"\xed\xa0\xbd\"]":        {false, false},
	} {
		for i, paired := range []bool{true, false} {
			if _, err := scanString(t, text, Options{PairedSurrogates: paired}); (err == nil) != want[i] {
				t.Errorf("%s, paired %v: %v", text, paired, err)
			}
		}
	}
	for quoted, want := range map[string]string{
		`"\ud83d\ude00"`: "😀", `"a\ud83d"`: "a\ufffd", `"\ud83d\ud83d\ude00"`: "\ufffd😀", `"\ude00\u0041"`: "\ufffdA",
		`"\b\f\n\r\t\/\\\""`: "\b\f\n\r\t/\\\"", `"`: "", ``: "", `"\`: "", `"\u1"`: "\x01",
	} {
		if got := string(AppendUnquoted(nil, []byte(quoted))); got != want {
			t.Errorf("%s stands for %q, not %q", quoted, want, got)
		}
	}
}

// TestCapture finds the small values that decide what a message is while a long
// one streams through.
func TestCapture(t *testing.T) {
	s := New(Options{
		Capture:    func(depth int, name string) bool { return depth == 1 && name != "params" },
		MaxCapture: 16,
		OmitBreaks: true,
	})
	head := []byte("{\"jsonrpc\":\"2.0\",\"big\":\"0123456789abcdef\",\"fits\":\"0123456789abcd\",\"o\":{\"a\":\r\n[1]},\"params\":{\"id\":3,\"x\":\"")
	for i := range head {
		if err := s.Feed(head[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	long := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	for range 1600 {
		if err := s.Feed(long); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Feed([]byte(`"},"id":12345`)), s.Feed([]byte(`67}`)), s.End()); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, m := range s.Members() {
		got[m.Name] = string(m.Captured)
	}
	want := map[string]string{"jsonrpc": `"2.0"`, "big": "", "fits": `"0123456789abcd"`, "o": `{"a":[1]}`, "params": "", "id": "1234567"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("captured %v, want %v", got, want)
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	s := New(Options{Into: func(_ int, name string) bool { return name == "params" }})
	text := []byte(small)
	allocs := testing.AllocsPerRun(100, func() {
		s.Reset()
		if s.Feed(text) != nil || s.End() != nil {
			t.Fatal("refused")
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations for a small message", allocs)
	}
}

const small = `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"browser_navigate","arguments":{"url":"https://example.com/a/b?c=d"},"_meta":{"progressToken":"8a7c3f"}}}`

func benchmark(b *testing.B, text []byte) {
	s := New(Options{Into: func(_ int, name string) bool { return name == "params" }})
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		s.Reset()
		if s.Feed(text) != nil || s.End() != nil {
			b.Fatal("refused")
		}
	}
}

func BenchmarkSmall(b *testing.B) { benchmark(b, []byte(small)) }

func BenchmarkString1MB(b *testing.B) {
	benchmark(b, []byte(`{"result":{"content":[{"type":"text","text":"`+strings.Repeat("plain text, as most of it is; ", 35000)+`"}]}}`))
}

func BenchmarkLines1MB(b *testing.B) {
	benchmark(b, []byte(`{"result":{"content":[{"type":"text","text":"`+strings.Repeat(`- link \"a\" [ref=e12]\n`, 45000)+`"}]}}`))
}

func BenchmarkHan1MB(b *testing.B) {
	benchmark(b, []byte(`{"result":{"content":[{"type":"text","text":"`+strings.Repeat("漢字仮名交じり文、", 40000)+`"}]}}`))
}

func BenchmarkTree1MB(b *testing.B) {
	benchmark(b, []byte(`{"result":{"a":[`+strings.Repeat(`{"id":12345,"name":"x","tags":["a","b"],"ok":true},`, 20000)+`0]}}`))
}
