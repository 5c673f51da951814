package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drawbridge-mcp/drawbridge/host/journal"
)

// recordCalls writes a journal into a state dir, as a host that has ended: one call
// that was answered, one that was denied, and one of which nobody knows what became.
func recordCalls(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: record STATE_DIR")
	}
	const host = "0123456789abcdef0123456789abcdef"
	j, err := journal.Open(journal.Options{Dir: filepath.Join(ts.MkAbs(args[0]), journal.Folder), HostID: host})
	ts.Check(err)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	paid := journal.Entry{
		ID: j.NewID(), CallID: "order-7", Time: at, Principal: "laptop", Project: "site", Provider: "shop", Generation: 1, Tool: "pay",
		Digest: "d1", Instance: host + "/shop/1", Fence: "shown", RequestBytes: 120,
	}
	denied := journal.Entry{ID: j.NewID(), Time: at.Add(time.Second), Principal: "phone", Tool: "shop_\x1b[31mrm", Fence: "unknown_tool"}
	lost := paid
	lost.ID, lost.CallID, lost.Time = j.NewID(), "order-8", at.Add(2*time.Second)
	ts.Check(errors.Join(
		j.Begin(&paid), j.End(&paid, journal.End{Dispatched: true, Outcome: "ok", ResultBytes: 3500, Duration: 12345 * time.Microsecond}),
		j.Refuse(&denied, journal.End{Outcome: "denied", Reason: "unknown_tool"}),
		j.Begin(&lost), j.End(&lost, journal.End{Dispatched: true, Outcome: "unknown", Reason: "timeout", Duration: time.Minute}),
		j.Close()))
}

// TestSince reads what people write as a time.
func TestSince(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"90m":                  now.Add(-90 * time.Minute),
		"7d":                   now.Add(-7 * 24 * time.Hour),
		"2026-01-31":           time.Date(2026, 1, 31, 0, 0, 0, 0, time.Local),
		"2026-01-31T10:00:00Z": time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC),
	} {
		if got, err := parseSince(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, want %v (%v)", text, got, want, err)
		}
	}
	for _, text := range []string{"yesterday", "-5m", "5", "2026-31-01"} {
		if got, err := parseSince(text, now); err == nil || !strings.Contains(err.Error(), "--since") {
			t.Errorf("%q: %v, %v; want an error that says what it may be", text, got, err)
		}
	}
}
