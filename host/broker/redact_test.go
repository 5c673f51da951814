package broker

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/internal/redact"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// cleaner knows the values of secret().
func cleaner(t *testing.T, values ...string) Cleaner {
	t.Helper()
	var r redact.Redactor
	r.AddSecret(values...)
	return Cleaner{Secrets: r.Results, Dir: t.TempDir()}
}

// whole is all of a message.
func whole(t *testing.T, m *rpc.Message) string {
	t.Helper()
	var b strings.Builder
	if _, err := m.Payload().WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSecretsAreTakenOutOfAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		says, want string
		outcome    Outcome
	}{
		"a result": {
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"it is s3\"cret-1"}],"structuredContent":{"n":12345678,"s3\"cret-1":[1]}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"it is [redacted]"}],"structuredContent":{"n":"[redacted]","[redacted]":[1]},"_meta":{"drawbridge/redacted":true}}}`, OK,
		},
		"escapes, numbers and a forged mark": {
			`{"jsonrpc":"2.0","id":12345678,"result":{"content":[{"type":"text","text":"s3\u0022cret-1"}],"n":[12345678,1],"_meta":{"drawbridge/redacted":false,"k":"v"}}}`,
			`{"jsonrpc":"2.0","id":12345678,"result":{"content":[{"type":"text","text":"[redacted]"}],"n":["[redacted]",1],"_meta":{"drawbridge/redacted":true,"k":"v"}}}`, OK,
		},
		"an error of the tool": {
			`{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[{"type":"text","text":"{\"token\":\"s3\\\"cret-1\"}"}]}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[{"type":"text","text":"{\"token\":\"[redacted]\"}"}],"_meta":{"drawbridge/redacted":true}}}`, ToolError,
		},
		"an error": {
			`{"jsonrpc":"2.0","id":1,"error":{"code":12345678,"message":"no s3\"cret-1","data":{"s3\"cret-1":12345678}}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":12345678,"message":"no [redacted]","data":{"[redacted]":"[redacted]"}}}`, RPCError,
		},
		"no secret": {
			`{ "jsonrpc":"2.0", "id":1, "result":{"content":[ ],"s":"s3cret","n":1234567}}`,
			`{ "jsonrpc":"2.0", "id":1, "result":{"content":[ ],"s":"s3cret","n":1234567}}`, OK,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, b := newFake(t, map[string][]string{"shop": {"pay"}})
			b.opts.Cleaner = cleaner(t, `s3"cret-1`, "12345678")
			f.answers(t, c.says)
			reply := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`))
			if reply.Message == nil || reply.Outcome != c.outcome {
				t.Fatalf("%s: %+v", reply.Outcome, reply.Err)
			}
			if got := whole(t, reply.Message); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if reply.Redacted != (c.says != c.want) {
				t.Errorf("redacted: %v", reply.Redacted)
			}
		})
	}
}

// TestSecretsStayWhereTheyAreToStay with redact_results = false.
func TestSecretsStayWhereTheyAreToStay(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay"}})
	b.opts.Cleaner = cleaner(t, "s3cret-1")
	p := b.providers["shop"]
	p.KeepSecrets = true
	b.providers["shop"] = p
	const says = `{"jsonrpc":"2.0","id":1,"result":{"content":"s3cret-1"}}`
	f.answers(t, says)
	reply := b.Call(t.Context(), toolCall(t, `{"name":"shop_pay"}`))
	if got := whole(t, reply.Message); got != says || reply.Redacted {
		t.Errorf("%s, redacted: %v", got, reply.Redacted)
	}
}

// TestWithoutSecretsAnAnswerIsTheMessageThatCame, and so is one that holds none.
func TestWithoutSecretsAnAnswerIsTheMessageThatCame(t *testing.T) {
	m := message(t, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	for name, c := range map[string]Cleaner{"zero": {}, "no secrets": cleaner(t), "secrets": cleaner(t, "s3cret-1")} {
		if got, found, err := c.Answer(m); got != m || found || err != nil {
			t.Errorf("%s: another message, %v, %v", name, found, err)
		}
	}
}

func TestSecretsAreTakenOutOfNotifications(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay"}})
	b.opts.Cleaner = cleaner(t, "s3cret-1", "notifications/progress", "12345678")
	f.do = func(_ context.Context, c session.Call) (*rpc.Message, error) {
		for _, text := range []string{
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":12345678,"message":"at s3cret-1","progress":12345678}}`,
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":["s3cret-1"]}}`,
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":["nothing"]}}`,
		} {
			m, err := rpc.Parse(rpc.FromServer, []byte(text))
			if err != nil {
				return nil, err
			}
			if err := c.Notify(m); err != nil {
				return nil, err
			}
		}
		return message(t, `{"jsonrpc":"2.0","id":1,"result":{}}`), nil
	}
	var heard []string
	call := toolCall(t, `{"name":"shop_pay"}`)
	call.Notify = func(m *rpc.Message) error {
		heard = append(heard, m.Method+" "+whole(t, m))
		return nil
	}
	b.Call(t.Context(), call)
	want := []string{
		`notifications/progress {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":12345678,"message":"at [redacted]","progress":"[redacted]"}}`,
		`notifications/message {"jsonrpc":"2.0","method":"notifications/message","params":{"data":["[redacted]"]}}`,
		`notifications/message {"jsonrpc":"2.0","method":"notifications/message","params":{"data":["nothing"]}}`,
	}
	for i := range want {
		if i >= len(heard) || heard[i] != want[i] {
			t.Fatalf("heard %q,\nwant %q", heard, want)
		}
	}
}

// TestSecretsAreTakenOutOfWhatIsInAFile, which stays in one: a secret across the
// blocks that it is read in, and nothing else changed.
func TestSecretsAreTakenOutOfWhatIsInAFile(t *testing.T) {
	filler := strings.Repeat("x\\n", 200_000)
	text := `{"jsonrpc":"2.0","id":1,"result":{"content":"` + filler + strings.Repeat(`s3cret\u002d1 `, 50_000) + filler + `"}}`
	asm := rpc.NewAssembler(rpc.FromServer, t.TempDir(), 0)
	if _, err := io.Copy(asm, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	m, err := asm.Finish()
	if err != nil {
		t.Fatal(err)
	}
	got, found, err := cleaner(t, "s3cret-1").Answer(m)
	if err != nil || !found {
		t.Fatalf("found: %v, %v", found, err)
	}
	defer func() { _ = got.Close() }()
	out := whole(t, got)
	if !json.Valid([]byte(out)) {
		t.Fatal("it is no JSON any more")
	}
	want := strings.TrimSuffix(strings.ReplaceAll(text, `s3cret\u002d1`, "[redacted]"), "}}") + `,"_meta":{"drawbridge/redacted":true}}}`
	if out != want {
		t.Errorf("%d bytes, want %d", len(out), len(want))
	}
	if _, err := m.Payload().WriteTo(io.Discard); err == nil {
		t.Error("the file of the message that it was made of is still open")
	}
}

// TestAnErrorIsLookedThroughOnceMore: what is put together of several lines may make a
// secret that was in none of them. Where files are is told to "local" alone.
func TestAnErrorIsLookedThroughOnceMore(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay"}})
	granted := access.New(access.Spec{Names: catalog.NamesPrefixed, Projects: []access.Project{{Name: "p", Grants: []*access.Grant{
		{Project: "p", Principals: []string{"local", "ada"}, Provider: "shop", Tools: []string{"*"}},
	}}}})
	b.worlds.policy = func() *access.Policy { return granted }
	b.opts.Redact = func(text string) string { return strings.ReplaceAll(text, "correct horse", "[redacted]") }
	b.opts.Places = func(text string) string { return strings.ReplaceAll(text, "/var/state", "STATE_DIR") }
	f.failing["shop"] = &supervise.Failure{Provider: "shop", Cause: "/var/state/x is correct\nhorse"}
	for who, want := range map[string]string{"local": "/var/state/x is [redacted]", "ada": "STATE_DIR/x is [redacted]"} {
		call := toolCall(t, `{"name":"shop_pay"}`)
		call.Caller.Principal, call.Caller.Project = who, "p"
		if reply := b.Call(t.Context(), call); reply.Err == nil || !strings.Contains(reply.Err.Message, want) {
			t.Errorf("%s is told %+v, want %s", who, reply.Err, want)
		}
	}
}
