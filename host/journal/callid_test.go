package journal

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// roleEnv has the test binary act as another host that claims ids.
const roleEnv = "JOURNAL_TEST_CLAIMS_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(roleEnv); dir != "" {
		os.Exit(claims(dir))
	}
	if dir := os.Getenv(writerEnv); dir != "" {
		os.Exit(writes(dir))
	}
	goleakMain(m)
}

// claims claims each id that it reads, and says what became of it.
func claims(dir string) int {
	host := fmt.Sprint("host-", os.Getpid())
	c := NewCallIDs(CallIDOptions{Path: filepath.Join(dir, CallIDFile), HostID: host})
	defer c.Close()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		known, err := c.Claim(context.Background(), in.Text(), bound, host+"-1")
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println(known.State)
	}
	return 0
}

var bound = Binding{Principal: "laptop", Project: "site", Provider: "shop", Tool: "pay", Arguments: []byte("sum")}

func ids(t *testing.T, dir, host string, dead Dead) *CallIDs {
	t.Helper()
	c := NewCallIDs(CallIDOptions{Path: filepath.Join(dir, CallIDFile), HostID: host, Key: []byte("key"), Dead: dead, Keep: time.Hour})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestOneOfTwoProcesses: two hosts on one state dir, the same id sent to both at
// once, 1,000 times: one takes it each time.
func TestOneOfTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	const rounds = 1000
	type other struct {
		in  *os.File
		out *bufio.Scanner
	}
	var others []other
	for range 2 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), roleEnv+"="+dir)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdin = r
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		defer func() {
			_ = w.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}()
		others = append(others, other{w, bufio.NewScanner(out)})
	}
	firsts := 0
	for round := range rounds {
		for _, o := range others {
			if _, err := fmt.Fprintf(o.in, "id-%d\n", round); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, o := range others {
			o.out.Scan()
			got = append(got, o.out.Text())
		}
		switch strings.Join(got, " ") {
		case "free in_flight":
			firsts++
		case "in_flight free":
		default:
			t.Fatalf("round %d: %q, want one that is free and one in flight", round, got)
		}
	}
	t.Logf("of %d ids the first process took %d", rounds, firsts)
}

// TestOneOfManyHandles: the same within a process, each handle a host.
func TestOneOfManyHandles(t *testing.T) {
	dir := t.TempDir()
	const hosts, rounds = 4, 50
	var handles []*CallIDs
	for i := range hosts {
		handles = append(handles, ids(t, dir, fmt.Sprint("host-", i), nil))
	}
	for round := range rounds {
		var won sync.Map
		var all sync.WaitGroup
		for i, c := range handles {
			all.Go(func() {
				known, err := c.Claim(t.Context(), fmt.Sprint("id-", round), bound, fmt.Sprintf("host-%d-1", i))
				if err != nil {
					t.Error(err)
				}
				if known.State == IDFree {
					won.Store(i, true)
				}
			})
		}
		all.Wait()
		n := 0
		won.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Fatalf("round %d: %d took the id, want 1", round, n)
		}
	}
}

// TestLifeOfAnID goes through its states.
func TestLifeOfAnID(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	a, b := ids(t, dir, "a", nil), ids(t, dir, "b", nil)
	state := func(c *CallIDs, want IDState) Known {
		t.Helper()
		known, err := c.Lookup(ctx, "x", bound)
		if err != nil || known.State != want {
			t.Fatalf("state = %q, want %q (%v)", known.State, want, err)
		}
		return known
	}
	claim := func(c *CallIDs, journalID string, want IDState) {
		t.Helper()
		known, err := c.Claim(ctx, "x", bound, journalID)
		if err != nil || known.State != want {
			t.Fatalf("claim = %q, want %q (%v)", known.State, want, err)
		}
	}
	state(a, IDFree)
	claim(a, "a-1", IDFree)
	if known := state(b, IDInFlight); known.HostID != "a" || known.JournalID != "a-1" {
		t.Errorf("known = %+v", known)
	}
	// Nothing was sent: free again, but not for who does not have it.
	if err := b.Release(ctx, "x", "b-1"); err != nil {
		t.Fatal(err)
	}
	claim(b, "b-1", IDInFlight)
	if err := a.Release(ctx, "x", "a-1"); err != nil {
		t.Fatal(err)
	}
	claim(b, "b-2", IDFree)
	if err := b.Finish(ctx, "x", "b-2", End{Outcome: "ok"}, []byte(`{"result":1}`)); err != nil {
		t.Fatal(err)
	}
	claim(a, "a-2", IDEnded)
	known := state(a, IDEnded)
	if known.Outcome != "ok" || string(known.Answer) != `{"result":1}` || time.Since(known.Ended) > time.Minute || known.JournalID != "b-2" {
		t.Errorf("known = %+v", known)
	}
	// An end is an end.
	if err := errors.Join(b.Release(ctx, "x", "b-2"), b.Finish(ctx, "x", "b-2", End{Outcome: "unknown"}, nil)); err != nil {
		t.Fatal(err)
	}
	if known := state(a, IDEnded); known.Outcome != "ok" {
		t.Errorf("known = %+v", known)
	}
}

// TestBound: an id with anything else than its first use is refused, and nothing is
// told of that use.
func TestBound(t *testing.T) {
	c := ids(t, t.TempDir(), "a", nil)
	if known, err := c.Claim(t.Context(), "x", bound, "a-1"); err != nil || known.State != IDFree {
		t.Fatal(known, err)
	}
	for i := range 5 {
		other := bound
		*[]*string{&other.Principal, &other.Project, &other.Provider, &other.Tool, new(string)}[i] = "other"
		if i == 4 {
			other.Arguments = []byte("other")
		}
		for name, ask := range map[string]func() (Known, error){
			"lookup": func() (Known, error) { return c.Lookup(t.Context(), "x", other) },
			"claim":  func() (Known, error) { return c.Claim(t.Context(), "x", other, "a-2") },
		} {
			if known, err := ask(); !errors.Is(err, ErrCallIDReused) || known.State != "" || known.JournalID != "" {
				t.Errorf("%s with %+v: %+v, %v", name, other, known, err)
			}
		}
	}
	h, again, keyless := c.Hash(), c.Hash(), NewCallIDs(CallIDOptions{}).Hash()
	for _, w := range []interface{ Write([]byte) (int, error) }{h, again, keyless} {
		_, _ = w.Write([]byte(`{"a":1}`))
	}
	if string(h.Sum(nil)) != string(again.Sum(nil)) || string(h.Sum(nil)) == string(keyless.Sum(nil)) {
		t.Error("the digest of arguments is not that of the key and the arguments")
	}
}

// TestDeadHost: what a dead host had in flight is unknown, that of a living one is not.
func TestDeadHost(t *testing.T) {
	dir := t.TempDir()
	a := ids(t, dir, "a", nil)
	if known, err := a.Claim(t.Context(), "x", bound, "a-1"); err != nil || known.State != IDFree {
		t.Fatal(known, err)
	}
	gone := false
	b := ids(t, dir, "b", func(host string) (bool, error) { return host == "a" && gone, nil })
	if known, err := b.Claim(t.Context(), "x", bound, "b-1"); err != nil || known.State != IDInFlight {
		t.Fatal(known, err)
	}
	gone = true
	known, err := b.Claim(t.Context(), "x", bound, "b-1")
	if err != nil || known.State != IDEnded || known.Outcome != "unknown" || known.Reason != ReasonHostDied {
		t.Fatal(known, err)
	}
	unsure := ids(t, dir, "c", func(string) (bool, error) { return false, errors.New("cannot tell") })
	if known, err := unsure.Lookup(t.Context(), "x", bound); err != nil || known.Outcome != "unknown" {
		t.Errorf("what is known stays known: %+v, %v", known, err)
	}
}

// TestHeld: answers are held for a time and up to a size.
func TestHeld(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	c := ids(t, dir, "a", nil)
	finish := func(id string, answer []byte) {
		t.Helper()
		if _, err := c.Claim(ctx, id, bound, id); err != nil {
			t.Fatal(err)
		}
		if err := c.Finish(ctx, id, id, End{Outcome: "ok"}, answer); err != nil {
			t.Fatal(err)
		}
	}
	held := func(id string) bool {
		t.Helper()
		known, err := c.Lookup(ctx, id, bound)
		if err != nil || known.Outcome != "ok" {
			t.Fatal(known, err)
		}
		return known.Answer != nil
	}
	finish("small", []byte("{}"))
	finish("large", make([]byte, MaxHeld+1))
	if !held("small") || held("large") {
		t.Errorf("held: small %v, large %v; want the small one", held("small"), held("large"))
	}
	for i := range maxAllHeld / MaxHeld {
		finish(fmt.Sprint("fill-", i), make([]byte, MaxHeld))
	}
	if last := fmt.Sprint("fill-", maxAllHeld/MaxHeld-1); held("small") || !held(last) {
		t.Error("over the bound of all, the oldest is to go")
	}
	if _, err := c.db.ExecContext(ctx, `UPDATE answers SET held = held - ?`, HeldFor.Microseconds()); err != nil {
		t.Fatal(err)
	}
	finish("next", []byte("{}"))
	var n int
	if err := c.db.QueryRowContext(ctx, `SELECT count(*) FROM answers`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d answers after all but one have had their time, want 1 (%v)", n, err)
	}
}

// TestCheckCallID: what is no id is told what is wrong with it.
func TestCheckCallID(t *testing.T) {
	for id, want := range map[string]string{
		strings.Repeat("x", 10<<10): "drawbridge/call_id has 10240 bytes, and may have 256: use a UUID or another short text that no other call has",
		"":                          "drawbridge/call_id is empty: leave it out, or make it a text that no other call has",
		"\xff":                      "drawbridge/call_id is no valid UTF-8",
		"half \ufffd":               "drawbridge/call_id has U+FFFD or half a character in it, by which ids cannot be told apart: use a UUID or another short text that no other call has",
		"a\x00b\n\u0085\u202e":      "",
		strings.Repeat("x", 256):    "",
		"0b5c8f6e-9d53-4d3e":        "",
	} {
		got := ""
		if err := CheckCallID(id); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.20q: %q, want %q", id, got, want)
		}
	}
}

// TestForeignTable: a table that cannot be read fails every call that needs it, by
// the file's name; it is never made anew, since that would forget what was run.
func TestForeignTable(t *testing.T) {
	for name, text := range map[string]string{"text": "not a database, but long enough to be looked at as one: " + strings.Repeat("x", 4096), "one byte": "x", "nothing": ""} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, CallIDFile)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			c := ids(t, dir, "a", nil)
			for range 2 {
				if _, err := c.Claim(t.Context(), "x", bound, "a-1"); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), path) {
					t.Errorf("claim: %v", err)
				}
			}
			if got, _ := os.ReadFile(path); string(got) != text {
				t.Error("the file was changed")
			}
		})
	}
}

// TestEmptiedTable: a table whose file is emptied under a host's eyes is not taken for
// one in which no id was ever used.
func TestEmptiedTable(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	path := filepath.Join(dir, CallIDFile)
	a := ids(t, dir, "a", nil)
	for _, id := range []string{"x", "y"} {
		if _, err := a.Claim(ctx, id, bound, "a-"+id); err != nil {
			t.Fatal(err)
		}
		must(t, a.Finish(ctx, id, "a-"+id, End{Outcome: "ok"}, nil))
	}
	must(t, os.Truncate(path, 0))
	for range 3 {
		if known, err := a.Claim(ctx, "x", bound, "a-2"); err == nil && known.State != IDEnded {
			t.Errorf("the host that has it open: %+v", known)
		}
		if known, err := ids(t, dir, "b", nil).Claim(ctx, "y", bound, "b-1"); err == nil && known.State != IDEnded {
			t.Errorf("another host: %+v", known)
		}
	}
}

// TestRemovedTable: where the table was removed there is another one, and the log says
// what that means; where there never was one, it says nothing. What a host left that
// died while it made the file is in nobody's way.
func TestRemovedTable(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	path := filepath.Join(dir, CallIDFile)
	must(t, os.WriteFile(path+newSuffix, []byte("half of it"), 0o600))
	claim := func() string {
		t.Helper()
		var said bytes.Buffer
		c := NewCallIDs(CallIDOptions{Path: path, HostID: "a", Logger: slog.New(slog.NewTextHandler(&said, nil))})
		if known, err := c.Claim(ctx, "x", bound, "a-1"); err != nil || known.State != IDFree {
			t.Fatal(known, err)
		}
		must(t, c.Close())
		return said.String()
	}
	if said := claim(); said != "" {
		t.Errorf("for the first table: %s", said)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if said := claim(); !strings.Contains(said, path) || !strings.Contains(said, "runs again") {
		t.Errorf("where it was removed: %q", said)
	}
	if entries, err := filepath.Glob(path + newSuffix + "*"); err != nil || len(entries) != 0 {
		t.Errorf("left is %q (%v)", entries, err)
	}
}

// TestOwed: an end that cannot be written holds for this host, and is written when
// that is possible.
func TestOwed(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	a, b := ids(t, dir, "a", nil), ids(t, dir, "b", nil)
	if _, err := a.Claim(ctx, "x", bound, "a-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.db.ExecContext(ctx, `CREATE TRIGGER no BEFORE UPDATE ON call_ids BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`); err != nil {
		t.Fatal(err)
	}
	if err := a.Finish(ctx, "x", "a-1", End{Outcome: "ok"}, nil); err == nil {
		t.Fatal("no error from a table that takes nothing")
	}
	if _, err := a.Claim(ctx, "y", bound, "a-2"); err == nil {
		t.Error("an id was taken while the end of another is owed")
	}
	if _, err := a.db.ExecContext(ctx, `DROP TRIGGER no`); err != nil {
		t.Fatal(err)
	}
	if known, err := a.Claim(ctx, "y", bound, "a-3"); err != nil || known.State != IDFree {
		t.Fatal(known, err)
	}
	if known, err := b.Lookup(ctx, "x", bound); err != nil || known.State != IDEnded || known.Outcome != "ok" {
		t.Errorf("known = %+v, %v", known, err)
	}
}
