package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/journal"
	"github.com/drawbridge-mcp/drawbridge/host/lock"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
)

// numberedFake is a broker with a table of call ids and a journal in a state dir.
func numberedFake(t *testing.T, state string) (*fakeSessions, *Broker) {
	t.Helper()
	f, b := newFake(t, map[string][]string{"shop": {"pay", "get"}})
	ids := journal.NewCallIDs(journal.CallIDOptions{Path: filepath.Join(state, journal.CallIDFile), HostID: "a", Key: []byte("key")})
	j, err := journal.Open(journal.Options{Dir: filepath.Join(state, journal.Folder), HostID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ids.Close(); _ = j.Close() })
	b.opts.CallIDs, b.opts.Journal = ids, j
	return f, b
}

const payX = `{"name":"shop_pay","arguments":{"n":1},"_meta":{"drawbridge/call_id":"x"}}`

// dataOf is the data of the host's own error.
func dataOf(t *testing.T, r Reply) data {
	t.Helper()
	if r.Err == nil {
		t.Fatalf("reply = %+v, want an error", r)
	}
	var d data
	if err := json.Unmarshal(r.Err.Data, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func textOf(t *testing.T, m *rpc.Message) string {
	t.Helper()
	if m == nil {
		t.Fatal("there is no answer")
	}
	text, err := m.Payload().Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRepeatGetsTheAnswer: the same call with the same id runs once, and both get the
// server's answer; also another broker of the state dir, and also where the server
// is gone.
func TestRepeatGetsTheAnswer(t *testing.T) {
	state := t.TempDir()
	f, b := numberedFake(t, state)
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"paid"}],"_meta":{"k":9007199254740993,"drawbridge/redacted":true}}}`
	const kept = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"paid"}],"_meta":{"k":9007199254740993}}}`
	f.answers(t, answer)
	first := b.Call(t.Context(), toolCall(t, payX))
	if got := textOf(t, first.Message); got != answer || first.Reason != "" {
		t.Fatalf("first = %s (%s)", got, first.Reason)
	}
	again := b.Call(t.Context(), toolCall(t, payX))
	if got := textOf(t, again.Message); got != kept || again.Outcome != OK || again.Dispatched || again.Reason != "repeated" || again.Redacted {
		t.Errorf("again = %s, %+v", got, again)
	}
	other, b2 := newFake(t, map[string][]string{"shop": {"get"}}) // the tool is not even there
	b2.opts.CallIDs = b.opts.CallIDs
	other.tools["shop"] = []string{"pay"}
	if reply := b2.Call(t.Context(), toolCall(t, payX)); reply.Message == nil || textOf(t, reply.Message) != kept {
		t.Errorf("another host's reply = %+v", reply)
	}
	if len(f.got) != 1 || len(other.got) != 0 {
		t.Errorf("%d and %d messages were dispatched, want 1 and none", len(f.got), len(other.got))
	}
}

// TestRepeatOfWhatIsGone: when the tool is no longer there, or its definition is not
// approved any more, a repeat is still told how the first call ended, and a call that
// is none is told that there is no such tool.
func TestRepeatOfWhatIsGone(t *testing.T) {
	f, b := numberedFake(t, t.TempDir())
	f.answers(t, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"paid"}]}}`)
	first := b.Call(t.Context(), toolCall(t, payX))
	if first.Outcome != OK {
		t.Fatal(first)
	}
	f.runs["shop"]++
	f.defs["shop"] = []json.RawMessage{json.RawMessage(`{"name":"get"}`)}
	if _, err := f.Get(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	another := toolCall(t, payX)
	another.Caller.Client.Name = "another client"
	for name, c := range map[string]Call{"shown": toolCall(t, payX), "not shown": another} {
		if again := b.Call(t.Context(), c); again.Reason != "repeated" || again.Outcome != OK || textOf(t, again.Message) != textOf(t, first.Message) {
			t.Errorf("%s: again = %+v", name, again)
		}
	}
	for name, params := range map[string]string{
		"another id":        `{"name":"shop_pay","arguments":{"n":1},"_meta":{"drawbridge/call_id":"y"}}`,
		"another call's id": `{"name":"shop_pay","arguments":{"n":2},"_meta":{"drawbridge/call_id":"x"}}`,
	} {
		if d := dataOf(t, b.Call(t.Context(), toolCall(t, params))); d.Outcome != Stale || d.Reason != reasonToolGone {
			t.Errorf("%s: %+v", name, d)
		}
		c := toolCall(t, params)
		c.Caller.Client.Name = "a client that was shown nothing"
		if d := dataOf(t, b.Call(t.Context(), c)); d.Outcome != Denied || d.Reason != "unknown_tool" {
			t.Errorf("%s, to whom nothing was shown: %+v", name, d)
		}
	}
	c := toolCall(t, payX)
	c.Caller.Principal = "another"
	if d := dataOf(t, b.Call(t.Context(), c)); d.Reason != "unknown_tool" {
		t.Errorf("another principal: %+v", d)
	}
	if len(f.got) != 1 {
		t.Errorf("%d messages were dispatched, want 1", len(f.got))
	}
}

// TestRepeatOfWhatIsQuarantined is written down as the repeat that it is, and not as the
// refusal that a first call would be.
func TestRepeatOfWhatIsQuarantined(t *testing.T) {
	f, b := numberedFake(t, t.TempDir())
	if first := b.Call(t.Context(), toolCall(t, payX)); first.Outcome != OK {
		t.Fatal(first)
	}
	b.opts.Lock = lock.New
	b.worlds.lock = b.opts.Lock
	j := new(fakeJournal)
	b.opts.Journal = j
	b.Call(t.Context(), toolCall(t, payX))
	b.Call(t.Context(), toolCall(t, `{"name":"shop_pay","arguments":{"n":1},"_meta":{"drawbridge/call_id":"y"}}`))
	want := []journalLine{
		{Kind: "refuse", Tool: "shop/pay", Outcome: "ok", Reason: "repeated"},
		{Kind: "refuse", Tool: "shop/pay", Fence: "quarantined", Outcome: "stale", Reason: "quarantined"},
	}
	if diff := cmp.Diff(want, j.lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(f.got) != 1 {
		t.Errorf("%d messages were dispatched, want 1", len(f.got))
	}
}

// TestRepeatOfWhatIsNotGranted: who has lost the grant of a tool is told no more than
// that there is none, whatever he repeats.
func TestRepeatOfWhatIsNotGranted(t *testing.T) {
	f, b := numberedFake(t, t.TempDir())
	grant := func(tools string) {
		p := policyOf(t, "  grant {\n    principals = [\"ann\"]\n    provider = \"shop\"\n    tools = ["+tools+"]\n  }\n")
		b.opts.Policy = func() *access.Policy { return p }
		b.worlds.policy = b.opts.Policy
	}
	c := toolCall(t, payX)
	c.Caller = Caller{Principal: "ann", Project: "site"}
	grant(`"*"`)
	if first, again := b.Call(t.Context(), c), b.Call(t.Context(), c); first.Outcome != OK || again.Reason != "repeated" {
		t.Fatal(first, again)
	}
	grant(`"get"`)
	if d := dataOf(t, b.Call(t.Context(), c)); d.Outcome != Denied || d.Reason != "unknown_tool" || d.Provider != "" {
		t.Errorf("without the grant: %+v", d)
	}
	if len(f.got) != 1 {
		t.Errorf("%d messages were dispatched, want 1", len(f.got))
	}
}

// TestRepeatInFlight: a repeat that comes too early is told so, and may come again.
func TestRepeatInFlight(t *testing.T) {
	f, b := numberedFake(t, t.TempDir())
	running, finish := make(chan struct{}), make(chan struct{})
	f.do = func(context.Context, session.Call) (*rpc.Message, error) {
		close(running)
		<-finish
		return message(t, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}`), nil
	}
	var first Reply
	var done sync.WaitGroup
	done.Go(func() { first = b.Call(t.Context(), toolCall(t, payX)) })
	<-running
	early := b.Call(t.Context(), toolCall(t, payX))
	d := dataOf(t, early)
	if early.Err.Code != CodeUnavailable || d.Reason != "call_id_in_flight" || d.Retry != RetrySafe || !strings.Contains(early.Err.Message, "with the same id") {
		t.Errorf("early = %+v, %+v", early.Err, d)
	}
	close(finish)
	done.Wait()
	if again := b.Call(t.Context(), toolCall(t, payX)); again.Outcome != ToolError || textOf(t, again.Message) != textOf(t, first.Message) {
		t.Errorf("again = %+v", again)
	}
	if len(f.got) != 1 {
		t.Errorf("%d messages were dispatched, want 1", len(f.got))
	}
}

// TestIDOfWhatWasNotSentIsFree: after any end that sent nothing the id may be used.
func TestIDOfWhatWasNotSentIsFree(t *testing.T) {
	f, b := numberedFake(t, t.TempDir())
	for name, err := range map[string]error{
		"not sent":    &session.Lost{Reason: session.NotSent, Cause: "ended"},
		"undelivered": &session.Lost{Reason: session.Undelivered, Cause: "half of it"},
		"cancelled":   context.Canceled,
	} {
		f.do = func(context.Context, session.Call) (*rpc.Message, error) { return nil, err }
		if reply := b.Call(t.Context(), toolCall(t, payX)); reply.Dispatched || reply.Err == nil {
			t.Fatalf("%s: %+v", name, reply)
		}
	}
	f.answers(t, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	if reply := b.Call(t.Context(), toolCall(t, payX)); reply.Outcome != OK || reply.Reason != "" {
		t.Errorf("reply = %+v", reply)
	}
}

// TestIDForAnotherCall is refused, and nothing is told of the call that it was for.
func TestIDForAnotherCall(t *testing.T) {
	f, b := numberedFake(t, t.TempDir())
	if reply := b.Call(t.Context(), toolCall(t, payX)); reply.Outcome != OK {
		t.Fatal(reply)
	}
	for name, params := range map[string]string{
		"arguments": `{"name":"shop_pay","arguments":{"n":2},"_meta":{"drawbridge/call_id":"x"}}`,
		"none":      `{"name":"shop_pay","_meta":{"drawbridge/call_id":"x"}}`,
		"tool":      `{"name":"shop_get","arguments":{"n":1},"_meta":{"drawbridge/call_id":"x"}}`,
	} {
		reply := b.Call(t.Context(), toolCall(t, params))
		d := dataOf(t, reply)
		want := data{Outcome: Denied, Reason: "call_id_reused", Tool: d.Tool, Retry: RetryNever}
		if diff := cmp.Diff(want, d); diff != "" || reply.Err.Code != CodeDenied || !strings.Contains(reply.Err.Message, "used before, for another call") {
			t.Errorf("%s: %s (-want +got):\n%s", name, reply.Err.Message, diff)
		}
	}
	// What is no I-JSON is bound as it is written.
	doubled := `{"name":"shop_pay","arguments":{"n":1,"n":%s},"_meta":{"drawbridge/call_id":"y"}}`
	if reply := b.Call(t.Context(), toolCall(t, fmt.Sprintf(doubled, "2"))); reply.Outcome != OK || reply.Reason != "" {
		t.Fatal(reply)
	}
	if reply := b.Call(t.Context(), toolCall(t, fmt.Sprintf(doubled, "2"))); reply.Reason != "repeated" {
		t.Errorf("a doubled member again: %+v", reply)
	}
	if d := dataOf(t, b.Call(t.Context(), toolCall(t, fmt.Sprintf(doubled, "3")))); d.Reason != "call_id_reused" {
		t.Errorf("another doubled member: %+v", d)
	}
	c := toolCall(t, payX)
	c.Caller.Principal = "another"
	if d := dataOf(t, b.Call(t.Context(), c)); d.Reason != "unknown_tool" {
		t.Errorf("one who may not call it at all: %+v, want to be told no more than that", d)
	}
	if len(f.got) != 2 {
		t.Errorf("%d messages were dispatched, want 2", len(f.got))
	}
}

// TestTheSameArgumentsInOtherWords: a client that repeats a call may write its
// arguments anew; what they mean is what the id is bound to, to the last digit.
func TestTheSameArgumentsInOtherWords(t *testing.T) {
	f, b := numberedFake(t, t.TempDir())
	pay := func(id, arguments string) Reply {
		return b.Call(t.Context(), toolCall(t, `{"name":"shop_pay","arguments":`+arguments+`,"_meta":{"drawbridge/call_id":"`+id+`"}}`))
	}
	for id, one := range map[string]struct {
		first, again string
		same         bool
	}{
		"order":   {`{"a":1,"b":{"c":2,"d":[3]}}`, `{"b":{"d":[3],"c":2},"a":1}`, true},
		"space":   {`{"a":[1,2]}`, `{ "a" : [ 1, 2 ] }`, true},
		"escapes": {`{"a":"é/"}`, `{"\u0061":"\u00e9\/"}`, true},
		"digits":  {`{"a":9007199254740992}`, `{"a":9007199254740993}`, false},
		"list":    {`{"a":[1,2]}`, `{"a":[2,1]}`, false},
		"null":    {`{"a":null}`, `{}`, false},
		"none":    {`{}`, `null`, false},
	} {
		if reply := pay(id, one.first); reply.Outcome != OK || reply.Reason != "" {
			t.Fatalf("%s: %+v", id, reply)
		}
		want := "call_id_reused"
		if one.same {
			want = "repeated"
		}
		if reply := pay(id, one.again); reply.Reason != want {
			t.Errorf("%s: %s after %s is %q, want %q", id, one.again, one.first, reply.Reason, want)
		}
	}
	// Large ones are compared as they are written.
	b.providers["shop"] = Provider{Slug: "shop", Label: "shop"}
	pad := strings.Repeat("x", maxCanonical)
	if reply := pay("large", `{"a":1,"b":"`+pad+`"}`); reply.Outcome != OK || reply.Reason != "" {
		t.Fatal(reply)
	}
	if reply := pay("large", `{"a":1,"b":"`+pad+`"}`); reply.Reason != "repeated" {
		t.Errorf("large: the same again is %q", reply.Reason)
	}
	if reply := pay("large", `{"b":"`+pad+`","a":1}`); reply.Reason != "call_id_reused" {
		t.Errorf("large: in another order it is %q", reply.Reason)
	}
	if len(f.got) != 8 {
		t.Errorf("%d messages were dispatched, want 8", len(f.got))
	}
}

// TestRepeatOfUnknown says that it may have happened, until somebody found out.
func TestRepeatOfUnknown(t *testing.T) {
	state := t.TempDir()
	f, b := numberedFake(t, state)
	f.do = func(context.Context, session.Call) (*rpc.Message, error) {
		return nil, &session.Lost{Dispatched: true, Reason: session.Timeout, Cause: "silence"}
	}
	first := b.Call(t.Context(), toolCall(t, payX))
	again := b.Call(t.Context(), toolCall(t, payX))
	d := dataOf(t, again)
	if first.Outcome != Unknown || again.Outcome != Unknown || d.Reason != "timeout" || d.Retry != RetryAfterLook || d.Dispatched || again.Err.Code != CodeUnknown ||
		!strings.Contains(again.Err.Message, first.ID) || !strings.Contains(again.Err.Message, "may have had its effect") {
		t.Errorf("again = %s, %+v", again.Err.Message, d)
	}
	x, err := journal.OpenIndex(t.Context(), journal.IndexOptions{Dir: filepath.Join(state, journal.Folder)})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	ids := journal.NewCallIDs(journal.CallIDOptions{Path: filepath.Join(state, journal.CallIDFile)})
	defer ids.Close()
	settle := func(id, as string) error {
		_, _, err := x.Settle(t.Context(), journal.Settlement{ID: id, As: as, Note: "saw it"}, ids)
		return err
	}
	if err := settle(again.ID, journal.SettledOK); !errors.Is(err, journal.ErrNotSent) {
		t.Errorf("settling the repeat: %v", err)
	}
	if err := settle(first.ID, journal.SettledNotRun); err != nil {
		t.Fatal(err)
	}
	settled := b.Call(t.Context(), toolCall(t, payX))
	if d := dataOf(t, settled); d.Outcome != Unavailable || d.Reason != "settled_not_run" || !strings.Contains(settled.Err.Message, "with a new id") {
		t.Errorf("settled = %s, %+v", settled.Err.Message, d)
	}
	if len(f.got) != 1 {
		t.Errorf("%d messages were dispatched, want 1", len(f.got))
	}
}

// TestRepeatWhoseAnswerIsNotHeld is told how the first ended.
func TestRepeatWhoseAnswerIsNotHeld(t *testing.T) {
	f, b := numberedFake(t, t.TempDir())
	f.answers(t, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`+strings.Repeat("x", journal.MaxHeld)+`"}]}}`)
	if reply := b.Call(t.Context(), toolCall(t, payX)); reply.Outcome != OK {
		t.Fatal(reply)
	}
	again := b.Call(t.Context(), toolCall(t, payX))
	if d := dataOf(t, again); d.Outcome != OK || d.Reason != "answer_not_held" || d.Retry != RetryNever || again.Err.Code != CodeUnknown ||
		!strings.Contains(again.Err.Message, "ended as ok") {
		t.Errorf("again = %s, %+v", again.Err.Message, d)
	}
}

// TestIDsThatAreNone are refused with what is wrong with them.
func TestIDsThatAreNone(t *testing.T) {
	f, b := numberedFake(t, t.TempDir())
	for id, says := range map[string]string{
		`"` + strings.Repeat("x", 10<<10) + `"`: "drawbridge/call_id has 10240 bytes, and may have 256",
		`""`:                                    "must be a string that is not empty",
		`7`:                                     "must be a string that is not empty",
		`"\ud800"`:                              "half a character",
	} {
		reply := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay","_meta":{"drawbridge/call_id":`+id+`}}`))
		if reply.Err == nil || reply.Err.Code != rpc.CodeInvalidParams || !strings.Contains(reply.Err.Message, says) || reply.Outcome != Denied {
			t.Errorf("%.20s: %+v", id, reply.Err)
		}
	}
	if len(f.got) != 0 {
		t.Errorf("%d messages were dispatched, want none", len(f.got))
	}
}

// TestCancelWhileTheIDIsLookedUp: the caller's cancel is a cancel, and no fault of the
// table; the id stays free.
func TestCancelWhileTheIDIsLookedUp(t *testing.T) {
	f, b := numberedFake(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := f.Get(ctx, "shop"); err != nil { // it is there when the call comes
		t.Fatal(err)
	}
	cancel()
	reply := b.Call(ctx, toolCall(t, payX))
	if d := dataOf(t, reply); d.Outcome != Cancelled || d.Reason != "cancelled" || d.Dispatched || strings.Contains(reply.Err.Message, "no effect") {
		t.Errorf("reply = %s, %+v", reply.Err.Message, d)
	}
	if reply := b.Call(t.Context(), toolCall(t, payX)); reply.Outcome != OK || reply.Reason != "" || len(f.got) != 1 {
		t.Errorf("afterwards: %+v, %d dispatched", reply, len(f.got))
	}
}

// TestTableThatCannotBeRead: a call with an id is not sent, one without is.
func TestTableThatCannotBeRead(t *testing.T) {
	state := t.TempDir()
	if err := os.WriteFile(filepath.Join(state, journal.CallIDFile), []byte("no table"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, b := numberedFake(t, state)
	reply := b.Call(t.Context(), toolCall(t, payX))
	if d := dataOf(t, reply); d.Outcome != Unavailable || d.Reason != "call_id_unreadable" || strings.Contains(reply.Err.Message, state) {
		t.Errorf("reply = %s, %+v", reply.Err.Message, d)
	}
	// An earlier call with the id may have run: no word that there was no effect.
	if text := reply.Err.Message; strings.Contains(text, "no effect") || !strings.Contains(text, "it may have run before") || !strings.Contains(text, "the same id") {
		t.Errorf("it says %q", text)
	}
	if reply := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`)); reply.Outcome != OK || len(f.got) != 1 {
		t.Errorf("without an id: %+v, %d dispatched", reply, len(f.got))
	}
}
