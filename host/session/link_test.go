package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// peers collects what a link passes on.
type peers struct {
	mu   sync.Mutex
	said []*rpc.Message
}

func (p *peers) request(m *rpc.Message)      { p.add(m) }
func (p *peers) notification(m *rpc.Message) { p.add(m) }
func (p *peers) add(m *rpc.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, m)
}

func (p *peers) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.said)
}

// rig is a link to a scripted server.
type rig struct {
	t     testing.TB
	link  *link
	conn  *fakeConn
	peers *peers
	noise atomic.Int64
}

func newRig(t testing.TB, handle func(*fakeConn, received)) *rig {
	return newRigOf(t, 64<<20, handle)
}

func newRigOf(t testing.TB, maxMessage int64, handle func(*fakeConn, received)) *rig {
	ctx, hang := context.WithCancel(context.Background())
	r := &rig{t: t, peers: &peers{}, conn: newFakeConn(ctx, handle)}
	r.link = newLink(r.conn, hang, linkOptions{
		dir: t.TempDir(), maxMessage: maxMessage, peer: r.peers, noise: &r.noise, logger: slog.New(slog.DiscardHandler),
	})
	r.link.start()
	t.Cleanup(func() {
		r.link.close()
		r.conn.done.Wait()
	})
	return r
}

func mustParse(t testing.TB, r received) *rpc.Message {
	m, err := rpc.Parse(rpc.FromServer, r.text)
	if err != nil {
		t.Errorf("the host sent what is no message: %s: %v", r.text, err)
	}
	return m
}

// do sends one request and waits for its end.
func (r *rig) do(ctx context.Context, params string, t terms) (*rpc.Message, error) {
	c := r.link.newCall(true)
	defer r.link.release(c)
	return r.link.run(ctx, c, rpc.NewRequest(rpc.Number(c.id), "tools/call", []byte(params)), t)
}

// start does the same in the background.
func (r *rig) start(ctx context.Context, params string, t terms) <-chan outcome {
	ch := make(chan outcome, 1)
	go func() {
		m, err := r.do(ctx, params, t)
		ch <- outcome{m, err}
	}()
	return ch
}

type outcome struct {
	m   *rpc.Message
	err error
}

func (r *rig) wait(ch <-chan outcome) outcome {
	r.t.Helper()
	select {
	case o := <-ch:
		return o
	case <-time.After(patience):
		r.t.Fatal("the call does not end")
		return outcome{}
	}
}

func wantLost(t testing.TB, err error, dispatched bool, reason Reason, cause string) {
	t.Helper()
	var lost *Lost
	if !errors.As(err, &lost) {
		t.Fatalf("the error is %v, want a *Lost", err)
	}
	if lost.Dispatched != dispatched || lost.Reason != reason || !strings.Contains(lost.Cause, cause) {
		t.Errorf("lost: dispatched %v, %s, %q; want %v, %s, %q", lost.Dispatched, lost.Reason, lost.Cause, dispatched, reason, cause)
	}
}

func silentServer(*fakeConn, received) {}

// hold returns a handler that passes on what it reads.
func hold(ch chan<- received) func(*fakeConn, received) {
	return func(_ *fakeConn, r received) { ch <- r }
}

func echo(t testing.TB) func(*fakeConn, received) {
	return func(c *fakeConn, r received) {
		if m := mustParse(t, r); m.Kind == rpc.Request {
			c.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"got":` + string(m.Get("params")) + `}}`)
		}
	}
}

func TestAnswersReachTheirCalls(t *testing.T) {
	// Answers come in another order than the requests went out.
	var held []*rpc.Message
	r := newRig(t, func(c *fakeConn, in received) {
		held = append(held, mustParse(t, in))
		if len(held) < 8 {
			return
		}
		for i := len(held) - 1; i >= 0; i-- {
			c.say(`{"jsonrpc":"2.0","id":` + string(held[i].ID) + `,"result":{"got":` + string(held[i].Get("params")) + `}}`)
		}
		held = nil
	})
	for range 20 {
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				m, err := r.do(t.Context(), fmt.Sprintf(`{"n":%d}`, n), terms{silence: patience})
				if err != nil {
					t.Error(err)
					return
				}
				if got := string(m.Get("result", "got")); got != fmt.Sprintf(`{"n":%d}`, n) {
					t.Errorf("call %d got %s", n, got)
				}
			})
		}
		all.Wait()
	}
	if n := r.link.counts.dropped.Load(); n != 0 {
		t.Errorf("%d messages dropped", n)
	}
}

// TestC061_NotificationsAndRequestsAreNoAnswers: what comes before the answer goes
// where it belongs, in order.
func TestC061_NotificationsAndRequestsAreNoAnswers(t *testing.T) {
	r := newRig(t, func(c *fakeConn, in received) {
		m := mustParse(t, in)
		if m.Method != "tools/call" {
			return
		}
		c.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"1"}}`)
		c.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(m.ID) + `,"progress":2}}`)
		c.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"method":"roots/list"}`)
		c.say(`{"jsonrpc":"2.0","method":"notifications/whatever"}`)
		c.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"n":3}}`)
	})
	var got []string
	m, err := r.do(t.Context(), `{}`, terms{silence: patience, notify: func(m *rpc.Message) error {
		got = append(got, m.Method)
		return nil
	}})
	if err != nil || string(m.Get("result", "n")) != "3" {
		t.Fatalf("%v, %v", m, err)
	}
	if want := []string{methodMessage, methodProgress}; !equal(got, want) {
		t.Errorf("notified of %v, want %v", got, want)
	}
	if r.peers.count() != 2 {
		t.Errorf("%d messages passed on, want the request and the notification of no call", r.peers.count())
	}
}

func equal[T comparable](a, b []T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestC062_ProgressReachesItsOwnCallAndNothingComesAfterTheAnswer.
func TestC062_ProgressReachesItsOwnCallAndNothingComesAfterTheAnswer(t *testing.T) {
	var held []*rpc.Message
	r := newRig(t, func(c *fakeConn, in received) {
		held = append(held, mustParse(t, in))
		if len(held) < 4 {
			return
		}
		// The calls' progress is mixed; one value comes twice, one after the answer.
		for _, value := range []int{1, 2, 2} {
			for _, m := range held {
				c.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":%s}}`,
					m.ID, value, m.Get("params", "n")))
			}
		}
		for _, m := range held {
			c.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{}}`)
			c.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(m.ID) + `,"progress":3}}`)
		}
		c.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"nobody's","progress":1}}`)
		c.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`)
	})
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			var got []string
			_, err := r.do(t.Context(), fmt.Sprintf(`{"n":"%d"}`, n), terms{silence: patience, notify: func(m *rpc.Message) error {
				message, _ := m.GetString("params", "message")
				got = append(got, message+":"+string(m.Get("params", "progress")))
				return nil
			}})
			want := []string{fmt.Sprintf("%d:1", n), fmt.Sprintf("%d:2", n), fmt.Sprintf("%d:2", n)}
			if err != nil || !equal(got, want) {
				t.Errorf("call %d: %v, %v; want %v", n, got, err, want)
			}
		})
	}
	all.Wait()
	eventually(t, "4 late and 2 strange progress messages dropped", func() bool { return r.link.counts.dropped.Load() == 6 })
}

func TestUndeliveredEndsExactlyItsCall(t *testing.T) {
	in := make(chan received, 4)
	r := newRig(t, hold(in))
	first := r.start(t.Context(), `{"n":1}`, terms{silence: patience})
	a := <-in
	second := r.start(t.Context(), `{"n":2}`, terms{silence: patience})
	b := <-in
	r.conn.event(provider.Undelivered{Seq: 99, Reason: "of nobody"})
	r.conn.event(provider.Undelivered{Seq: b.seq, Reason: "pipe closed"})
	wantLost(t, r.wait(second).err, false, Undelivered, "pipe closed")
	r.conn.say(`{"jsonrpc":"2.0","id":` + string(mustParse(t, a).ID) + `,"result":{}}`)
	if o := r.wait(first); o.err != nil {
		t.Error(o.err)
	}
}

func TestTheFirstWordOnACallStands(t *testing.T) {
	r := newRig(t, func(c *fakeConn, in received) {
		c.say(`{"jsonrpc":"2.0","id":` + string(mustParse(t, in).ID) + `,"result":{}}`)
		c.event(provider.Undelivered{Seq: in.seq, Reason: "too late"})
	})
	for range 50 {
		if _, err := r.do(t.Context(), `{}`, terms{silence: patience}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestC037_TheEndOfTheStreamEndsEveryCall: at once, with what is known of the end.
func TestC037_TheEndOfTheStreamEndsEveryCall(t *testing.T) {
	for name, end := range map[string]struct {
		how   func(c *fakeConn, hang context.CancelFunc)
		cause string
	}{
		"exit code": {func(c *fakeConn, _ context.CancelFunc) {
			c.event(provider.Exited{Status: provider.ExitStatus{Code: 3, StderrTail: "booting\nError: no key\n\n"}})
		}, "the server exited with code 3: Error: no key"},
		"signal": {func(c *fakeConn, _ context.CancelFunc) {
			c.event(provider.Exited{Status: provider.ExitStatus{Signal: 9}})
		}, "was killed by signal 9 (killed)"},
		"stream closed":   {func(c *fakeConn, _ context.CancelFunc) { c.end() }, "ended the exchange"},
		"plugin vanished": {func(_ *fakeConn, hang context.CancelFunc) { hang() }, "the plugin is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			in := make(chan received, 4)
			r := newRig(t, hold(in))
			var calls []<-chan outcome
			for range 3 {
				calls = append(calls, r.start(t.Context(), `{}`, terms{silence: time.Hour}))
				<-in
			}
			begun := time.Now()
			end.how(r.conn, r.link.hang)
			for _, ch := range calls {
				wantLost(t, r.wait(ch).err, true, Crashed, end.cause)
			}
			if took := time.Since(begun); took > time.Second {
				t.Errorf("the calls ended after %s", took)
			}
			_, err := r.do(t.Context(), `{}`, terms{silence: time.Hour})
			wantLost(t, err, false, NotSent, end.cause)
		})
	}
}

func TestWhatArrivedBeforeTheEndCounts(t *testing.T) {
	r := newRig(t, func(c *fakeConn, in received) {
		c.say(`{"jsonrpc":"2.0","id":` + string(mustParse(t, in).ID) + `,"result":{}}`)
		c.event(provider.Exited{})
	})
	if _, err := r.do(t.Context(), `{}`, terms{silence: patience}); err != nil {
		t.Error(err)
	}
}

// TestAServerThatDoesNotRead: callers are held up neither by their own message nor
// by another's, and a message that was begun is completed.
func TestAServerThatDoesNotRead(t *testing.T) {
	in := make(chan received, 16)
	r := newRig(t, hold(in))
	resume := r.conn.stopReading()
	big := `{"x":"` + strings.Repeat("x", 600<<10) + `"}`
	ctx, cancel := context.WithCancel(t.Context())
	begun := r.start(ctx, big, terms{silence: time.Hour})
	eventually(t, "the message is on its way", func() bool { return len(r.link.slot) == 1 })

	waiting, leave := context.WithCancel(t.Context())
	queued := r.start(waiting, `{}`, terms{silence: time.Hour})
	late := r.start(t.Context(), `{}`, terms{silence: 50 * time.Millisecond})
	wantLost(t, r.wait(late).err, false, NotSent, "did not read")
	leave()
	if o := r.wait(queued); !errors.Is(o.err, context.Canceled) {
		t.Errorf("the call that waited for the stream: %v", o.err)
	}
	cancel()
	// Half of it is out, so the rest will be: it may have an effect.
	wantLost(t, r.wait(begun).err, true, Cancelled, "")

	resume()
	if got := <-in; len(got.text) < 600<<10 {
		t.Errorf("%d bytes arrived of the message that was begun", len(got.text))
	}
	if m := mustParse(t, <-in); m.Method != methodCancelled {
		t.Errorf("then %s arrived", text(t, m))
	}
	later := r.start(t.Context(), `{"n":1}`, terms{silence: patience})
	m := mustParse(t, <-in)
	r.conn.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{}}`)
	if o := r.wait(later); o.err != nil {
		t.Errorf("a call after it: %v", o.err)
	}
}

func TestTheStreamEndsBeforeTheLastChunk(t *testing.T) {
	r := newRig(t, silentServer)
	r.conn.stopReading()
	begun := r.start(t.Context(), `{"x":"`+strings.Repeat("x", 600<<10)+`"}`, terms{silence: time.Hour})
	eventually(t, "the message is on its way", func() bool { return len(r.link.slot) == 1 })
	r.conn.event(provider.Exited{Status: provider.ExitStatus{Code: 1}})
	wantLost(t, r.wait(begun).err, false, NotSent, "code 1")
	if r.conn.handed() != 0 {
		t.Error("the last chunk was handed over")
	}
}

// TestHalfAMessageFromAFileEndsTheStream: the file goes with the caller, and half
// a message cannot stay on the stream.
func TestHalfAMessageFromAFileEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, silentServer)
		r.conn.stopReading()
		begun := time.Now()
		_, err := r.do(t.Context(), `{"x":"`+strings.Repeat("x", 2<<20)+`"}`, terms{silence: time.Second, borrowed: true})
		<-r.link.done
		wantLost(t, err, false, Timeout, "1s")
		if took := time.Since(begun); took != time.Second+cancelGrace+finishGrace {
			t.Errorf("ended after %s", took)
		}
		if r.conn.handed() != 0 {
			t.Error("the last chunk was handed over")
		}
	})
}

func TestRepliesDoNotPileUp(t *testing.T) {
	r := newRig(t, silentServer)
	resume := r.conn.stopReading()
	for range 2 * replyBacklog {
		r.link.reply(rpc.NewResult("1", nil))
	}
	if r.link.counts.refused.Load() == 0 {
		t.Error("a server that asks and does not read is answered without end")
	}
	if !r.link.notify(cancelled(1, "x")) {
		t.Error("no room for the host's own notifications")
	}
	resume()
}

func BenchmarkLink(b *testing.B) {
	r := newRig(b, func(c *fakeConn, in received) {
		// The id stands at a known place in what NewRequest makes.
		const at = len(`{"jsonrpc":"2.0","id":`)
		end := at + strings.IndexByte(string(in.text[at:at+24]), ',')
		answer := append(append([]byte(`{"jsonrpc":"2.0","id":`), in.text[at:end]...), `,"result":{"content":[{"type":"text","text":"hello"}]}}`...)
		c.events <- provider.Chunk{Data: answer, Last: true}
	})
	params := `{"name":"echo","arguments":{"text":"hello"}}`
	b.ReportAllocs()
	b.Run("sequential", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.do(context.Background(), params, terms{silence: time.Minute, max: time.Hour}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := r.do(context.Background(), params, terms{silence: time.Minute, max: time.Hour}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}
