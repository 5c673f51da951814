package containment

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLookFindsWhatASweepWouldEndAndEndsNothing(t *testing.T) {
	state := t.TempDir()
	guard, below := stranger(t, deadID+"/x/1"), stranger(t, deadID+"/x/1")
	bury(t, state, deadRecord(t, guard.Process.Pid))
	half := filepath.Join(state, runsDir, deadID[:31]+"0"+lockSuffix+newSuffix)
	if err := os.WriteFile(half, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := buried(state)
	report, err := Look(context.Background(), state)
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, p := range report.Ended {
		found = append(found, p.Pid)
	}
	slices.Sort(found)
	want := []int{guard.Process.Pid, below.Process.Pid}
	slices.Sort(want)
	if !slices.Equal(found, want) || !slices.Equal(report.Runs, []string{deadID}) {
		t.Errorf("report %+v, want the processes %v", report, want)
	}
	for _, pid := range want {
		if !lives(pid) {
			t.Errorf("process %d was ended", pid)
		}
	}
	if _, err := os.Stat(half); err != nil || !slices.Equal(before, buried(state)) {
		t.Errorf("something was removed: %v, %v", err, buried(state))
	}
	// A sweep finds it all still there.
	if report := sweepIt(t, state); len(report.Ended) != 2 {
		t.Errorf("the sweep after it: %+v", report)
	}
}

func TestLookMakesNothing(t *testing.T) {
	state := filepath.Join(t.TempDir(), "none")
	report, err := Look(context.Background(), state)
	if err != nil || !cmp.Equal(report, Report{}) {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := os.Stat(state); err == nil {
		t.Error("it made the state dir")
	}
}
