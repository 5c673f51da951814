package front

import (
	"context"
	"sync"
	"time"
)

// maxSessions bounds the sessions over HTTP. Few clients end theirs, so they pile
// up until session_idle; each is small. At the bound an idle one makes room.
const maxSessions = 10_000

// sessions are the legacy sessions over HTTP, by their id.
type sessions struct {
	most int // maxSessions; set once
	mu   sync.Mutex
	byID map[string]*webSession
}

// webSession is a session over HTTP: it ends by DELETE, or when nothing has
// happened in it for session_idle.
type webSession struct {
	*session
	idle  *time.Timer
	after time.Duration

	use      sync.Mutex         // guards what follows
	holders  int                // requests and streams
	leftAt   time.Time          // when the last of them ended
	streamNo int                // the GET stream that is open
	stream   context.CancelFunc // ends it; nil for none
}

// startWebSession opens a session for whom it is and holds it. When there are too
// many, the one that makesRoom ends; nil when all of them are in use.
func (s *Server) startWebSession(who party) *webSession {
	w := &webSession{session: s.newSession(who), after: s.opts.SessionIdle}
	w.holders = 1
	w.idle = time.AfterFunc(w.after, func() { s.expire(w) })
	w.idle.Stop()
	all := &s.sessions
	all.mu.Lock()
	var gone *webSession
	if len(all.byID) >= all.most {
		if gone = all.makesRoom(); gone == nil {
			all.mu.Unlock()
			w.end()
			return nil
		}
		delete(all.byID, gone.id)
	}
	if all.byID == nil {
		all.byID = make(map[string]*webSession)
	}
	all.byID[w.id] = w
	all.mu.Unlock()
	if gone != nil {
		s.log.Warn("too many sessions over HTTP: the one that was idle longest has ended", "sessions", all.most)
		gone.idle.Stop()
		gone.end()
	}
	return w
}

// makesRoom is the session that was idle longest, of those of the principal who has
// most: who opens them by the thousand does not end another's. A client whose
// session has ended initializes anew. nil means that all are in use. The lock is held.
func (all *sessions) makesRoom() *webSession {
	count := make(map[string]int)
	longest := make(map[string]*webSession)
	for _, w := range all.byID {
		count[w.principal]++
		w.use.Lock()
		idle, leftAt := w.holders == 0, w.leftAt
		w.use.Unlock()
		if idle && (longest[w.principal] == nil || leftAt.Before(longest[w.principal].leftAt)) {
			longest[w.principal] = w
		}
	}
	var found *webSession
	for principal, w := range longest {
		if found == nil || count[principal] > count[found.principal] ||
			count[principal] == count[found.principal] && w.leftAt.Before(found.leftAt) {
			found = w
		}
	}
	return found
}

// holdWebSession finds a caller's session and keeps it from expiring until
// release. Another principal's is not there, nor one of another project.
func (s *Server) holdWebSession(id string, who party) *webSession {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	w := s.sessions.byID[id]
	if w == nil || w.party != who {
		return nil
	}
	w.use.Lock()
	defer w.use.Unlock()
	w.holders++
	w.idle.Stop()
	return w
}

// release lets the session expire when nobody else holds it. One that `initialize`
// has not opened ends at once.
func (w *webSession) release() {
	w.use.Lock()
	w.holders--
	left := w.holders == 0
	if left {
		w.leftAt = time.Now()
	}
	if left && w.ctx.Err() == nil {
		w.idle.Reset(w.after)
	}
	w.use.Unlock()
	if left && !w.opened() {
		w.server.endWebSession(w)
	}
}

// expire ends a session that nobody holds. Whoever looks for it at the same
// moment either holds it first or does not find it.
func (s *Server) expire(w *webSession) {
	s.sessions.mu.Lock()
	w.use.Lock()
	held := w.holders > 0
	w.use.Unlock()
	if !held {
		delete(s.sessions.byID, w.id)
	}
	s.sessions.mu.Unlock()
	if !held {
		w.end()
	}
}

// endWebSession ends a session and forgets it: its requests are cancelled, its
// stream ends, and its id is unknown from then on.
func (s *Server) endWebSession(w *webSession) {
	s.sessions.mu.Lock()
	delete(s.sessions.byID, w.id)
	s.sessions.mu.Unlock()
	w.idle.Stop()
	w.end()
}

func (all *sessions) endAll() {
	all.mu.Lock()
	gone := all.byID
	all.byID = nil
	all.mu.Unlock()
	for _, w := range gone {
		w.idle.Stop()
		w.end()
	}
}

// takeStream gives the session's notices to a new GET stream, which lasts as long
// as the context returned. A stream that is open already ends: its client has most
// likely lost it, and comes again. Who took it calls end.
func (w *webSession) takeStream(parent context.Context) (ctx context.Context, stream int, end func()) {
	ctx, cancel := context.WithCancel(parent)
	unhook := context.AfterFunc(w.ctx, cancel)
	w.use.Lock()
	defer w.use.Unlock()
	if w.stream != nil {
		w.stream()
	}
	stream = w.notices.attach()
	w.stream, w.streamNo = cancel, stream
	return ctx, stream, func() {
		w.notices.detach(stream)
		unhook()
		cancel()
		w.use.Lock()
		defer w.use.Unlock()
		if w.streamNo == stream {
			w.stream = nil // and with it what it holds of its request
		}
	}
}
