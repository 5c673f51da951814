package supervise

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestStopSinceGivesTheRestOfTheGrace: what the host's other waits have taken of
// stop_grace is not given a second time.
func TestStopSinceGivesTheRestOfTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &Unit[int]{spec: Spec{StopGrace: 5 * time.Second}}
		u.force, u.hurry = context.WithCancel(t.Context())
		defer u.hurry()
		var limit time.Duration
		drain := func(ctx context.Context, _ int) {
			deadline, _ := ctx.Deadline()
			limit = time.Until(deadline)
		}
		for _, tt := range []struct{ passed, drains, server time.Duration }{
			{0, 5 * time.Second, 5 * time.Second},
			{3 * time.Second, 2 * time.Second, 2 * time.Second},
			{4800 * time.Millisecond, 200 * time.Millisecond, leastGrace},
			{time.Minute, 0, leastGrace},
		} {
			got := u.graceAfter(farewell[int]{began: time.Now().Add(-tt.passed), drain: drain}, 0)
			if got != tt.server || limit != tt.drains {
				t.Errorf("after %v: %v for the calls and %v for the server, want %v and %v", tt.passed, limit, got, tt.drains, tt.server)
			}
		}
	})
}
