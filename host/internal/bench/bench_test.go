package main

import (
	"math"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDirect measures next to nothing on the direct sides, to keep the clients working.
func TestDirect(t *testing.T) {
	b := &bench{fake: fakeserver.Build(t), dir: t.TempDir(), plan: smokePlan}
	var err error
	if b.bare, err = build(b.dir, "bench/bare"); err != nil {
		t.Fatal(err)
	}
	for _, transport := range []string{stdio, overHTTP} {
		if _, err := b.session(transport, bare, false); err != nil {
			t.Fatalf("the bare gateway, %s: %v", transport, err)
		}
		f, err := b.session(transport, direct, false)
		if err != nil {
			t.Fatalf("%s: %v", transport, err)
		}
		for _, m := range []metric{p50, p95, p99, rate16, rate64, big} {
			if f[m] <= 0 {
				t.Errorf("%s: %s is %v", transport, m, f[m])
			}
		}
		if f[p50] > f[p95] || f[p95] > f[p99] {
			t.Errorf("%s: quantiles out of order: %v", transport, f)
		}
		if took, err := b.start(transport, direct); err != nil || took <= 0 {
			t.Errorf("%s: start took %v, %v", transport, took, err)
		}
	}
	if took, err := b.list(direct, false); err != nil || took <= 0 {
		t.Errorf("list took %v, %v", took, err)
	}
}

// TestWrongAnswer asks for what fails: no figure may come of it.
func TestWrongAnswer(t *testing.T) {
	b := &bench{fake: fakeserver.Build(t), dir: t.TempDir(), plan: smokePlan}
	for _, transport := range []string{stdio, overHTTP} {
		o, err := b.open(transport, direct, b.providers(1, "--tools", "echo,tool_error", "--life", "1m"))
		if err != nil {
			t.Fatal(err)
		}
		for what, params := range map[string]string{"error": callTool("none", "{}"), "isError": callTool("tool_error", "{}")} {
			if size, err := o.conn.call(0, "tools/call", params); err == nil {
				t.Errorf("%s: an answer with %s of %d bytes counts", transport, what, size)
			}
		}
		if _, err := o.conn.call(0, "tools/call", callTool("echo", echoText)); err != nil {
			t.Errorf("%s: after that: %v", transport, err)
		}
		if err := o.close(); err != nil {
			t.Error(err)
		}
	}
}

func TestIDOf(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, c := range []struct {
		answer string
		want   int
	}{
		{`{"jsonrpc":"2.0","id":64,"result":{}}`, 64},
		{`{"result":{"text":"` + long + `"},"jsonrpc":"2.0","id":7}`, 7},
		{`{"id":0}`, 0},
		{`{"id":null}`, -1},
		{`{"method":"notifications/message"}`, -1},
	} {
		if got := idOf([]byte(c.answer)); got != c.want {
			t.Errorf("idOf(%.60s) = %d, want %d", c.answer, got, c.want)
		}
	}
}

func TestStatistics(t *testing.T) {
	if got := median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("median of three: %v", got)
	}
	if got := median([]float64{4, 1, 2, 9}); got != 3 {
		t.Errorf("median of four: %v", got)
	}
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(i+1))
	}
	for q, want := range map[float64]float64{0.50: 51, 0.95: 96, 0.99: 100} {
		if got := quantile(hundred, q); got != want {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
}

// TestVerdict holds made-up rounds against the limits.
func TestVerdict(t *testing.T) {
	good := func() results {
		r := results{}
		for _, l := range limits {
			for range 3 {
				r.add(l.transport, direct, figures{l.metric: 1})
				r.add(l.transport, through, figures{l.metric: l.bound})
			}
		}
		return r
	}
	var out strings.Builder
	if !good().verdict(&out) || strings.Contains(out.String(), "MISSED") {
		t.Errorf("at the limits:\n%s", out.String())
	}
	for _, l := range limits {
		r := good()
		worse := l.bound * 1.1
		if l.metric.isRate() {
			worse = l.bound * 0.9
		}
		r.at(l.transport, l.metric).through = []float64{worse, worse, l.bound} // the median is worse
		out.Reset()
		if r.verdict(&out) || strings.Count(out.String(), "MISSED") != 1 {
			t.Errorf("%s %s is over its limit:\n%s", l.transport, l.metric, out.String())
		}
	}
	r := good()
	r.at(stdio, p50).direct = nil // nothing measured is nothing met
	if r.verdict(&out) || !math.IsNaN(r.at(stdio, p50).ratio()) && !math.IsInf(r.at(stdio, p50).ratio(), 1) {
		t.Error("a figure that was not measured counts as met")
	}
}

func TestMemory(t *testing.T) {
	if _, err := os.Stat("/proc/self/smaps_rollup"); err != nil {
		t.Skip("no smaps_rollup: ", err)
	}
	m, err := memoryOf(os.Getpid())
	if err != nil || m.rss < 1000 || m.pss < 1000 || m.pss > m.rss {
		t.Errorf("memory of this process: %+v KiB, %v", m, err)
	}
	plugins, err := pluginsOf(os.Getpid())
	if err != nil || len(plugins) != 0 {
		t.Errorf("this process has plugins: %v, %v", plugins, err)
	}
}
