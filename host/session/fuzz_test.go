package session

import (
	"context"
	"encoding/binary"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// script reads events from fuzzed bytes: of each one its kind, its length in two
// bytes, and its data.
func script(data []byte) []provider.Event {
	var events []provider.Event
	for len(data) >= 3 && len(events) < 200 {
		kind, n := data[0], int(binary.LittleEndian.Uint16(data[1:3]))
		data = data[3:]
		text := data[:min(n, len(data))]
		data = data[len(text):]
		switch kind % 8 {
		case 0, 1:
			events = append(events, provider.Chunk{Data: text, Last: true})
		case 2:
			events = append(events, provider.Chunk{Data: text})
		case 3:
			events = append(events, provider.Noise{Line: text})
		case 4:
			events = append(events, provider.TooLarge{ID: text, Size: int64(n)})
		case 5:
			events = append(events, provider.Undelivered{Seq: uint64(len(text)), Reason: string(text)})
		case 6:
			events = append(events, provider.Spoke{})
		case 7:
			events = append(events, provider.Exited{Status: provider.ExitStatus{Code: n, StderrTail: string(text)}})
		}
	}
	return events
}

func event(kind byte, text string) []byte {
	b := append([]byte{kind}, binary.LittleEndian.AppendUint16(nil, uint16(len(text)))...)
	return append(b, text...)
}

// FuzzLink: whatever a plugin and its server say, calls end, each with an answer
// or a Lost, and the link ends when its stream does.
func FuzzLink(f *testing.F) {
	const id = "1048577" // of the first call
	for _, events := range [][]byte{
		nil,
		event(0, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`),
		event(0, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":1,"message":"x"}}`),
		event(0, `{"jsonrpc":"2.0","id":`+id+`,"result":{},"result":{}}`),
		event(0, `{"jsonrpc":"2.0","id":1,"method":"ping"}`),
		append(event(0, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+id+`}}`),
			event(0, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":1}}`)...),
		append(event(2, `{"jsonrpc":"2.0",`), event(0, `"id":`+id+`,"result":{}}`)...),
		append(event(2, `{"jsonrpc":"2.0",`), event(3, `{"jsonrpc`)...),
		event(4, id),
		event(5, "x"),
		append(event(6, ""), event(7, "bye\n")...),
		event(0, `[`), event(0, ``), event(1, "\xff"),
	} {
		f.Add(events)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, func(*fakeConn, received) {})
			var calls []<-chan outcome
			for range 2 {
				calls = append(calls, r.start(context.Background(), `{}`, terms{
					silence: time.Minute, max: time.Hour,
					notify: func(m *rpc.Message) error {
						_, err := m.Payload().WriteTo(io.Discard)
						return err
					},
				}))
				synctest.Wait()
			}
			for _, e := range script(data) {
				r.conn.event(e)
			}
			r.conn.end()
			for _, ch := range calls {
				select {
				case o := <-ch:
					if (o.m == nil) == (o.err == nil) {
						t.Errorf("a call ended with %v and %v", o.m, o.err)
					}
				case <-time.After(2 * time.Hour):
					t.Error("a call does not end")
				}
			}
			select {
			case <-r.link.done:
			case <-time.After(time.Hour):
				t.Error("the link does not end")
			}
		})
	})
}

// FuzzAnswers: whatever a server answers to the requests of a start, it is read
// without harm, and what is kept of it keeps to the bounds.
func FuzzAnswers(f *testing.F) {
	for _, text := range []string{
		`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{}}`,
		`{"protocolVersion":"2025-11-25","capabilities":{},"instructions":"x"}`,
		`{"tools":[{"name":"a"},1,"x"],"nextCursor":"c"}`,
		`{"supportedVersions":[1]}`, `{"tools":{},"nextCursor":1}`, `{}`,
	} {
		f.Add(`{"jsonrpc":"2.0","id":1,"result":` + text + `}`)
		f.Add(`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"x","data":` + text + `}}`)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := rpc.Parse(rpc.FromServer, []byte(text))
		if err != nil || m.Kind != rpc.Result && m.Kind != rpc.Failure {
			t.Skip()
		}
		if v := judge(m, nil); v.modern && v.err == nil {
			if v.server.Version != "2026-07-28" || v.server.Era != Modern {
				t.Errorf("agreed on %+v", v.server)
			}
			_ = v.server.Declares("tools", "listChanged")
		}
		if s, err := readInitialize(m, nil); err == nil && (s.Era != Legacy || s.Version > "2025-11-25") {
			t.Errorf("agreed on %+v", s)
		}
		if v := offered(m); v > "2025-11-25" {
			t.Errorf("initialize with %s", v)
		}
		defs, cursor, err := readPage(m, nil, 3)
		if err == nil && (len(defs) > 3 || cursor != nil && cursor[0] != '"') {
			t.Errorf("%d definitions, cursor %s", len(defs), cursor)
		}
	})
}
