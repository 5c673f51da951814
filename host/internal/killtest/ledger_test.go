//go:build linux

package killtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	ledgerCallers = 64
	ledgerCalls   = 5000
	// ledgerBase is the size of the request of call 0, in bytes; that of call n has n
	// more. The journal holds no arguments, but it holds sizes: by theirs the calls
	// are told apart.
	ledgerBase = 300
	// ledgerNotice is how long a host may take to notice that a process is gone. A
	// call that it hands to such a one is as good as in flight at the kill.
	ledgerNotice = 2 * time.Second
	// ledgerBetween is how many calls are answered between two kills, on average.
	ledgerBetween = 60
)

var ledgerRoles = []string{"server", "plugin", "guard", "host"}

// ledgerCall is one call, as its caller knows it.
type ledgerCall struct {
	from, to time.Time
	// outcome is what the caller was told, "" where its host ended first.
	outcome string
}

// ledgerKill is one kill: when, whom, how many calls were in flight, and when the
// last process of the tree was gone.
type ledgerKill struct {
	role     string
	from, to time.Time
	flying   int64
}

// ledgerRow is a row of the journal.
type ledgerRow struct {
	ID           string
	Outcome      string
	Reason       string
	Dispatched   bool
	RequestBytes int `json:"request_bytes"`
	DurationMS   int `json:"duration_ms"`
}

// ledger is the test under way.
type ledger struct {
	place            place
	flying, answered atomic.Int64

	mu    sync.Mutex
	next  *sync.Cond // a new host is there
	host  *host
	calls [ledgerCalls]ledgerCall
}

// pay makes the call n at the host of the moment, and notes how it ended.
func (l *ledger) pay(n int) {
	l.mu.Lock()
	for l.host == nil {
		l.next.Wait()
	}
	h := l.host
	l.mu.Unlock()
	h.mu.Lock()
	h.last++
	id, done := h.last, make(chan reply, 1)
	h.pending[id] = done
	h.mu.Unlock()
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"p_pay","arguments":{"n":%d},"_meta":{"pad":""}}}`, id, n)
	text = strings.Replace(text, `"pad":"`, `"pad":"`+strings.Repeat("x", ledgerBase+n-len(text)), 1)
	c := ledgerCall{from: time.Now()}
	l.flying.Add(1)
	_, _ = fmt.Fprintln(h.in, text)
	select {
	case r := <-done:
		c.outcome = "ok"
		if r.Error != nil {
			c.outcome = r.Error.Data.Outcome
		} else {
			l.answered.Add(1)
		}
	case <-h.ended:
	}
	l.flying.Add(-1)
	c.to = time.Now()
	l.mu.Lock()
	l.calls[n] = c
	l.mu.Unlock()
}

// kill kills one process of a role and waits until its tree is gone; a host is
// followed by another.
func (l *ledger) kill(t *testing.T, role, config string) (ledgerKill, bool) {
	t.Helper()
	k := ledgerKill{role: role, from: time.Now(), flying: l.flying.Load()}
	if role == "host" {
		l.mu.Lock()
		h := l.host
		l.host = nil
		l.mu.Unlock()
		h.kill(t)
		k.to = time.Now()
		next := l.place.serve(t, config).ready(t, l.place, h)
		l.mu.Lock()
		l.host = next
		l.mu.Unlock()
		l.next.Broadcast()
		return k, true
	}
	victims := pick(marked(l.host.id+"/"), role)
	if len(victims) == 0 { // it starts again
		return k, false
	}
	victim := victims[rand.N(len(victims))]
	if !victim.signal(t, syscall.SIGKILL) {
		return k, false
	}
	eventually(t, "the end of "+victim.mark, func() bool { return len(instance(victim.mark)) == 0 })
	k.to = time.Now()
	return k, true
}

// TestLedger is the truth about every call: a server whose tool appends a line to a
// ledger and then answers, many callers, and processes of the tree killed at random,
// the host among them. Afterwards journal and ledger must agree, and say of no call
// that it is unknown without need.
func TestLedger(t *testing.T) {
	p := newPlace(t, os.Getuid())
	ledgerPath := p.path("ledger")
	config := p.config(t, "c.hcl", provider{"p", []string{"--tools", "pay", "--ledger", ledgerPath, "--life", "20m"}, restarts})
	l := &ledger{place: p, host: p.serve(t, config).ready(t, p)}
	l.next = sync.NewCond(&l.mu)
	var callers sync.WaitGroup
	var taken atomic.Int64
	for range ledgerCallers {
		callers.Go(func() {
			for n := int(taken.Add(1)) - 1; n < ledgerCalls; n = int(taken.Add(1)) - 1 {
				l.pay(n)
			}
		})
	}
	done := make(chan struct{})
	go func() { callers.Wait(); close(done) }()
	var kills []ledgerKill
	over := func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
	for !over() {
		// Killed again before it has answered, a tree shows nothing.
		enough := l.answered.Load() + rand.Int64N(2*ledgerBetween)
		eventually(t, "answers", func() bool { return over() || l.answered.Load() > enough })
		time.Sleep(rand.N(5 * time.Millisecond)) // the moment is to be any
		if k, killed := l.kill(t, ledgerRoles[rand.N(len(ledgerRoles))], config); killed {
			kills = append(kills, k)
		}
	}
	l.host.stop(t)
	out, err := p.command(drawbridge(), "calls", "--config", config, "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	l.judge(t, rowsOf(t, out), linesOf(t, ledgerPath), kills)
}

// rowsOf are the journal's rows by call.
func rowsOf(t *testing.T, out []byte) map[int][]ledgerRow {
	t.Helper()
	rows := map[int][]ledgerRow{}
	for line := range strings.Lines(string(out)) {
		var r ledgerRow
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		n := r.RequestBytes - ledgerBase
		if n < 0 || n >= ledgerCalls {
			t.Errorf("a row of no call: %s", line)
		}
		rows[n] = append(rows[n], r)
	}
	return rows
}

// linesOf counts the ledger's lines by call.
func linesOf(t *testing.T, path string) map[int]int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[int]int{}
	for line := range strings.Lines(string(text)) {
		var args struct{ N int }
		if err := json.Unmarshal([]byte(line), &args); err != nil {
			t.Errorf("the ledger has a line %q: %v", line, err)
			continue
		}
		lines[args.N]++
	}
	return lines
}

// judge compares what the callers, the journal and the ledger say, and prints it.
func (l *ledger) judge(t *testing.T, rows map[int][]ledgerRow, lines map[int]int, kills []ledgerKill) {
	t.Helper()
	table := map[string][2]int{} // outcome → rows with no line, with one
	unknown, bound := 0, int64(0)
	for _, k := range kills {
		bound += k.flying
	}
	for n, c := range l.calls {
		ran, has := lines[n], rows[n]
		if len(has) != 1 {
			// A host that was killed before it read the request knows nothing of it.
			if len(has) > 1 || ran > 0 || c.outcome != "" {
				t.Errorf("call %d: %d rows, %d lines, and its caller was told %q", n, len(has), ran, c.outcome)
			}
			continue
		}
		r := has[0]
		if ran > 1 {
			t.Errorf("call %d ran %d times", n, ran)
		}
		counts := table[r.Outcome]
		counts[min(ran, 1)]++
		table[r.Outcome] = counts
		if c.outcome != "" && c.outcome != r.Outcome {
			t.Errorf("call %d: its caller was told %s, the journal says %s (%s)", n, c.outcome, r.Outcome, r.Reason)
		}
		switch r.Outcome {
		case "ok":
			if ran != 1 {
				t.Errorf("call %d is ok, and has %d lines", n, ran)
			}
		case "unavailable", "stale", "denied", "cancelled":
			if ran != 0 || r.Dispatched {
				t.Errorf("call %d is %s (%s), and has %d lines, dispatched %v", n, r.Outcome, r.Reason, ran, r.Dispatched)
			}
		case "unknown":
			unknown++
			if !slices.ContainsFunc(kills, func(k ledgerKill) bool { return k.from.Before(c.to) && k.to.Add(ledgerNotice).After(c.from) }) {
				t.Errorf("call %d is unknown (%s), and nothing was killed in its life", n, r.Reason)
			}
		default:
			t.Errorf("call %d: outcome %q, dispatched %v", n, r.Outcome, r.Dispatched)
		}
	}
	if int64(unknown) > bound {
		t.Errorf("%d calls are unknown, and %d were in flight at the kills", unknown, bound)
	}
	if table["ok"][1] == 0 || len(kills) < 4 {
		t.Errorf("%d calls were ok and %d kills made: this test has looked at nothing", table["ok"][1], len(kills))
	}
	byRole := map[string]int{}
	for _, k := range kills {
		byRole[k.role]++
	}
	t.Logf("%d calls, %d kills %v, %d calls in flight at them", ledgerCalls, len(kills), byRole, bound)
	t.Logf("%-12s %8s %8s", "outcome", "no line", "a line")
	for _, outcome := range slices.Sorted(maps.Keys(table)) {
		t.Logf("%-12s %8d %8d", outcome, table[outcome][0], table[outcome][1])
	}
	t.Logf("%-12s %8d", "no row", ledgerCalls-len(rows))
}
