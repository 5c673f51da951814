package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/journal"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// endingsOf are the host's own ends of a call of pay of the provider shop: one for each
// way to make one.
func endingsOf(t *testing.T, tool *catalog.Tool) map[string]Reply {
	t.Helper()
	all := map[string]Reply{}
	lost := func(err error) Reply {
		end := ending{provider: tool.Provider, tool: tool.Name, instance: "h/shop/1", annotations: tool.Annotations}
		end.classify(err, tool)
		return end.reply()
	}
	for _, reason := range []session.Reason{session.Timeout, session.Cancelled, session.Crashed, session.MalformedAnswer, session.ResultTooLarge, session.InputRequired} {
		all["sent, "+string(reason)] = lost(&session.Lost{Dispatched: true, Reason: reason, Cause: "x"})
	}
	for _, reason := range []session.Reason{session.Undelivered, session.NotSent, session.MessageTooLarge, session.Timeout, session.Cancelled} {
		all["not sent, "+string(reason)] = lost(&session.Lost{Reason: reason, Cause: "x"})
	}
	all["journal"], all["late"] = lost(&unjournaled{errors.New("x")}), lost(errLate)
	all["cancelled"], all["over"] = lost(context.Canceled), lost(context.DeadlineExceeded)
	was := &item{Provider: tool.Provider, Name: tool.Name, Digest: "old"}
	all["gone"] = stale(reasonToolGone, was, nil, "r").reply()
	for _, reason := range []string{reasonDefinitionChanged, reasonProviderChanged, reasonNotDiscovered} {
		all[reason] = stale(reason, was, tool, "r").reply()
	}
	all["replaced"] = replaced(tool, "h/shop/1", "h/shop/2", "r").reply()
	all["failed"] = notStarted(t.Context(), tool.Provider, tool.Name, &supervise.Failure{Provider: "shop", Cause: "x"})
	all["not started"] = notStarted(t.Context(), tool.Provider, tool.Name, errors.New("x"))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	all["cancelled at the start"] = notStarted(gone, tool.Provider, tool.Name, gone.Err())
	all["cancelled at a list"] = notCurrent(gone, tool, &fakeInstance{slug: "shop", mark: "h/shop/1"}, gone.Err())
	all["not current"] = notCurrent(t.Context(), tool, &fakeInstance{slug: "shop", mark: "h/shop/1"}, errors.New("x"))
	all["queue"], all["rate"] = *notAdmitted(tool, "queue_full", "x"), *notAdmitted(tool, "rate_limited", "x")
	all["unknown tool"] = unknownTool("shop_pay")
	x := &crossing{Broker: &Broker{opts: Options{Logger: slog.New(slog.DiscardHandler)}}, exposed: "shop_pay"}
	repeat := func(k journal.Known, err error) Reply { return *x.notFree(t.Context(), tool, k, err) }
	all["reused"] = repeat(journal.Known{}, journal.ErrCallIDReused)
	all["unreadable"] = repeat(journal.Known{}, errors.New("x"))
	all["in flight"] = repeat(journal.Known{State: journal.IDInFlight}, nil)
	ended := journal.Known{State: journal.IDEnded, JournalID: "a-1", Outcome: "ok", Ended: time.Now()}
	all["not held"] = repeat(ended, nil)
	ended.Outcome, ended.Reason = "unknown", "host_died"
	all["died"] = repeat(ended, nil)
	ended.Settled = journal.SettledOK
	all["settled ok"] = repeat(ended, nil)
	ended.Settled = journal.SettledNotRun
	all["settled not run"] = repeat(ended, nil)
	return all
}

// What a message says of an effect, and what it says to do.
var (
	saysNone = regexp.MustCompile(`it had no effect|Nothing was run|Nothing was sent this time|is in flight|It was not run again`)
	saysSome = regexp.MustCompile(`may have (had|run)|found out that it ran|ended as|The server ran it`)
	saysDo   = regexp.MustCompile(`safe to call again|calling again will give the same answer|List the tools again|list the tools and|call the tool again|Then call again|` +
		`Look at the state|Repeat it later|give it a new id|with a new id|Give each call an id|declares itself read-only|It was not run again`)
)

// retryOf is what may be done after an error.
func retryOf(d data) Retry {
	switch d.Reason {
	case string(session.MessageTooLarge), reasonNotHeld, reasonSettledOK:
		return RetryNever
	}
	return map[Outcome]Retry{Denied: RetryNever, Stale: RetryYes, Cancelled: RetrySafe, Unavailable: RetrySafe, Unknown: RetryAfterLook}[d.Outcome]
}

// TestMessagesAloneTell: the message of each of the host's own errors has the provider,
// the tool, whether there may have been an effect, and what to do; and its data says
// the same.
func TestMessagesAloneTell(t *testing.T) {
	for _, raw := range []string{`{"name":"pay"}`, `{"name":"pay","annotations":{"readOnlyHint":true}}`} {
		f, b := newFake(t, map[string][]string{"shop": {"pay"}})
		f.defs["shop"] = []json.RawMessage{json.RawMessage(raw)}
		if _, err := f.Get(t.Context(), "shop"); err != nil {
			t.Fatal(err)
		}
		tool, ok := b.View(local).Find("shop_pay")
		if !ok {
			t.Fatal("there is no tool")
		}
		for name, r := range endingsOf(t, tool) {
			d := dataOf(t, r)
			text := r.Err.Message
			wrong := func(what string) { t.Errorf("%s: %s: %s\n%s", name, what, text, r.Err.Data) }
			if d.Outcome == Denied {
				if d.Provider != "" || strings.Contains(text, `provider "`) || !strings.Contains(text, `"shop_pay"`) {
					wrong("denied names the tool alone")
				}
			} else if !strings.Contains(text, `"pay"`) || !strings.Contains(text, `"shop"`) || d.Tool != "pay" || d.Provider != "shop" {
				wrong("it does not name tool and provider")
			}
			if d.Dispatched != r.Dispatched || d.Outcome != r.Outcome || d.Reason != r.Reason || d.Reason == "" {
				wrong("data and the reply differ")
			}
			effect := d.Outcome == Unknown || d.Outcome == OK
			if effect != saysSome.MatchString(text) && d.Reason != reasonUnreadable && d.Reason != reasonSettledNotRun {
				wrong("what it says of an effect")
			}
			if !effect && !saysNone.MatchString(text) {
				wrong("it does not say that there was none")
			}
			if !saysDo.MatchString(text) {
				wrong("it does not say what to do")
			}
			if d.Retry != retryOf(d) {
				wrong("retry " + string(d.Retry))
			}
			if (r.Err.Code == CodeUnknown) != effect {
				wrong("its code")
			}
		}
	}
}

// TestExamplesOfOutcomes: each example in docs/outcomes.md is what a client gets: the
// code, the data and the message belong to its outcome.
func TestExamplesOfOutcomes(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "outcomes.md"))
	if err != nil {
		t.Fatal(err)
	}
	codes := map[Outcome]int{Denied: CodeDenied, Stale: CodeStale, Unavailable: CodeUnavailable, Cancelled: CodeUnavailable, Unknown: CodeUnknown}
	seen := 0
	for _, m := range regexp.MustCompile("(?s)\n`([a-z_]+)`[^\n]*:\n\n```json\n(.*?)\n```").FindAllSubmatch(page, -1) {
		seen++
		outcome := Outcome(m[1])
		answer, err := rpc.Parse(rpc.FromServer, bytes.ReplaceAll(m[2], []byte("\n"), []byte(" ")))
		if err != nil {
			t.Errorf("%s: %v", outcome, err)
			continue
		}
		code, own := codes[outcome]
		if !own {
			if got := classify(answer); got != outcome || forged(answer) != nil {
				t.Errorf("the example of %s is %s", outcome, got)
			}
			continue
		}
		var e struct {
			Code    int
			Message string
			Data    json.RawMessage
		}
		if err := json.Unmarshal(answer.Get("error"), &e); err != nil {
			t.Fatal(err)
		}
		var d data
		strict := json.NewDecoder(bytes.NewReader(e.Data))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&d); err != nil {
			t.Errorf("%s: %v", outcome, err)
		}
		if e.Code != code || d.Outcome != outcome || d.Dispatched != (outcome == Unknown) || d.Reason == "" || d.Retry != retryOf(d) || !saysDo.MatchString(e.Message) ||
			saysSome.MatchString(e.Message) != (outcome == Unknown) || !strings.Contains(e.Message, d.Tool) {
			t.Errorf("the example of %s: code %d, %+v: %s", outcome, e.Code, d, e.Message)
		}
		if b, err := json.Marshal(d); err != nil || !bytes.Equal(b, bytes.TrimSpace(e.Data)) {
			t.Errorf("the data of %s is\n%s, and the host would write\n%s", outcome, e.Data, b)
		}
	}
	if seen != 8 {
		t.Errorf("there are %d examples of 8 outcomes", seen)
	}
}

// TestUnknownIsLogged: the log tells of a call that may have had an effect by the
// journal's id, and of no other.
func TestUnknownIsLogged(t *testing.T) {
	f, b := numberedFake(t, t.TempDir())
	var said bytes.Buffer
	b.opts.Logger = slog.New(slog.NewTextHandler(&said, nil))
	if reply := b.Call(t.Context(), toolCall(t, payX)); reply.Outcome != OK || said.Len() != 0 {
		t.Errorf("%+v: %s", reply, &said)
	}
	f.do = func(context.Context, session.Call) (*rpc.Message, error) {
		return nil, &session.Lost{Dispatched: true, Reason: session.Timeout, Cause: "silence"}
	}
	reply := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`))
	for _, want := range []string{"call=" + reply.ID, "provider=shop", "tool=pay", "reason=timeout", "level=WARN"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the log has no %s: %s", want, &said)
		}
	}
}

// TestAFaultInTheHost: a call that was sent and did not end for a fault of ours is
// unknown, and so is the repeat of it; nothing else waits for it.
func TestAFaultInTheHost(t *testing.T) {
	state := t.TempDir()
	f, b := numberedFake(t, state)
	f.do = func(context.Context, session.Call) (*rpc.Message, error) { panic("a fault") }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the fault was swallowed")
			}
		}()
		b.Call(t.Context(), toolCall(t, payX))
	}()
	d := dataOf(t, b.Call(t.Context(), toolCall(t, payX)))
	if d.Outcome != Unknown || d.Reason != reasonHostFault || d.Retry != RetryAfterLook || d.Dispatched {
		t.Errorf("the repeat: %+v", d)
	}
	if row := onlyUnknown(t, state); row.Reason != reasonHostFault || !row.Dispatched {
		t.Errorf("the row: %+v", row)
	}
}

// onlyUnknown is the one call of a journal that was sent.
func onlyUnknown(t *testing.T, state string) (row journal.Row) {
	t.Helper()
	x := indexOf(t, state)
	defer x.Close()
	for r, err := range x.Calls(t.Context(), journal.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Dispatched {
			row = r
		}
	}
	return row
}
