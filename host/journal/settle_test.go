package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestSettle: what is unknown is settled once and for good, and who repeats the id
// of the call is told.
func TestSettle(t *testing.T) {
	ctx, state := t.Context(), t.TempDir()
	dir := filepath.Join(state, Folder)
	j := open(t, Options{Dir: dir})
	host := ids(t, state, testHost, nil)
	lost, fine, flying, refused, repeated := entry(j), entry(j), entry(j), entry(j), entry(j)
	if _, err := host.Claim(ctx, "mine", bound, lost.ID); err != nil {
		t.Fatal(err)
	}
	end := End{Dispatched: true, Outcome: "unknown", Reason: "timeout"}
	must(t, j.Begin(lost), j.End(lost, end), host.Finish(ctx, "mine", lost.ID, end, nil),
		j.Begin(fine), j.End(fine, good), j.Begin(flying), j.Refuse(refused, End{Outcome: "denied"}),
		j.Refuse(repeated, End{Outcome: "unknown", Reason: "timeout"}))
	x := index(t, IndexOptions{Dir: dir})
	command := ids(t, state, "command", nil)
	settle := func(id, as, note string) (Row, bool, error) {
		return x.Settle(ctx, Settlement{ID: id, As: as, Note: note, By: "ada", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, command)
	}
	for _, c := range []struct {
		id, as, note string
		want         error
		says         string
	}{
		{"none", SettledOK, "saw it", ErrNoCall, "none: the journal has no such call"},
		{fine.ID, SettledOK, "saw it", ErrNotUnknown, "it ended as ok"},
		{refused.ID, SettledNotRun, "saw it", ErrNotUnknown, "it ended as denied"},
		{flying.ID, SettledOK, "saw it", ErrInFlight, "in flight"},
		{repeated.ID, SettledOK, "saw it", ErrNotSent, `call_id "mine"`},
		{lost.ID, SettledOK, "", ErrNote, "say how you know"},
		{lost.ID, SettledOK, strings.Repeat("x", maxNote+1), ErrNote, "4097 bytes"},
		{lost.ID, "perhaps", "saw it", nil, "ok or not-run"},
	} {
		if _, _, err := settle(c.id, c.as, c.note); err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("settle %s %s: %v, want %q", c.id, c.as, err, c.says)
		}
	}
	row, again, err := settle(lost.ID, SettledNotRun, "the ledger has no line\nof it")
	want := &Settled{As: SettledNotRun, Note: "the ledger has no line\nof it", By: "ada", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	if err != nil || again {
		t.Fatal(row, again, err)
	}
	equal(t, "settled", row.Settled, want)
	path := filepath.Join(dir, settledFile)
	text, err := os.ReadFile(path)
	must(t, err)
	if _, again, err := settle(lost.ID, SettledNotRun, "another note"); err != nil || !again {
		t.Errorf("the same again: %v, %v", again, err)
	}
	if _, _, err := settle(lost.ID, SettledOK, "no, it ran"); !errors.Is(err, ErrIsSettled) || !strings.Contains(err.Error(), "not-run, by ada at 2026-01-02T03:04:05Z") {
		t.Errorf("otherwise: %v", err)
	}
	if now, _ := os.ReadFile(path); !bytes.Equal(now, text) {
		t.Error("the file of settlements was changed by those that came to nothing")
	}
	known, err := host.Claim(ctx, "mine", bound, "other")
	if err != nil || known.State != IDEnded || known.Outcome != "unknown" || known.Settled != SettledNotRun {
		t.Errorf("known = %+v, %v", known, err)
	}
	// The index is no truth, and neither is retention.
	must(t, x.Close(), os.Remove(filepath.Join(dir, indexFile)))
	x = index(t, IndexOptions{Dir: dir})
	row, err = x.Call(ctx, lost.ID)
	must(t, err)
	equal(t, "settled, read anew", row.Settled, want)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestSettleOfADeadHost: its calls are unknown, with or without an end in either place.
func TestSettleOfADeadHost(t *testing.T) {
	ctx, state := t.Context(), t.TempDir()
	dir := filepath.Join(state, Folder)
	j := open(t, Options{Dir: dir})
	host := ids(t, state, testHost, nil)
	e := entry(j)
	if _, err := host.Claim(ctx, "mine", bound, e.ID); err != nil {
		t.Fatal(err)
	}
	must(t, j.Begin(e))
	dies(t, j)
	must(t, host.Close())
	x := index(t, IndexOptions{Dir: dir, Dead: deadSet(testHost)})
	later := ids(t, state, "later", deadSet(testHost))
	if _, _, err := x.Settle(ctx, Settlement{ID: e.ID, As: SettledOK, Note: "saw it", By: "ada"}, later); err != nil {
		t.Fatal(err)
	}
	known, err := later.Lookup(ctx, "mine", bound)
	if err != nil || known.State != IDEnded || known.Outcome != "unknown" || known.Reason != ReasonHostDied || known.Settled != SettledOK {
		t.Errorf("known = %+v, %v", known, err)
	}
}

// TestSettleWithoutIDs: where no call ever had an id, no table is made.
func TestSettleWithoutIDs(t *testing.T) {
	state := t.TempDir()
	dir := filepath.Join(state, Folder)
	j := open(t, Options{Dir: dir})
	e := entry(j)
	must(t, j.Begin(e), j.End(e, End{Dispatched: true, Outcome: "unknown"}))
	x := index(t, IndexOptions{Dir: dir})
	if _, _, err := x.Settle(t.Context(), Settlement{ID: e.ID, As: SettledOK, Note: "saw it"}, ids(t, state, "command", nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(state, CallIDFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a table was made: %v", err)
	}
}

// TestSettlementsThatAreDamaged: a line that was cut does not take the next with it,
// and one that is damaged is told.
func TestSettlementsThatAreDamaged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, settledFile)
	must(t, os.WriteFile(path, []byte(`{"settle":{"id":"cut","as":"o`), 0o600))
	for _, id := range []string{"a", "b"} {
		must(t, appendSettlement(path, Settlement{ID: id, As: SettledOK}))
	}
	text, err := os.ReadFile(path)
	must(t, err)
	at := starts(text)
	text[at[1]+20] ^= 1
	must(t, os.WriteFile(path, text, 0o600))
	x := index(t, IndexOptions{Dir: dir})
	all, err := readSettlements(dir, func(damage) error { return nil })
	if err != nil || len(all) != 1 || all[0].ID != "b" {
		t.Errorf("settlements = %+v, %v", all, err)
	}
	lost, err := x.Lost(t.Context())
	if err != nil || len(lost) != 1 || lost[0].File != settledFile || lost[0].Places != 2 {
		t.Errorf("lost = %+v, %v", lost, err)
	}
}

// TestSettleAtOnce: of several who settle a call at once, each by a command of its own, one
// writes the line, and the others hear that it is settled so, or otherwise.
func TestSettleAtOnce(t *testing.T) {
	state := t.TempDir()
	dir := filepath.Join(state, Folder)
	j := open(t, Options{Dir: dir})
	host := ids(t, state, testHost, nil)
	e := entry(j)
	if _, err := host.Claim(t.Context(), "mine", bound, e.ID); err != nil {
		t.Fatal(err)
	}
	end := End{Dispatched: true, Outcome: "unknown", Reason: "timeout"}
	must(t, j.Begin(e), j.End(e, end), host.Finish(t.Context(), "mine", e.ID, end, nil))
	type answer struct {
		as    string
		again bool
		err   error
	}
	answers := make(chan answer, 8)
	var all sync.WaitGroup
	for n := range cap(answers) {
		as := []string{SettledOK, SettledNotRun}[n%2]
		x, command := index(t, IndexOptions{Dir: dir}), ids(t, state, "command", nil)
		all.Go(func() {
			_, again, err := x.Settle(t.Context(), Settlement{ID: e.ID, As: as, Note: "saw it", By: "ada"}, command)
			answers <- answer{as, again, err}
		})
	}
	all.Wait()
	close(answers)
	known, err := host.Lookup(t.Context(), "mine", bound)
	if err != nil || known.Settled == "" {
		t.Fatal(known, err)
	}
	wrote := 0
	for a := range answers {
		switch {
		case a.as != known.Settled && !errors.Is(a.err, ErrIsSettled):
			t.Errorf("it is settled %s, and who said %s was told %v", known.Settled, a.as, a.err)
		case a.as == known.Settled && a.err != nil:
			t.Errorf("who said %s, as it is, was told %v", a.as, a.err)
		case a.as == known.Settled && !a.again:
			wrote++
		}
	}
	lines, err := readSettlements(dir, func(damage) error { return errors.New("damaged") })
	if err != nil || wrote != 1 || len(lines) != 1 || lines[0].As != known.Settled {
		t.Errorf("%d wrote it, and the file has %+v (%v)", wrote, lines, err)
	}
}
