package stdio

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// pieces reads a text in pieces of random lengths.
type pieces struct {
	text []byte
	rand *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.text[:min(len(p.text), 1+p.rand.IntN(100))])
	p.text = p.text[n:]
	return n, nil
}

// smallest is the buffer that makes most lines long ones.
const smallest = 16

// events reads a text with a buffer of that size, and puts chunks together.
func events(text []byte, seed uint64, buffer int, limit int64) []string {
	var all []string
	var message []byte
	l := newLineReader(nil, limit, func(event provider.Event) error {
		switch e := event.(type) {
		case provider.Chunk:
			message = append(message, e.Data...)
			if e.Last {
				all = append(all, "message "+string(message))
				message = nil
			}
		case provider.Noise:
			all = append(all, "noise")
			message = nil
		case provider.TooLarge:
			all = append(all, fmt.Sprintf("too large %s %d", e.ID, e.Size))
			message = nil
		}
		return nil
	})
	l.from = bufio.NewReaderSize(&pieces{bytes.Clone(text), rand.New(rand.NewPCG(seed, 0))}, buffer)
	if err := l.run(); err != nil {
		all = append(all, err.Error())
	}
	if message != nil {
		all = append(all, "unfinished")
	}
	return all
}

// expected is what the events should be, told from whole lines.
func expected(text []byte, limit int64) []string {
	var all []string
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(bytes.Trim(line, " \t\r")) == 0 {
			continue
		}
		id, ok := envelope(line)
		size := int64(len(bytes.TrimSuffix(line, []byte("\r"))))
		switch {
		case !ok:
			all = append(all, "noise")
		case size > limit:
			all = append(all, fmt.Sprintf("too large %s %d", id, size))
		default:
			all = append(all, "message "+strings.ReplaceAll(string(line), "\r", ""))
		}
	}
	return all
}

// envelope parses a line with another parser.
func envelope(line []byte) (id json.RawMessage, ok bool) {
	if !jsontext.Value(line).IsValid(jsontext.AllowDuplicateNames(true)) {
		return nil, false
	}
	d := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, false
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, false
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, false
		}
		switch {
		case key == "jsonrpc" && string(value) == `"2.0"`:
			ok = true
		case key == "id" && len(value) <= provider.MaxID && bytes.IndexByte([]byte("{[tf"), value[0]) < 0:
			id = bytes.Clone(value)
		}
	}
	return id, ok
}

// fromObject takes the white space away that stands before messages.
func fromObject(events []string) []string {
	out := make([]string, len(events))
	for i, e := range events {
		out[i] = e
		if text, ok := strings.CutPrefix(e, "message "); ok {
			out[i] = "message " + strings.TrimLeft(text, " \t")
		}
	}
	return out
}

// FuzzLineReader holds the reader, with a buffer so small that most lines are
// long ones and with one that holds any line, against whole lines and
// another parser.
func FuzzLineReader(f *testing.F) {
	for _, text := range []string{
		"{\"jsonrpc\":\"2.0\",\"id\":1}\n", "{\"id\":\"x\",\"jsonrpc\":\"2.0\"}\r\n\r\n\n{}\n[1]\nlog line\n",
		"{\"jsonrpc\":\"2.0\",\r\"a\":[1,\r2]}\n", "{\"jsonrpc\":\"2.0\"}", "{\"jsonrpc\":\"2.0\",\"a\":\"" + strings.Repeat("x", 100) + "\",\"id\":5}\n",
		strings.Repeat(" ", 30) + "{\"jsonrpc\":\"2.0\"}", strings.Repeat(" ", 100) + "{\"jsonrpc\":\"2.0\"}  \n", strings.Repeat(" ", 50) + "\r\n", "{\"jsonrpc\":\"2.0\",\"id\":{\"a\":1},\"id\":2}\r",
		"\"" + strings.Repeat("y", 40) + "\"\n{\"jsonrpc\":\"2.0\"\n}\n",
	} {
		f.Add([]byte(text), uint64(len(text)), uint8(60))
	}
	f.Fuzz(func(t *testing.T, text []byte, seed uint64, limit uint8) {
		bound := int64(limit) + 1
		want := expected(text, bound)
		for _, buffer := range []int{smallest, max(smallest, len(text)+1)} {
			got := events(text, seed, buffer, bound)
			// White space before an object that fills a whole buffer is not passed on:
			// the line may be blank.
			if fmt.Sprint(fromObject(got)) != fmt.Sprint(fromObject(want)) {
				t.Fatalf("%q, buffer %d, limit %d:\ngot  %q\nwant %q", text, buffer, bound, got, want)
			}
		}
	})
}

func TestReaderStopsWhenNobodyListens(t *testing.T) {
	sends := 0
	l := newLineReader(strings.NewReader("a\nb\n"), 0, func(provider.Event) error { sends++; return io.ErrClosedPipe })
	if err := l.run(); !errors.Is(err, io.ErrClosedPipe) || sends != 1 {
		t.Errorf("%v after %d sends", err, sends)
	}
}

func TestMemoryDoesNotGrowWithALine(t *testing.T) {
	const size = 200 << 20
	head := `{"jsonrpc":"2.0","result":"`
	filler := strings.NewReader(strings.Repeat("x", 1<<20))
	var sources []io.Reader
	sources = append(sources, strings.NewReader(head))
	for range size >> 20 {
		sources = append(sources, io.NewSectionReader(filler, 0, 1<<20))
	}
	sources = append(sources, strings.NewReader("\",\"id\":77}\n"))
	var got provider.TooLarge
	var chunks int
	l := newLineReader(io.MultiReader(sources...), 1<<20, func(e provider.Event) error {
		switch e := e.(type) {
		case provider.Chunk:
			chunks++
		case provider.TooLarge:
			got = e
		}
		return nil
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := l.run(); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if string(got.ID) != "77" || got.Size != size+int64(len(head))+int64(len("\",\"id\":77}")) || chunks > 5 {
		t.Errorf("got %+v after %d chunks", got, chunks)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 1<<20 {
		t.Errorf("%d bytes were allocated", allocated)
	}
}

func BenchmarkLineReader(b *testing.B) {
	for _, size := range []int{200, 64 << 10, 1 << 20} {
		line := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", max(0, size-72)) + `"}]}}` + "\n"
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			l := newLineReader(&endless{line: line, left: b.N}, 0, func(provider.Event) error { return nil })
			_ = l.run()
		})
	}
}

// endless repeats a line.
type endless struct {
	line string
	at   int
	left int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := copy(p, e.line[e.at:])
	if e.at += n; e.at == len(e.line) {
		e.at = 0
		e.left--
	}
	return n, nil
}
