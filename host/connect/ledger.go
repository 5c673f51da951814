package connect

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// The reasons of this package's errors, words for programs.
const (
	reasonLost   = "host_lost"
	reasonNoHost = "no_host"
)

// harmless are the methods that a host answers itself, or whose answer is all that they
// are for.
var harmless = map[string]bool{
	"initialize": true, "ping": true, "logging/setLevel": true, "server/discover": true, "subscriptions/listen": true,
	"tools/list": true, "resources/list": true, "resources/templates/list": true, "prompts/list": true,
}

// entry is a request in flight. An id that a client uses twice at once is refused by
// the host, under that id: count is how many answers are due.
type entry struct {
	method, tool string
	count        int
}

// ledger is what a session has in flight and what the next host must know of it. It is
// safe for concurrent use.
type ledger struct {
	mu       sync.Mutex
	inFlight map[rpc.ID]*entry
	closed   bool
	greeting greeting
}

// begin enters a request that is about to be sent; false when the link is lost already,
// so that nothing of it was sent.
func (l *ledger) begin(to *link, m *rpc.Message) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if to.dead {
		return false
	}
	if m.Method == "initialize" {
		l.greeting.tries++
	}
	if e := l.inFlight[m.ID]; e != nil {
		e.count++
		return true
	}
	if l.inFlight == nil {
		l.inFlight = make(map[rpc.ID]*entry)
	}
	tool := ""
	if m.Method == "tools/call" {
		tool, _ = m.GetString("params", "name")
	}
	l.inFlight[m.ID] = &entry{method: m.Method, tool: tool, count: 1}
	return true
}

// settle takes out the request that an answer is for.
func (l *ledger) settle(answer *rpc.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.inFlight[answer.ID]
	if e == nil {
		return
	}
	if e.method == "initialize" {
		l.greeting.answered(answer)
	}
	if e.count--; e.count == 0 {
		delete(l.inFlight, answer.ID)
	}
}

// lose marks a link as lost and returns what to answer to what it had in flight, by id.
// The session's `initialize` is not among them.
func (l *ledger) lose(gone *link) map[rpc.ID]*rpc.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone.dead = true
	answers := make(map[rpc.ID]*rpc.Error)
	for id, e := range l.inFlight {
		if e.method == "initialize" && l.greeting.again(id) {
			continue
		}
		answers[id] = e.lost()
	}
	l.inFlight = nil
	if l.closed {
		return nil
	}
	return answers
}

// close says that nobody waits for answers any more.
func (l *ledger) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// inOrder are ids in an order that does not change from run to run.
func inOrder(answers map[rpc.ID]*rpc.Error) []rpc.ID { return slices.Sorted(maps.Keys(answers)) }

// data is what the host's own errors carry, for programs.
type data struct {
	Outcome    broker.Outcome `json:"outcome"`
	Reason     string         `json:"reason"`
	Tool       string         `json:"tool,omitempty"`
	Dispatched bool           `json:"dispatched"`
	Retry      broker.Retry   `json:"retry"`
}

func (d data) encode() json.RawMessage {
	b, err := json.Marshal(d)
	if err != nil {
		return nil // strings and a bool cannot fail
	}
	return b
}

// lost is the answer to a request whose host ended before it answered.
func (e *entry) lost() *rpc.Error {
	if harmless[e.method] {
		return &rpc.Error{
			Code:    broker.CodeUnavailable,
			Message: fmt.Sprintf("%q was not answered: the host ended before it could. It changes nothing, so it is safe to ask again.", e.method),
			Data:    data{Outcome: broker.Unavailable, Reason: reasonLost, Retry: broker.RetrySafe}.encode(),
		}
	}
	what := fmt.Sprintf("request %q", e.method)
	if e.tool != "" {
		what = fmt.Sprintf("tool %q", e.tool)
	}
	return &rpc.Error{
		Code: broker.CodeUnknown,
		Message: what + " was called and gave no usable answer: the host ended before it answered. " +
			"It may have had its effect. Look at the state before you call it again.",
		Data: data{Outcome: broker.Unknown, Reason: reasonLost, Tool: e.tool, Dispatched: true, Retry: broker.RetryAfterLook}.encode(),
	}
}

// noHost is the answer to a request for which there is no host.
func noHost(why error) *rpc.Error {
	return &rpc.Error{
		Code:    broker.CodeUnavailable,
		Message: "the request was not taken: " + why.Error() + ". Nothing was sent, so it had no effect; it is safe to ask again.",
		Data:    data{Outcome: broker.Unavailable, Reason: reasonNoHost, Retry: broker.RetrySafe}.encode(),
	}
}
