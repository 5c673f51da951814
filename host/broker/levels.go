package broker

import (
	"slices"
	"sync"
)

// severities are the levels of MCP's logging, most verbose first (RFC 5424).
var severities = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// levels keeps the level that each client session asked for. A server has one
// level for all, so it is told the most verbose; the face filters per session.
type levels struct {
	mu    sync.Mutex
	by    map[string]string
	asked string
}

// SetLogLevel records the level that a client session wants; the empty level
// forgets the session. It reports whether the level is one that MCP knows.
func (b *Broker) SetLogLevel(session, level string) bool {
	if level != "" && !slices.Contains(severities, level) {
		return false
	}
	b.levels.mu.Lock()
	defer b.levels.mu.Unlock()
	if most, changed := b.levels.set(session, level); changed {
		// Under the lock, or of two that change it the servers might hear the later first.
		b.opts.Sessions.SetLogLevel(most)
	}
	return true
}

// set returns the level that the servers are to have now. The lock is held.
func (l *levels) set(session, level string) (most string, changed bool) {
	if l.by == nil {
		l.by = make(map[string]string)
	}
	if level == "" {
		delete(l.by, session)
	} else {
		l.by[session] = level
	}
	for _, level := range l.by {
		if most == "" || slices.Index(severities, level) < slices.Index(severities, most) {
			most = level
		}
	}
	// With nobody left the servers keep the last level: there is no "unset".
	if most == "" || most == l.asked {
		return l.asked, false
	}
	l.asked = most
	return most, true
}
