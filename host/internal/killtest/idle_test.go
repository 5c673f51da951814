//go:build linux

package killtest

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	manyProviders = 20
	// allReady is when the last of them is ready, whose servers take a second each.
	allReady = 3 * time.Second
	// idleCPU is what host, guards and plugins of all may take together in idleTime
	// in which nobody asks for anything.
	idleCPU  = 300 * time.Millisecond
	idleTime = time.Minute
)

// quiet is how long the processes are watched: the whole minute where rounds are
// many (`make soak`), else a third of it for a third of the time. What a host does
// of its own accord, its pings, then comes three times as often, so that as much of it
// falls into the shorter time.
func quiet(t *testing.T) (watch, limit, health time.Duration) {
	t.Helper()
	const silence = 30 * time.Second // health_interval, if nobody sets it
	if rounds(t) > 10 {
		return idleTime, idleCPU, silence
	}
	return idleTime / 3, idleCPU / 3, silence / 3
}

// Twenty providers start side by side, and cost next to nothing when nobody calls.
func TestManyProviders(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p place, flags ...string) {
		watch, limit, health := quiet(t)
		body := fmt.Sprintf("  limits {\n    health_interval = %q\n  }\n", health)
		var all []provider
		for i := range manyProviders {
			all = append(all, provider{fmt.Sprintf("p%d", i), []string{"--init-delay", "1s", "--life", "10m"}, body})
		}
		h := p.serve(t, p.config(t, "c.hcl", all...), flags...).ready(t, p)
		began := time.Now()
		var answers []<-chan reply
		for _, one := range all {
			answers = append(answers, h.call(one.slug+"_echo", `{}`))
		}
		for i, answer := range answers {
			if r := h.await(t, all[i].slug, answer); r.Error != nil {
				t.Errorf("%s: %+v", all[i].slug, *r.Error)
			}
		}
		ready := time.Since(began)
		if ready > 2*allReady {
			t.Errorf("the last of %d providers was ready after %v", manyProviders, ready)
		}
		tree := marked(h.id + "/")
		if len(tree) != 3*manyProviders {
			t.Fatalf("there are %v", tree)
		}
		ours := []entry{{pid: h.pid(), role: "host"}}
		for _, e := range tree {
			if e.role != "server" {
				ours = append(ours, e)
			}
		}
		before := used(t, ours)
		time.Sleep(watch) // it is what is measured
		after := used(t, ours)
		var spent, started time.Duration
		by := map[string]time.Duration{}
		for i, e := range ours {
			by[e.role] += after[i] - before[i]
			spent += after[i] - before[i]
			started += before[i]
		}
		if started < manyProviders*time.Millisecond {
			t.Errorf("they were started in %v, says the clock", started)
		}
		if spent > 2*limit {
			t.Errorf("in %v of nothing to do they used %v, want at most %v: %v", watch, spent, limit, by)
		}
		t.Logf("\n| %s: %d providers ready after %v, of %v; in %v idle they used %v, of %v: %v",
			flags[1], manyProviders, ready.Round(time.Millisecond), allReady, watch, spent.Round(time.Microsecond), limit, by)
		h.stop(t)
		if left := marked(h.id + "/"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// used is the processor time that processes have used so far. It asks their clocks:
// /proc/PID/stat tells hundredths of a second, which is too little for sixty of them.
func used(t *testing.T, all []entry) (times []time.Duration) {
	t.Helper()
	for _, e := range all {
		const scheduled = 2 // CPUCLOCK_SCHED, of the whole process: see clock_getcpuclockid(3)
		var now unix.Timespec
		if err := unix.ClockGettime(int32(^e.pid<<3|scheduled), &now); err != nil {
			t.Fatalf("%v: %v", e, err)
		}
		times = append(times, time.Duration(now.Nano()))
	}
	return times
}
