package front

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// harmless answers every call: what a client may do to the broker is not the
// matter here.
type harmless struct{ *fakeBroker }

func (harmless) Call(_ context.Context, c broker.Call) broker.Reply {
	_ = c.Notify(fromServer(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`))
	if c.Request.Size()%2 == 0 {
		return broker.Reply{Err: &rpc.Error{Code: broker.CodeUnavailable, Message: "no"}}
	}
	return broker.Reply{Message: fromServer(`{"jsonrpc":"2.0","id":7,"result":{"content":[],"_meta":{"drawbridge/x":1}}}`)}
}

func seeds(f *testing.F) []string {
	f.Helper()
	inner := modernMeta[len(`"_meta":{`) : len(modernMeta)-1]
	return []string{
		initializeLine("2025-11-25"),
		listLine,
		call("1", "echo", `{"a":[1.0,"\ud800"]}`, `"progressToken":"p"`),
		call(`"\u0000"`, "echo", "", inner),
		`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"AAAA",` + modernMeta + `}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{"level":"debug"}}`,
		`{"jsonrpc":"2.0","id":"x","result":{}}`,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`,
		"{\"jsonrpc\":\"2.0\",\r\"id\":1,\"method\":\"ping\"}",
		`{"jsonrpc":"2.0","id":4,"method":"server/discover","params":{"_meta":{}}}`,
	}
}

// FuzzStdio feeds arbitrary bytes to the face on stdio. Whatever they are, it
// serves to their end, and writes nothing but JSON-RPC messages, one a line.
func FuzzStdio(f *testing.F) {
	s := newServer(f, harmless{newFakeBroker("echo")}, func(o *Options) { o.MaxRequest = 4 << 10 })
	var session bytes.Buffer
	for _, line := range seeds(f) {
		f.Add([]byte(line + "\n"))
		session.WriteString(line + "\n")
	}
	f.Add(session.Bytes())
	f.Fuzz(func(t *testing.T, input []byte) {
		var out bytes.Buffer
		if err := s.ServeStdio(context.Background(), bytes.NewReader(input), &out); err != nil {
			t.Fatalf("ServeStdio = %v", err)
		}
		for line := range bytes.Lines(out.Bytes()) {
			var m struct {
				JSONRPC string `json:"jsonrpc"`
			}
			if err := json.Unmarshal(line, &m); err != nil || m.JSONRPC != "2.0" || line[len(line)-1] != '\n' {
				t.Fatalf("wrote %q: %v", line, err)
			}
		}
		if n := len(s.audience.all); n != 0 {
			t.Fatalf("%d clients are still listened to", n)
		}
	})
}

// FuzzHTTPBody posts arbitrary bytes to the face on HTTP, in a session and with
// the headers of a modern request. Whatever they are, they get an HTTP response,
// and one that says to be JSON is.
func FuzzHTTPBody(f *testing.F) {
	s := newServer(f, harmless{newFakeBroker("echo")}, func(o *Options) { o.MaxRequest = 4 << 10 })
	h := s.Handler(HTTPOptions{Listen: "127.0.0.1:7420", Gate: newFakeGate()})
	send := func(body []byte, headers ...string) *httptest.ResponseRecorder {
		// A subscription would go on for as long as its client listens.
		ctx, cancel := context.WithCancel(context.Background())
		if bytes.Contains(body, []byte("listen")) {
			cancel()
		}
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", bytes.NewReader(body))
		r.Host = "127.0.0.1:7420"
		r.Header.Set("Authorization", "Bearer "+testToken)
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	id := send([]byte(initializeLine("2025-11-25"))).Header().Get("Mcp-Session-Id")
	for _, line := range seeds(f) {
		f.Add([]byte(line), "tools/call", "echo")
	}
	f.Fuzz(func(t *testing.T, body []byte, method, name string) {
		for _, headers := range [][]string{
			{"Mcp-Session-Id", id},
			{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name},
		} {
			w := send(body, headers...)
			switch w.Code {
			case 200, 202, 400, 404, 413, 503:
			default:
				t.Fatalf("status %d", w.Code)
			}
			if w.Header().Get("Content-Type") == typeJSON && !json.Valid(w.Body.Bytes()) {
				t.Fatalf("body %q", w.Body)
			}
			// Escaped, the method may be one that the body does not show.
			if w.Code == 200 && w.Body.Len() == 0 {
				t.Fatal("200 without a body")
			}
		}
		for _, w := range s.sessions.byID {
			if w.id != id {
				s.endWebSession(w)
			}
		}
	})
}

// FuzzArguments compares a header with arbitrary arguments. When it lets a call
// pass, whoever reads the arguments, first, last or any spelling of a name, reads
// what the header says.
func FuzzArguments(f *testing.F) {
	b := newFakeBroker()
	b.setAnnotated(f, annotated)
	tool := b.View(broker.Caller{}).Tools()[0]
	for _, arguments := range []string{
		`{"region":"us"}`, `{"Region":"us"}`, `{"region":"us","region":"eu"}`, `{"count":42.0}`, `null`, `[]`,
		`{"options":{"dry":true},"region":null}`, `{"region":"\ud800"}`, `{"region":{"region":"us"}}`,
	} {
		f.Add([]byte(arguments), "us", "42", "true")
	}
	f.Fuzz(func(t *testing.T, arguments []byte, region, count, dry string) {
		m, err := rpc.Parse(rpc.FromClient, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":`+string(arguments)+`}}`))
		if err != nil {
			return
		}
		r := &request{Message: m, header: http.Header{}}
		for i, value := range []string{region, count, dry} {
			if value != "" {
				r.header.Set(tool.Headers[i].Header, value)
			}
		}
		if r.argumentsMirrored(tool) != nil {
			return
		}
		var loose struct { // takes any spelling, and the last of several
			Region any
		}
		if json.Unmarshal(m.Get("params", "arguments"), &loose) != nil {
			return // not an object
		}
		if text, ok := loose.Region.(string); ok {
			if said, ok := mcp.DecodeHeaderValue(region); !ok || said != text {
				t.Fatalf("passed: region %q under the header %q", text, region)
			}
		} else if loose.Region != nil || region != "" {
			t.Fatalf("passed: region %v under the header %q", loose.Region, region)
		}
	})
}
