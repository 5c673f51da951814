package crossing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// TestOneCallIDAtTwoHosts sends the same call with the same id to two hosts of one
// state dir at once, many times: the server runs each once, both callers learn how
// it ended or that it is in flight, and a host that starts later knows it, too.
func TestOneCallIDAtTwoHosts(t *testing.T) {
	const rounds = 1000
	p := hosttest.NewPlace(t)
	ledger := p.Path("ledger")
	path := config(t, p, "", provider{name: "shop", args: []string{"--tools", "pay", "--ledger", ledger}})
	open := func() hosttest.Client { return hosttest.Open(t, p.ServeStdio(t, path)) }
	hosts := []hosttest.Client{open(), open()}
	for _, c := range hosts {
		hosttest.Definitions(t, c) // both servers run
	}
	pay := func(c hosttest.Client, n int) hosttest.Reply {
		return c.Request(t, "tools/call", fmt.Sprintf(`{"name":"shop_pay","arguments":{"n":%d},"_meta":{"drawbridge/call_id":"order-%d"}}`, n, n))
	}
	inFlight, repeated := 0, 0
	for n := range rounds {
		var replies [2]hosttest.Reply
		var both sync.WaitGroup
		for i, c := range hosts {
			both.Go(func() { replies[i] = pay(c, n) })
		}
		both.Wait()
		answered := 0
		for _, r := range replies {
			switch {
			case r.Error == nil:
				answered++
			case bytes.Contains(r.Error, []byte(`"reason":"call_id_in_flight"`)):
				inFlight++
			default:
				t.Fatalf("round %d: %s", n, r.Error)
			}
		}
		if answered == 0 {
			t.Fatalf("round %d: nobody got the answer", n)
		}
		repeated += answered - 1
	}
	t.Logf("of %d repeats %d found the first in flight, %d got its answer", rounds, inFlight, repeated)
	later := open()
	if r := pay(later, 0); r.Error == nil {
		t.Logf("the answer of the first is still held: %s", r.Result)
	} else if !bytes.Contains(r.Error, []byte(`"reason":"answer_not_held"`)) {
		t.Errorf("a host that started later: %s", r.Error)
	}
	if r := later.Request(t, "tools/call", `{"name":"shop_pay","arguments":{"n":1},"_meta":{"drawbridge/call_id":"order-0"}}`); !bytes.Contains(r.Error, []byte(`"call_id_reused"`)) {
		t.Errorf("other arguments: %s", r.Raw)
	}
	text, err := os.ReadFile(ledger)
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]int{}
	for line := range strings.Lines(string(text)) {
		runs[line]++
	}
	if len(runs) != rounds || strings.Count(string(text), "\n") != rounds {
		t.Errorf("the ledger has %d lines, %d of them different; want %d", strings.Count(string(text), "\n"), len(runs), rounds)
	}
	out, err := hosttest.Output(t, p.Command(t, "calls", "--config", path, "--json"))
	if err != nil {
		t.Fatal(err)
	}
	sent, all := 0, 0
	for line := range strings.Lines(out) {
		var row struct {
			Dispatched bool
			Outcome    string
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all++
		if row.Outcome == "" {
			t.Errorf("a row is open: %s", line)
		}
		if row.Dispatched {
			sent++
		}
	}
	if sent != rounds || all != 2*rounds+2 {
		t.Errorf("the journal has %d calls, %d of them sent; want %d and %d", all, sent, 2*rounds+2, rounds)
	}
}
