package broker

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCallSendsTheServersOwnNameAndKeepsTheRest(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay"}})
	reply := b.Call(t.Context(), toolCall(t, `{ "name":"shop_pay", "arguments":{"id":9007199254740993},"_meta":{"drawbridge/call_id":"x","keep":1}}`))
	if reply.Outcome != OK || reply.Err != nil {
		t.Fatalf("reply = %+v", reply)
	}
	want := []string{`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{ "name":"pay", "arguments":{"id":9007199254740993},"_meta":{"keep":1}}}`}
	if diff := cmp.Diff(want, f.got); diff != "" {
		t.Errorf("dispatched (-want +got):\n%s", diff)
	}
}

func TestCallOutcomes(t *testing.T) {
	boom := &supervise.Failure{Provider: "shop", Label: "shop", Where: "p.hcl:3", Phase: supervise.PhaseStart, Cause: "no such command"}
	tests := map[string]struct {
		params  string
		arrange func(*fakeSessions)
		outcome Outcome
		code    int
		says    []string
		sent    int
		retry   Retry
	}{
		"tool error": {
			params: `{"name":"shop_pay"}`, outcome: ToolError, sent: 1,
			arrange: func(f *fakeSessions) { f.answers(t, `{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[]}}`) },
		},
		"rpc error": {
			params: `{"name":"shop_pay"}`, outcome: RPCError, sent: 1,
			arrange: func(f *fakeSessions) {
				f.answers(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no","data":{"f":"q"}}}`)
			},
		},
		"an error that only the host gives": {
			params: `{"name":"shop_pay"}`, outcome: Unknown, code: CodeUnknown, retry: RetryAfterLook, sent: 1,
			arrange: func(f *fakeSessions) {
				f.answers(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-31003.0,"message":"nothing was sent","data":{"retry":"safe"}}}`)
			},
			says: []string{"-31003", "the host's own", "Look at the state"},
		},
		"too large once it is edited": {
			params: `{"name":"shop_pay"}`, outcome: Unavailable, code: CodeUnavailable, retry: RetryNever, sent: 1,
			arrange: func(f *fakeSessions) {
				f.loses(&session.Lost{Reason: session.MessageTooLarge, Cause: "the request is over max_message"})
			},
			says: []string{"Nothing was sent", "the same answer"},
		},
		"unknown tool": {
			params: `{"name":"shop_steal"}`, outcome: Denied, code: CodeDenied, retry: RetryNever,
			says: []string{`"shop_steal"`, "Nothing was run"},
		},
		"unknown provider": {
			params: `{"name":"bank_pay"}`, outcome: Denied, code: CodeDenied, retry: RetryNever, says: []string{`"bank_pay"`},
		},
		"no name": {params: `{}`, outcome: Denied, code: rpc.CodeInvalidParams, says: []string{"params.name"}},
		"provider failed": {
			params: `{"name":"shop_pay"}`, outcome: Unavailable, code: CodeUnavailable, retry: RetrySafe,
			arrange: func(f *fakeSessions) { f.failing["shop"] = boom },
			says:    []string{`"shop"`, "no such command", "p.hcl:3", "safe to call again"},
		},
		"crash under the call": {
			params: `{"name":"shop_pay"}`, outcome: Unknown, code: CodeUnknown, retry: RetryAfterLook, sent: 1,
			arrange: func(f *fakeSessions) {
				f.loses(&session.Lost{Dispatched: true, Reason: session.Crashed, Cause: "the server was killed by signal 9"})
			},
			says: []string{`"pay"`, `"shop"`, "signal 9", "may have had its effect"},
		},
		"crash under a read-only call": {
			params: `{"name":"shop_get"}`, outcome: Unknown, code: CodeUnknown, retry: RetryAfterLook, sent: 1,
			arrange: func(f *fakeSessions) {
				f.loses(&session.Lost{Dispatched: true, Reason: session.Crashed, Cause: "gone"})
			},
			says: []string{"read-only"},
		},
		"more input wanted": {
			params: `{"name":"shop_pay"}`, outcome: Unknown, code: CodeUnknown, retry: RetryAfterLook, sent: 1,
			arrange: func(f *fakeSessions) {
				f.loses(&session.Lost{Dispatched: true, Reason: session.InputRequired, Cause: "its server wants input first"})
			},
			says: []string{"input first", "has not finished", "ask for the same"},
		},
		"not delivered": {
			params: `{"name":"shop_pay"}`, outcome: Unavailable, code: CodeUnavailable, retry: RetrySafe, sent: 1,
			arrange: func(f *fakeSessions) {
				f.loses(&session.Lost{Reason: session.Undelivered, Cause: "the pipe was closed"})
			},
			says: []string{"Nothing was sent"},
		},
		"cancelled before dispatch": {
			params: `{"name":"shop_pay"}`, outcome: Cancelled, code: CodeUnavailable, retry: RetrySafe, sent: 1,
			arrange: func(f *fakeSessions) {
				f.loses(&session.Lost{Reason: session.Cancelled, Cause: "the caller cancelled"})
			},
		},
		"cancelled after dispatch": {
			params: `{"name":"shop_pay"}`, outcome: Unknown, code: CodeUnknown, retry: RetryAfterLook, sent: 1,
			arrange: func(f *fakeSessions) {
				f.loses(&session.Lost{Dispatched: true, Reason: session.Cancelled, Cause: "the caller cancelled"})
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f, b := newFake(t, map[string][]string{"shop": {"pay", "get"}})
			if tt.arrange != nil {
				tt.arrange(f)
			}
			reply := b.Call(t.Context(), toolCall(t, tt.params))
			if reply.Outcome != tt.outcome {
				t.Errorf("outcome = %s, want %s", reply.Outcome, tt.outcome)
			}
			if len(f.got) != tt.sent {
				t.Errorf("dispatched %d messages, want %d", len(f.got), tt.sent)
			}
			if tt.code == 0 {
				if reply.Err != nil || reply.Message == nil {
					t.Fatalf("the server's own answer was replaced by %+v", reply.Err)
				}
				return
			}
			if reply.Err == nil || reply.Err.Code != tt.code {
				t.Fatalf("error = %+v, want code %d", reply.Err, tt.code)
			}
			for _, part := range tt.says {
				if !strings.Contains(reply.Err.Message, part) {
					t.Errorf("message %q does not say %q", reply.Err.Message, part)
				}
			}
			if tt.retry != "" {
				var d data
				if err := json.Unmarshal(reply.Err.Data, &d); err != nil {
					t.Fatal(err)
				}
				if d.Outcome != tt.outcome || d.Retry != tt.retry || d.Dispatched != (tt.outcome == Unknown) {
					t.Errorf("data = %+v", d)
				}
			}
		})
	}
}

func (f *fakeSessions) answers(t *testing.T, text string) {
	f.do = func(context.Context, session.Call) (*rpc.Message, error) { return message(t, text), nil }
}

func (f *fakeSessions) loses(lost *session.Lost) {
	f.do = func(context.Context, session.Call) (*rpc.Message, error) { return nil, lost }
}

func TestCallOverTheLimitIsNotSent(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay"}})
	big := `{"name":"shop_pay","arguments":{"x":"` + strings.Repeat("a", 1<<20) + `"}}`
	reply := b.Call(t.Context(), toolCall(t, big))
	if reply.Outcome != Unavailable || !strings.Contains(reply.Err.Message, "max_message") || len(f.got) != 0 {
		t.Errorf("reply = %+v, dispatched %d", reply.Err, len(f.got))
	}
}

func TestUnknownAndHiddenToolsAreOneAnswer(t *testing.T) {
	_, b := newFake(t, map[string][]string{"shop": {"pay"}})
	ask := func(name string) string {
		reply := b.Call(t.Context(), toolCall(t, `{"name":"`+name+`"}`))
		return strings.ReplaceAll(reply.Err.Message+string(reply.Err.Data), name, "NAME")
	}
	if a, z := ask("shop_nope"), ask("nobody_nope"); a != z {
		t.Errorf("a tool that is not there tells more than a provider that is not there:\n%s\n%s", a, z)
	}
}

func TestABareNameMayBeOfAProviderThatHasNotListedYet(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay"}, "slow": {"x"}})
	bare := access.New(access.Spec{Names: catalog.NamesBare})
	b.worlds.policy = func() *access.Policy { return bare }
	f.mute["slow"] = true
	reply := b.Call(t.Context(), toolCall(t, `{"name":"x"}`))
	if reply.Outcome != Unavailable || !strings.HasPrefix(reply.Err.Message, `tool "x" was not called: no tool of this name is known yet`) {
		t.Errorf("while a provider starts: %s, %v", reply.Outcome, reply.Err)
	}
	f.mute["slow"] = false
	if reply = b.Call(t.Context(), toolCall(t, `{"name":"y"}`)); reply.Outcome != Denied {
		t.Errorf("once all have listed: %s, %v", reply.Outcome, reply.Err)
	}
}

func TestToolsDoesNotWaitForTheMuteOrTheFailed(t *testing.T) {
	f, b := newFake(t, map[string][]string{"a": {"x"}, "b": {"y"}, "mute": nil, "broken": nil})
	f.mute["mute"] = true
	f.failing["broken"] = &supervise.Failure{Cause: "broken"}
	var names []string
	b.Prepare(t.Context(), local)
	for _, tool := range b.View(local).Tools() {
		names = append(names, tool.Exposed)
	}
	if diff := cmp.Diff([]string{"a_x", "b_y"}, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	slices.Sort(f.started)
	if diff := cmp.Diff([]string{"a", "b", "mute"}, f.started); diff != "" {
		t.Errorf("started (-want +got):\n%s", diff)
	}
}

func TestToolsFromTheCatalogStartsNothing(t *testing.T) {
	f, b := newFake(t, map[string][]string{"a": {"x"}})
	b.Prepare(t.Context(), local)
	started := len(f.started)
	b.Prepare(t.Context(), local)
	if len(f.started) != started {
		t.Errorf("a second list started providers again: %v", f.started)
	}
}

func TestLogLevelIsTheMostVerbose(t *testing.T) {
	f, b := newFake(t, map[string][]string{"a": nil})
	if b.SetLogLevel("s1", "loud") {
		t.Error("a level that MCP does not know was taken")
	}
	for _, step := range []struct{ session, level, want string }{
		{"s1", "error", "error"}, {"s2", "debug", "debug"}, {"s1", "info", "debug"}, {"s2", "", "info"}, {"s1", "", "info"},
	} {
		if !b.SetLogLevel(step.session, step.level) {
			t.Fatalf("level %q was refused", step.level)
		}
		if f.level != step.want {
			t.Errorf("after %s wants %q the servers have %q, want %q", step.session, step.level, f.level, step.want)
		}
	}
}

// slowLevels is a manager that takes its time to tell the servers of one level.
type slowLevels struct {
	*fakeSessions
	entered chan struct{}
}

func (s slowLevels) SetLogLevel(level string) {
	if level == "error" {
		close(s.entered)
		time.Sleep(20 * time.Millisecond)
	}
	s.fakeSessions.mu.Lock()
	defer s.fakeSessions.mu.Unlock()
	s.fakeSessions.SetLogLevel(level)
}

func TestLogLevelsReachTheServersInOrder(t *testing.T) {
	f, b := newFake(t, map[string][]string{"a": nil})
	slow := slowLevels{f, make(chan struct{})}
	b.opts.Sessions = slow
	var all sync.WaitGroup
	all.Go(func() { b.SetLogLevel("s1", "error") })
	<-slow.entered
	b.SetLogLevel("s2", "debug")
	all.Wait()
	if f.level != "debug" {
		t.Errorf("the servers were left with %q, while a client wants debug", f.level)
	}
}

func TestCallDeadlineWhileStarting(t *testing.T) {
	f, b := newFake(t, map[string][]string{"slow": {"x"}})
	f.mute["slow"] = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if reply := b.Call(ctx, toolCall(t, `{"name":"slow_x"}`)); reply.Outcome != Cancelled {
		t.Errorf("a caller that left got %s", reply.Outcome)
	}
	ctx, cancel = context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	reply := b.Call(ctx, toolCall(t, `{"name":"slow_x"}`))
	if reply.Outcome != Unavailable || !strings.Contains(reply.Err.Message, "not ready in time") {
		t.Errorf("a call past its deadline got %s: %v", reply.Outcome, reply.Err)
	}
	if errors.Is(reply.Err, context.DeadlineExceeded) {
		t.Error("a context error went out instead of a JSON-RPC one")
	}
}

// TestCallTimeoutMaxBoundsTheStart that a call waits for, and tells the session
// which limit it was.
func TestCallTimeoutMaxBoundsTheStart(t *testing.T) {
	f, b := newFake(t, map[string][]string{"slow": {"x"}})
	f.mute["slow"] = true
	p := b.providers["slow"]
	p.CallTimeoutMax = 20 * time.Millisecond
	b.providers["slow"] = p
	reply := b.Call(t.Context(), toolCall(t, `{"name":"slow_x"}`))
	if reply.Outcome != Unavailable || !strings.Contains(reply.Err.Message, "not ready in time") {
		t.Errorf("a call of a provider that starts for ever got %s: %v", reply.Outcome, reply.Err)
	}
	f.mute["slow"] = false
	f.do = func(ctx context.Context, _ session.Call) (*rpc.Message, error) {
		<-ctx.Done()
		return nil, &session.Lost{Dispatched: true, Reason: session.Timeout, Cause: context.Cause(ctx).Error()}
	}
	if reply = b.Call(t.Context(), toolCall(t, `{"name":"slow_x"}`)); reply.Outcome != Unknown || !strings.Contains(reply.Err.Message, "call_timeout_max") {
		t.Errorf("a call past call_timeout_max got %s: %v", reply.Outcome, reply.Err)
	}
}

// TestAdmitSeesTheDefinitionThatTakesTheCall, also where the provider was cold,
// and what it refuses goes nowhere.
func TestAdmitSeesTheDefinitionThatTakesTheCall(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay"}})
	var saw []string
	for _, verdict := range []*rpc.Error{{Code: -32020, Message: "no"}, nil} {
		c := toolCall(t, `{"name":"shop_pay"}`)
		c.Admit = func(tool *catalog.Tool) *rpc.Error {
			saw = append(saw, tool.Name)
			return verdict
		}
		if reply := b.Call(t.Context(), c); reply.Err != verdict {
			t.Errorf("reply = %+v, want %v", reply, verdict)
		}
	}
	if diff := cmp.Diff([]string{"pay", "pay"}, saw); diff != "" || len(f.got) != 1 {
		t.Errorf("%d messages dispatched, want 1; admitted (-want +got):\n%s", len(f.got), diff)
	}
}

// What a provider has is no capability to who has nothing to do with it.
func TestCapabilitiesAreTheCallers(t *testing.T) {
	_, b := newFake(t, map[string][]string{"state": {"get"}})
	if !b.Capabilities(local).Logging {
		t.Error("whoever has everything is offered no logging")
	}
	if b.Capabilities(Caller{Principal: "stranger"}).Logging {
		t.Error("a stranger is offered logging")
	}
}
