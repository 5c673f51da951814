package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

func TestUnknownAndDoubledAnswersAreDropped(t *testing.T) {
	r := newRig(t, func(c *fakeConn, in received) {
		m := mustParse(t, in)
		for _, id := range []string{"1", `"` + string(m.ID) + `"`, "null", string(m.ID), string(m.ID)} {
			c.say(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-1,"message":"x"}}`)
		}
	})
	m, err := r.do(t.Context(), `{}`, terms{silence: patience})
	if err != nil || m.Kind != rpc.Failure {
		t.Fatalf("%v, %v", m, err)
	}
	eventually(t, "4 answers dropped", func() bool { return r.link.counts.dropped.Load() == 4 })
}

func TestMalformedAnswerEndsItsCall(t *testing.T) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":ID,"result":{},"result":{}}`,
		`{"jsonrpc":"2.0","id":ID,"result":{},"error":{}}`,
		`{"jsonrpc":"2.0","id":ID,"result":{},"Result":{}}`,
		`{"jsonrpc":"1.0","id":ID,"result":{}}`,
		`{"jsonrpc":"2.0","id":ID,"result":7}`,
		`{"jsonrpc":"2.0","id":ID}`,
	} {
		r := newRig(t, func(c *fakeConn, in received) {
			c.say(strings.ReplaceAll(text, "ID", string(mustParse(t, in).ID)))
		})
		_, err := r.do(t.Context(), `{}`, terms{silence: patience})
		t.Log(err)
		wantLost(t, err, true, MalformedAnswer, "malformed")
	}
}

func TestMalformedRequestOfTheServerIsRefused(t *testing.T) {
	in := make(chan received, 4)
	r := newRig(t, hold(in))
	r.conn.say(`{"jsonrpc":"2.0","id":7,"method":"ping","Method":"pong"}`)
	m := mustParse(t, <-in)
	if m.Kind != rpc.Failure || m.ID != "7" || string(m.Get("error", "code")) != "-32600" {
		t.Errorf("answered with %s", text(t, m))
	}
}

// TestC042_TooLargeEndsOneCall: the limit is named, and the server serves on.
func TestC042_TooLargeEndsOneCall(t *testing.T) {
	r := newRig(t, func(c *fakeConn, in received) {
		m := mustParse(t, in)
		if strings.Contains(string(in.text), "huge") {
			c.event(provider.Chunk{Data: []byte(`{"jsonrpc":"2.0",`)})
			c.event(provider.TooLarge{ID: []byte(m.ID), Size: 123456789})
			c.event(provider.TooLarge{Size: 5})
			c.event(provider.TooLarge{ID: []byte(`77`), Size: 5})
			return
		}
		c.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{}}`)
	})
	_, err := r.do(t.Context(), `{"x":"huge"}`, terms{silence: patience})
	wantLost(t, err, true, ResultTooLarge, "max_message (67108864 bytes): it has 123456789 bytes")
	if _, err := r.do(t.Context(), `{}`, terms{silence: patience}); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

func TestAnAnswerOverMaxMessageThatThePluginLetThrough(t *testing.T) {
	r := newRig(t, func(c *fakeConn, in received) {
		m := mustParse(t, in)
		c.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"x":"` + strings.Repeat("x", 3<<20) + `"}}`)
	})
	_, err := r.do(t.Context(), `{}`, terms{silence: patience})
	if err != nil {
		t.Fatalf("below the limit: %v", err)
	}
	in := incoming{asm: rpc.NewAssembler(rpc.FromServer, t.TempDir(), 10), max: 10}
	if _, err := in.add(provider.Chunk{Data: []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`), Last: true}); !errors.Is(err, rpc.ErrTooLarge) {
		t.Errorf("over the limit: %v", err)
	}
}

// TestC042_LinesOfAnyLength: every length arrives as it was sent.
func TestC042_LinesOfAnyLength(t *testing.T) {
	r := newRig(t, func(c *fakeConn, in received) {
		m := mustParse(t, in)
		size := 0
		fmt.Sscan(string(m.Get("params", "n")), &size)
		head := `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"x":"`
		c.say(head + strings.Repeat("y", size-len(head)-3) + `"}}`)
	})
	for _, size := range []int{65535, 65536, 65537, 256 << 10, 256<<10 + 1, 1 << 20, 1<<20 + 1, 10 << 20} {
		m, err := r.do(t.Context(), fmt.Sprintf(`{"n":%d}`, size), terms{silence: patience})
		if err != nil {
			t.Fatal(err)
		}
		if m.Size() != int64(size) {
			t.Errorf("%d bytes arrived of %d", m.Size(), size)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNoiseIsCountedAndDropsWhatCameOfTheLine(t *testing.T) {
	r := newRig(t, func(c *fakeConn, in received) {
		c.event(provider.Chunk{Data: []byte(`{"jsonrpc":`)})
		c.event(provider.Noise{Line: []byte("{ hello")})
		c.say(`{"jsonrpc":"2.0","id":` + string(mustParse(t, in).ID) + `,"result":{}}`)
	})
	if _, err := r.do(t.Context(), `{}`, terms{silence: patience}); err != nil {
		t.Error(err)
	}
	if r.noise.Load() != 1 {
		t.Errorf("noise %d", r.noise.Load())
	}
}
