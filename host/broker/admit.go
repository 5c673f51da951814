package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/session"
)

// admit lets a call in that may pass: its principal has not used up its rate, and
// the provider has room for it, now or in the call's time. The reply is that of a
// call which is not let in. Whoever got none calls leave when the call is over.
func (x *crossing) admit(ctx context.Context, w *world, tool *catalog.Tool) (leave func(), _ *Reply) {
	c := x.call.Caller
	grant := w.policy.Decide(c.Principal, c.Project, access.Item{Kind: access.KindTool, Provider: tool.Provider, Name: tool.Name}).Grant
	if grant != nil && grant.Rate.Calls > 0 {
		if wait := x.rates.take(c, grant, x.arrived); wait > 0 {
			return nil, notAdmitted(tool, "rate_limited", fmt.Sprintf(
				"its caller may make %d calls in %s (rate of the grant), and the next is possible in %s",
				grant.Rate.Calls, grant.Rate.Per, wait.Round(time.Millisecond)))
		}
	}
	return x.room(ctx, tool)
}

// room lets a call in when its provider has room for it: max_concurrent, max_queue.
func (x *crossing) room(ctx context.Context, tool *catalog.Tool) (leave func(), _ *Reply) {
	gate := x.gates[tool.Provider]
	if gate == nil {
		return func() {}, nil
	}
	err := gate.enter(ctx, x.call.Caller.Principal)
	switch {
	case err == nil:
		return gate.leave, nil
	case errors.Is(err, errQueueFull):
		return nil, notAdmitted(tool, "queue_full", err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return nil, notAdmitted(tool, string(session.Timeout), "its time was over while it waited for others to end (max_concurrent)")
	}
	end := ending{outcome: Cancelled, reason: string(session.Cancelled), cause: causeCancelled, retry: RetrySafe, advice: advSafe,
		provider: tool.Provider, tool: tool.Name, annotations: tool.Annotations}.reply()
	return nil, &end
}

// notAdmitted is the ending of a call that there is no room for.
func notAdmitted(tool *catalog.Tool, reason, cause string) *Reply {
	end := ending{outcome: Unavailable, reason: reason, cause: cause, retry: RetrySafe, advice: advSafe,
		provider: tool.Provider, tool: tool.Name, annotations: tool.Annotations}.reply()
	return &end
}

// rates are what principals have left of the rates of their grants. They outlive a
// change of the policy as long as whose the grant is, of what, and its rate stay: where
// in the files it stands, and which tools it gives, is of no matter.
type rates struct {
	mu  sync.Mutex
	all map[rateKey]*rate.Limiter
}

// rateKey is whose rate it is, and of which grant: access.Grant.RateOf. There are no
// more than grants have named since the host runs.
type rateKey struct {
	owner
	of string
}

// take uses one call of a grant's rate, and returns how long the caller would have
// to wait for it, 0 for a call that was taken.
func (r *rates) take(c Caller, g *access.Grant, now time.Time) time.Duration {
	key := rateKey{owner{c.Principal, c.Project}, g.RateOf}
	r.mu.Lock()
	limiter := r.all[key]
	if limiter == nil {
		limiter = rate.NewLimiter(rate.Limit(float64(g.Rate.Calls)/g.Rate.Per.Seconds()), g.Rate.Calls)
		if r.all == nil {
			r.all = map[rateKey]*rate.Limiter{}
		}
		r.all[key] = limiter
	}
	r.mu.Unlock()
	reserved := limiter.ReserveN(now, 1)
	wait := reserved.DelayFrom(now)
	if wait > 0 {
		reserved.CancelAt(now)
	}
	return wait
}
