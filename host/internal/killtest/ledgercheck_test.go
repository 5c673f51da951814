//go:build linux

package killtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// ledgerLines counts the lines of a ledger, by the number of their call.
func ledgerLines(t *testing.T, path string) map[int]int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[int]int{}
	for line := range strings.Lines(string(text)) {
		var paid struct {
			N *int `json:"n"`
		}
		if err := json.Unmarshal([]byte(line), &paid); err != nil || paid.N == nil {
			t.Fatalf("the ledger has %q: %v", line, err)
		}
		lines[*paid.N]++
	}
	return lines
}

// tally is a row of the table that the test prints.
type tally struct{ told, rows, lines int }

// sentOf says which outcomes are of calls that were sent.
var sentOf = map[string]bool{"ok": true, "unknown": true, "denied": false, "stale": false, "unavailable": false, "cancelled": false}

// checkLedger holds the ledger, the journal and what callers were told against each
// other, and prints how many there were of each.
func checkLedger(t *testing.T, lines map[int]int, rows map[int][]ledgerRow, calls []ledgerCall, kills []kill) {
	t.Helper()
	table := map[string]*tally{}
	of := func(outcome string) *tally {
		if table[outcome] == nil {
			table[outcome] = &tally{}
		}
		return table[outcome]
	}
	count, inFlight, lost := 0, 0, 0
	sent := map[int]int{} // rows of calls that were sent, by the ledger's number
	for _, c := range calls {
		killed := slices.ContainsFunc(kills, func(k kill) bool { return k.during(c) })
		for _, k := range kills {
			if k.at(c) {
				inFlight++
			}
		}
		own := rows[ledgerSize+c.n]
		count += len(own)
		if len(own) > 1 || len(own) == 0 && c.told != "" {
			t.Errorf("call %d, told %q, has %d rows: %v", c.n, c.told, len(own), own)
		}
		if len(own) == 0 { // the host died before it had read the request
			of("no row").told++
			continue
		}
		r := own[0]
		kind := r.Outcome
		if !r.Dispatched && sentOf[kind] {
			kind += " (of a repeat)"
		} else if kind == "unknown" && c.plan == planCancel {
			kind += " (cancelled)"
		}
		of(kind).rows++
		if c.told != "" {
			of(kind).told++
		}
		if r.Dispatched {
			sent[c.n%ledgerRepeat]++
			of(kind).lines += lines[c.n%ledgerRepeat]
		}
		lost += checkRow(t, c, r, lines[c.n%ledgerRepeat], killed)
	}
	for n, paid := range lines {
		if paid > 1 || sent[n] != 1 {
			t.Errorf("call %d has %d lines and %d rows of calls that were sent", n, paid, sent[n])
		}
	}
	all := 0
	for _, some := range rows {
		all += len(some)
	}
	if all != count {
		t.Errorf("the journal has %d rows, %d of them of these calls", all, count)
	}
	if lost > inFlight {
		t.Errorf("%d calls are unknown, and %d were in flight at the kills", lost, inFlight)
	}
	if least := len(calls) / 2; of("ok").rows < least {
		t.Errorf("only %d calls are ok; want %d, or this test tells little", of("ok").rows, least)
	}
	printLedger(t, table, kills, inFlight)
}

// checkRow holds one call against its row, and counts 1 if it was lost by a kill.
func checkRow(t *testing.T, c ledgerCall, r ledgerRow, lines int, killed bool) (lost int) {
	t.Helper()
	bad := func(what string) {
		t.Errorf("%s: call %d, plan %d, told %q %q, lived %v, has %d lines and the row %+v", what, c.n, c.plan, c.told, c.reason, c.ended.Sub(c.sent), lines, r)
	}
	isSent, known := sentOf[r.Outcome]
	repeat := c.n >= ledgerRepeat
	switch {
	case r.Outcome == "":
		bad("the row is open")
	case !known:
		bad("no such outcome is possible here")
	case c.told != "" && c.told != r.Outcome:
		bad("the caller and the journal differ")
	case r.Dispatched != isSent && !(repeat && !r.Dispatched):
		bad("dispatched is wrong")
	case r.Outcome == "ok" && lines != 1:
		bad("ok and not paid once")
	case !isSent && !repeat && c.plan != planNamed && lines != 0:
		bad("nothing was sent, and it is paid")
	case c.plan == planDenied && r.Outcome != "denied" && r.Outcome != "unavailable",
		c.plan == planStale && r.Outcome != "stale" && r.Outcome != "unavailable":
		bad("it was not refused")
	case r.Outcome == "unknown" && lines > 1:
		bad("unknown and paid twice")
	}
	if r.Outcome != "unknown" || !r.Dispatched || c.plan == planCancel {
		return 0
	}
	if !killed {
		bad("unknown, and nothing was killed in its life")
	}
	return 1
}

// printLedger prints the table.
func printLedger(t *testing.T, table map[string]*tally, kills []kill, inFlight int) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "| %-22s | %5s | %5s | %5s |\n", "outcome", "rows", "lines", "told")
	for _, outcome := range slices.Sorted(maps.Keys(table)) {
		one := table[outcome]
		fmt.Fprintf(&b, "| %-22s | %5d | %5d | %5d |\n", outcome, one.rows, one.lines, one.told)
	}
	by := map[string]int{}
	for _, k := range kills {
		by[k.victim]++
	}
	fmt.Fprintf(&b, "| killed:")
	for _, victim := range slices.Sorted(maps.Keys(by)) {
		fmt.Fprintf(&b, " %s %d", victim, by[victim])
	}
	fmt.Fprintf(&b, "; %d calls were in flight at the kills", inFlight)
	t.Logf("\n%s", b.String())
}
