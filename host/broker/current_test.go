package broker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
)

// unread has an instance whose list is suspect; current reads it again.
type unread struct {
	*fakeSessions
	current func(ctx context.Context) error
}

func (u unread) Get(ctx context.Context, slug string) (Instance, error) {
	in, err := u.fakeSessions.Get(ctx, slug)
	if err != nil {
		return nil, err
	}
	return unreadInstance{in, u}, nil
}

type unreadInstance struct {
	Instance
	u unread
}

func (i unreadInstance) Current(ctx context.Context, _ time.Duration) (uint64, error) {
	return 0, i.u.current(ctx)
}

// TestACallWaitsForTheListThatIsReadAgain within its time, and is sent by no other.
func TestACallWaitsForTheListThatIsReadAgain(t *testing.T) {
	failed := errors.New("the list is not ready")
	for name, c := range map[string]struct {
		current func(ctx context.Context) error
		outcome Outcome
		reason  string
		says    string
		after   time.Duration
	}{
		"it comes":   {func(context.Context) error { time.Sleep(3 * time.Second); return nil }, OK, "", "", 3 * time.Second},
		"it fails":   {func(context.Context) error { return failed }, Unavailable, "not_current", failed.Error(), 0},
		"it is late": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, Unavailable, "timeout", "not read again in time", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, b := newFake(t, map[string][]string{"shop": {"pay"}})
				shownAll(b, local)
				looks := 0
				b.opts.Sessions = unread{f, func(ctx context.Context) error { looks++; return c.current(ctx) }}
				began := time.Now()
				r := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`))
				if r.Outcome != c.outcome || r.Reason != c.reason || r.Dispatched != (c.outcome == OK) || time.Since(began) != c.after {
					t.Errorf("%s %q after %v, dispatched: %v", r.Outcome, r.Reason, time.Since(began), r.Dispatched)
				}
				if r.Err != nil && (r.Err.Code != CodeUnavailable || !strings.Contains(r.Err.Message, c.says) || !strings.Contains(r.Err.Message, "safe to call again")) {
					t.Errorf("%d %s", r.Err.Code, r.Err.Message)
				}
				if sent := len(f.got); (sent == 1) != (c.outcome == OK) || looks != 1 {
					t.Errorf("%d calls were sent, after %d looks", sent, looks)
				}
			})
		})
	}
}

// TestWhoTakesACallAnewIsAskedForItsList: where the process whose list could not be read
// is gone, the next one is asked.
func TestWhoTakesACallAnewIsAskedForItsList(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay"}})
	shownAll(b, local)
	looks := 0
	b.opts.Sessions = unread{f, func(context.Context) error {
		if looks++; looks == 1 {
			f.mu.Lock()
			f.runs["shop"]++ // it dies while it is asked
			f.mu.Unlock()
			return errors.New("the server has ended")
		}
		return nil
	}}
	if r := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`)); r.Outcome != OK || r.Instance != "host/shop/2" || looks != 2 {
		t.Errorf("%s %s on %s after %d looks", r.Outcome, r.Reason, r.Instance, looks)
	}
}

// TestACallerWhoLeavesWaitsForNoList.
func TestACallerWhoLeavesWaitsForNoList(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay"}})
	ctx, cancel := context.WithCancel(t.Context())
	b.opts.Sessions = unread{f, func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() }}
	if r := b.Call(ctx, toolCall(t, `{"name":"shop_pay"}`)); r.Outcome != Cancelled || len(f.got) != 0 {
		t.Errorf("%s %s", r.Outcome, r.Reason)
	}
}

// TestHowOldAListMayBe for a call: recheck and refresh_interval are about tools that may
// have an effect.
func TestHowOldAListMayBe(t *testing.T) {
	const interval, any = 30 * time.Second, -1
	onChange := Provider{RefreshInterval: interval}
	beforeCall := Provider{RefreshInterval: interval, BeforeCall: true}
	for name, c := range map[string]struct {
		provider             Provider
		effectful, announces bool
		want                 time.Duration
	}{
		"of a server that announces":                        {onChange, true, true, any},
		"of one that does not":                              {onChange, true, false, interval},
		"of one that does not, without effect":              {onChange, false, false, any},
		"before_call, of a server that announces":           {beforeCall, true, true, 0},
		"before_call, of one that does not":                 {beforeCall, true, false, 0},
		"before_call, without effect":                       {beforeCall, false, true, any},
		"before_call, without effect, nothing is announced": {beforeCall, false, false, any},
	} {
		if got := c.provider.age(&catalog.Tool{Effectful: c.effectful}, announcer(c.announces)); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// announcer is an instance that says whether it announces changes.
type announcer bool

func (a announcer) Announces() bool                                      { return bool(a) }
func (announcer) Mark() string                                           { return "" }
func (announcer) Epoch() uint64                                          { return 0 }
func (announcer) Current(context.Context, time.Duration) (uint64, error) { return 0, nil }
func (announcer) Do(context.Context, session.Call) (*rpc.Message, error) { return nil, errGone }
