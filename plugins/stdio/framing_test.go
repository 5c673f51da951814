//go:build unix

package stdio

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// bigText is what the fake server's tool big returns.
func bigText(n int) string {
	const unit = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	return strings.Repeat(unit, n/len(unit)+1)[:n]
}

func TestC042_FramesOfAnySize(t *testing.T) {
	r := fake(t)
	for _, size := range []int{
		200, 65535, 65536, 65537, provider.SendChunk - 1, provider.SendChunk, provider.SendChunk + 1,
		2 * provider.SendChunk, 1 << 20, 10 << 20,
	} {
		id := r.call("big", fmt.Sprintf(`{"frame":%d}`, size))
		answer := r.answer()
		if len(answer) != size {
			t.Errorf("a frame of %d bytes came as %d", size, len(answer))
		}
		frame := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":""}]}}`, id)
		if want := bigText(size - len(frame)); sha256.Sum256([]byte(text(t, answer))) != sha256.Sum256([]byte(want)) {
			t.Errorf("the text of the frame of %d bytes is another", size)
		}
	}
	r.call("echo", `{"text":"still there"}`)
	if got := text(t, r.answer()); got != "still there" {
		t.Errorf("echo: %q", got)
	}
}

func TestC042_OverTheLimitOnlyThatCallFails(t *testing.T) {
	for _, limit := range []int64{1000, 300_000, 2 << 20} {
		r := fakeWith(t, settings{maxMessage: limit})
		r.call("big", fmt.Sprintf(`{"frame":%d}`, limit))
		if got := r.answer(); int64(len(got)) != limit {
			t.Errorf("limit %d: a frame of that size came as %d bytes", limit, len(got))
		}
		for _, size := range []int64{limit + 1, limit * 3, limit*3 + 7} {
			id := r.call("big", fmt.Sprintf(`{"frame":%d}`, size))
			got, ok := r.next().(provider.TooLarge)
			if !ok || string(got.ID) != fmt.Sprint(id) || got.Size != size {
				t.Errorf("limit %d, frame %d: got %T %+v", limit, size, got, got)
			}
		}
		r.call("echo", `{"text":"x"}`)
		if got := text(t, r.answer()); got != "x" {
			t.Errorf("limit %d: echo: %q", limit, got)
		}
		if starts := r.logged("start"); len(starts) != 1 {
			t.Errorf("limit %d: %d processes", limit, len(starts))
		}
	}
}

func TestC108_FiveMebibytesBothWays(t *testing.T) {
	r := fake(t)
	argument := bigText(5 << 20)
	r.call("echo", `{"text":"`+argument+`"}`)
	answer := r.answer()
	if sha256.Sum256([]byte(text(t, answer))) != sha256.Sum256([]byte(argument)) {
		t.Error("the argument came back changed")
	}
	in := r.logged("in")
	if got := in[len(in)-1].Raw; got != toolCall(1, "echo", `{"text":"`+argument+`"}`) {
		t.Error("the server read something else than was sent")
	}
}

func TestC043_NoiseIsCountedAndNothingElse(t *testing.T) {
	r := fake(t, "--noise")
	noise := []string{"Server v1 ready", "[INFO] x", "-----", `{"level":"info"}`}
	if first := r.next(); first != (provider.Spoke{}) {
		t.Fatalf("first came %T", first)
	}
	for round := range 3 {
		if round > 0 {
			r.call("echo", `{"text":"x"}`)
		}
		for _, want := range noise {
			if got, ok := r.next().(provider.Noise); !ok || string(got.Line) != want {
				t.Errorf("round %d: got %q, want noise %q", round, got.Line, want)
			}
		}
		if round > 0 {
			if got := text(t, r.answer()); got != "x" {
				t.Errorf("round %d: %q", round, got)
			}
		}
	}
}

func TestLinesThatAreNoMessages(t *testing.T) {
	r := fake(t)
	long := strings.Repeat("n", 3*provider.SendChunk)
	for _, line := range []string{
		`[{"jsonrpc":"2.0","id":1,"result":{}}]`, `{"jsonrpc":"1.0"}`, `{"jsonrpc":2.0}`, `{"id":1,"result":{}}`, `{"jsonrpc":"2.0"`,
		`{"jsonrpc":"2.0"}}`, `"jsonrpc"`, "\xef\xbb\xbf{\"jsonrpc\":\"2.0\"}", "{\"jsonrpc\":\"2.0\",\"a\":\"\xff\"}",
		"{\"jsonrpc\":\"2.0\",\"a\":\"b\rc\"}", "{\"jsonrpc\":\"2.0\",\"a\":\"b\tc\"}", long,
		`{"jsonrpc":"2.0","a":"` + long + "\t" + `"}`, `{"a":"` + long + `"}`, `{"jsonrpc":"2.0","a":"` + long, `["` + long + `"]`,
	} {
		r.emit(line + "\n")
		want := line[:min(len(line), provider.MaxNoise)]
		event := r.next()
		for event == (provider.Spoke{}) {
			event = r.next()
		}
		if got, ok := event.(provider.Noise); !ok || string(got.Line) != want {
			t.Errorf("%.60q: got %T %.60q", line, event, got.Line)
		}
		if got := text(t, r.answer()); got != "written" {
			t.Errorf("%.60q: then %q", line, got)
		}
	}
}

func TestLineBreaksAreRemovedAndNothingElse(t *testing.T) {
	r := fake(t, "--crlf")
	long := strings.Repeat("x", provider.SendChunk)
	for _, c := range []struct{ line, want string }{
		{"{\"jsonrpc\":\"2.0\",\r \"id\" :\r\r1,\t\"result\":{ }}\r", `{"jsonrpc":"2.0", "id" :1,` + "\t" + `"result":{ }}`},
		{"  {\"jsonrpc\":\"2.0\"}  ", `  {"jsonrpc":"2.0"}  `},
		{"\r\n\r\n   \n{\"jsonrpc\":\"2.0\",\"a\":\"\\r\\n\"}", `{"jsonrpc":"2.0","a":"\r\n"}`},
		{"{\"a\":\"" + long + "\",\r\"jsonrpc\":\"2.0\"\r}\r", `{"a":"` + long + `","jsonrpc":"2.0"}`},
		{strings.Repeat(" ", 2*provider.SendChunk), ""},
		// White space before an object that fills a chunk is not passed on, the rest is.
		{strings.Repeat(" ", provider.SendChunk-20) + "{\"jsonrpc\":\"2.0\"}", strings.Repeat(" ", provider.SendChunk-20) + `{"jsonrpc":"2.0"}`},
		{strings.Repeat(" \t", provider.SendChunk) + "  {\"jsonrpc\":\"2.0\",\"a\":\"" + long + "\"} ", `  {"jsonrpc":"2.0","a":"` + long + `"} `},
	} {
		r.emit(c.line + "\n")
		if c.want != "" {
			if got := r.answer(); got != c.want {
				t.Errorf("%.60q:\ngot  %.100q\nwant %.100q", c.line, got, c.want)
			}
		}
		if got := r.answer(); text(t, got) != "written" || strings.ContainsAny(got, "\r\n") {
			t.Errorf("%.60q: then %q", c.line, got)
		}
	}
}

func TestLastLineNeedsNoNewline(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{`printf '{"jsonrpc":"2.0","id":1,"result":{}}'`, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{`printf '{"jsonrpc":"2.0"}\n{"jsonrpc":"2.0","id":1}\r'`, `{"jsonrpc":"2.0"}`},
	} {
		r := run(t, settings{config: map[string]any{"command": "sh", "args": []string{"-c", c.script + "; exit 2"}}})
		if got := r.answer(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		more := 0
		status := r.end(func(provider.Event) { more++ })
		if status.Code != 2 || more != strings.Count(c.script, `\n`) {
			t.Errorf("%s: exited with %+v, %d more events", c.script, status, more)
		}
	}
}

func TestC044_ChattyStderr(t *testing.T) {
	const flood, calls = 256 << 10, 100
	r := fake(t, "--stderr-flood", fmt.Sprint(flood))
	r.call("echo", `{}`)
	r.answer()
	before := heap()
	begin := time.Now()
	for range calls {
		r.call("echo", `{"text":"x"}`)
		r.answer()
	}
	if took := time.Since(begin); took > calls*time.Second/4 {
		t.Errorf("%d calls took %v", calls, took)
	}
	if grown := heap() - before; grown > 5<<20 {
		t.Errorf("memory grew by %d bytes", grown)
	}
	status, err := r.p.Stop(t.Context(), provider.StopRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if tail := status.StderrTail; len(tail) > 5<<10 || !strings.HasPrefix(tail, "xxx") || !strings.HasSuffix(tail, "xxx") || !strings.Contains(tail, "bytes)") {
		t.Errorf("the tail has %d bytes: %.50s", len(tail), tail)
	}
	if passed := len(r.errs.String()); passed == 0 || passed > maxTail {
		t.Errorf("one endless line was passed on as %d bytes", passed)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestFramesWithLineBreaksReachNoServer(t *testing.T) {
	r := fake(t)
	for _, bad := range []string{
		"{\"jsonrpc\":\"2.0\",\"id\":1,\n\"method\":\"ping\"}",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"inc\"}}",
		"",
		strings.Repeat("x", provider.MaxChunk+1),
	} {
		r.seq++
		r.frame(provider.Frame{Seq: r.seq, Data: []byte(bad), Last: true})
		if got, ok := r.next().(provider.Undelivered); !ok || got.Seq != r.seq || got.Reason == "" {
			t.Errorf("%.80q: got %+v", bad, got)
		}
	}
	// The rest of a message whose first chunk was refused is dropped with it.
	r.seq++
	r.frame(provider.Frame{Seq: r.seq, Data: []byte("{\n")})
	if got, ok := r.next().(provider.Undelivered); !ok || got.Seq != r.seq {
		t.Errorf("got %+v", got)
	}
	r.frame(provider.Frame{Seq: r.seq, Data: []byte("}"), Last: true})
	r.call("get", `{}`)
	if got := text(t, r.answer()); got != "0" {
		t.Errorf("the counter is %s", got)
	}
	if in := r.logged("in"); len(in) != 1 {
		t.Errorf("the server read %d lines: %+v", len(in), in)
	}
}

func TestOrderOfMessages(t *testing.T) {
	r := fake(t)
	const n = 200
	go func() {
		for i := range n {
			r.frames <- provider.Frame{Seq: uint64(i + 1), Data: []byte(`{"jsonrpc":"2.0","id":` + fmt.Sprint(i) + `,"method":"ping"}`), Last: true}
		}
	}()
	var got []string
	for range n {
		got = append(got, r.answer())
	}
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i))
	}
	if !slices.Equal(got, want) {
		t.Errorf("answers out of order: %v", got)
	}
}
