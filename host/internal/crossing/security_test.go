package crossing

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// TestC079_NoPageGetsIn: a request whose Host or Origin is not ours is refused
// before its body is looked at, with the token or without; and the host listens on
// loopback alone.
func TestC079_NoPageGetsIn(t *testing.T) {
	p := hosttest.NewPlace(t)
	h := p.ServeHTTP(t, config(t, p, "", provider{name: "fake"}))
	address, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	hello := hosttest.Envelope(1, "initialize", hosttest.Initialize)
	for _, c := range []struct {
		host, origin, body string
		want               int
	}{
		{"evil.example", "", hello, http.StatusForbidden},
		{"evil.example", "", "{no json", http.StatusForbidden},
		{"evil.example:" + address.Port(), "", hello, http.StatusForbidden},
		{"", "http://evil.example", hello, http.StatusForbidden},
		{"", "http://evil.example", "{no json", http.StatusForbidden},
		{"", "null", hello, http.StatusForbidden},
		{"", "http://localhost.evil.example", hello, http.StatusForbidden},
		{"127.0.0.1:" + address.Port(), "", hello, http.StatusOK},
		{"localhost:" + address.Port(), "", hello, http.StatusOK},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+h.Token)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Host = c.host
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != c.want {
			t.Errorf("Host %q, Origin %q: HTTP %s, want %d: %s", c.host, c.origin, res.Status, c.want, body)
		}
	}
	listening := listeners(t, h.PID())
	if len(listening) == 0 {
		t.Error("the host listens nowhere")
	}
	for _, ip := range listening {
		if !ip.IsLoopback() {
			t.Errorf("the host listens on %v", ip)
		}
	}
}

// listeners are the addresses on which a process listens for TCP.
func listeners(t testing.TB, pid int) []net.IP {
	t.Helper()
	own := sockets(t, pid)
	var out []net.IP
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			continue // a system without IPv6
		}
		for line := range strings.Lines(string(text)) {
			const listen = "0A"
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != listen || !own[f[9]] {
				continue
			}
			address, _, _ := strings.Cut(f[1], ":")
			raw, err := hex.DecodeString(address)
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i+4 <= len(raw); i += 4 { // in words of the machine, whose bytes are little-endian
				slices.Reverse(raw[i : i+4])
			}
			out = append(out, net.IP(raw))
		}
	}
	return out
}

// sockets are the inodes of a process's sockets.
func sockets(t testing.TB, pid int) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, file := range files {
		target, _ := os.Readlink(file)
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			out[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return out
}

// malformed are messages that are wrong in ways in which clients are. Their ids are
// far from those of a test's own requests.
func malformed() []string {
	var out []string
	ids := []string{`"never issued"`, `1.5`, `-1`, `1e400`, `"` + strings.Repeat("x", 10<<10) + `"`, `{"a":1}`, `[1]`, `null`, `true`}
	for _, id := range ids {
		out = append(out,
			`{"jsonrpc":"2.0","id":`+id+`,"result":{}}`,
			`{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-1,"message":"x"}}`,
			`{"jsonrpc":"2.0","id":`+id+`}`,
			`{"jsonrpc":"2.0","id":`+id+`,"method":"no/such"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`,
			`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":`+id+`}`,
		)
	}
	return append(out,
		`{"jsonrpc":"2.0","id":9001,"method":"tools/call","params":{"name":"fake_echo","arguments":{"a":`,
		`{"jsonrpc":"2.0","id":9001,"method":`, `{`, `}`, `"`, `nul`, `[]`, `42`, `"text"`, `{}`, "\x00", "\xff\xfe{}",
		`[{"jsonrpc":"2.0","id":9001,"method":"ping"},{"jsonrpc":"2.0","id":9002,"method":"ping"}]`,
		strings.Repeat("[", 1000)+strings.Repeat("]", 1000), strings.Repeat(`{"a":`, 1000)+"1"+strings.Repeat("}", 1000),
		`{"jsonrpc":"2.0","id":9007,"method":"tools/call","params":{"name":"fake_echo","arguments":`+strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000)+`}}`,
		`{"jsonrpc":"2.0","id":9008,"method":"tools/call","params":{"name":7}}`, `{"jsonrpc":"2.0","id":9009,"method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":9010,"method":"tools/list","params":{"cursor":"garbage"}}`, `{"jsonrpc":"2.0","id":9011,"method":""}`,
		`{"jsonrpc":"2.0","id":9012,"method":"initialize","params":{}}`, `{"jsonrpc":"2.0","id":9013,"method":7}`,
	)
}

// TestC082_MalformedMessagesEndNothing: each is refused or dropped, as the
// specification has it, while the calls of others are answered.
func TestC082_MalformedMessagesEndNothing(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake"}))
		var bad func(text string)
		other := c
		switch c := c.(type) {
		case overStdio:
			c.AllowStrays()
			bad = func(text string) { c.WriteLine(t, text) }
		case overHTTP:
			other = c.another(t)
			bad = func(text string) { post(t, c, text) }
		}
		var good sync.WaitGroup
		stop := make(chan struct{})
		good.Go(func() {
			for calls := 0; ; calls++ {
				if got := textOf(t, tool(t, other, "fake_echo", `{"text":"good"}`)); got != "good" {
					t.Errorf("a good call among the bad: %q", got)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		for _, text := range malformed() {
			bad(text)
		}
		close(stop)
		good.Wait()
		if got := textOf(t, tool(t, c, "fake_echo", `{"text":"after"}`)); got != "after" {
			t.Errorf("after them: %q", got)
		}
		for _, m := range c.Heard() {
			refusal(t, m)
		}
		for _, call := range received(t, p, "fake") {
			if !bytes.Contains(call.Params, []byte("good")) && !bytes.Contains(call.Params, []byte("after")) && !bytes.Contains(call.Params, []byte("[[[")) {
				t.Errorf("the server received %.200s", call.Params)
			}
		}
		unharmed(t, c)
	})
}

// post posts what is no message; the answer is an error, or that it was dropped.
func post(t *testing.T, c overHTTP, text string) {
	t.Helper()
	res, err := c.Do(t.Context(), http.MethodPost, text)
	if err != nil {
		t.Errorf("%.80s: %v", text, err)
		return
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Errorf("%.80s: %v", text, err)
	}
	switch res.StatusCode {
	case http.StatusAccepted:
	case http.StatusOK, http.StatusBadRequest:
		var m hosttest.Message
		body = bytes.TrimPrefix(bytes.TrimPrefix(body, []byte("event: message\n")), []byte("data:"))
		if err := json.Unmarshal(body, &m); err != nil {
			t.Errorf("%.80s: HTTP %s: %.200s", text, res.Status, body)
			return
		}
		m.Raw = body
		refusal(t, m)
	default:
		t.Errorf("%.80s: HTTP %s: %.200s", text, res.Status, body)
	}
}

// refusal checks an answer to a malformed message: JSON-RPC's own codes, or that
// there is no such tool. Some of them are odd and well-formed: those get a result.
func refusal(t testing.TB, m hosttest.Message) {
	t.Helper()
	if m.Error == nil {
		return
	}
	switch e := errorOf(t, hosttest.Reply{Message: m}); e.Code {
	case codeParse, codeInvalidRequest, -32601, -32602:
	default:
		if e.Data.Outcome != "denied" {
			t.Errorf("refused with %.300s", m.Raw)
		}
	}
}

// unharmed checks that the host is the process it was, and did not have to survive itself.
func unharmed(t testing.TB, c client) {
	t.Helper()
	if !c.host().Running() {
		t.Error("the host has ended")
	}
	for line := range strings.Lines(c.host().Said()) {
		if strings.Contains(line, "panic") || strings.Contains(line, "fault in the host") || strings.Contains(line, "DATA RACE") {
			t.Errorf("the host said %s", line)
		}
	}
}

// baseSet are the variables that a server has whatever its provider says.
var baseSet = []string{"PATH", "HOME", "LANG", "TMPDIR", "TZ", "USER", "SHELL", "DRAWBRIDGE_INSTANCE"}

// environment asks a fake server for its environment.
func environment(t testing.TB, c client, provider string) map[string]string {
	t.Helper()
	var env map[string]string
	if err := json.Unmarshal(hosttest.CallTool(t, c, provider+"_env", "{}").Structured, &env); err != nil {
		t.Fatal(err)
	}
	return env
}

// TestC083_NothingOfTheHostsEnvironment reaches a plugin or a server but the base
// set, and nothing of one provider's reaches another's.
func TestC083_NothingOfTheHostsEnvironment(t *testing.T) {
	host := setting{env: []string{"CANARY_A=leak1", "AWS_SECRET_ACCESS_KEY=leak2"}}
	host.transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "one", config: `    env = { TOKEN = "t1-of-one" }`},
			provider{name: "two", config: `    env = { TOKEN = "t2-of-two" }`}))
		for name, tokens := range map[string][2]string{"one": {"t1-of-one", "t2-of-two"}, "two": {"t2-of-two", "t1-of-one"}} {
			env := environment(t, c, name)
			if env["TOKEN"] != tokens[0] || env["PATH"] == "" || env["HOME"] != p.Home || env["TMPDIR"] != p.Dir || env["LANG"] == "" {
				t.Errorf("%s has %v", name, env)
			}
			for key := range env {
				if key != "TOKEN" && !slices.Contains(baseSet, key) && !strings.HasPrefix(key, "LC_") {
					t.Errorf("%s has %s", name, key)
				}
			}
			tree := slices.DeleteFunc(p.Processes(), func(one hosttest.Process) bool { return !strings.Contains(one.Mark, "/"+name+"/") })
			if len(tree) < 2 {
				t.Errorf("the tree of %s: %+v, want plugin and server", name, tree)
			}
			for _, process := range tree {
				for _, entry := range process.Env {
					if strings.Contains(entry, "leak") || strings.Contains(entry, tokens[1]) {
						t.Errorf("process %d of %s (%s) has %s", process.PID, name, process.Command, entry)
					}
				}
			}
		}
	})
}

// TestC113_TheProvidersOwnWins over what the host was started with.
func TestC113_TheProvidersOwnWins(t *testing.T) {
	host := setting{env: []string{"HTTP_PROXY=A", "LANG=xx"}}
	host.transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "one", config: `    env = { HTTP_PROXY = "B", LANG = "yy" }`},
			provider{name: "two", config: `    env = { HTTP_PROXY = "", LANG = "" }`}, provider{name: "three"}))
		for name, want := range map[string][2]string{"one": {"B", "yy"}, "two": {"", ""}, "three": {"absent", "xx"}} {
			env := environment(t, c, name)
			for i, key := range []string{"HTTP_PROXY", "LANG"} {
				got, there := env[key]
				if !there {
					got = "absent"
				}
				if got != want[i] {
					t.Errorf("%s has %s=%q, want %q", name, key, got, want[i])
				}
			}
		}
	})
}
