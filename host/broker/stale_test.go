package broker

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/journal"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// deliver is a client that gets its answer.
func deliver(t *testing.T, r Reply) {
	t.Helper()
	if err := r.Deliver(func() error { return nil }); err != nil {
		t.Error(err)
	}
}

// shownAll is a caller that lists.
func shownAll(b *Broker, c Caller) {
	b.Prepare(context.Background(), c)
	v := b.View(c)
	b.Shown(c, v, 0, len(v.Tools()))
}

func redefine(f *fakeSessions, slug string, defs ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.defs[slug] = []json.RawMessage{}
	for _, def := range defs {
		f.defs[slug] = append(f.defs[slug], json.RawMessage(def))
	}
}

// TestACallIsJudgedByWhatWasShownWhenItArrived: of two calls that a model makes at
// once, the second is not let through by what the refusal of the first shows.
func TestACallIsJudgedByWhatWasShownWhenItArrived(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay"}})
	shownAll(b, local)
	redefine(f, "shop", `{"name":"pay","x":2}`)
	here, on := make(chan struct{}, 1), make(chan struct{})
	f.getting = func() { here <- struct{}{}; <-on }
	replies := make(chan Reply)
	go func() { replies <- b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`)) }()
	<-here // the second has arrived, and waits for its provider
	f.mu.Lock()
	f.getting = nil
	f.mu.Unlock()
	first := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`))
	if first.Outcome != Stale {
		t.Fatalf("the first: %+v", first)
	}
	deliver(t, first)
	close(on)
	if second := <-replies; second.Outcome != Stale || second.Reason != reasonDefinitionChanged {
		t.Errorf("the second: %s %s", second.Outcome, second.Reason)
	}
	if third := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`)); third.Outcome != OK {
		t.Errorf("one that was made after the refusal was read: %+v", third.Err)
	}
	if len(f.got) != 1 {
		t.Errorf("%d calls were sent, want 1", len(f.got))
	}
}

// TestACallIsJudgedByTheProcessKnownWhenItArrived: the same where a process was replaced.
func TestACallIsJudgedByTheProcessKnownWhenItArrived(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay"}})
	p := b.providers["shop"]
	p.Stateful = true
	b.providers["shop"] = p
	if r := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`)); r.Outcome != OK {
		t.Fatalf("%+v", r)
	}
	here, on := make(chan struct{}, 1), make(chan struct{})
	f.mu.Lock()
	f.runs["shop"]++
	f.getting = func() { here <- struct{}{}; <-on }
	f.mu.Unlock()
	replies := make(chan Reply)
	go func() { replies <- b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`)) }()
	<-here // it has arrived, and waits for its provider
	f.mu.Lock()
	f.getting = nil
	f.mu.Unlock()
	first := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`))
	if first.Reason != reasonInstanceReplaced {
		t.Errorf("the first: %s %s", first.Outcome, first.Reason)
	}
	deliver(t, first)
	close(on)
	if second := <-replies; second.Reason != reasonInstanceReplaced {
		t.Errorf("one that was made before the refusal was read: %s %s", second.Outcome, second.Reason)
	}
	if third := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`)); third.Outcome != OK {
		t.Errorf("one that was made after it: %s %s", third.Outcome, third.Reason)
	}
}

// TestARefusalThatWasNotWrittenShowsNothing.
func TestARefusalThatWasNotWrittenShowsNothing(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay"}})
	shownAll(b, local)
	redefine(f, "shop", `{"name":"pay","x":2}`)
	for range 2 {
		reply := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`))
		if reply.Outcome != Stale {
			t.Fatalf("%s", reply.Outcome)
		}
		if err := reply.Deliver(func() error { return errors.New("gone") }); err == nil {
			t.Error("the error of the writer is lost")
		}
	}
	deliver(t, b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`)))
	if reply := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`)); reply.Outcome != OK {
		t.Errorf("once it was: %s", reply.Outcome)
	}
}

// TestAReplacedProcessIsToldOnce: with a stateful provider by refusing all calls
// until one refusal was written, else in a result.
func TestAReplacedProcessIsToldOnce(t *testing.T) {
	for _, stateful := range []bool{true, false} {
		f, b := newFake(t, map[string][]string{"shop": {"pay"}})
		p := b.providers["shop"]
		p.Stateful = stateful
		b.providers["shop"] = p
		pay := func() Reply { return b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`)) }
		if r := pay(); r.Outcome != OK || r.Replaced != "" || r.Instance != "host/shop/1" {
			t.Fatalf("the first call: %+v", r)
		}
		f.runs["shop"]++
		one, two := pay(), pay() // neither has been written
		for _, r := range []Reply{one, two} {
			if stateful && (r.Outcome != Stale || r.Reason != reasonInstanceReplaced || r.Instance != "host/shop/2") ||
				!stateful && (r.Outcome != OK || r.Replaced != "host/shop/1") {
				t.Errorf("stateful %v: %+v", stateful, r)
			}
		}
		deliver(t, two)
		if r := pay(); r.Outcome != OK || r.Replaced != "" {
			t.Errorf("stateful %v, once it was told: %+v", stateful, r)
		}
		f.runs["shop"]++
		named := func(mark string) Reply {
			return b.Call(t.Context(), toolCall(t, `{"name":"shop_pay","_meta":{"drawbridge/instance":"`+mark+`"}}`))
		}
		if r := named("host/shop/1"); r.Reason != reasonInstanceReplaced || !strings.Contains(r.Err.Message, "(host/shop/1) is gone") {
			t.Errorf("a call that names the old process: %+v", r)
		}
		if r := named("host/shop/3"); r.Outcome != OK || r.Replaced != "" {
			t.Errorf("a call that names the new one: %+v", r)
		}
		if r := pay(); r.Outcome != OK || r.Replaced != "" {
			t.Errorf("after it was named: %+v", r)
		}
	}
}

func TestWhatACallNamesMustBeAText(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay"}})
	for _, meta := range []string{`"drawbridge/digest":5`, `"drawbridge/digest":""`, `"drawbridge/instance":["x"]`} {
		r := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay","_meta":{`+meta+`}}`))
		if r.Err == nil || r.Err.Code != rpc.CodeInvalidParams || !strings.Contains(r.Err.Message, "drawbridge/") {
			t.Errorf("%s: %+v", meta, r)
		}
	}
	if len(f.got) != 0 {
		t.Error("one was sent")
	}
	if r := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay","_meta":{"drawbridge/digest":null}}`)); r.Outcome != OK {
		t.Errorf("null names nothing: %+v", r.Err)
	}
}

// fakeJournal keeps the lines, and fails as a test says.
type fakeJournal struct {
	mu    sync.Mutex
	lines []journalLine
	fails error
	ids   int
}

type journalLine struct {
	Kind            string
	Tool, Fence     string
	Dispatched      bool
	Outcome, Reason string
}

func (j *fakeJournal) NewID() string { j.ids++; return "id" }

func (j *fakeJournal) note(kind string, e *journal.Entry, end journal.End) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fails != nil && kind == "begin" {
		return j.fails
	}
	j.lines = append(j.lines, journalLine{kind, e.Provider + "/" + e.Tool, e.Fence, end.Dispatched, end.Outcome, end.Reason})
	return nil
}

func (j *fakeJournal) Begin(e *journal.Entry) error                { return j.note("begin", e, journal.End{}) }
func (j *fakeJournal) End(e *journal.Entry, end journal.End) error { return j.note("end", e, end) }
func (j *fakeJournal) Refuse(e *journal.Entry, end journal.End) error {
	return j.note("refuse", e, end)
}

// TestEachCallIsWrittenDown: what was sent before and after, what was not in one line.
func TestEachCallIsWrittenDown(t *testing.T) {
	begin := journalLine{Kind: "begin", Tool: "shop/pay", Fence: "first_use"}
	for name, c := range map[string]struct {
		params  string
		arrange func(*testing.T, *fakeSessions, *Broker, *fakeJournal)
		want    []journalLine
	}{
		"ok": {`{"name":"shop_pay"}`, nil, []journalLine{begin, {"end", "shop/pay", "first_use", true, "ok", ""}}},
		"shown": {`{"name":"shop_pay"}`, func(_ *testing.T, _ *fakeSessions, b *Broker, _ *fakeJournal) { shownAll(b, local) },
			[]journalLine{{Kind: "begin", Tool: "shop/pay", Fence: "shown"}, {"end", "shop/pay", "shown", true, "ok", ""}}},
		"crash": {`{"name":"shop_pay"}`, func(_ *testing.T, f *fakeSessions, _ *Broker, _ *fakeJournal) {
			f.loses(&session.Lost{Dispatched: true, Reason: session.Crashed, Cause: "x"})
		}, []journalLine{begin, {"end", "shop/pay", "first_use", true, "unknown", "crashed"}}},
		"not delivered": {`{"name":"shop_pay"}`, func(_ *testing.T, f *fakeSessions, _ *Broker, _ *fakeJournal) {
			f.loses(&session.Lost{Reason: session.Undelivered, Cause: "x"})
		}, []journalLine{begin, {"end", "shop/pay", "first_use", false, "unavailable", "undelivered"}}},
		"no such tool": {`{"name":"shop_steal"}`, nil, []journalLine{{"refuse", "/shop_steal", "unknown_tool", false, "denied", "unknown_tool"}}},
		"a long name": {`{"name":"` + strings.Repeat("é", 1000) + `"}`, nil,
			[]journalLine{{"refuse", "/" + strings.Repeat("é", 128) + "…", "unknown_tool", false, "denied", "unknown_tool"}}},
		"a secret for a name": {`{"name":"shop_s3cret-1"}`, func(t *testing.T, _ *fakeSessions, b *Broker, _ *fakeJournal) {
			b.opts.Cleaner = cleaner(t, "s3cret-1")
		},
			[]journalLine{{"refuse", "/shop_[redacted]", "unknown_tool", false, "denied", "unknown_tool"}}},
		"no name": {`{}`, nil, []journalLine{{"refuse", "/", "invalid_params", false, "denied", "invalid_params"}}},
		"stale": {`{"name":"shop_pay"}`, func(_ *testing.T, f *fakeSessions, b *Broker, _ *fakeJournal) {
			shownAll(b, local)
			redefine(f, "shop", `{"name":"pay","x":2}`)
		}, []journalLine{{"refuse", "shop/pay", "definition_changed", false, "stale", "definition_changed"}}},
		"gone": {`{"name":"shop_pay"}`, func(_ *testing.T, f *fakeSessions, b *Broker, _ *fakeJournal) {
			shownAll(b, local)
			redefine(f, "shop")
		}, []journalLine{{"refuse", "shop/pay", "tool_gone", false, "stale", "tool_gone"}}},
		"provider failed": {`{"name":"shop_pay"}`, func(_ *testing.T, f *fakeSessions, _ *Broker, _ *fakeJournal) {
			f.failing["shop"] = &supervise.Failure{Provider: "shop", Cause: "x"}
		}, []journalLine{{"refuse", "shop/shop_pay", "", false, "unavailable", "provider_failed"}}},
		"journal": {`{"name":"shop_pay"}`, func(_ *testing.T, _ *fakeSessions, _ *Broker, j *fakeJournal) {
			j.fails = errors.New("the disk is full")
		},
			[]journalLine{{"refuse", "shop/pay", "first_use", false, "unavailable", "journal"}}},
	} {
		t.Run(name, func(t *testing.T) {
			f, b := newFake(t, map[string][]string{"shop": {"pay"}})
			j := &fakeJournal{}
			b.opts.Journal = j
			if c.arrange != nil {
				c.arrange(t, f, b, j)
			}
			call := toolCall(t, c.params)
			id := ""
			call.Identified = func(is string) { id = is }
			reply := b.Call(t.Context(), call)
			if diff := cmp.Diff(c.want, j.lines, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if reply.ID != "id" || id != "id" || j.ids != 1 {
				t.Errorf("ids %q %q, %d made", reply.ID, id, j.ids)
			}
			if name == "journal" && (!strings.Contains(reply.Err.Message, "the disk is full") || len(f.got) != 0) {
				t.Errorf("%d sent: %s", len(f.got), reply.Err.Message)
			}
		})
	}
}

// TestAnAnswerOfAnotherListIsNotUsed: what another process has listed meanwhile is
// not what the one that takes the call lists.
func TestAnAnswerOfAnotherListIsNotUsed(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay"}})
	shownAll(b, local)
	var once sync.Once
	b.opts.Sessions = meddled{f, func() {
		once.Do(func() {
			if err := f.store.Put("shop", "host/shop/9", []json.RawMessage{json.RawMessage(`{"name":"pay","x":9}`)}); err != nil {
				t.Error(err)
			}
		})
	}}
	if r := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`)); r.Outcome != OK || r.Instance != "host/shop/1" {
		t.Errorf("%+v %v", r, r.Err)
	}
}

// meddled runs something between a Get and what follows.
type meddled struct {
	*fakeSessions
	then func()
}

func (m meddled) Get(ctx context.Context, slug string) (Instance, error) {
	in, err := m.fakeSessions.Get(ctx, slug)
	m.then()
	return in, err
}

// TestWhatIsRememberedRefusesNobody: a list of before the host began may be old, so
// the server is started and says what there is.
func TestWhatIsRememberedRefusesNobody(t *testing.T) {
	const before, now = `{"name":"pay","x":1}`, `{"name":"pay","x":2}`
	f, b := newFake(t, map[string][]string{"shop": {"pay"}})
	redefine(f, "shop", now)
	if err := f.store.Put("shop", "", []json.RawMessage{json.RawMessage(before)}); err != nil {
		t.Fatal(err)
	}
	digest := catalog.DigestTool(json.RawMessage(now))
	if r := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay","_meta":{"drawbridge/digest":"`+digest+`"}}`)); r.Outcome != OK {
		t.Errorf("a call that names what the server lists: %+v", r.Err)
	}
	if r := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay","_meta":{"drawbridge/digest":"`+catalog.DigestTool(json.RawMessage(before))+`"}}`)); r.Outcome != Stale || r.Digest != digest {
		t.Errorf("a call that names what it listed before: %+v", r)
	}
}

// TestToBeBoundIsNotToBeShown: what one session of a client calls without having been shown
// it changes nothing of what the client was shown in another.
func TestToBeBoundIsNotToBeShown(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay"}})
	in := func(session string) Caller {
		c := Caller{Principal: local.Principal, Session: session, Client: Client{Name: "c"}}
		b.Capabilities(c)
		return c
	}
	call := func(c Caller) Reply { return b.Call(t.Context(), callOf(t, c, "shop_pay")) }
	listing, other := in("lists"), in("does not")
	shownAll(b, listing)
	redefine(f, "shop", `{"name":"pay","x":2}`)
	if r := call(other); r.Outcome != OK {
		t.Errorf("who was shown nothing: %s %s", r.Outcome, r.Reason)
	}
	if r := call(in("new")); r.Outcome != Stale || r.Reason != reasonDefinitionChanged {
		t.Errorf("a new session of the client that was shown the old one: %s %s", r.Outcome, r.Reason)
	}
}

// TestACallThatArrivesWhileARefusalIsWrittenWaitsForIt: its caller may have read it, and is
// refused for the same no second time.
func TestACallThatArrivesWhileARefusalIsWrittenWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFake(t, map[string][]string{"shop": {"pay"}})
		shownAll(b, local)
		redefine(f, "shop", `{"name":"pay","x":2}`)
		first := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`))
		if first.Outcome != Stale {
			t.Fatalf("the first: %s", first.Outcome)
		}
		writing, written := make(chan struct{}), make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			if err := first.Deliver(func() error { close(writing); <-written; return nil }); err != nil {
				t.Error(err)
			}
		})
		<-writing
		all.Go(func() {
			if second := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`)); second.Outcome != OK {
				t.Errorf("the second, made when the refusal was all but read: %s %s", second.Outcome, second.Reason)
			}
		})
		synctest.Wait()
		close(written)
		all.Wait()
	})
}

// TestAListThatCouldNotBeWrittenWasNotShown: what the caller knew before counts, unless it
// has been shown something since.
func TestAListThatCouldNotBeWrittenWasNotShown(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay"}})
	session := Caller{Principal: local.Principal, Session: "s", Client: Client{Name: "c"}}
	knows := func(c Caller) string {
		if i := b.shown.of(c).own.now.Load().find("shop_pay"); i != nil {
			return i.Digest
		}
		return ""
	}
	shownAll(b, session)
	first := knows(session)
	list := func() (undo func()) {
		redefine(f, "shop", `{"name":"pay","x":`+strconv.Itoa(len(f.started))+`}`)
		if err := f.Warm(t.Context(), "shop"); err != nil {
			t.Fatal(err)
		}
		v := b.View(session)
		return b.Shown(session, v, 0, len(v.Tools()))
	}
	undo := list()
	if knows(session) == first {
		t.Fatal("a list shows nothing")
	}
	undo()
	client := session
	client.Session = ""
	if knows(session) != first || knows(client) != first {
		t.Errorf("the session knows %.8s and the client %.8s, want %.8s", knows(session), knows(client), first)
	}
	undo = list()
	list()
	last := knows(session)
	if undo(); knows(session) != last || last == first {
		t.Errorf("what was shown since is undone too: %.8s, want %.8s", knows(session), last)
	}
}

// TestANameThatPassesToAnotherProviderTakesTheCallAlong: bare names do not tell whose they
// are. A call whose name has become another server's goes to none but that one.
func TestANameThatPassesToAnotherProviderTakesTheCallAlong(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay"}, "bank": {}})
	policy := access.New(access.Spec{Names: catalog.NamesBare})
	b.worlds.policy = func() *access.Policy { return policy }
	b.opts.Policy = b.worlds.policy
	list := func(slug string, defs ...json.RawMessage) {
		if err := f.store.Put(slug, "host/"+slug+"/1", defs); err != nil {
			t.Error(err)
		}
	}
	list("shop", json.RawMessage(`{"name":"pay"}`))
	list("bank")
	f.tools = map[string][]string{"shop": {}, "bank": {"pay"}}
	moved := false
	b.opts.Sessions = meddled{f, func() {
		if !moved {
			moved = true
			list("bank", json.RawMessage(`{"name":"pay","annotations":{"readOnlyHint":false}}`))
		}
	}}
	r := b.Call(t.Context(), toolCall(t, `{"name":"pay"}`))
	if r.Outcome != OK || r.Instance != "host/bank/1" || !moved {
		t.Errorf("%s %s on %s: %v", r.Outcome, r.Reason, r.Instance, r.Err)
	}
}

// TestWhatASessionMeetsIsKeptWithItsClient for one that goes on with another host.
func TestWhatASessionMeetsIsKeptWithItsClient(t *testing.T) {
	_, b := newFake(t, map[string][]string{"shop": {"pay"}})
	c := Caller{Principal: local.Principal, Session: "s", Client: Client{Name: "c"}}
	if r := b.Call(t.Context(), callOf(t, c, "shop_pay")); r.Outcome != OK {
		t.Fatalf("%+v", r)
	}
	c.Session = ""
	if got := b.shown.of(c).own.now.Load().lastMet()["shop"]; got != "host/shop/1" {
		t.Errorf("kept is %q", got)
	}
}
