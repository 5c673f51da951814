package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/artifact"
	"github.com/drawbridge-mcp/drawbridge/host/journal"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
)

// stepEnv has a test be the host that dies: the step, the scenario and the state dir.
const stepEnv = "BROKER_TEST_DIES_AT"

// steps counts the steps of a call and ends the process at one of them.
type steps struct {
	at   int64
	next atomic.Int64
}

// step is passed between any two things that a call does.
func (s *steps) step() {
	if s.next.Add(1) != s.at {
		return
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// stepped are the parts that a call goes through, with a step before and after each.
type (
	steppedJournal struct {
		Journal
		*steps
	}
	steppedIDs struct {
		CallIDs
		*steps
	}
	steppedArtifacts struct {
		Artifacts
		*steps
	}
)

func (j steppedJournal) Begin(e *journal.Entry) error {
	j.step()
	defer j.step()
	return j.Journal.Begin(e)
}

func (j steppedJournal) End(e *journal.Entry, end journal.End) error {
	j.step()
	defer j.step()
	return j.Journal.End(e, end)
}

func (j steppedJournal) Refuse(e *journal.Entry, end journal.End) error {
	j.step()
	defer j.step()
	return j.Journal.Refuse(e, end)
}

func (c steppedIDs) Hash() hash.Hash { return c.CallIDs.Hash() }

func (c steppedIDs) Lookup(ctx context.Context, id string, b journal.Binding) (journal.Known, error) {
	c.step()
	defer c.step()
	return c.CallIDs.Lookup(ctx, id, b)
}

func (c steppedIDs) Claim(ctx context.Context, id string, b journal.Binding, journalID string) (journal.Known, error) {
	c.step()
	defer c.step()
	return c.CallIDs.Claim(ctx, id, b, journalID)
}

func (c steppedIDs) Release(ctx context.Context, id, journalID string) error {
	c.step()
	defer c.step()
	return c.CallIDs.Release(ctx, id, journalID)
}

func (c steppedIDs) Finish(ctx context.Context, id, journalID string, end journal.End, answer []byte) error {
	c.step()
	defer c.step()
	return c.CallIDs.Finish(ctx, id, journalID, end, answer)
}

func (a steppedArtifacts) Shorten(m *rpc.Message, o artifact.Origin, b artifact.Bounds) (*artifact.Shortened, error) {
	a.step()
	defer a.step()
	return a.Artifacts.Shorten(m, o, b)
}

// servers are how a server ends a call; all but the one that never hears of it write
// a line to the ledger first.
var servers = map[string]func(line func()) (*rpc.Message, error){
	"ok": func(line func()) (*rpc.Message, error) {
		line()
		return rpc.Parse(rpc.FromServer, []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"paid"}]}}`))
	},
	"large": func(line func()) (*rpc.Message, error) {
		line()
		return rpc.Parse(rpc.FromServer, []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`+strings.Repeat("x", 64<<10)+`"}]}}`))
	},
	"refuses": func(line func()) (*rpc.Message, error) {
		line()
		return rpc.Parse(rpc.FromServer, []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}`))
	},
	"is silent": func(line func()) (*rpc.Message, error) {
		line()
		return nil, &session.Lost{Dispatched: true, Reason: session.Timeout, Cause: "silence"}
	},
	"is not there": func(func()) (*rpc.Message, error) {
		return nil, &session.Lost{Reason: session.Undelivered, Cause: "half of it"}
	},
}

// hostIn is a broker of a run in a state dir, on the real journal, table of ids and
// store of artifacts; earlier runs are dead.
func hostIn(t *testing.T, state, run, server string, s *steps) *Broker {
	t.Helper()
	folder := filepath.Join(state, journal.Folder)
	dead := func(host string) (bool, error) { return host != run, nil }
	j, err := journal.Open(journal.Options{Dir: folder, HostID: run, Dead: dead})
	if err != nil {
		t.Fatal(err)
	}
	ids := journal.NewCallIDs(journal.CallIDOptions{Path: filepath.Join(state, journal.CallIDFile), Folder: folder, HostID: run, Key: []byte("key"), Dead: dead})
	store, err := artifact.Open(artifact.Options{Dir: filepath.Join(state, "artifacts"), Quota: 1 << 20, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ids.Close(); _ = j.Close() })
	f, b := newFake(t, map[string][]string{"shop": {"pay"}})
	p := b.providers["shop"]
	p.InlineResult = 16 << 10
	b.providers["shop"] = p
	b.opts.Journal, b.opts.CallIDs, b.opts.Artifacts = steppedJournal{j, s}, steppedIDs{ids, s}, steppedArtifacts{store, s}
	b.opts.SpoolDir = state
	f.do = func(context.Context, session.Call) (*rpc.Message, error) {
		s.step() // it is on its way
		m, err := servers[server](func() {
			ledger, err := os.OpenFile(filepath.Join(state, "ledger"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err == nil {
				_, err = fmt.Fprintln(ledger, run)
				err = errors.Join(err, ledger.Close())
			}
			if err != nil {
				panic(err)
			}
		})
		s.step() // the server has done what it does
		return m, err
	}
	return b
}

// linesOf is how often the server has run.
func linesOf(t *testing.T, state string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(state, "ledger"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// TestDiesBetweenAnyTwoSteps kills a host between any two steps of a call, however its
// server ends it. Afterwards no row is open; the row says no more of the server than is
// so; and who repeats the call with its id is told what the row says, or runs it where
// nothing was sent, but never a second time.
func TestDiesBetweenAnyTwoSteps(t *testing.T) {
	if text := os.Getenv(stepEnv); text != "" {
		at, server, _ := strings.Cut(text, ":")
		server, state, _ := strings.Cut(server, ":")
		n, err := strconv.Atoi(at)
		if err != nil {
			t.Fatal(err)
		}
		b := hostIn(t, state, "first", server, &steps{at: int64(n)})
		reply := b.Call(t.Context(), toolCall(t, payX))
		_ = reply.Deliver(func() error { return nil })
		return
	}
	for server := range servers {
		t.Run(strings.ReplaceAll(server, " ", "_"), func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n++ {
				state := t.TempDir()
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDiesBetweenAnyTwoSteps$", "-test.count=1")
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d:%s:%s", stepEnv, n, server, state))
				out, err := cmd.CombinedOutput()
				if err != nil && cmd.ProcessState.ExitCode() != -1 {
					t.Fatalf("step %d: %v\n%s", n, err, out)
				}
				afterwards(t, fmt.Sprintf("killed at step %d", n), state, server)
				if err == nil { // the call has fewer steps
					if n < 8 {
						t.Fatalf("a call has %d steps", n)
					}
					t.Logf("%d steps", n-1)
					return
				}
			}
		})
	}
}

// afterwards checks what a host has left that died, and what the next one makes of it.
func afterwards(t *testing.T, what, state, server string) {
	t.Helper()
	row := onlyRow(t, what, state)
	lines := linesOf(t, state)
	outcome := ""
	if row != nil {
		outcome = row.Outcome
	}
	switch outcome {
	case "", "unavailable", "cancelled":
		if lines != 0 {
			t.Errorf("%s: the row is %q, and the server ran", what, outcome)
		}
	case "ok", "rpc_error":
		if lines != 1 {
			t.Errorf("%s: the row is %q, and the server ran %d times", what, outcome, lines)
		}
	case "unknown":
	default:
		t.Errorf("%s: the row is %q (%s)", what, outcome, row.Reason)
	}
	b := hostIn(t, state, "second", server, new(steps))
	again := b.Call(t.Context(), toolCall(t, payX))
	got := again.Outcome
	ran := linesOf(t, state) - lines
	if ran > 0 && lines > 0 {
		t.Errorf("%s: the repeat ran once more", what)
	}
	var d data
	if again.Err != nil {
		if err := json.Unmarshal(again.Err.Data, &d); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case outcome == "" && got == Unknown && d.Reason == journal.ReasonHostDied && !d.Dispatched:
		// It was claimed and not begun. The owner can say so.
		settle(t, what, state, again.Err.Message)
	case outcome == "", outcome == "unavailable":
		if again.Reason == reasonRepeated || server != "is not there" && ran != 1 {
			t.Errorf("%s: nothing was sent, and the repeat is %q, %q, and ran %d times", what, got, again.Reason, ran)
		}
	case string(got) != outcome:
		t.Errorf("%s: the row is %q, and the repeat is told %q (%s)", what, outcome, got, again.Reason)
	}
}

// onlyRow is the one row of the journal, nil for none.
func onlyRow(t *testing.T, what, state string) *journal.Row {
	t.Helper()
	x := indexOf(t, state)
	defer x.Close()
	var found *journal.Row
	for row, err := range x.Calls(t.Context(), journal.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if found != nil {
			t.Fatalf("%s: two rows of one call", what)
		}
		found = &row
	}
	if found != nil && found.Outcome == "" {
		t.Errorf("%s: its row is open", what)
	}
	return found
}

func indexOf(t *testing.T, state string) *journal.Index {
	t.Helper()
	x, err := journal.OpenIndex(t.Context(), journal.IndexOptions{Dir: filepath.Join(state, journal.Folder),
		Dead: func(host string) (bool, error) { return host == "first", nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	return x
}

// settle settles the first call by the id that the message names.
func settle(t *testing.T, what, state, message string) {
	t.Helper()
	_, rest, _ := strings.Cut(message, "(call ")
	id, _, _ := strings.Cut(rest, ")")
	x := indexOf(t, state)
	defer x.Close()
	ids := journal.NewCallIDs(journal.CallIDOptions{Path: filepath.Join(state, journal.CallIDFile)})
	defer ids.Close()
	if _, _, err := x.Settle(t.Context(), journal.Settlement{ID: id, As: journal.SettledNotRun, Note: "no line", By: "ada"}, ids); err != nil {
		t.Errorf("%s: %s cannot be settled: %v", what, id, err)
	}
}
