package connect

import (
	"fmt"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// greeting is what the next host must know of a session of the handshake era. Clients of
// the stateless era say it all in each request, and leave it empty.
type greeting struct {
	// hello is the client's `initialize`, kept open; nil before it.
	hello *rpc.Message
	// agreed says that it was answered with a result, version what that agrees on.
	agreed bool
	// tries counts the hosts that hello was given to.
	tries   int
	version string
	// initialized says that the client has the answer.
	initialized bool
	// level is the client's last `logging/setLevel`, kept open; nil before one.
	level *rpc.Message
}

// waits says whether the session's `initialize` is under way, with that id.
func (g *greeting) waits(id rpc.ID) bool { return g.hello != nil && !g.agreed && g.hello.ID == id }

// maxTries bounds to how many hosts a session's `initialize` is given that ended before
// they answered it.
const maxTries = 3

// again says whether the session's `initialize` has that id and is for the next host;
// given to too many, it is forgotten.
func (g *greeting) again(id rpc.ID) bool {
	if !g.waits(id) {
		return false
	}
	if g.tries < maxTries {
		return true
	}
	closeMessage(g.hello)
	g.hello = nil
	return false
}

// answered notes what the answer to `initialize` agrees on. One that was refused is no
// session's.
func (g *greeting) answered(m *rpc.Message) {
	switch {
	case !g.waits(m.ID):
	case m.Kind == rpc.Result:
		g.agreed = true
		g.version, _ = m.GetString("result", "protocolVersion")
	default:
		closeMessage(g.hello)
		g.hello = nil
	}
}

// remember keeps a request that is part of the greeting; kept says that it is not to be
// closed.
func (l *ledger) remember(m *rpc.Message) (kept bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := &l.greeting
	switch m.Method {
	case "initialize":
		if g.hello == m { // it is given to the next host
			return true
		}
		closeMessage(g.hello)
		g.hello, g.agreed, g.initialized, g.tries = m, false, false, 0
	case "logging/setLevel":
		closeMessage(g.level)
		g.level = m
	default:
		return false
	}
	return true
}

// forget drops a request that was refused; kept says that it stays all the same.
func (l *ledger) forget(m *rpc.Message) (kept bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.greeting.hello == m {
		l.greeting.hello = nil
		return false
	}
	return true // a level is the session's, whoever was told
}

// noted notes a notification that is part of the greeting.
func (l *ledger) noted(m *rpc.Message) {
	if m.Method == "notifications/initialized" {
		l.mu.Lock()
		l.greeting.initialized = true
		l.mu.Unlock()
	}
}

// unanswered is the session's `initialize` if its host ended before it answered.
func (l *ledger) unanswered() *rpc.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.greeting.hello == nil || l.greeting.agreed {
		return nil
	}
	return l.greeting.hello
}

// session is the greeting as it stands.
func (l *ledger) session() greeting {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.greeting
}

func closeMessage(m *rpc.Message) {
	if m != nil {
		_ = m.Close()
	}
}

// The ids under which a greeting is said again. No client's request is under way then.
const (
	helloID rpc.ID = `"drawbridge-connect-hello"`
	levelID rpc.ID = `"drawbridge-connect-level"`
)

// ours are the ids of a host's requests on a link that is not the first: whose they are,
// and the literal that the host gave them.
func oursPrefix(number int) string { return fmt.Sprintf("drawbridge-connect-%d:", number) }

// inward is a host's message as the client is to see it.
func (l *link) inward(m *rpc.Message) rpc.Payload {
	if m.Kind != rpc.Request || l.number == 1 {
		return m.Payload()
	}
	return m.Edit().SetID(rpc.ID(rpc.Quote(oursPrefix(l.number) + string(m.ID)))).Payload()
}

// outward is a client's notification or answer as the host is to see it; false for an
// answer to a host that is gone.
func (l *link) outward(m *rpc.Message) (rpc.Payload, bool) {
	if m.Kind == rpc.Notification || l.number == 1 {
		return m.Payload(), true
	}
	id, _ := m.GetString("id")
	literal, ok := strings.CutPrefix(id, oursPrefix(l.number))
	if !ok {
		return rpc.Payload{}, false
	}
	return m.Edit().SetID(rpc.ID(literal)).Payload(), true
}
