package session

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

func TestQueueSpoolsAndKeepsOrder(t *testing.T) {
	const n = 3000
	release := make(chan struct{})
	r := newRig(t, func(c *fakeConn, in received) {
		m := mustParse(t, in)
		pad := strings.Repeat("p", 4<<10)
		for i := range n {
			c.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":%q}}`, m.ID, i, pad))
		}
		c.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":%q}}`, m.ID, n, strings.Repeat("q", 2<<20)))
		c.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{}}`)
		close(release)
	})
	next := 0
	_, err := r.do(t.Context(), `{}`, terms{silence: patience, notify: func(m *rpc.Message) error {
		if next == 0 {
			<-release // the caller is slow; the reader goes on
			eventually(t, "the reader has read all", func() bool { return len(r.conn.events) == 0 })
		}
		if got := string(m.Get("params", "progress")); got != fmt.Sprint(next) {
			t.Errorf("%s comes at place %d", got, next)
		}
		next++
		return nil
	}})
	if err != nil || next != n+1 {
		t.Errorf("%d of %d arrived, %v", next, n+1, err)
	}
	if d := r.link.counts.dropped.Load(); d != 0 {
		t.Errorf("%d dropped", d)
	}
}

func TestACallerThatLeavesFreesItsQueue(t *testing.T) {
	in := make(chan received, 2)
	r := newRig(t, hold(in))
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan struct{}, 1)
	stay := make(chan struct{})
	call := r.start(ctx, `{}`, terms{silence: time.Hour, notify: func(*rpc.Message) error {
		select {
		case told <- struct{}{}:
		default:
		}
		<-stay
		return io.ErrClosedPipe
	}})
	m := mustParse(t, <-in)
	note := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":0,"message":%q}}`, m.ID, strings.Repeat("p", 100<<10))
	for range 100 {
		r.conn.say(note)
	}
	<-told
	cancel()
	close(stay)
	wantLost(t, r.wait(call).err, true, Cancelled, "")
	r.conn.say(note)
	eventually(t, "what comes later is dropped", func() bool { return r.link.counts.dropped.Load() > 0 })
}
