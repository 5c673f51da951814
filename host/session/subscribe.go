package session

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// A subscription that ended is opened again after relistenFirst, which doubles up
// to relistenMax while it does not last for relistenMax.
const (
	relistenFirst = time.Second
	relistenMax   = time.Minute
)

// subscribe asks a modern server to say when its tools change; an older one does
// so by itself. It returns when the server has acknowledged it, for what changes
// before that goes unsaid (MCP 2026-07-28, basic/patterns/subscriptions); a server
// that does not is not waited for long. The subscription is kept as long as the
// stream.
func (o *opening) subscribe(ctx context.Context, i *Instance) {
	if i.server.Era != Modern || !i.server.Declares("tools", "listChanged") {
		return
	}
	answered := make(chan struct{})
	o.m.work.Go(func() { i.keepSubscription(answered) }) //nolint:contextcheck // it lives as long as the stream, which is longer than the start
	limit := time.NewTimer(probeLimit)
	defer limit.Stop()
	select {
	case <-answered:
	case <-limit.C:
		i.log.Warn("the server has not acknowledged subscriptions/listen")
	case <-i.link.done:
	case <-ctx.Done():
	}
}

// keepSubscription keeps a subscription open until the stream ends. answered is
// closed when the server has acknowledged or refused the first.
func (i *Instance) keepSubscription(answered chan struct{}) {
	pause := relistenFirst
	level := slog.LevelWarn
	for n := 1; ; n++ {
		opened := time.Now()
		acknowledged := i.listen(n, answered)
		if i.link.ended() {
			return
		}
		closeOnce(answered)
		if acknowledged && time.Since(opened) >= relistenMax {
			pause = relistenFirst
		}
		i.log.Log(context.Background(), level, "the server has ended subscriptions/listen, by which it says when its tools change",
			"acknowledged", acknowledged, "again_in", pause)
		level = slog.LevelDebug // it may do so for ever
		if !i.pause(pause) {
			return
		}
		pause = min(2*pause, relistenMax)
	}
}

// closeOnce closes a channel that may be closed already; only one goroutine does.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// listen opens the n-th subscription and returns when it, or the stream, has
// ended. It says whether the server had acknowledged it.
func (i *Instance) listen(n int, answered chan struct{}) (acknowledged bool) {
	defer i.list.listening.Store(false)
	select {
	case <-i.listening: // of the one before
	default:
	}
	c := i.link.newCall(false)
	defer i.link.release(c)
	params := `{"notifications":{"toolsListChanged":true},"_meta":` + string(i.id.meta(i.server.Version)) + `}`
	if err := i.link.send(context.Background(), c, rpc.NewRequest(rpc.Number(c.id), methodListen, json.RawMessage(params))); err != nil {
		return false
	}
	for {
		select {
		case <-i.listening:
			acknowledged = true
			i.list.listening.Store(true)
			closeOnce(answered)
			if n > 1 {
				i.changed() // what changed while nobody listened went unsaid
			}
		case <-c.q.wake:
			return acknowledged
		case <-i.link.done:
			return acknowledged
		}
	}
}
