package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// The bounds of a list where the config says nothing.
const (
	defaultMaxPages       = 100
	defaultMaxDefinitions = 10000
	defaultMaxListBytes   = 32 << 20
)

var (
	errNoTools        = errors.New(`the result has no array "tools"`)
	errRepeatedCursor = errors.New("the server gave the same nextCursor twice")
	errCursorKind     = errors.New("the server's nextCursor is no string")
)

// listTools reads tools/list to its last page. A failure on any page is the
// failure of the whole. The definitions are the server's bytes, in its order.
func (i *Instance) listTools(ctx context.Context, silence time.Duration) ([]json.RawMessage, error) {
	if !i.server.Declares("tools") {
		return nil, nil
	}
	var (
		defs   []json.RawMessage
		size   int64
		cursor json.RawMessage
		seen   = map[string]bool{}
	)
	for page := 1; ; page++ {
		if page > i.spec.MaxPages {
			return nil, fmt.Errorf("the list has more than max_pages = %d pages", i.spec.MaxPages)
		}
		m, err := i.ask(ctx, methodListTools, i.listParams(cursor), silence)
		if err != nil {
			return nil, err
		}
		if size += m.Size(); size > i.spec.MaxListBytes {
			_ = m.Close()
			return nil, fmt.Errorf("the list has more than max_list_bytes = %d bytes", i.spec.MaxListBytes)
		}
		defs, cursor, err = readPage(m, defs, i.spec.MaxDefinitions)
		_ = m.Close()
		switch {
		case err != nil:
			return nil, fmt.Errorf("page %d: %w", page, err)
		case cursor == nil:
			return defs, nil
		case seen[string(cursor)]:
			return nil, fmt.Errorf("page %d: %w", page, errRepeatedCursor)
		}
		seen[string(cursor)] = true
	}
}

// readPage adds a page's definitions to defs and returns the next cursor as it
// came, nil after the last page.
func readPage(m *rpc.Message, defs []json.RawMessage, max int) ([]json.RawMessage, json.RawMessage, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(m.Get("result", "tools")),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != jsontext.KindBeginArray {
		return nil, nil, errNoTools
	}
	for dec.PeekKind() != jsontext.KindEndArray {
		value, err := dec.ReadValue()
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errNoTools, err)
		}
		if len(defs) == max {
			return nil, nil, fmt.Errorf("the list has more than max_definitions = %d definitions", max)
		}
		defs = append(defs, json.RawMessage(bytes.Clone(value)))
	}
	cursor := m.Get("result", "nextCursor")
	switch string(cursor) {
	case "", "null", `""`: // an empty cursor leads back to the first page
		return defs, nil, nil
	}
	if cursor[0] != '"' {
		return nil, nil, errCursorKind
	}
	return defs, bytes.Clone(cursor), nil
}

// listParams are the params of a list request: the cursor as it came, and what
// the modern era wants with each request.
func (i *Instance) listParams(cursor json.RawMessage) json.RawMessage {
	var meta json.RawMessage
	if i.server.Era == Modern {
		meta = i.id.meta(i.server.Version)
	}
	switch {
	case cursor == nil && meta == nil:
		return nil
	case cursor == nil:
		return json.RawMessage(`{"_meta":` + string(meta) + `}`)
	case meta == nil:
		return json.RawMessage(`{"cursor":` + string(cursor) + `}`)
	}
	return json.RawMessage(`{"cursor":` + string(cursor) + `,"_meta":` + string(meta) + `}`)
}

// ask does one request of the session's own and returns its result. Its limits
// are ctx's and silence, 0 for none.
func (i *Instance) ask(ctx context.Context, method string, params json.RawMessage, silence time.Duration) (*rpc.Message, error) {
	c := i.link.newCall(false)
	defer i.link.release(c)
	m, err := i.link.run(ctx, c, rpc.NewRequest(rpc.Number(c.id), method, params), terms{silence: silence})
	var lost *Lost
	switch {
	case err == nil:
	case i.link.ended():
		return nil, errServerEnded
	case errors.As(err, &lost):
		return nil, errors.New(lost.Cause)
	default:
		return nil, err
	}
	if m.Kind == rpc.Failure {
		defer m.Close() //nolint:errcheck // nothing of it is kept
		return nil, errors.New(failureText(m))
	}
	return m, nil
}
