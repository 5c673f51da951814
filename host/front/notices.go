package front

import (
	"context"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
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

// kind is whom a list is for, as far as the host can tell callers apart: a session,
// or else all requests of one client that belong to none.
type kind = broker.Caller

func kindOf(c broker.Caller) kind {
	k := kind{Principal: c.Principal, Project: c.Project, Session: c.Session}
	if c.Session == "" {
		k.Client = c.Client
	}
	return k
}

// notices are what one client is to hear outside of its requests. Anyone may add
// without waiting; the goroutine of the stream they go to takes them out.
//
// A change is one bit: changes that come faster than the client is told of them
// are one change to it, and one that finds no stream open waits for the next.
// Whether it is one at all shows when it is taken: the client hears of it only if
// its own view is another than it was last shown or told. Log messages find a
// stream, or are dropped.
type notices struct {
	of kind
	// revision is that of the client's view now.
	revision func() string
	// audience knows which lists are under way.
	audience *audience
	// admits says which log messages the client wants; nil means none.
	admits func(mcp.LoggingLevel) bool
	// sees says whether the client has to do with a provider.
	sees func(provider string) bool
	wake chan struct{} // of capacity 1: there may be something to take

	mu      sync.Mutex
	changed bool
	// seen is the revision that the client was last shown or told, "" for none.
	seen string
	// fresh says that nobody of this kind was shown a list before the stream began:
	// the first one that is, is taken for this client's. Of a session all are.
	fresh    bool
	messages []rpc.Payload
	stream   int // the stream that may take, 0 for none; the newest is the one
	streams  int
}

func (s *Server) newNotices(c broker.Caller, admits func(mcp.LoggingLevel) bool) *notices {
	return &notices{
		of: kindOf(c), revision: func() string { return s.broker.View(c).Revision() }, audience: &s.audience,
		admits: admits, sees: func(provider string) bool { return s.broker.Sees(c, provider) }, wake: make(chan struct{}, 1),
	}
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

func (n *notices) say(provider string, level mcp.LoggingLevel, p rpc.Payload) {
	if n.admits == nil || !n.admits(level) || !n.sees(provider) {
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
	preparing := n.audience.preparing(n.of)
	n.mu.Lock()
	if n.stream != stream {
		n.mu.Unlock()
		return false, nil
	}
	messages, n.messages = n.messages, nil
	// A list of this client that is under way will have the change in it.
	look := n.changed && !(n.own() && preparing)
	if look {
		n.changed = false
	}
	n.mu.Unlock()
	if !look {
		return false, messages
	}
	now := n.revision()
	n.mu.Lock()
	defer n.mu.Unlock()
	changed = n.seen != now
	n.seen = now
	return changed, messages
}

// own says whether a list of the stream's kind is one of its own client. The lock
// is held.
func (n *notices) own() bool { return n.fresh || n.of.Session != "" }

// untold takes back that the client was told of a change.
func (n *notices) untold() {
	n.mu.Lock()
	n.seen = ""
	n.mu.Unlock()
	n.change()
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
		if o, ok := w.(interface{ Over() bool }); ok && o.Over() {
			return errLeaseOver // what changed may be what its client has
		}
		if isChanged {
			if err := w.Notify(changed); err != nil {
				n.untold() // its next stream will tell it
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

// maxKinds bounds for how many clients without a session it is kept what they were
// shown last.
const maxKinds = 4096

// audience is everyone who hears of what happens outside of requests, and what of
// it is in lists that they were shown or are about to be.
type audience struct {
	mu  sync.RWMutex
	all map[*notices]struct{}
	// lists counts the lists under way, by whom they are for.
	lists map[kind]int
	// last is the revision that clients without a session were last shown. full says
	// that some are not in it any more.
	last map[kind]string
	full bool
}

// join takes somebody in. What the client was shown is taken from before, else it
// is what it would be shown now.
func (a *audience) join(n *notices) {
	now := n.revision()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = make(map[*notices]struct{})
	}
	a.all[n] = struct{}{}
	last, before := a.last[n.of]
	n.mu.Lock()
	switch {
	case n.seen != "": // a client may initialize again
	case before:
		n.seen = last
	default:
		n.seen, n.fresh = now, !a.full
	}
	n.changed = true // there may have been one since now, and if not, nothing is told
	n.mu.Unlock()
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

// hold says that a list is being made for somebody: its client hears of no change
// until it has it. release may be called more than once.
func (a *audience) hold(k kind) (release func()) {
	a.mu.Lock()
	if a.lists == nil {
		a.lists = make(map[kind]int)
	}
	a.lists[k]++
	a.mu.Unlock()
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.lists[k]--; a.lists[k] == 0 {
			delete(a.lists, k)
		}
		for n := range a.all {
			if n.of == k {
				n.ring()
			}
		}
	})
}

func (a *audience) preparing(k kind) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.lists[k] > 0
}

// shown says which revision somebody is shown now.
func (a *audience) shown(k kind, revision string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k.Session == "" {
		if a.last == nil {
			a.last = make(map[kind]string)
		}
		if _, there := a.last[k]; !there && len(a.last) >= maxKinds {
			clear(a.last)
			a.full = true
		}
		a.last[k] = revision
	}
	for n := range a.all {
		if n.of != k {
			continue
		}
		n.mu.Lock()
		if n.own() {
			n.seen, n.fresh = revision, false
		}
		n.mu.Unlock()
	}
}

func (a *audience) say(provider string, level mcp.LoggingLevel, p rpc.Payload) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for n := range a.all {
		n.say(provider, level, p)
	}
}
