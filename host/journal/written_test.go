package journal

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestHostThatDiedBetweenTheTwo: a host writes the end of a call into the journal and
// then into the table of ids. One that dies in between leaves an id whose repeat is
// told what the journal has, and that is free where nothing was sent.
func TestHostThatDiedBetweenTheTwo(t *testing.T) {
	ctx, state := t.Context(), t.TempDir()
	dir := filepath.Join(state, Folder)
	j := open(t, Options{Dir: dir, MaxSize: 1 << 20})
	host := ids(t, state, testHost, nil)
	claim := func(id string) *Entry {
		t.Helper()
		e := entry(j)
		e.CallID = id
		if known, err := host.Claim(ctx, id, bound, e.ID); err != nil || known.State != IDFree {
			t.Fatal(known, err)
		}
		return e
	}
	done, unsent, lost, never := claim("done"), claim("unsent"), claim("lost"), claim("never")
	must(t, j.Begin(done), j.Begin(unsent), j.Begin(lost))
	must(t, j.End(done, End{Dispatched: true, Outcome: "tool_error"}), j.End(unsent, End{Outcome: "unavailable", Reason: "undelivered"}))
	for range 400 { // into other files
		e := entry(j)
		must(t, j.Begin(e), j.End(e, good))
	}
	if files, err := listFiles(dir); err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	dies(t, j)
	must(t, host.Close())
	later := NewCallIDs(CallIDOptions{Path: filepath.Join(state, CallIDFile), Folder: dir, HostID: "later", Dead: deadSet(testHost)})
	t.Cleanup(func() { _ = later.Close() })
	for id, want := range map[string]Known{
		"done":   {State: IDEnded, HostID: testHost, JournalID: done.ID, Outcome: "tool_error"},
		"unsent": {State: IDFree},
		"lost":   {State: IDEnded, HostID: testHost, JournalID: lost.ID, Outcome: "unknown", Reason: ReasonHostDied},
		"never":  {State: IDEnded, HostID: testHost, JournalID: never.ID, Outcome: "unknown", Reason: ReasonHostDied},
	} {
		for _, time := range []string{"once", "again"} {
			got, err := later.Lookup(ctx, id, bound)
			if err != nil {
				t.Fatal(err)
			}
			want.Ended = got.Ended
			equal(t, id+", "+time, got, want)
		}
	}
}

// TestSettleWhatTheJournalDoesNotHave: a call with an id whose host died before it wrote
// the begin is unknown to who repeats it, and so it can be settled.
func TestSettleWhatTheJournalDoesNotHave(t *testing.T) {
	ctx, state := t.Context(), t.TempDir()
	dir := filepath.Join(state, Folder)
	j := open(t, Options{Dir: dir})
	host := ids(t, state, testHost, nil)
	e := entry(j)
	if _, err := host.Claim(ctx, "mine", bound, e.ID); err != nil {
		t.Fatal(err)
	}
	settle := func(x *Index, c *CallIDs, as string) (Row, bool, error) {
		return x.Settle(ctx, Settlement{ID: e.ID, As: as, Note: "saw it", By: "ada", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, c)
	}
	if _, _, err := settle(index(t, IndexOptions{Dir: dir, Dead: deadSet()}), host, SettledOK); !errors.Is(err, ErrInFlight) {
		t.Errorf("while its host lives: %v", err)
	}
	dies(t, j)
	must(t, host.Close())
	x := index(t, IndexOptions{Dir: dir, Dead: deadSet(testHost)})
	later := ids(t, state, "later", deadSet(testHost))
	row, again, err := settle(x, later, SettledNotRun)
	if err != nil || again || row.CallID != "mine" || row.Tool != bound.Tool || row.Settled == nil || row.Settled.As != SettledNotRun {
		t.Fatal(row, again, err)
	}
	if known, err := later.Lookup(ctx, "mine", bound); err != nil || known.Settled != SettledNotRun || known.Outcome != "unknown" {
		t.Errorf("known = %+v, %v", known, err)
	}
	if _, again, err := settle(x, later, SettledNotRun); err != nil || !again {
		t.Errorf("the same again: %v, %v", again, err)
	}
	if _, _, err := settle(x, later, SettledOK); !errors.Is(err, ErrIsSettled) || !strings.Contains(err.Error(), "by ada at 2026-01-02T03:04:05Z") {
		t.Errorf("otherwise: %v", err)
	}
}
