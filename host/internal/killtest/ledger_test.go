//go:build linux

package killtest

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	// ledgerCalls are made by ledgerCallers at once, and about as often as ledgerKills
	// one process of the tree is killed meanwhile.
	ledgerCalls   = 5000
	ledgerCallers = 64
	ledgerKills   = 48
	// ledgerRepeat is added to a call's number in its repeat.
	ledgerRepeat = ledgerCalls
	// ledgerSize is how long the request of call 0 is: call n has n bytes more, so that
	// the journal's request_bytes says which call a row is of.
	ledgerSize = 400
)

// ledgerVictims are who is killed, as often as it stands here.
var ledgerVictims = []string{"server", "server", "server", "plugin", "plugin", "guard", "host", "host"}

// How a call of the ledger's test is made.
const (
	planPay    = iota
	planNamed  // with a call_id; it is repeated where its end is not known
	planCancel // and cancelled at once
	planDenied // of a tool that is nobody's
	planStale  // of a definition that is not there
)

func planOf(n int) int {
	switch {
	case n%25 == 3:
		return planCancel
	case n%50 == 7:
		return planDenied
	case n%50 == 13:
		return planStale
	case n%4 == 0:
		return planNamed
	}
	return planPay
}

// ledgerCall is one call, as its caller knows it.
type ledgerCall struct {
	n           int // the number that the ledger has; more for a repeat
	plan        int
	sent, ended time.Time
	told        string // the outcome, "" where the host died before it said one
	reason      string
}

// request is the line of a call, without its newline.
func (c ledgerCall) request(id int) string {
	number := c.n % ledgerRepeat
	name, meta := "p_pay", ""
	switch c.plan {
	case planNamed:
		meta = fmt.Sprintf(`"drawbridge/call_id":"order-%d",`, number)
	case planDenied:
		name = "q_pay"
	case planStale:
		meta = `"drawbridge/digest":"another",`
	}
	const form = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"n":%d,"ms":%d},"_meta":{%s"pad":"%s"}}}`
	ms := number % 17
	empty := fmt.Sprintf(form, id, name, number, ms, meta, "")
	return fmt.Sprintf(form, id, name, number, ms, meta, strings.Repeat("x", ledgerSize+c.n-len(empty)))
}

// kill is one process that was killed. What was in flight at any time from its signal
// to the end of all that ended with it may have been lost by it.
type kill struct {
	victim   string
	from, to time.Time
}

// during says whether a call lived at any time of it, at whether it did at its signal.
func (k kill) during(c ledgerCall) bool { return !c.sent.After(k.to) && !c.ended.Before(k.from) }

func (k kill) at(c ledgerCall) bool { return !c.sent.After(k.from) && !c.ended.Before(k.from) }

// crew are the callers, and the host that they call now.
type crew struct {
	mu    sync.Mutex
	now   *host
	fresh chan struct{} // closed when there is another one
	calls []ledgerCall

	next, done atomic.Int64
}

// sail gives the callers a host.
func (c *crew) sail(h *host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = h
	if c.fresh != nil {
		close(c.fresh)
	}
	c.fresh = make(chan struct{})
}

// host is the one that lives.
func (c *crew) host() *host {
	for {
		c.mu.Lock()
		h, fresh := c.now, c.fresh
		c.mu.Unlock()
		if h.lives() {
			return h
		}
		<-fresh
	}
}

// work is one caller.
func (c *crew) work(t *testing.T) {
	for {
		n := int(c.next.Add(1)) - 1
		if n >= ledgerCalls {
			return
		}
		one := c.make(t, n, planOf(n))
		if one.plan == planNamed && (one.told == "" || one.told == "unknown") {
			c.make(t, n+ledgerRepeat, planNamed)
		}
		c.done.Add(1)
	}
}

// make makes one call and waits for its end.
func (c *crew) make(t *testing.T, n, plan int) ledgerCall {
	const ids = 1_000_000 // all of one length
	one, h := ledgerCall{n: n, plan: plan}, c.host()
	id, answer := ids+n, make(chan reply, 1)
	h.mu.Lock()
	h.pending[id] = answer
	h.mu.Unlock()
	one.sent = time.Now()
	_, _ = io.WriteString(h.in, one.request(id)+"\n")
	var patient <-chan time.Time
	if plan == planCancel { // which need not be answered
		time.Sleep(rand.N(40 * time.Millisecond))
		_, _ = fmt.Fprintf(h.in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`+"\n", id)
		patient = time.After(time.Second)
	}
	select {
	case r := <-answer:
		one.told = "ok"
		if r.Error != nil {
			one.told, one.reason = r.Error.Data.Outcome, r.Error.Data.Reason
		}
	case <-h.ended:
		select {
		case r := <-answer: // the last that it said
			one.told = "ok"
			if r.Error != nil {
				one.told, one.reason = r.Error.Data.Outcome, r.Error.Data.Reason
			}
		default:
		}
	case <-patient:
	case <-time.After(patience):
		t.Errorf("call %d has no answer after %v", n, patience)
	}
	one.ended = time.Now()
	c.mu.Lock()
	c.calls = append(c.calls, one)
	c.mu.Unlock()
	return one
}

// ledgerRow is a row of the journal.
type ledgerRow struct {
	ID           string `json:"id"`
	Outcome      string `json:"outcome"`
	Reason       string `json:"reason"`
	Dispatched   bool   `json:"dispatched"`
	RequestBytes int    `json:"request_bytes"`
}

// Whatever dies, the journal and what has happened agree: 64 callers pay 5,000 times
// while processes of the tree are killed at random. Each call that has left a line in
// the server's ledger has its row; who was told ok has paid once, and who was told that
// nothing was sent has not; nobody is told unknown but for a kill.
func TestLedger(t *testing.T) {
	for _, tier := range tiers {
		t.Run(tier, func(t *testing.T) { testLedger(t, newPlace(t, os.Getuid()), "--containment-tier", tier) })
	}
}

func testLedger(t *testing.T, p place, flags ...string) {
	ledger := p.path("ledger")
	const busy = "  restart {\n    intensity = 1000\n    backoff = \"20ms\"\n    backoff_max = \"100ms\"\n  }\n" +
		"  limits {\n    stop_grace = \"500ms\"\n    max_concurrent = 24\n  }\n"
	config := p.config(t, "c.hcl",
		provider{"p", []string{"--life", "20m", "--tools", "pay", "--ledger", ledger}, busy},
		provider{"q", []string{"--life", "20m", "--tools", "pay,echo", "--ledger", ledger}, busy + "  except = [\"pay\"]\n"})
	began := time.Now()
	h := p.serve(t, config, flags...).ready(t, p)
	var c crew
	c.sail(h)
	var callers sync.WaitGroup
	for range ledgerCallers {
		callers.Go(func() { c.work(t) })
	}
	hosts, kills := []*host{h}, []kill{}
	for n := 1; n < ledgerKills; n++ {
		at := int64(n*ledgerCalls/ledgerKills) - rand.Int64N(ledgerCalls/ledgerKills/2)
		eventually(t, fmt.Sprintf("call %d", at), func() bool { return c.done.Load() >= at })
		time.Sleep(rand.N(10 * time.Millisecond)) // no two kills at the same step
		victim := ledgerVictims[rand.N(len(ledgerVictims))]
		if victim != "host" {
			kills = append(kills, killOne(t, h, victim))
			continue
		}
		k := kill{victim: victim, from: time.Now()}
		h.kill(t)
		k.to = time.Now()
		kills = append(kills, k)
		h = p.serve(t, config, flags...).ready(t, p, hosts...)
		hosts = append(hosts, h)
		c.sail(h)
	}
	callers.Wait()
	h.stop(t)
	took := time.Since(began)
	rows := journalOf(t, p, config)
	checkLedger(t, ledgerLines(t, ledger), rows, c.calls, kills)
	t.Logf("\n| %d calls and %d kills in %v", len(c.calls), len(kills), took.Round(time.Millisecond))
}

// killOne kills a process of the provider's instance, and waits until all of it is gone
// and the host has collected the guard.
func killOne(t *testing.T, h *host, role string) kill {
	t.Helper()
	k := kill{victim: role}
	var tree []entry
	eventually(t, "a "+role+" to kill", func() bool {
		tree = nil
		for _, e := range pick(marked(h.id+"/p/"), role) {
			k.from = time.Now()
			if all := instance(e.mark); len(pick(all, "guard")) == 1 && e.signal(t, syscall.SIGKILL) {
				tree = all
				return true
			}
		}
		return false
	})
	eventually(t, "the end of the instance", func() bool {
		for _, e := range tree {
			if readStat(e.pid).start == e.start && (e.role == "guard" || e.lives()) {
				return false
			}
		}
		return true
	})
	k.to = time.Now()
	return k
}

// journalOf are the rows of all hosts, by the size of their request.
func journalOf(t *testing.T, p place, config string) map[int][]ledgerRow {
	t.Helper()
	out, err := p.command(drawbridge(), "calls", "--json", "--config", config).Output()
	if err != nil {
		t.Fatal(err)
	}
	rows := map[int][]ledgerRow{}
	for line := range strings.Lines(string(out)) {
		var r ledgerRow
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		rows[r.RequestBytes] = append(rows[r.RequestBytes], r)
	}
	return rows
}
