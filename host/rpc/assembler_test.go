package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// assemble feeds text in chunks of n bytes.
func assemble(a *Assembler, text []byte, n int) (*Message, error) {
	for rest := text; len(rest) > 0; {
		k := min(n, len(rest))
		chunk := bytes.Clone(rest[:k])
		a.Write(chunk) // Finish returns it too
		clear(chunk)   // the assembler must have copied it
		rest = rest[k:]
	}
	return a.Finish()
}

// bigCall is a call whose arguments are n bytes long and stand before the name.
func bigCall(n int) string {
	return `{"jsonrpc":"2.0","id":"big",` + "\r\n" + `"method":"tools/call","params":{"arguments":{"text":"` +
		strings.Repeat("0123456789abcde ", n/16) + `","o":{"k":1}},` + "\n" + `"name":"echo"}}`
}

func TestSpooledMessage(t *testing.T) {
	text := bigCall(5 << 20)
	want := strings.NewReplacer("\r", "", "\n", "").Replace(text)
	dir := t.TempDir()
	a := NewAssembler(FromClient, dir, 0)
	for _, chunk := range []int{1 << 10, 100_000, 256 << 10, 1<<20 - 1, 1 << 20, 16 << 20} {
		m, err := assemble(a, []byte(text), chunk)
		if err != nil {
			t.Fatal(err)
		}
		if m.body.file == nil {
			t.Fatalf("%d bytes were kept in memory", m.Size())
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
			t.Errorf("the file has a name: %v", left)
		}
		if m.Kind != Request || m.ID != `"big"` || m.Method != "tools/call" || m.Size() != int64(len(want)) {
			t.Errorf("%v %v %v %d", m.Kind, m.ID, m.Method, m.Size())
		}
		if name, ok := m.GetString("params", "name"); !ok || name != "echo" {
			t.Errorf("name is %q", name)
		}
		if got := textOf(t, m.Payload()); got != want {
			t.Error("the text differs")
		}
		got := textOf(t, m.Edit().SetID("7").SetString("x", "params", "name").Set(raw("2"), "params", "arguments", "o", "k").Remove("jsonrpc").Payload())
		edited := strings.NewReplacer(`"jsonrpc":"2.0",`, "", `"big"`, "7", `"echo"`, `"x"`, `{"k":1}`, `{"k":2}`).Replace(want)
		if got != edited {
			t.Error("the edited text differs")
		}
		at, _ := m.Find("params", "arguments")
		arguments, err := io.ReadAll(m.Reader(at))
		if err != nil || int64(len(arguments)) != at.Len() || textOf(t, m.Section(at)) != string(arguments) {
			t.Errorf("reading arguments: %v", err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if _, err := m.Edit().SetID("8").Payload().WriteTo(io.Discard); !errors.Is(err, os.ErrClosed) {
			t.Errorf("writing a closed message: %v", err)
		}
	}
}

func TestMessagesOneAfterTheOther(t *testing.T) {
	a := NewAssembler(FromServer, t.TempDir(), 3<<20)
	small := `{"jsonrpc":"2.0","method":"x"}`
	for i, text := range []string{small, bigCall(2 << 20), small, `{"jsonrpc"`, small, bigCall(4 << 20), small, ``, bigCall(2 << 20), small} {
		m, err := assemble(a, []byte(text), 77_777)
		if ok := i != 3 && i != 5 && i != 7; ok != (err == nil) {
			t.Fatalf("message %d: %v", i, err)
		}
		if err == nil {
			if want := strings.NewReplacer("\r", "", "\n", "").Replace(text); textOf(t, m.Payload()) != want {
				t.Errorf("message %d differs", i)
			}
		}
	}
	a.Write([]byte(`{"jsonrpc":`)) // aborted
	a.Abort()
	if _, err := assemble(a, []byte(small), 3); err != nil {
		t.Errorf("after Abort: %v", err)
	}
}

// TestTooLargeIsAnsweredUnderItsID: the id may stand behind what was too much.
func TestTooLargeIsAnsweredUnderItsID(t *testing.T) {
	fill := strings.Repeat("x", 3<<20)
	for _, test := range []struct {
		text     string
		id       ID
		response bool
	}{
		{`{"jsonrpc":"2.0","id":4,"method":"x","params":{"a":"` + fill + `"}}`, "4", false},
		{`{"jsonrpc":"2.0","method":"x","params":{"id":3,"a":"` + fill + `"},"id":4}`, "4", false},
		{`{"jsonrpc":"2.0","result":{"id":3,"a":"` + fill + `"},"id":"é"}`, `"é"`, true},
		{`{"jsonrpc":"2.0","result":{"a":"` + fill + `"},"id":{}}`, "", true},
		{`{"jsonrpc":"2.0","id":1,"result":{"a":"` + fill + `"},"id":1}`, "", true},
		{`{"jsonrpc":"2.0","id":1,"result":{"a":"` + fill + "\x01", "1", true},
		{fill, "", false},
	} {
		for _, chunk := range []int{1 << 10, 700_000, 4 << 20} {
			a := NewAssembler(FromServer, t.TempDir(), 1<<20)
			_, err := assemble(a, []byte(test.text), chunk)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%v", err)
			}
			if test.text != fill && !errors.Is(err, ErrTooLarge) && chunk < 4<<20 {
				t.Errorf("%.40s: %v is not ErrTooLarge", test.text, err)
			}
			if e.ID != test.id || e.Response != test.response {
				t.Errorf("%.60s in chunks of %d: id %q, response %v", test.text, chunk, e.ID, e.Response)
			}
		}
	}
}

func TestErrorsStayUntilFinish(t *testing.T) {
	a := NewAssembler(FromClient, t.TempDir(), 10)
	n, first := a.Write([]byte(`{"a":[}`))
	if first == nil || n != 7 {
		t.Fatal(n, first)
	}
	if n, err := a.Write([]byte(strings.Repeat(" ", 20))); n != 20 || err != first { // the very same
		t.Errorf("then %d, %v", n, err)
	}
	if _, err := a.Finish(); err != first { // the very same
		t.Errorf("in the end %v", err)
	}
}

func TestNoPlaceToSpool(t *testing.T) {
	a := NewAssembler(FromServer, filepath.Join(t.TempDir(), "gone"), 0)
	_, err := assemble(a, []byte(`{"jsonrpc":"2.0","result":{"x":"`+strings.Repeat("x", 2<<20)+`"},"id":4}`), 256<<10)
	var e *Error
	if !errors.Is(err, ErrSpool) || !errors.Is(err, os.ErrNotExist) || !errors.As(err, &e) || e.Code != CodeInternal || e.ID != "4" || !e.Response {
		t.Errorf("%+v", e)
	}
	if _, err := assemble(a, []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`), 9); err != nil {
		t.Errorf("the next message: %v", err)
	}
}

// TestChunks holds every way of cutting a payload against its text.
func TestChunks(t *testing.T) {
	a := NewAssembler(FromClient, t.TempDir(), 0)
	spooled, err := assemble(a, []byte(bigCall(2<<20)), 256<<10)
	if err != nil {
		t.Fatal(err)
	}
	inMemory := mustParse(t, FromClient, bigCall(2<<20))
	small := mustParse(t, FromClient, bigCall(64))
	payloads := map[string]Payload{"empty": {}, "bytes": Bytes(bytes.Repeat([]byte("x"), 1000))}
	for name, m := range map[string]*Message{"spooled": spooled, "memory": inMemory, "small": small} {
		payloads[name] = m.Payload()
		payloads[name+" edited"] = m.Edit().SetID("1").Set(raw(`{"a":"`+strings.Repeat("b", 300_000)+`"}`), "params", "_meta").Payload()
		payloads[name+" little edited"] = m.Edit().SetID("1").SetString("x", "params", "name").Payload()
	}
	for name, p := range payloads {
		want := textOf(t, p)
		for _, size := range []int{1000, 64 << 10, 256 << 10, 1 << 20, 64 << 20} {
			var got bytes.Buffer
			ended := 0
			err := p.Chunks(size, func(piece []byte, last bool) error {
				if len(piece) > size || len(piece) == 0 && p.Len() > 0 || ended > 0 {
					t.Errorf("%s in %d: piece of %d, ended %d", name, size, len(piece), ended)
				}
				if last {
					ended++
				}
				got.Write(piece)
				return nil
			})
			if err != nil || got.String() != want || ended != 1 {
				t.Errorf("%s in %d: %v, %d of %d bytes, %d ends", name, size, err, got.Len(), len(want), ended)
			}
		}
		var got bytes.Buffer
		if n, err := p.WriteTo(&got); err != nil || n != p.Len() || got.String() != want {
			t.Errorf("%s: WriteTo wrote %d of %d, %v", name, n, p.Len(), err)
		}
		stop := errors.New("stop")
		if err := p.Chunks(10, func([]byte, bool) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("%s: %v after an error of f", name, err)
		}
	}
}

func TestSmallEditedPayloadIsOneChunk(t *testing.T) {
	p := mustParse(t, FromClient, bigCall(64)).Edit().SetID("9").SetString("x", "params", "name").Payload()
	n := 0
	if err := p.Chunks(blockSize, func(piece []byte, last bool) error { n++; return nil }); err != nil || n != 1 {
		t.Errorf("%d chunks, %v", n, err)
	}
}

func TestUneditedPayloadIsNotCopied(t *testing.T) {
	text := []byte(bigCall(3 << 20))
	text = unbroken(text)
	m, err := Parse(FromClient, text)
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	allocs := testing.AllocsPerRun(5, func() {
		at = 0
		err := m.Payload().Chunks(blockSize, func(piece []byte, _ bool) error {
			if &piece[0] != &text[at] {
				return errors.New("copied")
			}
			at += len(piece)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	if at != len(text) || allocs > 1 {
		t.Errorf("%d of %d bytes, %v allocations", at, len(text), allocs)
	}
}

// TestStreamingAllocatesLittle: what goes out of a file, or of an edited message
// in memory, takes no memory that grows with it.
func TestStreamingAllocatesLittle(t *testing.T) {
	a := NewAssembler(FromClient, t.TempDir(), 0)
	spooled, err := assemble(a, []byte(bigCall(32<<20)), 256<<10)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*Message{"spooled": spooled, "memory": mustParse(t, FromClient, bigCall(32<<20))} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p := m.Edit().SetID("1").SetString("x", "params", "name").Payload()
		if _, err := p.WriteTo(io.Discard); err != nil {
			t.Fatal(err)
		}
		if err := p.Chunks(blockSize, func([]byte, bool) error { return nil }); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("%s: %d bytes allocated", name, got)
		}
	}
}

func TestOwnMessages(t *testing.T) {
	failure := &Error{Code: CodeInternal, Message: "a \"b\"\n\xff", Data: raw("{\n\"a\": 1}")}
	for want, p := range map[string]Payload{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`:                                                                  NewRequest("1", "ping", nil),
		`{"jsonrpc":"2.0","id":7,"method":"a\"b","params":{"x": 1}}`:                                                NewRequest(Number(7), `a"b`, raw("{\"x\":\n 1}")),
		`{"jsonrpc":"2.0","method":"n"}`:                                                                            NewNotification("n", nil),
		`{"jsonrpc":"2.0","method":"n","params":{}}`:                                                                NewNotification("n", raw("{}")),
		`{"jsonrpc":"2.0","id":"a","result":{}}`:                                                                    NewResult(`"a"`, nil),
		`{"jsonrpc":"2.0","id":"a","result":{"tools":[]}}`:                                                          NewResult(`"a"`, raw(`{"tools":[]}`)),
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"a \"b\"\n` + "\ufffd" + `","data":{"a": 1}}}`: NewFailure("", failure),
		`{"jsonrpc":"2.0","id":3,"error":{"code":-32600,"message":"invalid request: x"}}`:                           NewFailure("3", invalid("x")),
	} {
		got := textOf(t, p)
		if got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
		if _, err := Parse(FromClient, []byte(got)); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
}

func Example() {
	m, err := Parse(FromClient, []byte(`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"git_log"}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	up := m.Edit().
		SetID(Number(7)).
		SetString("log", "params", "name").
		Set(json.RawMessage("7"), "params", "_meta", "progressToken").
		Payload()
	up.WriteTo(os.Stdout) // an example
	// Output: {"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"log","_meta":{"progressToken":7}}}
}
