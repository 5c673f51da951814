package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// maxMisses is how many pings in a row a server may leave without an answer. One
// that is paging, or collecting garbage, misses one and is well again.
const maxMisses = 3

// watchHealth pings a silent server (MCP 2025-11-25, basic/utilities/ping; the
// modern era has no ping), and gives it up after maxMisses without a word. It ends
// with the link.
//
// A ping goes out after health_interval of silence, and has as long to be answered;
// whatever else the server says meanwhile is as good as an answer. While a call is
// in flight no ping goes out and none is missed: then the limits of the call decide,
// for there are servers that do one thing after the other.
func (i *Instance) watchHealth() {
	every := i.spec.HealthInterval
	timer := time.NewTimer(every)
	defer timer.Stop()
	for misses := 0; ; {
		select {
		case <-timer.C:
		case <-i.link.done:
			return
		}
		silence := i.link.silence()
		switch {
		case silence < every:
			misses = 0
			timer.Reset(every - silence)
			continue
		case i.link.callsInFlight() > 0:
			timer.Reset(every)
			continue
		case i.ping(every):
			misses = 0
		case i.link.callsInFlight() == 0: // a call that came in between may be what keeps it busy
			misses++
			i.log.Warn("server did not answer a ping", "misses", misses, "of", maxMisses)
		}
		if misses == maxMisses {
			i.unhealthy(i.link.silence())
			return
		}
		// Missed or not, all of the interval has passed, or there was an answer.
		timer.Reset(max(0, every-i.link.silence()))
	}
}

// silence is for how long the server has said nothing.
func (l *link) silence() time.Duration {
	return time.Since(l.born) - time.Duration(l.heardAt.Load())
}

// ping says whether the server said anything within a time after it was asked to.
func (i *Instance) ping(within time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	before := i.link.heardAt.Load()
	c := i.link.newCall(false)
	defer i.link.release(c)
	err := i.link.send(ctx, c, rpc.NewRequest(rpc.Number(c.id), methodPing, nil))
	if errors.Is(err, errEnded) {
		return true // the end of the stream is another's to see
	}
	if err == nil {
		select {
		case <-c.q.wake: // be it an error: it is a word
			return true
		case <-i.link.done:
			return true
		case <-ctx.Done():
		}
	}
	return i.link.heardAt.Load() != before
}

// unhealthy ends a server that lives and does not answer, like one that crashed.
func (i *Instance) unhealthy(silence time.Duration) {
	i.proc.Condemn(&supervise.Failure{
		Provider: i.spec.Provider, Label: i.spec.Label, Where: i.spec.Where, Phase: supervise.PhaseRunning,
		Cause: fmt.Sprintf("unhealthy: the server has said nothing for %s and left %d pings without an answer",
			silence.Round(time.Millisecond), maxMisses),
	}, endGrace)
}
