package crossing

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// TestC029_ClientsAtOnce opens two sessions at the same moment, ten times.
func TestC029_ClientsAtOnce(t *testing.T) {
	p := hosttest.NewPlace(t)
	h := p.ServeHTTP(t, config(t, p, "", provider{name: "fake"}))
	for range 10 {
		var (
			sessions [2]string
			lists    [2][]string
			both     sync.WaitGroup
		)
		start := make(chan struct{})
		for i := range sessions {
			both.Go(func() {
				c := hosttest.DialHTTP(h.URL, h.Token)
				<-start
				hosttest.Open(t, c)
				sessions[i], lists[i] = c.Session(), names(t, c)
			})
		}
		close(start)
		both.Wait()
		if sessions[0] == "" || sessions[1] == "" || sessions[0] == sessions[1] {
			t.Errorf("sessions %q", sessions)
		}
		if !slices.Equal(lists[0], lists[1]) || !slices.Contains(lists[0], "fake_echo") {
			t.Errorf("lists %v", lists)
		}
	}
	if !h.Running() {
		t.Error("the host has ended")
	}
}

// TestC030_EqualIDsOfTwoClients name two requests.
func TestC030_EqualIDsOfTwoClients(t *testing.T) {
	p := hosttest.NewPlace(t)
	one := dial(t, p.ServeHTTP(t, config(t, p, "", provider{name: "fake"})))
	two := one.another(t)
	a := one.begin(t, "1", called("1", "fake_echo", `{"text":"a","ms":300}`))
	b := two.begin(t, "1", called("1", "fake_echo", `{"text":"b","ms":100}`))
	if a, b := textOf(t, a()), textOf(t, b()); a != "a" || b != "b" {
		t.Errorf("the first client got %q and the second %q", a, b)
	}
}

// TestC030_AnIDInUse: the second request with it is refused, and the first goes on.
func TestC030_AnIDInUse(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake"}))
		first := c.begin(t, "7", called("7", "fake_echo", `{"text":"first","ms":4000}`))
		waitCalls(t, p, "fake", 1)
		replies := []hosttest.Reply{c.begin(t, "7", called("7", "fake_echo", `{"text":"second"}`))(), first()}
		refused := slices.IndexFunc(replies, func(r hosttest.Reply) bool { return r.Error != nil })
		if refused < 0 {
			t.Fatal("of two requests with one id both were answered")
		}
		if e := errorOf(t, replies[refused]); e.Code != codeInvalidRequest {
			t.Errorf("the second request with an id in use: %+v", e)
		}
		if got := textOf(t, replies[1-refused]); got != "first" {
			t.Errorf("the first request: %q", got)
		}
		if n := len(received(t, p, "fake")); n != 1 {
			t.Errorf("the server received %d calls", n)
		}
	})
}

// TestC030_IDsKeepTheirType: a number is no string, and the empty string is an id.
func TestC030_IDsKeepTheirType(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake"}))
		ids := []string{`0`, `"1"`, `1`, `""`}
		var waits []func() hosttest.Reply
		for _, id := range ids {
			waits = append(waits, c.begin(t, id, called(id, "fake_echo", fmt.Sprintf(`{"text":%s,"ms":1000}`, encoded("for "+id)))))
		}
		for i, wait := range waits {
			if r := wait(); string(r.ID) != ids[i] || textOf(t, r) != "for "+ids[i] {
				t.Errorf("the answer to id %s: %s", ids[i], r.Raw)
			}
		}
	})
}

// TestC031_ASlowCallDelaysNothing: calls, lists and pings are answered while a slow
// call is under way.
func TestC031_ASlowCallDelaysNothing(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake"}))
		slow := make(chan hosttest.Result, 1)
		go func() { slow <- hosttest.CallTool(t, c, "fake_slow", `{"ms":8000}`) }()
		waitCalls(t, p, "fake", 1)
		for range 5 {
			if got := hosttest.CallTool(t, c, "fake_echo", `{"text":"quick"}`).Text(); got != "quick" {
				t.Errorf("echo: %q", got)
			}
			if !slices.Contains(names(t, c), "fake_echo") {
				t.Error("the list lacks a tool")
			}
			if r := c.Request(t, "ping", ""); string(r.Result) != "{}" {
				t.Errorf("ping: %s", r.Raw)
			}
		}
		select {
		case <-slow:
			t.Error("the slow call was answered before the quick ones")
		default:
			if got := (<-slow).Text(); got != "slept" {
				t.Errorf("the slow call: %q", got)
			}
		}
	})
}

// TestC033_AClientHangsUp in the middle of its call: no other client, no server
// and not the host hears of it. A second GET stream takes over from the first.
func TestC033_AClientHangsUp(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	one := dial(t, p.ServeHTTP(t, config(t, p, "", provider{name: "fake"})))
	two := one.another(t)
	ctx, hangUp := context.WithCancel(t.Context())
	hungUp := make(chan error, 1)
	go func() {
		res, err := one.Do(ctx, http.MethodPost, called("1", "fake_slow", `{"ms":2000}`))
		if err == nil {
			_, err = bufio.NewReader(res.Body).ReadByte()
			_ = res.Body.Close()
		}
		hungUp <- err
	}()
	waitCalls(t, p, "fake", 1)
	other := two.begin(t, "1", called("1", "fake_slow", `{"ms":4000}`))
	waitCalls(t, p, "fake", 2)
	hangUp()
	if err := <-hungUp; !errors.Is(err, context.Canceled) {
		t.Errorf("the call was answered before its client hung up: %v", err)
	}
	again, err := one.Do(t.Context(), http.MethodGet, "")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Body.Close()
	if again.StatusCode != http.StatusOK && again.StatusCode != http.StatusConflict {
		t.Errorf("a second GET stream: HTTP %s", again.Status)
	}
	if got := textOf(t, other()); got != "slept" {
		t.Errorf("the other client's call: %q", got)
	}
	if got := textOf(t, tool(t, one, "fake_echo", `{"text":"still here"}`)); got != "still here" {
		t.Errorf("the client that hung up calls again: %q", got)
	}
	log := logged(t, p, "fake")
	if starts(log) != 1 || len(fakeserver.Dir(log, fakeserver.DirSignal)) != 0 || len(fakeserver.Method(log, "notifications/cancelled")) != 0 {
		t.Errorf("the server was disturbed: %+v", log)
	}
	if !one.host().Running() {
		t.Error("the host has ended")
	}
}

// TestC035_CancelReachesItsCall: the server is told at once, under the id it knows,
// and so is no other; what it answers later, nobody gets.
func TestC035_CancelReachesItsCall(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake"}, provider{name: "other"}))
		hosttest.CallTool(t, c, "other_echo", "{}")
		first := cancellable(t, c, "101", `{"ms":600000}`)
		second := c.begin(t, "102", called("102", "fake_slow", `{"ms":3000}`))
		third := cancellable(t, c, "103", `{"ms":2000,"stubborn":true}`)
		waitCalls(t, p, "fake", 3)
		for _, id := range []string{"101", "103"} {
			c.Notify(t, "notifications/cancelled", `{"requestId":`+id+`,"reason":"enough"}`)
		}
		log := waitLog(t, p, "fake", func(log []fakeserver.Entry) bool {
			return len(fakeserver.Method(log, "notifications/cancelled")) == 2
		})
		want := []string{idOfCall(t, log, `"ms":600000`), idOfCall(t, log, `"stubborn":true`)}
		got := cancelledIDs(t, log)
		slices.Sort(got) // the two are cancelled side by side
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("the server was told of the cancels of %v, want %v", got, want)
		}
		if got := textOf(t, second()); got != "slept" {
			t.Errorf("the call between: %q", got)
		}
		// Begun after the stubborn one and no shorter: that has been answered by now.
		hosttest.CallTool(t, c, "fake_slow", `{"ms":2000}`)
		first()
		third()
		if got := cancelledIDs(t, logged(t, p, "fake")); len(got) != 2 {
			t.Errorf("the server was told of cancels of %v", got)
		}
		if got := cancelledIDs(t, logged(t, p, "other")); len(got) != 0 {
			t.Errorf("another server was told of cancels of %v", got)
		}
	})
}

// cancellable begins a slow call that will be cancelled. Over stdio it then gets no
// answer: one would fail the test. Over HTTP each request must be answered somehow,
// and what it returns checks that answer.
func cancellable(t *testing.T, c client, id, args string) (check func()) {
	t.Helper()
	text := called(id, "fake_slow", args)
	if s, ok := c.(overStdio); ok {
		s.WriteLine(t, text)
		return func() {}
	}
	wait := c.begin(t, id, text)
	return func() {
		if e := errorOf(t, wait()); e.Data.Outcome != "unknown" || e.Data.Reason != "cancelled" {
			t.Errorf("call %s, cancelled: %+v", id, e)
		}
	}
}

// idOfCall is the id under which a server knows the call whose params hold part.
func idOfCall(t testing.TB, log []fakeserver.Entry, part string) string {
	t.Helper()
	for _, e := range fakeserver.Method(log, "tools/call") {
		if strings.Contains(e.Raw, part) {
			return string(e.Message().ID)
		}
	}
	t.Errorf("the server received no call with %s", part)
	return ""
}

// cancelledIDs are the ids whose cancel a server was told of.
func cancelledIDs(t testing.TB, log []fakeserver.Entry) []string {
	t.Helper()
	var out []string
	for _, e := range fakeserver.Method(log, "notifications/cancelled") {
		var params struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		if err := json.Unmarshal(e.Message().Params, &params); err != nil {
			t.Error(err)
		}
		out = append(out, string(params.RequestID))
	}
	return out
}
