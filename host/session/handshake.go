package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// probeLimit is how long a server that has said anything at all may take to answer
// server/discover before it counts as one of the older era.
const probeLimit = 2 * time.Second

var (
	errServerEnded = errors.New("the server ended before it answered")
	errStartOver   = errors.New("the time for the start is over")
	errChanged     = errors.New("the server is not what it was")
)

// greeting agrees with a server on an era and a revision.
//
// It sends server/discover, which a modern server answers and an older one
// refuses or ignores (MCP 2026-07-28, basic/transports/stdio, Backward
// Compatibility). Whatever is not the answer of a modern server leads to
// initialize. A modern server that was only slow to start then refuses that, and
// its answer to server/discover counts, late as it is.
//
// A server that is known to be of the older era is asked to initialize first, which
// spares one that ignores server/discover the wait for an answer. If it refuses, it
// is asked like any other.
type greeting struct {
	link *link
	id   identity
	// patience bounds the wait for a server that says nothing at all.
	patience time.Duration
	// known is what the server was when it was asked last, nil if it never was.
	known *Server
}

// verdict is what an answer to server/discover says.
type verdict struct {
	// modern: the answer is a modern server's. With err, of one that speaks no
	// revision of ours.
	modern bool
	server Server
	err    error
	// legacy is the revision to ask for with initialize.
	legacy string
}

// run returns what was agreed on, or ctx's error, errServerEnded, or why not.
func (g *greeting) run(ctx context.Context) (Server, error) {
	if g.known != nil && g.known.Era == Legacy {
		server, err := g.asBefore(ctx)
		if !errors.Is(err, errChanged) {
			return server, err
		}
	}
	discover := g.link.newCall(false)
	defer g.link.release(discover)
	params := []byte(`{"_meta":` + string(g.id.meta(mcp.LATEST_PROTOCOL_VERSION)) + `}`)
	if err := g.ask(ctx, discover, methodDiscover, params); err != nil {
		return Server{}, err
	}
	v, open, err := g.probe(ctx, discover)
	switch {
	case err != nil:
		return Server{}, err
	case v.modern:
		return v.server, v.err
	}
	server, err := g.initialize(ctx, v.legacy, discover, open)
	if err != nil || server.Era == Modern {
		return server, err
	}
	return server, g.initialized(ctx)
}

// asBefore does the handshake of the older era with a server that did it before.
// errChanged means that it does not any more.
func (g *greeting) asBefore(ctx context.Context) (Server, error) {
	never := g.link.newCall(false) // server/discover is not asked
	defer g.link.release(never)
	server, err := g.initialize(ctx, mcp.LATEST_LEGACY_PROTOCOL_VERSION, never, false)
	switch {
	case err == nil:
		return server, g.initialized(ctx)
	case errors.Is(err, errServerEnded), ctx.Err() != nil:
		return Server{}, err
	}
	return Server{}, errChanged
}

// initialized ends the handshake of the older era.
func (g *greeting) initialized(ctx context.Context) error {
	// A request before this one would be out of order; so it is sent, not queued.
	return g.sendError(g.link.tell(ctx, rpc.NewNotification(methodInitialized, nil)))
}

// ask sends a request whose answer is taken from its queue.
func (g *greeting) ask(ctx context.Context, c *call, method string, params json.RawMessage) error {
	if err := g.link.send(ctx, c, rpc.NewRequest(rpc.Number(c.id), method, params)); err != nil {
		return g.sendError(err)
	}
	return nil
}

func (g *greeting) sendError(err error) error {
	if errors.Is(err, errEnded) {
		return errServerEnded
	}
	return err
}

// probe waits for the answer to server/discover; open says that there is none yet.
func (g *greeting) probe(ctx context.Context, discover *call) (v verdict, open bool, err error) {
	v.legacy = mcp.LATEST_LEGACY_PROTOCOL_VERSION
	deadline := time.Now().Add(g.patience)
	timer := time.NewTimer(g.patience)
	defer timer.Stop()
	spoke := g.link.spoke
	for {
		select {
		case <-discover.q.wake:
			if answer, lost, ok := answerOf(discover); ok {
				return judge(answer, lost), false, nil
			}
		case <-spoke:
			spoke = nil
			if soon := time.Now().Add(probeLimit); soon.Before(deadline) {
				timer.Reset(probeLimit)
			}
		case <-timer.C:
			return v, true, nil
		case <-g.link.done:
			return v, false, errServerEnded
		case <-ctx.Done():
			return v, false, ctx.Err()
		}
	}
}

// answerOf takes the answer of one of the session's own requests, which get
// nothing else.
func answerOf(c *call) (answer *rpc.Message, lost *Lost, ok bool) {
	t, ok, err := c.q.take()
	return t.answer, t.lost, ok && err == nil && t.ended
}

// initialize does the handshake of the older era. While server/discover is open,
// its answer may still make the server a modern one.
func (g *greeting) initialize(ctx context.Context, version string, discover *call, open bool) (Server, error) {
	init := g.link.newCall(false)
	defer func() { g.link.release(init) }()
	if err := g.ask(ctx, init, methodInitialize, g.initParams(version)); err != nil {
		return Server{}, err
	}
	var (
		refusal error
		late    *verdict // modern
		asked   = []string{version}
		limit   <-chan time.Time
		// deaf: the server takes nothing more. It has most likely ended, and how is
		// about to be told, which says more than that it did not listen.
		deaf bool
	)
	answered := init.q.wake
	for {
		select {
		case <-answered:
			answer, lost, ok := answerOf(init)
			if !ok {
				continue
			}
			server, err := readInitialize(answer, lost)
			if err == nil {
				return server, nil
			}
			if other := offered(answer); other != "" && !slices.Contains(asked, other) {
				asked = append(asked, other)
				g.link.release(init)
				init = g.link.newCall(false)
				answered = init.q.wake
				if err := g.ask(ctx, init, methodInitialize, g.initParams(other)); err != nil {
					return Server{}, err
				}
				continue
			}
			refusal, answered = err, nil
			deaf = lost != nil && lost.Reason == Undelivered
			switch {
			case late != nil:
				return late.server, late.err
			case deaf:
				limit = time.After(exitPatience)
			case open:
				limit = time.After(probeLimit)
			default:
				return Server{}, refusal
			}
		case <-discover.q.wake:
			answer, lost, ok := answerOf(discover)
			if !ok {
				continue
			}
			open = false
			v := judge(answer, lost)
			switch {
			case v.modern && refusal != nil:
				return v.server, v.err
			case v.modern:
				// A server of both eras answers initialize too, and then has agreed to it.
				late, limit = &v, time.After(probeLimit)
			case refusal != nil && !deaf:
				return Server{}, refusal
			}
		case <-limit:
			if late != nil {
				return late.server, late.err
			}
			return Server{}, refusal
		case <-g.link.done:
			return Server{}, errServerEnded
		case <-ctx.Done():
			if refusal != nil {
				return Server{}, refusal
			}
			return Server{}, ctx.Err()
		}
	}
}

func (g *greeting) initParams(version string) json.RawMessage {
	raw, _ := json.Marshal(struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ClientInfo      json.RawMessage `json:"clientInfo"`
	}{version, noCapabilities, g.id.info}) // cannot fail
	return raw
}

// judge reads an answer to server/discover. A modern server gives a result with
// supportedVersions, or one of the errors that only the modern era has.
func judge(m *rpc.Message, lost *Lost) verdict {
	v := verdict{legacy: mcp.LATEST_LEGACY_PROTOCOL_VERSION}
	if m == nil || lost != nil {
		return v
	}
	defer m.Close() //nolint:errcheck // what is kept of it has been copied
	var supported []string
	if m.Kind == rpc.Failure {
		switch string(m.Get("error", "code")) {
		case "-32022": // UnsupportedProtocolVersion
			supported = stringsAt(m.Get("error", "data"), "supported")
		case "-32021": // MissingRequiredClientCapability
			return verdict{modern: true, err: fmt.Errorf("server/discover: %s", failureText(m))}
		}
	} else {
		supported = stringsAt(m.Get("result"), "supportedVersions")
	}
	if len(supported) == 0 {
		return v
	}
	version := mcp.NegotiateMutuallySupportedVersion(supported)
	switch {
	case version == "":
		return verdict{modern: true, err: versionError(strings.Join(supported, ", "))}
	case !mcp.IsModernProtocol(version):
		v.legacy = version
		return v
	case m.Kind == rpc.Failure:
		// It refuses the revision that it names; initialize is what is left to try.
		return v
	}
	info := m.Get("result", "_meta", mcp.MetaKeyServerInfo)
	if info == nil {
		info = m.Get("result", "serverInfo")
	}
	instructions, _ := m.GetString("result", "instructions")
	return verdict{modern: true, server: Server{
		Era: Modern, Version: version,
		Capabilities: slices.Clone(m.Get("result", "capabilities")),
		Info:         slices.Clone(info),
		Instructions: instructions,
	}}
}

// readInitialize reads an answer to initialize. The errors are for people.
func readInitialize(m *rpc.Message, lost *Lost) (Server, error) {
	if lost != nil {
		return Server{}, errors.New(lost.Cause)
	}
	defer m.Close() //nolint:errcheck // what is kept of it has been copied
	if m.Kind == rpc.Failure {
		return Server{}, errors.New(failureText(m))
	}
	version, ok := m.GetString("result", "protocolVersion")
	if !ok {
		return Server{}, errors.New("the server's answer to initialize names no protocolVersion")
	}
	if !mcp.IsValidProtocolVersion(version) || mcp.IsModernProtocol(version) {
		return Server{}, versionError(version)
	}
	instructions, _ := m.GetString("result", "instructions")
	return Server{
		Era: Legacy, Version: version,
		Capabilities: slices.Clone(m.Get("result", "capabilities")),
		Info:         slices.Clone(m.Get("result", "serverInfo")),
		Instructions: instructions,
	}, nil
}

// offered returns the revision of the older era that a refusal of initialize
// offers instead (MCP 2025-11-25, basic/lifecycle, Error Handling); "" if none.
func offered(m *rpc.Message) string {
	if m == nil || m.Kind != rpc.Failure {
		return ""
	}
	version := mcp.NegotiateMutuallySupportedVersion(stringsAt(m.Get("error", "data"), "supported"))
	if mcp.IsModernProtocol(version) {
		return ""
	}
	return version
}

func versionError(version string) error {
	return fmt.Errorf("the server speaks protocol version %q, which this host does not know (it knows %s)",
		version, strings.Join(mcp.ValidProtocolVersions, ", "))
}

// failureText says what an error response says, for people.
func failureText(m *rpc.Message) string {
	text, _ := m.GetString("error", "message")
	return fmt.Sprintf("the server answered with error %s: %s", m.Get("error", "code"), text)
}

// stringsAt returns the strings of the array that is a member of an object.
func stringsAt(object json.RawMessage, name string) []string {
	var members map[string]json.RawMessage
	var list []string
	if json.Unmarshal(object, &members) != nil || json.Unmarshal(members[name], &list) != nil {
		return nil
	}
	return list
}
