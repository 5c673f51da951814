package main

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// plan says how much is measured.
type plan struct {
	warm       int // calls before anything counts
	sequential int // calls one after the other
	parallel   int // calls of all callers together
	big        int // results of bigBytes
	starts     int // starts to the first answered call
	lists      int // warm lists
}

var (
	fullPlan  = plan{warm: 500, sequential: 4000, parallel: 16000, big: 40, starts: 5, lists: 60}
	smokePlan = plan{warm: 10, sequential: 50, parallel: 200, big: 2, starts: 1, lists: 3}
)

// bigBytes is the size of the large result: a megabyte of text.
const bigBytes = 1_000_000

// metric names one figure. Times are in seconds, rates in calls per second.
type metric string

const (
	p50    metric = "echo, p50"
	p95    metric = "echo, p95"
	p99    metric = "echo, p99"
	rate16 metric = "calls/s, 16 callers"
	rate64 metric = "calls/s, 64 callers"
	big    metric = "result of 1 MB"
	start  metric = "start to first answer"
	list   metric = "warm list, 20 x 25 tools"
	// firstList is of a host that has just been started.
	firstList metric = "start to first list, 20 x 25 tools"
)

// isRate says whether more is better.
func (m metric) isRate() bool { return m == rate16 || m == rate64 }

// figures are what one round measured on one side.
type figures map[metric]float64

// names are what the tools are called on a side.
type names struct{ echo, big string }

// measure takes all figures of one open session.
func measure(c conn, n names, p plan) (figures, error) {
	echo := callTool(n.echo, echoText)
	if _, err := latencies(c, p.warm, "tools/call", echo); err != nil {
		return nil, err
	}
	f := figures{}
	one, err := latencies(c, p.sequential, "tools/call", echo)
	if err != nil {
		return nil, err
	}
	f[p50], f[p95], f[p99] = quantile(one, 0.50), quantile(one, 0.95), quantile(one, 0.99)
	for callers, m := range map[int]metric{16: rate16, 64: rate64} {
		if f[m], err = throughput(c, callers, p.parallel, echo); err != nil {
			return nil, err
		}
	}
	large := callTool(n.big, `{"bytes":`+strconv.Itoa(bigBytes)+`}`)
	if size, err := c.call(0, "tools/call", large); err != nil || size < bigBytes {
		return nil, errors.Join(err, errAnswer)
	}
	if one, err = latencies(c, p.big, "tools/call", large); err != nil {
		return nil, err
	}
	f[big] = quantile(one, 0.50)
	return f, nil
}

// latencies makes n calls one after the other and returns how long each took, sorted.
func latencies(c conn, n int, method, params string) ([]float64, error) {
	took := make([]float64, 0, n)
	for range n {
		began := time.Now()
		if _, err := c.call(0, method, params); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began).Seconds())
	}
	slices.Sort(took)
	return took, nil
}

// throughput makes total calls from callers that each wait for their own answer
// only, and returns calls per second.
func throughput(c conn, callers, total int, params string) (float64, error) {
	var (
		left   atomic.Int64
		all    sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	left.Store(int64(total))
	began := time.Now()
	for slot := range callers {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := c.call(slot, "tools/call", params); err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	all.Wait()
	return float64(total) / time.Since(began).Seconds(), failed
}

// quantile of sorted values, by nearest rank.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// median of values in any order.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}
