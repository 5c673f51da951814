package front

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/artifact"
	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// cacheTTL is for how many milliseconds a modern client may keep a list: not at
// all, since servers change theirs when they like and not every client listens.
const cacheTTL = 0

// listTools answers with a page of what this caller may see, each definition in
// the bytes that its server sent but for the name. What exactly that is, by
// revision and digests, stands in the result's own `_meta`.
func (s *Server) listTools(ctx context.Context, r *request) error {
	cursor, err := cursorOf(r.Message)
	if err != nil {
		return err
	}
	who := kindOf(r.caller)
	release := s.audience.hold(who)
	defer release()
	s.broker.Prepare(ctx, r.caller)
	view := s.broker.View(r.caller)
	from, to, next, err := paginate(view, r.caller, cursor, s.opts.PageSize)
	if err != nil {
		return err
	}
	list := s.appendPage(view, view.Tools()[from:to], r.era, to == len(view.Tools()) && s.artifacts(r.caller))
	if next != "" {
		list = append(append(append(list, `,"nextCursor":"`...), next...), '"')
	}
	// Before it is written: the client may call in the moment in which it has it.
	undo := s.broker.Shown(r.caller, view, from, to)
	s.audience.shown(who, view.Revision())
	release()
	if err := r.answer(rpc.NewResult(r.ID, append(list, '}'))); err != nil {
		undo()
		return err
	}
	return nil
}

// appendPage makes the result of a list, without its end. own says that the host's
// own tool ends it.
func (s *Server) appendPage(view *catalog.View, tools []*catalog.Tool, era era, own bool) []byte {
	size := 512 + len(s.identity)
	for _, t := range tools {
		size += len(t.Listed) + len(t.Exposed) + len(t.Digest) + 8
	}
	list := append(make([]byte, 0, size), `{"tools":[`...)
	for i, t := range tools {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, t.Listed...)
	}
	if own {
		if len(tools) > 0 {
			list = append(list, ',')
		}
		list = append(list, readArtifactTool...)
	}
	list = append(list, ']')
	if era == modern { // what 2026-07-28 wants of a list
		list = append(list, `,"resultType":"complete","ttlMs":`...)
		list = strconv.AppendInt(list, cacheTTL, 10)
		list = append(list, `,"cacheScope":"`+mcp.CacheScopePrivate+`"`...)
	}
	list = append(list, `,"_meta":{"`+metaRevisions+`":`...)
	list = append(list, encode(view.Revisions())...)
	list = append(list, `,"`+metaDigests+`":{`...)
	for i, t := range tools {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(append(append(list, rpc.Quote(t.Exposed)...), `:"`...), t.Digest...)
		list = append(list, '"')
	}
	list = append(list, '}')
	if era == modern {
		list = append(append(list, `,"`+mcp.MetaKeyServerInfo+`":`...), s.identity...)
	}
	return append(list, '}')
}

// badCursor is the answer to a cursor that is not ours, or of another list: the
// client is to begin again (MCP 2025-11-25, server/utilities/pagination).
func badCursor(why string) *rpc.Error {
	return &rpc.Error{Code: rpc.CodeInvalidParams, Message: "invalid params: " + why + "; list again without a cursor"}
}

const (
	notOurs   = "the cursor is not one of ours"
	notYours  = "the cursor was given to another client or session"
	notOfThis = "the list has changed since this cursor was given"
)

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

// mark is a short digest: of whom a cursor was given to, and of what.
type mark [12]byte

func markOf(parts ...string) (m mark) {
	h := sha256.New()
	for _, p := range parts {
		_, _ = h.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(p))), p...)) // a hash takes everything
	}
	copy(m[:], h.Sum(nil))
	return m
}

// place is where a cursor leads: to whose list, of which revision, from where on.
type place struct {
	whose, of mark
	from      uint32
}

func (p place) String() string {
	raw := append(append(make([]byte, 0, 2*len(mark{})+4), p.whose[:]...), p.of[:]...)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(raw, p.from))
}

func placeOf(cursor string) (p place, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) != 2*len(mark{})+4 {
		return place{}, false
	}
	copy(p.whose[:], raw)
	copy(p.of[:], raw[len(mark{}):])
	p.from = binary.BigEndian.Uint32(raw[2*len(mark{}):])
	return p, true
}

// pageOf is the page of a principal's artifacts that a cursor asks for, and the next
// cursor if there is more. A cursor names the last one of its page: what is added or
// removed while pages are read moves nothing from one to another.
func pageOf(records []artifact.Record, principal, cursor string, size int) (page []artifact.Record, next string, err error) {
	whose := markOf(principal)
	if cursor != "" {
		raw, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil || len(raw) <= len(whose)+8 {
			return nil, "", badCursor(notOurs)
		}
		if !bytes.Equal(raw[:len(whose)], whose[:]) {
			return nil, "", badCursor(notYours)
		}
		raw = raw[len(whose):]
		last := artifact.Record{Created: time.Unix(0, int64(binary.BigEndian.Uint64(raw))), ID: string(raw[8:])}
		from := slices.IndexFunc(records, func(r artifact.Record) bool { return last.Newer(r) < 0 })
		if from < 0 {
			from = len(records)
		}
		records = records[from:]
	}
	if len(records) <= size {
		return records, "", nil
	}
	last := records[size-1]
	raw := binary.BigEndian.AppendUint64(slices.Clone(whose[:]), uint64(last.Created.UnixNano()))
	return records[:size], base64.RawURLEncoding.EncodeToString(append(raw, last.ID...)), nil
}

// paginate says which part of a view a cursor asks for, and the next cursor if
// there is more. A cursor belongs to one caller and one revision of its view, so
// pages of two lists never mix; that it shows nobody more than his own view is not
// its doing, for it is no more than a place in that.
func paginate(view *catalog.View, c broker.Caller, cursor string, size int) (from, to int, next string, err error) {
	n := len(view.Tools())
	if cursor == "" && n <= size {
		return 0, n, "", nil
	}
	here := place{whose: markOf(c.Principal, c.Project, c.Session, c.Client.Name, c.Client.Version), of: markOf(view.Revision())}
	if cursor != "" {
		switch p, ok := placeOf(cursor); {
		case !ok:
			return 0, 0, "", badCursor(notOurs)
		case p.whose != here.whose:
			return 0, 0, "", badCursor(notYours)
		case p.of != here.of:
			return 0, 0, "", badCursor(notOfThis)
		case p.from == 0 || int64(p.from) >= int64(n):
			return 0, 0, "", badCursor(notOurs)
		default:
			from = int(p.from)
		}
	}
	if to = min(from+size, n); to < n {
		here.from = uint32(to)
		next = here.String()
	}
	return from, to, next, nil
}
