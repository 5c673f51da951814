package rpc

import (
	"encoding/json"
	"strings"
	"testing"
)

const benchCall = `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"browser_navigate","arguments":{"url":"https://example.com/some/path?query=1"},"_meta":{"progressToken":"8a7c3f00-1d2e-4f"}}}`

// benchResult is a page as a browser's server describes it: 1 MB, mostly one string.
var benchResult = `{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":"` +
	strings.Repeat(`- link \"Sign in\" [ref=e12]: some words of a page, and some more of it\n`, 13500) + `"}]}}`

func benchParse(b *testing.B, origin Origin, text string) {
	in := []byte(text)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(origin, in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseSmall(b *testing.B) { benchParse(b, FromClient, benchCall) }

func BenchmarkParse1MB(b *testing.B) { benchParse(b, FromServer, benchResult) }

func BenchmarkAssemble1MB(b *testing.B) {
	in := []byte(benchResult)
	a := NewAssembler(FromServer, b.TempDir(), 0)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		for rest := in; len(rest) > 0; {
			n := min(len(rest), blockSize)
			if _, err := a.Write(rest[:n]); err != nil {
				b.Fatal(err)
			}
			rest = rest[n:]
		}
		if _, err := a.Finish(); err != nil {
			b.Fatal(err)
		}
	}
}

func benchEdit(b *testing.B, origin Origin, text string, path ...string) {
	m, err := Parse(origin, []byte(text))
	if err != nil {
		b.Fatal(err)
	}
	value := json.RawMessage(`"x"`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		p := m.Edit().SetID("123").Set(value, path...).RemovePrefix("drawbridge/", path[0], "_meta").Payload()
		if err := p.Chunks(blockSize, func([]byte, bool) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEditSmall(b *testing.B) {
	benchEdit(b, FromClient, benchCall, "params", "_meta", "progressToken")
}

func BenchmarkEdit1MB(b *testing.B) { benchEdit(b, FromServer, benchResult, "result", "_meta", "k") }
