package front

import (
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// denialSpan is for how long refusals with one reason are counted together, and
	// denialLines how many of them are logged: enough to see what is wrong, and too
	// few to fill a disk by asking.
	denialSpan  = time.Minute
	denialLines = 10
	// denialReasons bounds what is kept of them. Reasons are few: they hold nothing of
	// a token.
	denialReasons = 64
)

// denials logs who was refused, and why, in a bounded number of lines whatever the
// clients do. It is safe for concurrent use.
type denials struct {
	log *slog.Logger

	mu     sync.Mutex
	counts map[string]*denialCount
}

type denialCount struct {
	since time.Time
	lines int
	more  int // that were not logged
}

func newDenials(log *slog.Logger) *denials {
	return &denials{log: log, counts: make(map[string]*denialCount)}
}

// note logs a refusal, unless as many with its reason were logged just now: then the
// next one that is logged says how many were not.
func (d *denials) note(what string, r *http.Request, why error, attrs ...any) {
	unlogged, ok := d.admit(why.Error(), time.Now())
	if !ok {
		return
	}
	remote, _, _ := net.SplitHostPort(r.RemoteAddr)
	attrs = append([]any{"why", why, "from", remote}, attrs...)
	if unlogged > 0 {
		attrs = append(attrs, "not_logged_before", unlogged)
	}
	d.log.Warn(what, attrs...)
}

// admit says whether a refusal is to be logged, and how many with its reason were not.
func (d *denials) admit(reason string, now time.Time) (unlogged int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.counts[reason]
	if c == nil {
		if len(d.counts) >= denialReasons {
			reason = "" // one count for all that are too many
		}
		if c = d.counts[reason]; c == nil {
			c = &denialCount{since: now}
			d.counts[reason] = c
		}
	}
	if now.Sub(c.since) >= denialSpan {
		c.since, c.lines = now, 0
	}
	if c.lines >= denialLines {
		c.more++
		return 0, false
	}
	c.lines++
	unlogged, c.more = c.more, 0
	return unlogged, true
}
