package front

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// cacheTTL is for how many milliseconds a modern client may keep a list: not at
// all, since servers change theirs when they like and not every client listens.
const cacheTTL = 0

// metaPrefix marks the `_meta` keys that are the host's own; a server has none.
const metaPrefix = "drawbridge/"

// call carries a request through the broker and the answer back. Whose method it
// is, and what it means, is the broker's business.
func (s *Server) call(ctx context.Context, r *request) error {
	reply := s.broker.Call(ctx, broker.Call{Caller: r.caller, Request: r.Message, Notify: r.notify})
	if reply.Err != nil {
		return reply.Err
	}
	defer func() { _ = reply.Message.Close() }()
	e := reply.Message.Edit().SetID(r.ID)
	if reply.Message.Kind == rpc.Failure && r.era == modern {
		r.flag(reply.Message.Get("error", "code"))
	}
	if reply.Message.Kind == rpc.Result {
		if _, there := reply.Message.Find("result", "_meta"); there {
			e.RemovePrefix(metaPrefix, "result", "_meta")
		}
		if r.era == modern {
			s.modernize(e, reply.Message, r.method)
		}
	}
	return r.answer(e.Payload())
}

// modernize adds what 2026-07-28 wants of a result and an older server does not
// give. What the server gave stays.
func (s *Server) modernize(e *rpc.Editor, answer *rpc.Message, m *method) {
	add := func(value []byte, path ...string) {
		if _, there := answer.Find(path...); !there {
			e.Set(value, path...)
		}
	}
	add([]byte(`"complete"`), "result", "resultType")
	if m.cached {
		add(strconv.AppendInt(nil, cacheTTL, 10), "result", "ttlMs")
		add([]byte(`"private"`), "result", "cacheScope")
	}
	// A `_meta` that is no object is the server's fault, and stays what it is.
	if _, kind, there := answer.FindKind("result", "_meta"); !there || kind == '{' {
		add(s.identity, "result", "_meta", mcp.MetaKeyServerInfo)
	}
}

// listTools answers with a page of the tools that this caller may see, each in
// the bytes that the server sent but for its name.
func (s *Server) listTools(ctx context.Context, r *request) error {
	cursor, err := cursorOf(r.Message)
	if err != nil {
		return err
	}
	tools := s.broker.Tools(ctx, r.caller)
	from, to, next, err := paginate(tools, cursor, s.opts.PageSize)
	if err != nil {
		return err
	}
	size := 512 + len(s.identity)
	for _, t := range tools[from:to] {
		size += len(t.Listed) + 1
	}
	list := append(make([]byte, 0, size), `{"tools":[`...)
	for i, t := range tools[from:to] {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, t.Listed...)
	}
	list = append(list, ']')
	if next != "" {
		list = append(append(append(list, `,"nextCursor":"`...), next...), '"')
	}
	if r.era == modern {
		list = append(list, `,"resultType":"complete","ttlMs":`...)
		list = strconv.AppendInt(list, cacheTTL, 10)
		list = append(list, `,"cacheScope":"private","_meta":{"`+mcp.MetaKeyServerInfo+`":`...)
		list = append(append(list, s.identity...), '}')
	}
	return r.answer(rpc.NewResult(r.ID, append(list, '}')))
}

// errCursor is the answer to a cursor that is not ours, or of a list that has
// changed since: the client is to begin again (MCP 2025-11-25, server/utilities/pagination).
func errCursor(why string) *rpc.Error {
	return &rpc.Error{Code: rpc.CodeInvalidParams, Message: "invalid params: " + why + "; list again without a cursor"}
}

func cursorOf(m *rpc.Message) (string, error) {
	_, kind, there := m.FindKind("params", "cursor")
	if !there || kind == 'n' {
		return "", nil
	}
	cursor, ok := m.GetString("params", "cursor")
	if !ok || cursor == "" {
		return "", errCursor("the cursor is not one of ours")
	}
	return cursor, nil
}

// paginate says which part of a list a cursor asks for, and the next cursor if
// there is more. A cursor holds a stamp of the list that it continues, so that
// pages of two lists never mix, and shows nobody more than his own list.
func paginate(tools []*catalog.Tool, cursor string, size int) (from, to int, next string, err error) {
	if cursor == "" && len(tools) <= size {
		return 0, len(tools), "", nil
	}
	stamp := stampOf(tools)
	if cursor != "" {
		raw, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil || len(raw) != len(stamp)+4 {
			return 0, 0, "", errCursor("the cursor is not one of ours")
		}
		if [stampSize]byte(raw) != stamp {
			return 0, 0, "", errCursor("the list has changed since this cursor was given")
		}
		from = int(binary.BigEndian.Uint32(raw[stampSize:]))
		if from >= len(tools) {
			return 0, 0, "", errCursor("the cursor is not one of ours")
		}
	}
	to = min(from+size, len(tools))
	if to < len(tools) {
		raw := binary.BigEndian.AppendUint32(stamp[:], uint32(to))
		next = base64.RawURLEncoding.EncodeToString(raw)
	}
	return from, to, next, nil
}

const stampSize = 12

// stampOf tells lists apart: by the definitions, their names and their order.
func stampOf(tools []*catalog.Tool) (stamp [stampSize]byte) {
	h := sha256.New()
	for _, t := range tools {
		h.Write([]byte(t.Exposed))
		h.Write([]byte{0})
		h.Write([]byte(t.Digest))
		h.Write([]byte{0})
	}
	copy(stamp[:], h.Sum(nil))
	return stamp
}
