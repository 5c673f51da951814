package session

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// TestC035_CancelNamesTheIdTheServerKnows: exactly one cancellation, of the one
// call, and what comes for it afterwards is dropped.
func TestC035_CancelNamesTheIdTheServerKnows(t *testing.T) {
	in := make(chan received, 16)
	r := newRig(t, hold(in))
	ctx, cancel := context.WithCancel(t.Context())
	first := r.start(ctx, `{"n":101}`, terms{silence: patience})
	id101 := mustParse(t, <-in).ID
	second := r.start(t.Context(), `{"n":102}`, terms{silence: patience})
	id102 := mustParse(t, <-in).ID
	cancel()
	m := mustParse(t, <-in)
	if m.Method != methodCancelled || rpc.ID(m.Get("params", "requestId")) != id101 {
		t.Fatalf("the server got %s", text(t, m))
	}
	wantLost(t, r.wait(first).err, true, Cancelled, "cancelled")
	r.conn.say(`{"jsonrpc":"2.0","id":` + string(id101) + `,"result":{}}`)
	r.conn.say(`{"jsonrpc":"2.0","id":` + string(id102) + `,"result":{}}`)
	if o := r.wait(second); o.err != nil {
		t.Fatal(o.err)
	}
	if n := r.link.counts.dropped.Load(); n != 1 {
		t.Errorf("%d messages dropped, want the one late answer", n)
	}
	select {
	case x := <-in:
		t.Errorf("the server got one more message: %s", x.text)
	default:
	}
}

// When the time of a call is over while the reader writes a notification for it to
// a file, the call sleeps until that is done: it does not turn on the spot.
func TestATimeoutWaitsForTheReaderAsleep(t *testing.T) {
	for name, comes := range map[string]bool{"nothing comes of it": false, "the answer comes after it": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(*fakeConn, received) {})
				c := r.link.newCall(true)
				defer r.link.release(c)
				c.q.spool = &spool{dir: t.TempDir(), busy: true}
				ended := make(chan outcome, 1)
				go func() {
					m, err := r.link.run(t.Context(), c, rpc.NewRequest(rpc.Number(c.id), "tools/call", []byte(`{}`)), terms{silence: time.Second})
					ended <- outcome{m, err}
				}()
				time.Sleep(time.Hour) // only passes when everybody sleeps
				select {
				case o := <-ended:
					t.Fatalf("it has ended while there is something: %v", o.err)
				default:
				}
				if comes {
					c.q.finish(mustParse(t, received{text: []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)}), nil)
				}
				c.q.mu.Lock()
				c.q.spool = nil
				c.q.mu.Unlock()
				c.q.signal()
				switch o := <-ended; {
				case comes && o.err != nil:
					t.Error(o.err)
				case !comes:
					wantLost(t, o.err, true, Timeout, "no answer within 1s")
				}
			})
		})
	}
}

func TestAnAnswerWithinTheGraceIsTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first *rpc.Message
		r := newRig(t, func(c *fakeConn, in received) {
			if m := mustParse(t, in); m.Kind == rpc.Request {
				first = m
				return
			}
			time.Sleep(cancelGrace - time.Millisecond)
			c.say(`{"jsonrpc":"2.0","id":` + string(first.ID) + `,"result":{"done":true}}`)
		})
		m, err := r.do(t.Context(), `{}`, terms{silence: time.Second})
		if err != nil || string(m.Get("result", "done")) != "true" {
			t.Errorf("%v, %v", m, err)
		}
	})
}

// TestC039_ProgressKeepsACallAliveUpToItsLimit: with limits of 2 s of silence and
// 10 s in all, a call that reports each second ends well at 5 s, and one that
// reports for ever is ended at 10 s.
func TestC039_ProgressKeepsACallAliveUpToItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		progress := func(c *fakeConn, m *rpc.Message, seconds int) {
			for range seconds {
				time.Sleep(time.Second)
				c.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(m.ID) + `,"progress":1}}`)
			}
			c.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{}}`)
		}
		var talking sync.WaitGroup
		defer talking.Wait()
		cancels := make(chan received, 4)
		r := newRig(t, func(c *fakeConn, in received) {
			m := mustParse(t, in)
			switch {
			case m.Kind != rpc.Request:
				cancels <- in
			case strings.Contains(string(in.text), "tool A"):
				talking.Go(func() { progress(c, m, 5) })
			default:
				talking.Go(func() { progress(c, m, 30) })
			}
		})
		limits := terms{silence: 2 * time.Second, max: 10 * time.Second}
		begun := time.Now()
		if _, err := r.do(t.Context(), `{"x":"tool A"}`, limits); err != nil || time.Since(begun) != 5*time.Second {
			t.Errorf("the call that reports progress: %v after %s", err, time.Since(begun))
		}
		begun = time.Now()
		_, err := r.do(t.Context(), `{"x":"tool B"}`, limits)
		wantLost(t, err, true, Timeout, "10s (call_timeout_max)")
		wantLost(t, err, true, Timeout, "2s")
		if took := time.Since(begun); took != 10*time.Second+cancelGrace {
			t.Errorf("ended after %s", took)
		}
		if n := len(cancels); n != 1 {
			t.Errorf("the server was told %d times", n)
		}
	})
}

func TestSilenceEndsACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, silentServer)
		_, err := r.do(t.Context(), `{}`, terms{silence: 2 * time.Second, max: time.Minute})
		wantLost(t, err, true, Timeout, "2s (call_timeout;")
		wantLost(t, err, true, Timeout, "1m0s")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = r.do(ctx, `{}`, terms{silence: 2 * time.Second, max: time.Minute})
		wantLost(t, err, true, Timeout, "deadline")
		ctx, cancel = context.WithTimeoutCause(t.Context(), time.Second, errors.New("the lunch break is over"))
		defer cancel()
		_, err = r.do(ctx, `{}`, terms{silence: 2 * time.Second, max: time.Minute})
		wantLost(t, err, true, Timeout, "the lunch break is over")
	})
}

func TestBeginIsAskedBeforeAnythingIsSent(t *testing.T) {
	r := newRig(t, echo(t))
	refusal := errors.New("journal is full")
	if _, err := r.do(t.Context(), `{}`, terms{begin: func() error { return refusal }}); !errors.Is(err, refusal) {
		t.Errorf("the error is %v", err)
	}
	if r.conn.handed() != 0 {
		t.Error("something was sent")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.do(ctx, `{}`, terms{}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if r.conn.handed() != 0 {
		t.Error("something was sent for a caller that was gone")
	}
}

func TestARequestOverMaxMessageIsNotSent(t *testing.T) {
	r := newRigOf(t, 100, echo(t))
	begun := false
	_, err := r.do(t.Context(), `{"x":"`+strings.Repeat("x", 100)+`"}`, terms{begin: func() error { begun = true; return nil }})
	wantLost(t, err, false, MessageTooLarge, "max_message (100 bytes)")
	if begun || r.conn.handed() != 0 {
		t.Error("it was begun or sent")
	}
}

// TestAServerThatNeverStopsTalking keeps no call from its end.
func TestAServerThatNeverStopsTalking(t *testing.T) {
	stop := make(chan struct{})
	var talking sync.WaitGroup
	r := newRig(t, func(c *fakeConn, in received) {
		m := mustParse(t, in)
		if m.Kind != rpc.Request {
			return
		}
		talking.Go(func() {
			for {
				select {
				case <-stop:
					return
				case c.events <- provider.Chunk{Data: []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(m.ID) + `,"progress":1}}`), Last: true}:
				}
			}
		})
	})
	defer func() { close(stop); talking.Wait() }()
	slow := func(*rpc.Message) error { time.Sleep(time.Millisecond); return nil }
	_, err := r.do(t.Context(), `{}`, terms{silence: patience, max: 50 * time.Millisecond, notify: slow})
	wantLost(t, err, true, Timeout, "50ms (call_timeout_max)")
	ctx, cancel := context.WithCancel(t.Context())
	call := r.start(ctx, `{}`, terms{silence: patience, notify: func(*rpc.Message) error { cancel(); return nil }})
	wantLost(t, r.wait(call).err, true, Cancelled, "")
}
