package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/shared/jsonscan"
)

// both returns a server's message in memory, and the same one from a file.
func bothBodies(t testing.TB, text string) []*Message {
	t.Helper()
	m, err := Parse(FromServer, []byte(text))
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	file, err := unlinked(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
	spooled := *m
	spooled.body = body{file: file, size: int64(len(text))}
	return []*Message{m, &spooled}
}

func TestElementsAndMembers(t *testing.T) {
	for _, m := range bothBodies(t, `{"jsonrpc":"2.0","id":1,"result":{"content":[ {"type":"te\"xt,]","text":"a]b\\"} ,[1,[2]], "x" ,-1.5e3,null,true,{}],"e":[],"_meta":{}}}`) {
		at, ok := m.Find("result", "content")
		if !ok {
			t.Fatal("no content")
		}
		parts, err := m.Elements(at, 7)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range parts {
			text, err := m.Section(p.At).Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(p.Kind)+" "+string(text))
		}
		want := []string{`{ {"type":"te\"xt,]","text":"a]b\\"}`, `[ [1,[2]]`, `" "x"`, "\x00 -1.5e3", `n null`, `t true`, `{ {}`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("elements (-want +got):\n%s", diff)
		}
		if _, err := m.Elements(at, 6); !errors.Is(err, ErrTooManyParts) {
			t.Errorf("over the bound: %v", err)
		}
		if empty, _ := m.Find("result", "e"); empty.Len() > 0 {
			if parts, err := m.Elements(empty, 1); err != nil || len(parts) != 0 {
				t.Errorf("of an empty array: %v, %v", parts, err)
			}
		}
		fields, err := m.Members(parts[0].At)
		if err != nil || len(fields) != 2 || fields[0].Name != "type" || fields[1].Name != "text" || fields[1].Kind != '"' {
			t.Fatalf("members: %+v, %v", fields, err)
		}
		if text, err := io.ReadAll(m.Text(fields[1].At)); err != nil || string(text) != `a]b\` {
			t.Errorf("text: %q, %v", text, err)
		}
		out, err := m.Replace([]Replacement{{fields[0].At, []byte(`"text"`)}, {parts[1].At, []byte("{\n}")}}).Append(nil)
		if want := `{"jsonrpc":"2.0","id":1,"result":{"content":[ {"type":"text","text":"a]b\\"} ,{}, "x" ,-1.5e3,null,true,{}],"e":[],"_meta":{}}}`; err != nil || string(out) != want {
			t.Errorf("replaced: %s, %v", out, err)
		}
	}
}

// FuzzElements holds Elements against encoding/json.
func FuzzElements(f *testing.F) {
	for _, s := range []string{`[]`, `[1]`, ` [ "a,\"]" , {"x":[1,2,{"y":"]"}]} , [[],[]] ,-0.1, true ] `, `["\\"]`, `["\\\"",""]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var want []json.RawMessage
		if json.Unmarshal(text, &want) != nil || bytes.TrimSpace(text)[0] != '[' {
			t.Skip()
		}
		e := elements{most: 1 << 20}
		for i := range text { // in the smallest pieces
			if err := e.feed(text[i : i+1]); err != nil {
				t.Fatal(err)
			}
		}
		whole := elements{most: 1 << 20}
		if err := whole.feed(text); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(whole.parts, e.parts); diff != "" {
			t.Fatalf("pieces make a difference:\n%s", diff)
		}
		if len(e.parts) != len(want) {
			t.Fatalf("%d elements, want %d", len(e.parts), len(want))
		}
		for i, p := range e.parts {
			if got := text[p.At.Start:p.At.End]; !bytes.Equal(got, want[i]) {
				t.Errorf("element %d is %q, want %q", i, got, want[i])
			}
		}
	})
}

// FuzzText holds reading a string in pieces against reading it whole.
func FuzzText(f *testing.F) {
	for _, s := range []string{``, `plain`, `\n\"\\\/`, `\u00e9\ud83d\ude00`, `\ud83d`, `\ude00\ud83d\ud83d\ude00`, `\ud83d\n`, strings.Repeat(`x`, unescapeBlock-3) + `\ud83d\ude00`,
		strings.Repeat(`\ud83d\ude00`, unescapeBlock/6), "x" + strings.Repeat(`\\`, unescapeBlock), strings.Repeat("é", unescapeBlock)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, inner string) {
		quoted := []byte(`"` + inner + `"`)
		s := jsonscan.New(jsonscan.Options{})
		if s.Feed(quoted) != nil || s.End() != nil {
			t.Skip()
		}
		want := jsonscan.AppendUnquoted(nil, quoted)
		for name, from := range map[string]io.Reader{"whole": strings.NewReader(inner), "bytes": iotest.OneByteReader(strings.NewReader(inner))} {
			got, err := io.ReadAll(&unescaper{from: from})
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: %d bytes, %v; want %d", name, len(got), err, len(want))
			}
		}
	})
}

func TestTextOfAFileThatCannotBeRead(t *testing.T) {
	m := bothBodies(t, `{"jsonrpc":"2.0","id":1,"result":{"content":["x"]}}`)[1]
	at, _ := m.Find("result", "content")
	m.body.file.Close()
	if _, err := m.Elements(at, 9); err == nil {
		t.Error("Elements of a closed file")
	}
	if _, err := m.Members(at); err == nil {
		t.Error("Members of a closed file")
	}
	if _, err := io.ReadAll(m.Text(at)); err == nil {
		t.Error("Text of a closed file")
	}
}
