package front

import (
	"context"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

const (
	// maxNotices bounds the log messages that wait for a client, so that one which
	// reads slowly costs little. What is over is dropped: logs may be.
	maxNotices = 256
	// pulseEvery is how often a quiet stream over HTTP gets a comment, so that a
	// peer that is gone is found out and proxies do not close it.
	pulseEvery = 25 * time.Second
)

// toolsChangedNotice is what legacy clients get.
var toolsChangedNotice = rpc.NewNotification("notifications/tools/list_changed", nil)

// notices are what one client is to hear outside of its requests. Anyone may add
// without waiting; the goroutine of the stream they go to takes them out.
//
// A change is one bit: changes that come faster than the client is told of them
// are one change to it, and one that finds no stream open waits for the next.
// Log messages find a stream, or are dropped.
type notices struct {
	// admits says which log messages the client wants; nil means none.
	admits func(mcp.LoggingLevel) bool
	wake   chan struct{} // of capacity 1: there may be something to take

	mu      sync.Mutex
	changed bool
	// preparing counts the lists under way that wait for providers: a change
	// meanwhile will be in them, so it is not told before.
	preparing int
	messages  []rpc.Payload
	stream    int // the stream that may take, 0 for none; the newest is the one
	streams   int
}

func newNotices(admits func(mcp.LoggingLevel) bool) *notices {
	return &notices{admits: admits, wake: make(chan struct{}, 1)}
}

func (n *notices) ring() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *notices) change() {
	n.mu.Lock()
	n.changed = true
	n.mu.Unlock()
	n.ring()
}

func (n *notices) say(level mcp.LoggingLevel, p rpc.Payload) {
	if n.admits == nil || !n.admits(level) {
		return
	}
	n.mu.Lock()
	if n.stream != 0 && len(n.messages) < maxNotices {
		n.messages = append(n.messages, p)
	}
	n.mu.Unlock()
	n.ring()
}

// attach makes the caller's stream the one that notices go to.
func (n *notices) attach() (stream int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.streams++
	n.stream = n.streams
	n.ring()
	return n.stream
}

// detach says that the stream is over.
func (n *notices) detach(stream int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stream == stream {
		n.stream, n.messages = 0, nil
	}
}

func (n *notices) take(stream int) (changed bool, messages []rpc.Payload) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stream != stream {
		return false, nil
	}
	messages, n.messages = n.messages, nil
	if n.preparing == 0 {
		changed, n.changed = n.changed, false
	}
	return changed, messages
}

// prepare runs what brings a list of this client up to date. Changes until then
// will be in the list that is taken afterwards, and are none to the client.
func (n *notices) prepare(update func()) {
	n.mu.Lock()
	n.preparing++
	n.mu.Unlock()
	update()
	n.mu.Lock()
	n.preparing--
	n.changed = false
	n.mu.Unlock()
}

// relay writes a client's notices to its stream until ctx or the face ends (nil),
// or the client cannot be reached. changed is the client's form of that notice.
func (s *Server) relay(ctx context.Context, n *notices, stream int, changed rpc.Payload, w Writer) error {
	var pulse <-chan time.Time
	beating, ok := w.(interface{ Pulse() error })
	if ok {
		ticker := time.NewTicker(pulseEvery)
		defer ticker.Stop()
		pulse = ticker.C
	}
	for {
		isChanged, messages := n.take(stream)
		if isChanged {
			if err := w.Notify(changed); err != nil {
				n.change() // for the client's next stream
				return err
			}
		}
		for _, m := range messages {
			if err := w.Notify(m); err != nil {
				return err
			}
		}
		select {
		case <-n.wake:
		case <-pulse:
			if err := beating.Pulse(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		case <-s.closing:
			return nil
		}
	}
}

// audience is everyone who hears of what happens outside of requests.
type audience struct {
	mu  sync.RWMutex
	all map[*notices]struct{}
}

func (a *audience) join(n *notices) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = make(map[*notices]struct{})
	}
	a.all[n] = struct{}{}
}

func (a *audience) leave(n *notices) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, n)
}

func (a *audience) changed() {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for n := range a.all {
		n.change()
	}
}

func (a *audience) say(level mcp.LoggingLevel, p rpc.Payload) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for n := range a.all {
		n.say(level, p)
	}
}
