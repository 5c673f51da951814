package connect

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit bounds every wait of a test; nothing waits for it that goes well.
const limit = 20 * time.Second

var errNone = errors.New("no host is running; start one")

// hostEnd is a host's end of a link.
type hostEnd struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// next is the next message that the host was sent.
func (h *hostEnd) next() string {
	h.t.Helper()
	_ = h.conn.SetReadDeadline(time.Now().Add(limit))
	line, err := h.in.ReadString('\n')
	if err != nil {
		h.t.Fatalf("the host reads: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (h *hostEnd) expect(want string) {
	h.t.Helper()
	if got := h.next(); got != want {
		h.t.Fatalf("the host got %s\nwant %s", got, want)
	}
}

func (h *hostEnd) say(text string) {
	h.t.Helper()
	if _, err := io.WriteString(h.conn, text+"\n"); err != nil {
		h.t.Error(err)
	}
}

func (h *hostEnd) die() { _ = h.conn.Close() }

// scene is a client, a bridge and the hosts that it finds.
type scene struct {
	t    *testing.T
	in   *os.File
	out  *bufio.Reader
	read *os.File
	done chan error
	// hosts are the ends of the links that the bridge has opened; there is a host as long
	// as none is false.
	hosts chan *hostEnd
	none  atomic.Bool
	// dialed counts the dials, started those that might have started one.
	dialed, started atomic.Int32
	// opened counts the links; only Run's goroutine uses it.
	opened int
}

type unixStream struct{ *net.UnixConn }

// newScene runs a bridge until the test's end.
func newScene(t *testing.T, adjust ...func(*Options)) *scene {
	t.Helper()
	s := &scene{t: t, done: make(chan error, 1), hosts: make(chan *hostEnd, 16)}
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.in, s.read, s.out = inW, outR, bufio.NewReader(outR)
	opts := Options{In: inR, Out: outW, SpoolDir: t.TempDir(), Dial: s.dial, Passing: func(err error) bool { return errors.Is(err, errNone) }, Wait: 100 * time.Millisecond}
	for _, f := range adjust {
		f(&opts)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.done <- Run(ctx, opts)
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(limit):
			t.Error("Run does not end with its context")
		}
		for _, f := range []*os.File{inR, inW, outR, outW} {
			_ = f.Close()
		}
		for len(s.hosts) > 0 {
			(<-s.hosts).die()
		}
	})
	return s
}

func (s *scene) dial(_ context.Context, how How) (Stream, error) {
	s.dialed.Add(1)
	if how.Again != (s.opened > 0) {
		s.t.Errorf("link %d is opened with %+v", s.opened+1, how)
	}
	if how.Start {
		s.started.Add(1)
	}
	if s.none.Load() {
		return nil, errNone
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fmt.Sprintf("@drawbridge-%d-%p-%d", os.Getpid(), s, time.Now().UnixNano()), Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	conn, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		return nil, err
	}
	other, err := l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	s.opened++
	s.hosts <- &hostEnd{s.t, other, bufio.NewReader(other)}
	return unixStream{conn}, nil
}

// host is the next link's host.
func (s *scene) host() *hostEnd {
	s.t.Helper()
	select {
	case h := <-s.hosts:
		s.t.Cleanup(h.die)
		return h
	case <-time.After(limit):
		s.t.Fatal("the bridge looks for no host")
		return nil
	}
}

func (s *scene) send(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, text+"\n"); err != nil {
		s.t.Error(err)
	}
}

func (s *scene) heard() string {
	s.t.Helper()
	_ = s.read.SetReadDeadline(time.Now().Add(limit))
	line, err := s.out.ReadString('\n')
	if err != nil {
		s.t.Fatalf("the client reads: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (s *scene) expect(want string) {
	s.t.Helper()
	if got := s.heard(); got != want {
		s.t.Fatalf("the client got %s\nwant %s", got, want)
	}
}

// failure is an error that the client got.
type failure struct {
	ID    json.RawMessage
	Error struct {
		Code    int
		Message string
		Data    struct {
			Outcome, Reason, Tool, Retry string
			Dispatched                   bool
		}
	}
}

func (s *scene) failed(id string, code int) failure {
	s.t.Helper()
	var f failure
	text := s.heard()
	if err := json.Unmarshal([]byte(text), &f); err != nil || string(f.ID) != id || f.Error.Code != code {
		s.t.Fatalf("the client got %s, want error %d for %s", text, code, id)
	}
	return f
}

const (
	hello      = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`
	helloAgain = `{"jsonrpc":"2.0","id":"drawbridge-connect-hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`
	welcome    = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`
	opened     = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	changed    = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	callOne    = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a_pay","arguments":{"n":9007199254740993}}}`
)

func welcomeAgain(version string) string {
	return `{"jsonrpc":"2.0","id":"drawbridge-connect-hello","result":{"protocolVersion":"` + version + `","capabilities":{}}}`
}

// open does the handshake with the first host.
func (s *scene) open() *hostEnd {
	s.t.Helper()
	h := s.host()
	s.send(hello)
	h.expect(hello)
	h.say(welcome)
	s.expect(welcome)
	s.send(opened)
	h.expect(opened)
	return h
}

// TestGoesOnWithTheNextHost: what was dispatched is answered as unknown and not sent again;
// the session is said to the next host, its level too, and what follows goes there.
func TestGoesOnWithTheNextHost(t *testing.T) {
	s := newScene(t)
	first := s.open()
	level := `{"jsonrpc":"2.0","id":7,"method":"logging/setLevel","params":{"level":"error"}}`
	s.send(level)
	first.expect(level)
	first.say(`{"jsonrpc":"2.0","id":7,"result":{}}`)
	s.expect(`{"jsonrpc":"2.0","id":7,"result":{}}`)
	list := `{"jsonrpc":"2.0","id":"l","method":"tools/list"}`
	s.send(list)
	s.send(callOne)
	first.expect(list)
	first.expect(callOne)
	first.die()
	f := s.failed(`"l"`, -31003)
	if d := f.Error.Data; d.Outcome != "unavailable" || d.Retry != "safe" || d.Dispatched {
		t.Errorf("a list: %+v", f)
	}
	f = s.failed("1", -31004)
	if d := f.Error.Data; d.Outcome != "unknown" || d.Reason != "host_lost" || d.Tool != "a_pay" || !d.Dispatched || d.Retry != "only_after_looking" {
		t.Errorf("a call: %+v", f)
	}
	second := s.host()
	second.expect(helloAgain)
	second.say(welcomeAgain("2025-11-25"))
	second.expect(opened)
	second.expect(strings.Replace(level, "7", `"drawbridge-connect-level"`, 1))
	second.say(`{"jsonrpc":"2.0","id":"drawbridge-connect-level","result":{}}`)
	s.expect(changed)
	next := strings.Replace(callOne, `"id":1`, `"id":2`, 1)
	s.send(next)
	second.expect(next) // and not the one before
	second.say(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	s.expect(`{"jsonrpc":"2.0","id":2,"result":{}}`)
}

// TestHelloGoesToTheNextHost: an `initialize` whose host ends has no effect, and is the
// next one's; but not for ever.
func TestHelloGoesToTheNextHost(t *testing.T) {
	s := newScene(t)
	s.send(hello)
	for range maxTries - 1 {
		h := s.host()
		h.expect(hello)
		h.die()
	}
	h := s.host()
	h.expect(hello)
	h.say(welcome)
	s.expect(welcome)

	s = newScene(t)
	s.send(hello)
	for range maxTries {
		h := s.host()
		h.expect(hello)
		h.die()
	}
	s.failed("0", -31003)
}

// TestAnswersWithoutAHost: each request is answered with what to do, after a wait and then
// at once; notifications start nothing; when there is one again, the session has it.
func TestAnswersWithoutAHost(t *testing.T) {
	s := newScene(t, func(o *Options) { o.Wait = time.Millisecond })
	h := s.open()
	s.none.Store(true)
	before := s.dialed.Load()
	h.die()
	for deadline := time.Now().Add(limit); s.dialed.Load() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not see that the host is gone")
		}
	}
	s.send(callOne)
	f := s.failed("1", -31003)
	if d := f.Error.Data; d.Reason != "no_host" || d.Dispatched || d.Retry != "safe" || !strings.Contains(f.Error.Message, errNone.Error()) {
		t.Errorf("%+v", f)
	}
	dials := s.started.Load()
	s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	s.send(`{"jsonrpc":"2.0","id":9,"result":{}}`)
	s.send(`{"jsonrpc":"2.0","id":3}`)
	s.failed("3", -32600)
	if n := s.started.Load(); n != dials {
		t.Errorf("what needs no answer has asked for a host %d times", n-dials)
	}
	s.none.Store(false)
	second := s.host() // found without a word of the client's
	second.expect(helloAgain)
	second.say(welcomeAgain("2025-11-25"))
	second.expect(opened)
	s.expect(changed)
}

// TestAnswersReachTheirHost: requests of two hosts have one id; an answer to the one that
// is gone does not reach the other.
func TestAnswersReachTheirHost(t *testing.T) {
	s := newScene(t)
	first := s.open()
	ask := `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`
	first.say(ask)
	s.expect(ask)
	first.die()
	second := s.host()
	second.expect(helloAgain)
	second.say(welcomeAgain("2025-11-25"))
	second.expect(opened)
	s.expect(changed)
	second.say(ask)
	s.expect(`{"jsonrpc":"2.0","id":"drawbridge-connect-2:1","method":"roots/list"}`)
	s.send(`{"jsonrpc":"2.0","id":1,"result":{"roots":["late"]}}`)
	s.send(`{"jsonrpc":"2.0","id":"drawbridge-connect-2:1","result":{"roots":[]}}`)
	second.expect(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
}

// TestEndsOnAnotherRevision: a session cannot change what it has agreed on.
func TestEndsOnAnotherRevision(t *testing.T) {
	s := newScene(t)
	s.open().die()
	second := s.host()
	second.expect(helloAgain)
	second.say(welcomeAgain("2024-11-05"))
	select {
	case err := <-s.done:
		if !errors.Is(err, ErrRevision) {
			t.Errorf("Run = %v", err)
		}
		s.done <- err
	case <-time.After(limit):
		t.Fatal("it goes on")
	}
}

// TestStatelessClientsSayNothingAgain: a client of 2026-07-28 has no session to be said.
func TestStatelessClientsSayNothingAgain(t *testing.T) {
	s := newScene(t)
	first := s.host()
	discover := `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	s.send(discover)
	first.expect(discover)
	first.say(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	s.expect(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	first.die()
	second := s.host()
	s.send(callOne)
	second.expect(callOne)
}

// TestEndOfInput: the host hears of it, may still answer what came before, and Run ends;
// also when the host does not care, or a start is under way.
func TestEndOfInput(t *testing.T) {
	s := newScene(t)
	h := s.open()
	s.send(callOne)
	if err := s.in.Close(); err != nil {
		t.Fatal(err)
	}
	h.expect(callOne)
	_ = h.conn.SetReadDeadline(time.Now().Add(limit))
	if _, err := h.in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Fatalf("the host reads %v", err)
	}
	h.say(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	h.die()
	s.expect(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	s.ends()

	s = newScene(t)
	s.open()
	_ = s.in.Close()
	s.ends()

	s = newScene(t, func(o *Options) {
		o.Dial = func(ctx context.Context, _ How) (Stream, error) { <-ctx.Done(); return nil, ctx.Err() }
	})
	s.send(hello)
	_ = s.in.Close()
	s.ends()
}

func (s *scene) ends() {
	s.t.Helper()
	select {
	case err := <-s.done:
		if err != nil {
			s.t.Errorf("Run = %v", err)
		}
		s.done <- nil
	case <-time.After(2 * farewell):
		s.t.Error("it goes on without a client")
	}
}

// TestClientWaitsForItsHost: what a host does not read is not read of the client either,
// and comes in order when the host does.
func TestClientWaitsForItsHost(t *testing.T) {
	s := newScene(t)
	h := s.open()
	message := func(i int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/x","params":{"i":%d,"pad":"%s"}}`, i, strings.Repeat("x", 60_000))
	}
	sent := 0
	for ; sent < 1000; sent++ { // 60 MB, far over the pipes' room and what is read ahead
		_ = s.in.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		if n, err := io.WriteString(s.in, message(sent)+"\n"); err != nil {
			rest := (message(sent) + "\n")[n:]
			go func() {
				_ = s.in.SetWriteDeadline(time.Now().Add(limit))
				_, _ = io.WriteString(s.in, rest)
			}()
			break
		}
	}
	if sent == 1000 {
		t.Fatal("the client is read without end")
	}
	for i := range sent + 1 {
		h.expect(message(i))
	}
}

// TestLargeMessages: both ways, over what is kept in memory, byte for byte.
func TestLargeMessages(t *testing.T) {
	s := newScene(t)
	h := s.open()
	large := strings.Replace(callOne, "9007199254740993", `"`+strings.Repeat("é", 2<<20)+`"`, 1)
	go s.send(large)
	h.expect(large)
	answer := `{"jsonrpc":"2.0","id":1,"result":{"text":"` + strings.Repeat("z", 5<<20) + `"}}`
	go h.say(answer)
	s.expect(answer)
}

// TestEndsWithItsOutput: a client that hangs up is an error.
func TestEndsWithItsOutput(t *testing.T) {
	s := newScene(t)
	h := s.open()
	_ = s.read.Close()
	h.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)
	select {
	case err := <-s.done:
		if err == nil {
			t.Error("Run = nil")
		}
		s.done <- err
	case <-time.After(limit):
		t.Fatal("it goes on")
	}
}
