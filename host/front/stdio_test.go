package front

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestC012_EndOfInputEndsEverything(t *testing.T) {
	b := newFakeBroker("hold")
	s := newServer(t, b)
	c := connect(t, s)
	c.initialize("2025-11-25")
	c.send(call("1", "hold", "", ""))
	<-b.held
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-c.done:
		if err != nil {
			t.Errorf("ServeStdio = %v, want nil", err)
		}
	case <-time.After(patience):
		t.Fatal("ServeStdio did not return")
	}
	if got := b.ended(); !slices.Equal(got, []string{"1 cancelled"}) {
		t.Errorf("calls in flight ended as %v, want it cancelled", got)
	}
}

func TestStdioEndsWithItsContext(t *testing.T) {
	b := newFakeBroker("hold")
	s := newServer(t, b)
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer inW.Close()
	defer inR.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.ServeStdio(ctx, inR, io.Discard) }()
	if _, err := io.WriteString(inW, call("1", "hold", "", "")+"\n"); err != nil {
		t.Fatal(err)
	}
	<-b.held
	cancel()
	if err := <-done; err != nil {
		t.Errorf("ServeStdio = %v, want nil", err)
	}
	if got := b.ended(); !slices.Equal(got, []string{"1 cancelled"}) {
		t.Errorf("calls ended as %v", got)
	}
}

func TestCloseLetsRequestsInFlightEnd(t *testing.T) {
	b := newFakeBroker("hold")
	s := newServer(t, b)
	c := connect(t, s)
	c.send(call("1", "hold", "", ""))
	<-b.held
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		s.Close(ctx)
	}()
	// New requests are refused while the old one ends.
	eventually(t, "a request is refused", func() bool {
		s.mu.RLock()
		defer s.mu.RUnlock()
		return s.closed
	})
	close(b.releases)
	if m := c.next(); string(m.ID) != "1" || m.Result == nil {
		t.Errorf("got %s, want the result of 1", m.text)
	}
	<-closed
	if err := <-c.done; err != nil {
		t.Errorf("ServeStdio = %v", err)
	}
}

func TestCloseCancelsWhatDoesNotEnd(t *testing.T) {
	b := newFakeBroker("hold")
	s := newServer(t, b)
	c := connect(t, s)
	c.send(call("1", "hold", "", ""))
	<-b.held
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Close(ctx)
	if got := b.ended(); !slices.Equal(got, []string{"1 cancelled"}) {
		t.Errorf("calls ended as %v", got)
	}
	if err := s.ServeStdio(context.Background(), strings.NewReader(""), io.Discard); err == nil {
		t.Error("a closed server serves")
	}
}

func TestC031_ASlowCallDelaysNothing(t *testing.T) {
	b := newFakeBroker("hold", "echo")
	s := newServer(t, b)
	c := connect(t, s)
	for i := range 64 {
		c.send(call(fmt.Sprint(i), "hold", "", ""))
	}
	for range 64 {
		<-b.held
	}
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":"p","method":"ping"}`,
		`{"jsonrpc":"2.0","id":"l","method":"tools/list"}`,
		call(`"e"`, "echo", "{}", ""),
	} {
		if m := c.ask(line); m.Result == nil {
			t.Errorf("%s: %s", line, m.text)
		}
	}
	close(b.releases)
}

func TestStdioBoundsRequestsInFlight(t *testing.T) {
	b := newFakeBroker("hold")
	s := newServer(t, b)
	c := connect(t, s)
	for i := range maxInFlight {
		c.send(call(fmt.Sprint(i), "hold", "", ""))
	}
	for range maxInFlight {
		<-b.held
	}
	m := c.ask(`{"jsonrpc":"2.0","id":"more","method":"ping"}`)
	if string(m.ID) != `"more"` || m.code() != -31003 || !strings.Contains(string(m.Error.Data), `"retry":"safe"`) {
		t.Errorf("one request more: %s", m.text)
	}
	// A cancel is still heard.
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":17}}`)
	eventually(t, "17 is cancelled", func() bool { return slices.Contains(b.ended(), "17 cancelled") })
	close(b.releases)
}

func TestC035_CancelReachesItsCallAtOnceAndNoOther(t *testing.T) {
	b := newFakeBroker("hold", "echo")
	s := newServer(t, b)
	c := connect(t, s)
	c.send(call("101", "hold", "", ""), call("102", "hold", "", ""), call(`"101"`, "hold", "", ""))
	for range 3 {
		<-b.held
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":101,"reason":"enough"}}`)
	eventually(t, "101 is cancelled", func() bool { return slices.Equal(b.ended(), []string{"101 cancelled"}) })
	// Unknown and malformed ones are nothing.
	c.send(
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":101}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
	)
	// The cancelled request gets no answer: what comes next is another's.
	if m := c.ask(call(`"e"`, "echo", "{}", "")); string(m.ID) != `"e"` {
		t.Errorf("after the cancel: %s", m.text)
	}
	close(b.releases)
	got := []string{string(c.next().ID), string(c.next().ID)}
	slices.Sort(got)
	if want := []string{`"101"`, `102`}; !slices.Equal(got, want) {
		t.Errorf("answers to %v, want %v", got, want)
	}
	// The id is free again.
	if m := c.ask(call("101", "echo", "{}", "")); m.Result == nil {
		t.Errorf("id 101 anew: %s", m.text)
	}
}

func TestC046_LongLines(t *testing.T) {
	b := newFakeBroker("echo")
	const limit = 1 << 20
	s := newServer(t, b, func(o *Options) { o.MaxRequest = limit })
	c := connect(t, s)
	big := strings.Repeat("x", 300<<10)
	if m := c.ask(call("1", "echo", `{"big":"`+big+`"}`, "")); !strings.Contains(string(m.Result), big) {
		t.Error("an argument of 300 KiB did not come back")
	}
	long := strings.Repeat("y", limit+1)
	for name, line := range map[string]string{
		"id first": `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"a":"` + long + `"}}}`,
		"id last":  `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{"a":"` + long + `"}},"id":2}`,
	} {
		if m := c.ask(line); m.code() != -32600 || string(m.ID) != "2" || !strings.Contains(m.Error.Message, fmt.Sprintf("max_request = %d", limit)) {
			t.Errorf("%s: %.300s", name, m.text)
		}
	}
	if m := c.ask(long); m.code() == 0 || string(m.ID) != "null" {
		t.Errorf("a long line of rubbish: %.300s", m.text)
	}
	if m := c.ask(call("3", "echo", "{}", "")); m.Result == nil {
		t.Errorf("the session after long lines: %s", m.text)
	}
	if n := len(b.received()); n != 2 {
		t.Errorf("the broker got %d calls, want 2", n)
	}
}

func TestC082_MalformedMessagesEndNothing(t *testing.T) {
	b := newFakeBroker("echo", "hold")
	s := newServer(t, b)
	c := connect(t, s)
	other := connect(t, s)
	other.send(call("1", "hold", "", ""))
	<-b.held
	dropped := []string{
		`{"jsonrpc":"2.0","id":"never","result":{}}`,
		`{"jsonrpc":"2.0","id":99,"error":{"code":-1,"message":"x"}}`,
		`{"jsonrpc":"2.0","id":-1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1.5,"result":{}}`,
		`{"jsonrpc":"2.0","id":1e400,"result":{}}`,
		`{"jsonrpc":"2.0","id":"` + strings.Repeat("i", 10<<10) + `","result":{}}`,
		`{"jsonrpc":"2.0","id":{},"result":{}}`,
		`{"jsonrpc":"2.0","id":null,"result":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/unheard/of"}`,
		``, "  \t ", "\r",
	}
	refused := map[string]int{
		`{"jsonrpc":"2.0","id":1}`:                             -32600,
		`{"jsonrpc":"2.0"`:                                     -32700,
		strings.Repeat("[", 1000) + strings.Repeat("]", 1000):  -32600,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`:           -32600,
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`:           -32600,
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`:          -32600,
		`{"jsonrpc":"1.0","id":1,"method":"ping"}`:             -32600,
		`{"jsonrpc":"2.0","id":1,"method":7}`:                  -32600,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`: -32600,
		`{"jsonrpc":"2.0","id":1,"METHOD":"ping"}`:             -32600,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\x00\"}":  -32700,
		"\xff\xfe": -32700,
		`null`:     -32600,
		`"ping"`:   -32600,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","Name":"hold"}}`: -32600,
	}
	for _, line := range dropped {
		c.send(line)
	}
	for line, code := range refused {
		if m := c.ask(line); m.code() != code {
			t.Errorf("%.80q: %s, want code %d", line, m.text, code)
		}
	}
	if m := c.ask(call("1", "echo", "{}", "")); m.Result == nil {
		t.Errorf("the session afterwards: %s", m.text)
	}
	close(b.releases)
	if m := other.next(); m.Result == nil {
		t.Errorf("the other client: %s", m.text)
	}
	if n := len(b.received()); n != 2 {
		t.Errorf("the broker got %d calls, want 2", n)
	}
}

func TestStdioClientThatReadsNothingIsGivenUp(t *testing.T) {
	result := call("2", "echo", `{"a":"`+strings.Repeat("x", 256<<10)+`"}`, "") + "\n"
	refusals := strings.Repeat("no message\n", 4000) // which the reader writes itself
	for kind, what := range map[string]string{
		"interruptible": result, "not interruptible": result, "interruptible, refusals": refusals, "not interruptible, refusals": refusals,
	} {
		t.Run(kind, func(t *testing.T) {
			b := newFakeBroker("echo", "hold")
			s := newServer(t, b, func(o *Options) { o.WriteTimeout = 50 * time.Millisecond })
			inR, inW, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			outR, outW, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			var out io.Writer = outW
			if strings.HasPrefix(kind, "not") {
				out = struct{ io.Writer }{outW}
			}
			done := make(chan error, 1)
			go func() { done <- s.ServeStdio(context.Background(), inR, out) }()
			lines := call("1", "hold", "", "") + "\n" + what
			if _, err := io.WriteString(inW, lines); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-done:
				if !errors.Is(err, ErrStalled) {
					t.Errorf("ServeStdio = %v, want ErrStalled", err)
				}
			case <-time.After(patience):
				t.Fatal("ServeStdio did not return")
			}
			if got := b.ended(); !slices.Equal(got, []string{"1 cancelled"}) {
				t.Errorf("calls ended as %v", got)
			}
			// The reader that hung in its write ends when the pipe does.
			_, _, _, _ = outR.Close(), outW.Close(), inR.Close(), inW.Close()
		})
	}
}

func TestALastLineWithoutItsEndCounts(t *testing.T) {
	s := newServer(t, newFakeBroker())
	var out strings.Builder
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n\n" + `{"jsonrpc":"2.0","id":2,"method":"pi`)
	if err := s.ServeStdio(context.Background(), in, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"id":1,"result":{}`) || !strings.Contains(out.String(), `-32700`) {
		t.Errorf("output %q", out.String())
	}
}
