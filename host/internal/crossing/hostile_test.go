package crossing

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// soonAgain restarts a provider that its own misdeeds end, without patience.
const soonAgain = "  restart {\n    intensity = 1000\n    backoff = \"10ms\"\n    backoff_max = \"100ms\"\n  }\n"

// rubbish is what a peer may write in place of a message. The bytes that are random
// are the same in every run.
func rubbish() map[string][]byte {
	source := rand.NewChaCha8([32]byte{1})
	random := make([]byte, 64<<10)
	_, _ = source.Read(random)
	all := map[string][]byte{
		"random bytes":        random,
		"random lines":        bytes.ReplaceAll(random, random[:1], []byte("\n")),
		"NUL":                 make([]byte, 4096),
		"no UTF-8":            []byte("{\"jsonrpc\":\"2.0\",\"id\":9001,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"\xff\xfe\xed\xa0\x80\"}]}}\n"),
		"CR":                  []byte("{\"jsonrpc\":\"2.0\",\"id\":9001,\r\"result\":{}}\r{\"a\":1}\n"),
		"half a message":      []byte("{\"jsonrpc\":\"2.0\",\"id\":9001,\"resu\n"),
		"a long line":         append(bytes.Repeat([]byte("x"), 3<<20), '\n'),
		"a long string":       []byte("{\"jsonrpc\":\"2.0\",\"id\":\"" + strings.Repeat("y", 3<<20) + "\",\"result\":{}}\n"),
		"deep":                []byte("{\"jsonrpc\":\"2.0\",\"id\":9001,\"result\":" + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + "}\n"),
		"many small messages": bytes.Repeat([]byte("{\"jsonrpc\":\"2.0\",\"id\":9077,\"result\":{}}\n"), 5000),
		"many empty lines":    bytes.Repeat([]byte("\n"), 100_000),
		"a line for loggers":  []byte("{\"@message\": 1}\n{\"@level\": [], \"@timestamp\": {}, \"@message\": \"x\"}\npanic: not really\n"),
	}
	odd := malformed()
	odd = append(odd,
		`{"jsonrpc":"2.0","id":9001,"result":{},"result":{}}`, `{"jsonrpc":"2.0","id":9001,"result":{},"error":{}}`, `{"jsonrpc":"2.0","id":9001,"error":7}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{"a":[]},"progress":"x"}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress"}`, `{"jsonrpc":"2.0","method":"notifications/message","params":[]}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":{},"data":null}}`,
		`{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}`, `{"jsonrpc":"2.0","id":"x","method":"sampling/createMessage"}`,
		`{"jsonrpc":"2.0","id":"x","method":"roots/list","params":7}`, `{"jsonrpc":"2.0","id":"`+strings.Repeat("z", 1<<20)+`","method":"ping"}`,
	)
	// An answer to one of these is not to be taken for that to a request of the test,
	// whose ids are small numbers.
	for i := range odd {
		odd[i] = smallID.ReplaceAllString(odd[i], `"id":77$1`)
	}
	all["odd messages"] = []byte(strings.Join(slices.DeleteFunc(odd, func(s string) bool { return strings.Contains(s, "\x00") }), "\n") + "\n")
	return all
}

var smallID = regexp.MustCompile(`"id":([0-9]+)`)

// TestHostileServer: whatever a server writes, on stdout or stderr, in the middle of
// a call, the host stays what it is, and another provider serves on. The call itself
// ends, and the server that wrote it is asked again.
func TestHostileServer(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "hostile", body: limits("call_timeout = \"1s\"\n    max_message = \"2MiB\"\n    inline_result = \"1MiB\"") + soonAgain},
			provider{name: "fine"}))
		before := nonce(t, c, "fine")
		for name, text := range rubbish() {
			for _, to := range []string{"stdout", "stderr"} {
				args := fmt.Sprintf(`{"b64":%q,"to":%q}`, base64.StdEncoding.EncodeToString(text), to)
				tool(t, c, "hostile_emit", args) // whatever it is answered with
				if got := textOf(t, tool(t, c, "fine_echo", fmt.Sprintf(`{"text":%q}`, name))); got != name {
					t.Errorf("after %s on %s, the other provider answers %q", name, to, got)
				}
			}
			eventually(t, "after "+name+" the server does not answer any more", func() bool {
				return tool(t, c, "hostile_echo", `{"text":"x"}`).Error == nil
			})
		}
		for _, m := range c.Heard() {
			if m.Method != "notifications/message" && m.Method != "notifications/tools/list_changed" {
				t.Errorf("the client heard %.200s", m.Raw)
			}
		}
		if after := nonce(t, c, "fine"); after != before {
			t.Errorf("the other provider was restarted: %s, %s", before, after)
		}
		unharmed(t, c)
	})
}

// TestHostilePlugin: whatever a plugin sends on the stream, in place of the answer to
// a call, or whenever it is asked.
func TestHostilePlugin(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		text := hostBlock(p, "")
		roles := []string{"rogue", "mute", "nonsense", "faultfinder", "refuser", "stayer"}
		for _, role := range roles {
			text += plugin(t, p, role).block + blocks(t, p, provider{
				name: role, plugin: role, body: limits("start_timeout = \"30s\"\n    call_timeout = \"1s\"\n    stop_grace = \"1s\"\n    max_message = \"2MiB\"\n    inline_result = \"1MiB\"") + soonAgain,
			})
		}
		c := open(p.Write(t, "providers.hcl", text+blocks(t, p, provider{name: "fine"})))
		before := nonce(t, c, "fine")
		misdeed := func(role, name string) {
			var r hosttest.Reply
			eventually(t, fmt.Sprintf("%s: the plugin does not come back", name), func() bool {
				r = tool(t, c, role+"_evil", fmt.Sprintf(`{"do":%q}`, name))
				switch {
				case r.Error == nil || name == "undelivered":
					return true
				case name == "nothing wrong":
					return false
				}
				return errorOf(t, r).Data.Outcome != "unavailable"
			})
			if got := textOf(t, tool(t, c, "fine_echo", fmt.Sprintf(`{"text":%q}`, name))); got != name {
				t.Errorf("after %s, the other provider answers %q", name, got)
			}
		}
		for name := range misdeeds {
			misdeed("rogue", name)
		}
		misdeed("rogue", "nothing wrong")
		misdeed("stayer", "nothing wrong")
		for _, role := range []string{"mute", "nonsense", "faultfinder", "refuser"} {
			e := errorOf(t, tool(t, c, role+"_evil", "{}"))
			if e.Data.Outcome != "unavailable" || e.Data.Dispatched {
				t.Errorf("%s: %+v", role, e)
			}
			if strings.ContainsAny(e.Message, "\x00\x1b\r\n") || len(e.Message) > 4096 {
				t.Errorf("%s: an error of %d bytes: %.300q", role, len(e.Message), e.Message)
			}
		}
		if after := nonce(t, c, "fine"); after != before {
			t.Errorf("the other provider was restarted: %s, %s", before, after)
		}
		unharmed(t, c)
	})
}

// TestHostileClient writes on stdin, or into connections, what is no message at all.
// (What looks like one is C082.)
func TestHostileClient(t *testing.T) {
	t.Run("stdio", func(t *testing.T) {
		p := hosttest.NewPlace(t)
		c := setting{}.stdio(t, p, config(t, p, "", provider{name: "fine"}))
		c.AllowStrays()
		for name, text := range rubbish() {
			c.WriteLine(t, string(text))
			if got := textOf(t, tool(t, c, "fine_echo", fmt.Sprintf(`{"text":%q}`, name))); got != name {
				t.Errorf("after %s: %q", name, got)
			}
		}
		for _, m := range c.Heard() {
			refusal(t, m)
		}
		unharmed(t, c)
	})
	t.Run("http", func(t *testing.T) {
		p := hosttest.NewPlace(t)
		c := dial(t, p.ServeHTTP(t, config(t, p, "", provider{name: "fine"})))
		address, err := url.Parse(c.h.URL)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range rubbish() {
			post(t, c, string(text))
			head := fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: */*\r\n", address.Host, c.h.Token)
			for _, raw := range []string{
				string(text),
				head + "Content-Length: 100000000\r\n\r\n" + string(text),
				head + "Transfer-Encoding: chunked\r\n\r\n" + string(text),
				head + "Content-Length: -1\r\n\r\n", head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + string(text),
				head + "Mcp-Session-Id: " + string(text[:min(len(text), 100)]) + "\r\n\r\n",
			} {
				connection(t, address.Host, raw)
			}
			if got := textOf(t, tool(t, c, "fine_echo", fmt.Sprintf(`{"text":%q}`, name))); got != name {
				t.Errorf("after %s: %q", name, got)
			}
		}
		unharmed(t, c)
	})
}

// connection writes bytes to the host, on a connection of their own, and takes what
// comes, until the host ends it or there is nothing more.
func connection(t testing.TB, address, raw string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { // the host may answer, and hang up, before it has read all
		_, _ = io.WriteString(conn, raw)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	_, err = io.Copy(io.Discard, conn)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Errorf("the host holds a connection with %.40q open", raw)
	}
}
