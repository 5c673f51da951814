package crossing

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// smallDisk mounts a disk of some size in a place, or skips the test.
func smallDisk(t *testing.T, p hosttest.Place, name, size string) string {
	t.Helper()
	disk := p.Path(name)
	if err := os.MkdirAll(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "mode=700,size="+size); err != nil {
		t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return disk
}

// TestWithoutAJournalNothingIsSent: while the disk of the journal is full, calls are
// unavailable with that reason and the server hears of none; the call that was in
// flight has its answer, and its end is written once there is room.
func TestWithoutAJournalNothingIsSent(t *testing.T) {
	p := hosttest.NewPlace(t)
	disk := smallDisk(t, p, "state/journal", "256k")
	path := config(t, p, "", provider{name: "fake", args: []string{"--ledger", p.Path("ledger")}})
	c := setting{}.stdio(t, p, path)
	hosttest.CallTool(t, c, "fake_echo", "{}")
	flying := c.begin(t, `"f"`, called(`"f"`, "fake_pay", `{"to":"ann","ms":1500}`))
	waitCalls(t, p, "fake", 2)
	ballast := filepath.Join(disk, "ballast")
	file, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil { // to the last byte
		_, err = file.Write(make([]byte, 4096))
	}
	_ = file.Close()
	// What is left of the file's last page may hold some more lines.
	var e hostError
	eventually(t, "the disk is full", func() bool {
		r := tool(t, c, "fake_echo", "{}")
		if r.Error == nil {
			return false
		}
		e = errorOf(t, r)
		return true
	})
	if e.Code != -31003 || e.Data.Outcome != "unavailable" || e.Data.Reason != "journal" || e.Data.Dispatched || e.Data.Retry != "safe" {
		t.Errorf("on a full disk: %+v", e)
	}
	says(t, "the error", e.Message, "journal", "disk is full")
	before := len(received(t, p, "fake"))
	if e := errorOf(t, tool(t, c, "fake_pay", `{"to":"bob"}`)); e.Data.Reason != "journal" {
		t.Errorf("pay on a full disk: %+v", e)
	}
	if text := textOf(t, flying()); text != "paid" {
		t.Errorf("the call in flight: %q", text)
	}
	if now := len(received(t, p, "fake")); now != before || strings.Count(ledger(t, p), "\n") != 1 {
		t.Errorf("the server received %d calls that were refused; the ledger: %s", now-before, ledger(t, p))
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if text := textOf(t, tool(t, c, "fake_pay", `{"to":"eve"}`)); text != "paid" {
		t.Errorf("with room again: %q", text)
	}
	got := endings(t, p, path, "echo")
	if n := len(got); n < 2 || got[0] != "pay ok sent" || got[n-1] != "pay ok sent" || slices.ContainsFunc(got, func(s string) bool { return strings.HasSuffix(s, " ") }) {
		t.Errorf("the journal has %q", got)
	}
}
