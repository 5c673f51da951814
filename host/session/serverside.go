package session

import (
	"encoding/json"
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// noRoots answers roots/list. The host has none to offer; a server that gets no
// answer may wait for a minute.
var noRoots = json.RawMessage(`{"roots":[]}`)

// request answers what the server asks. It runs on the link's reader.
func (i *Instance) request(m *rpc.Message) {
	defer m.Close() //nolint:errcheck // nothing of it is kept
	switch m.Method {
	case methodPing:
		i.link.reply(rpc.NewResult(m.ID, nil))
	case methodListRoots:
		i.link.reply(rpc.NewResult(m.ID, noRoots))
	default:
		i.log.Debug("request of the server refused", "method", m.Method)
		i.link.reply(rpc.NewFailure(m.ID, &rpc.Error{
			Code: rpc.CodeMethodNotFound, Message: fmt.Sprintf("method %q is not available", m.Method),
		}))
	}
}

// notification takes what the server says outside of its calls. It runs on the
// link's reader.
func (i *Instance) notification(m *rpc.Message) {
	switch m.Method {
	case methodToolsChange:
		i.changed()
		_ = m.Close()
	case methodListening:
		wake(i.listening)
		_ = m.Close()
	case methodMessage:
		level, _ := m.GetString("params", "level")
		i.listener.Log(i.spec.Provider, i.Mark(), level, m)
	default:
		i.log.Debug("notification of the server not passed on", "method", m.Method)
		_ = m.Close()
	}
}

// wake signals on a channel with room for one: what is under way is followed by
// one more, however often it is asked for.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
