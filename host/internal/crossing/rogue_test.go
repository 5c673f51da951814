package crossing

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
	contract "github.com/drawbridge-mcp/drawbridge/shared/provider"
	"github.com/drawbridge-mcp/drawbridge/shared/sdk"
)

// thirdParty begins the name of a plugin's file; the rest is its role.
const thirdParty = "drawbridge-provider-"

// runPlugin is this binary as a third-party plugin.
func runPlugin(role string) {
	switch role {
	case "hello":
		fmt.Println("hello")
	case "dies":
		_, _ = fmt.Fprintln(os.Stderr, "reading the licence\nError: the licence has expired")
		os.Exit(1)
	}
	plays := rogue{role: role, stopped: make(chan struct{})}
	if role == tells {
		sdk.Serve(&teller{plays})
		return
	}
	sdk.Serve(&plays)
}

// program is a file that is declared as a plugin.
type program struct{ name, path, block string }

// plugin puts this binary into the place, to play a role.
func plugin(t testing.TB, p hosttest.Place, role string) program {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	return file(t, p, role, self, 0o700)
}

// file puts a file into the place and declares it as a plugin.
func file(t testing.TB, p hosttest.Place, name string, content []byte, mode os.FileMode) program {
	t.Helper()
	path := p.Path(thirdParty + name)
	if err := os.WriteFile(path, content, mode); err != nil {
		t.Fatal(err)
	}
	block := fmt.Sprintf("plugin %s {\n  path = %s\n  sha256 = \"%x\"\n}\n", quote(name), quote(path), sha256.Sum256(content))
	return program{name, path, block}
}

// rogue is a plugin that is its own MCP server, and whose one tool breaks the rules
// of the stream that carries the call.
type rogue struct {
	role    string
	stopped chan struct{}
}

func (r *rogue) Describe(ctx context.Context) (contract.Description, error) {
	d := contract.Description{Name: "rogue", Version: "1"}
	switch r.role {
	case "mute":
		<-ctx.Done()
	case "nonsense":
		text := json.RawMessage(`"string"`)
		d.Name = strings.Repeat("n\n\x1b[31m", 1000)
		d.Config = contract.Schema{
			Attributes: []contract.Attribute{
				{Name: "", Type: text}, {Name: "a", Type: json.RawMessage(`{"a`)}, {Name: "a", Type: text}, {Name: "a", Type: text},
				{Name: "b c\n", Type: json.RawMessage(`["object",{"x":["list"]}]`)}, {Name: "d", Type: text, Default: json.RawMessage(`[1`)},
			},
			Blocks: []contract.Block{{Name: "a", MinItems: math.MaxUint32, MaxItems: 1}, {Name: ""}},
		}
	}
	return d, nil
}

func (r *rogue) Validate(context.Context, contract.Config) (contract.Diagnostics, error) {
	if r.role != "faultfinder" {
		return nil, nil
	}
	return contract.Diagnostics{
		{Severity: contract.Warning, Summary: "\x1b[2Jodd\r\n", Path: contract.Path{contract.AttributeStep("none"), contract.IndexStep(-1)}},
		{Severity: contract.Error, Summary: strings.Repeat("long ", 10000), Path: contract.Path{contract.IndexStep(math.MaxInt64), contract.KeyStep("\x00")}},
	}, nil
}

func (r *rogue) Start(context.Context, contract.StartRequest) (contract.Diagnostics, error) {
	if r.role == "refuser" {
		return nil, errors.New("no\nstart\x00today")
	}
	return nil, nil
}

// Exchange answers as a server does, until its tool is called.
func (r *rogue) Exchange(ctx context.Context, conn contract.Conn) error {
	frames := make(chan contract.Frame)
	go func() {
		defer close(frames)
		for {
			f, err := conn.Recv()
			if err != nil {
				return
			}
			select {
			case frames <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
	var whole bytes.Buffer
	for {
		select {
		case f, ok := <-frames:
			if !ok {
				return nil
			}
			whole.Write(f.Data)
			if !f.Last {
				continue
			}
			if err := r.answer(conn, f.Seq, whole.Bytes()); err != nil {
				return err
			}
			whole.Reset()
		case <-r.stopped:
			return conn.Send(contract.Exited{})
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *rogue) Stop(context.Context, contract.StopRequest) (contract.ExitStatus, error) {
	if r.role == "stayer" {
		select {}
	}
	select {
	case <-r.stopped:
	default:
		close(r.stopped)
	}
	return contract.ExitStatus{}, nil
}

// answer answers one message.
func (r *rogue) answer(conn contract.Conn, seq uint64, raw []byte) error {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Arguments struct{ Do string } }
	}
	if request := json.Unmarshal(raw, &m) == nil && m.ID != nil; !request {
		return nil
	}
	reply := func(member, text string) contract.Chunk {
		return contract.Chunk{Data: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%q:%s}`, m.ID, member, text), Last: true}
	}
	switch m.Method {
	case "initialize":
		return conn.Send(reply("result", `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"rogue","version":"1"}}`))
	case "tools/list":
		return conn.Send(reply("result", `{"tools":[{"name":"evil","inputSchema":{"type":"object"}}]}`))
	case "tools/call":
		return misdeeds[m.Params.Arguments.Do](conn, seq, reply("result", `{"content":[]}`))
	}
	return conn.Send(reply("error", `{"code":-32601,"message":"no such method"}`))
}

// misdeeds are what a plugin may do in place of answering; ok is a good answer. An
// error ends the stream.
var misdeeds = map[string]func(conn contract.Conn, seq uint64, ok contract.Chunk) error{
	"nothing wrong": func(c contract.Conn, _ uint64, ok contract.Chunk) error { return c.Send(ok) },
	"no JSON":       sends(chunk("\x00\xff not JSON"), chunk("{"), chunk("]")),
	"no object":     sends(chunk("42"), chunk(`"text"`), chunk("[]"), chunk("null"), chunk("{}")),
	"a line break":  sends(chunk("{\"jsonrpc\":\"2.0\",\n\"id\":1,\"result\":{}}")),
	"empty":         sends(contract.Chunk{Last: true}),
	"much noise": func(c contract.Conn, _ uint64, ok contract.Chunk) error {
		for range 2000 {
			if err := c.Send(contract.Noise{Line: bytes.Repeat([]byte("\x1b[0m\x00"), 10_000)}); err != nil {
				return err
			}
		}
		return c.Send(ok)
	},
	"never the last": func(c contract.Conn, _ uint64, _ contract.Chunk) error {
		for range 8 { // over the provider's max_message
			if err := c.Send(contract.Chunk{Data: bytes.Repeat([]byte(" "), 512<<10)}); err != nil {
				return err
			}
		}
		return nil
	},
	"noise inside": func(c contract.Conn, seq uint64, ok contract.Chunk) error {
		return sends(contract.Chunk{Data: []byte(`{"jsonrpc":"2.0","id":`)}, contract.Noise{}, ok)(c, seq, ok)
	},
	"nobody's": func(c contract.Conn, seq uint64, ok contract.Chunk) error {
		return sends(chunk(`{"jsonrpc":"2.0","id":987654321,"result":{}}`), chunk(`{"jsonrpc":"2.0","id":"x","result":{}}`),
			contract.TooLarge{ID: json.RawMessage("123456789"), Size: 1 << 40}, contract.TooLarge{}, contract.Undelivered{Seq: 1 << 60}, ok)(c, seq, ok)
	},
	"too large": func(c contract.Conn, _ uint64, ok contract.Chunk) error {
		var m struct{ ID json.RawMessage }
		if err := json.Unmarshal(ok.Data, &m); err != nil {
			return err
		}
		return c.Send(contract.TooLarge{ID: m.ID, Size: math.MaxInt64})
	},
	"both words": func(c contract.Conn, seq uint64, ok contract.Chunk) error {
		return sends(ok, contract.Undelivered{Seq: seq, Reason: "\x00not\n"}, ok, contract.Undelivered{Seq: seq})(c, seq, ok)
	},
	"undelivered": func(c contract.Conn, seq uint64, ok contract.Chunk) error {
		return sends(contract.Undelivered{Seq: seq, Reason: strings.Repeat("because\x1b ", 1000)}, ok)(c, seq, ok)
	},
	"odd requests": func(c contract.Conn, seq uint64, ok contract.Chunk) error {
		return sends(chunk(`{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}`), chunk(`{"jsonrpc":"2.0","id":1e400,"method":"\u0000"}`),
			chunk(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{}}}`),
			chunk(`{"jsonrpc":"2.0","method":"notifications/message","params":[]}`), ok)(c, seq, ok)
	},
	"exited, and more": sends(contract.Exited{Status: contract.ExitStatus{Code: math.MinInt32, Signal: math.MaxInt32, StderrTail: strings.Repeat("\x00\n", 10_000)}}, contract.Spoke{}),
	"hangs up":         func(contract.Conn, uint64, contract.Chunk) error { return errors.New("enough\nof\x00this") },
	"exits":            func(contract.Conn, uint64, contract.Chunk) error { os.Exit(9); return nil },
	"panics":           func(contract.Conn, uint64, contract.Chunk) error { panic("on purpose\n{\"@message\": 1}") },
}

func chunk(text string) contract.Chunk { return contract.Chunk{Data: []byte(text), Last: true} }

// sends sends events in place of an answer.
func sends(events ...contract.Event) func(contract.Conn, uint64, contract.Chunk) error {
	return func(c contract.Conn, _ uint64, _ contract.Chunk) error {
		for _, e := range events {
			if err := c.Send(e); err != nil {
				return err
			}
		}
		return nil
	}
}
