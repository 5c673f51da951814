package front

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"strconv"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// cacheTTL is for how many milliseconds a modern client may keep a list: not at
// all, since servers change theirs when they like and not every client listens.
const cacheTTL = 0

// definition is one item of a list: its bytes as clients see them, and what tells
// it apart from others and from itself at another time.
type definition struct {
	listed       json.RawMessage
	name, digest string
}

func toolDefinition(t *catalog.Tool) definition {
	return definition{listed: t.Listed, name: t.Exposed, digest: t.Digest}
}

// listing makes the handler of a list: it answers with a page of what this caller
// may see of all, as member of the result, each item in the bytes that its server
// sent but for the name.
func listing[T any](member string, all func(Broker, broker.Caller) []T, as func(T) definition) func(*Server, context.Context, *request) error {
	return func(s *Server, ctx context.Context, r *request) error {
		cursor, err := cursorOf(r.Message)
		if err != nil {
			return err
		}
		r.prepare(func() { s.broker.Prepare(ctx, r.caller) })
		items := all(s.broker, r.caller)
		stamp := func() stamp { return stampOf(items, as) }
		from, to, next, err := paginate(len(items), stamp, cursor, s.opts.PageSize)
		if err != nil {
			return err
		}
		size := 512 + len(s.identity)
		for _, item := range items[from:to] {
			size += len(as(item).listed) + 1
		}
		list := append(make([]byte, 0, size), `{"`+member+`":[`...)
		for i, item := range items[from:to] {
			if i > 0 {
				list = append(list, ',')
			}
			list = append(list, as(item).listed...)
		}
		list = append(list, ']')
		if next != "" {
			list = append(append(append(list, `,"nextCursor":"`...), next...), '"')
		}
		if r.era == modern {
			list = s.appendModern(list)
		}
		return r.answer(rpc.NewResult(r.ID, append(list, '}')))
	}
}

// appendModern adds the members that 2026-07-28 wants of a list.
func (s *Server) appendModern(list []byte) []byte {
	list = append(list, `,"resultType":"complete","ttlMs":`...)
	list = strconv.AppendInt(list, cacheTTL, 10)
	list = append(list, `,"cacheScope":"`+mcp.CacheScopePrivate+`","_meta":{"`+mcp.MetaKeyServerInfo+`":`...)
	return append(append(list, s.identity...), '}')
}

// badCursor is the answer to a cursor that is not ours, or of a list that has
// changed since: the client is to begin again (MCP 2025-11-25, server/utilities/pagination).
func badCursor(why string) *rpc.Error {
	return &rpc.Error{Code: rpc.CodeInvalidParams, Message: "invalid params: " + why + "; list again without a cursor"}
}

const notOurs = "the cursor is not one of ours"

func cursorOf(m *rpc.Message) (string, error) {
	_, kind, there := m.FindKind("params", "cursor")
	if !there || kind == 'n' {
		return "", nil
	}
	cursor, ok := m.GetString("params", "cursor")
	if !ok || cursor == "" {
		return "", badCursor(notOurs)
	}
	return cursor, nil
}

// stamp tells lists apart: by their definitions, their names and their order.
type stamp [12]byte

func stampOf[T any](items []T, as func(T) definition) (s stamp) {
	h := sha256.New()
	for _, item := range items {
		d := as(item)
		_, _ = io.WriteString(h, d.name+"\x00"+d.digest+"\x00") // a hash takes everything
	}
	copy(s[:], h.Sum(nil))
	return s
}

// paginate says which part of a list of n a cursor asks for, and the next cursor
// if there is more. A cursor holds the stamp of the list that it continues, so
// that pages of two lists never mix, and shows nobody more than his own list.
func paginate(n int, stampOf func() stamp, cursor string, size int) (from, to int, next string, err error) {
	if cursor == "" && n <= size {
		return 0, n, "", nil
	}
	mark := stampOf()
	if cursor != "" {
		raw, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil || len(raw) != len(mark)+4 {
			return 0, 0, "", badCursor(notOurs)
		}
		if stamp(raw[:len(mark)]) != mark {
			return 0, 0, "", badCursor("the list has changed since this cursor was given")
		}
		if from = int(binary.BigEndian.Uint32(raw[len(mark):])); from >= n {
			return 0, 0, "", badCursor(notOurs)
		}
	}
	to = min(from+size, n)
	if to < n {
		next = base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(mark[:], uint32(to)))
	}
	return from, to, next, nil
}
