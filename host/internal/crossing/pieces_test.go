//go:build linux

package crossing

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// A long secret, and one of lines, no piece of which is in any other text.
const (
	longSecret = "q7Zk2VxT9bLm4RwYc8NhJ5sPdG3fUaEo6XiBt1KyQvMz0WrHgCnSjDlFpAeIuOxTqRzVb7Yk9Lw2Nm4Ps6Gd8Hf1Jc3Kt5XvQy"
	keySecret  = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQDh8Zq3vX1yT4uP\n-----END KEY-----\n"
	// piece is how much of one is not to be seen.
	piece = 10
)

// pieces fails the test if a text holds a piece of a secret.
func pieces(t *testing.T, where, text string) {
	t.Helper()
	for _, secret := range append([]string{longSecret}, strings.Split(keySecret, "\n")[1:3]...) {
		for i := 0; i+piece <= len(secret); i++ {
			if at := strings.Index(text, secret[i:i+piece]); at >= 0 {
				t.Errorf("%s holds a piece of a secret: …%.200s…", where, text[max(0, at-80):])
				return
			}
		}
	}
}

// TestC086_NoPieceOfASecret: wherever a text of a server is cut, split or put together, it
// shows no piece of a secret either: split over writes of standard error, in lines over
// each limit, in noise, in names of members, in progress, in `_meta`, and in what becomes
// an artifact.
func TestC086_NoPieceOfASecret(t *testing.T) {
	p := hosttest.NewPlace(t)
	env := `    env = { LONG = secret("long"), KEY = secret("key") }`
	file := config(t, p, "", provider{name: "fake", config: env, body: "  limits {\n    inline_result = \"4KiB\"\n  }\n  restart {\n    intensity = 1000\n    backoff = \"10ms\"\n    backoff_max = \"20ms\"\n  }"})
	keep(t, p, file, "long", longSecret)
	keep(t, p, file, "key", keySecret)
	h := setting{flags: []string{"--log-level", "debug"}}.http(t, p, file)
	c := dial(t, h)
	check := func(where string, r hosttest.Reply) {
		t.Helper()
		pieces(t, where, string(r.Raw))
		for _, note := range r.Notes {
			pieces(t, "a notification of "+where, string(note.Raw))
		}
		if strings.Contains(string(r.Raw), "unknown_tool") {
			t.Errorf("%s: there is no such tool: %s", where, r.Raw)
		}
	}
	marked := func(where string, r hosttest.Reply) {
		t.Helper()
		if check(where, r); !strings.Contains(string(r.Raw), "[redacted]") {
			t.Errorf("%s holds no mark, so that nothing was said: %.300s", where, r.Raw)
		}
	}
	for _, parts := range []int{1, 2, 3, 7, 50} {
		for _, secret := range []string{longSecret, keySecret} {
			check("split stderr", tool(t, c, "fake_log", fmt.Sprintf(`{"text":%s,"parts":%d,"gap_ms":2}`, encoded("it is "+secret+"."), parts)))
		}
	}
	// The limits of lines: of noise, of a line of standard error, of the host.
	for _, limit := range []int{1 << 10, 3 << 10, 64 << 10} {
		for _, into := range []int{1, piece, len(longSecret) / 2, len(longSecret) - 1} {
			text := strings.Repeat(".", limit-into) + longSecret + strings.Repeat(".", 100<<10)
			end := strings.Repeat(".", 100<<10) + longSecret + strings.Repeat(".", into+(1<<10)-len(longSecret)) + "\n"
			for _, to := range []string{"stderr", "stdout"} {
				check("a long line", tool(t, c, "fake_emit", fmt.Sprintf(`{"to":%q,"b64":%q}`, to, base64.StdEncoding.EncodeToString([]byte(text+"\n"+end)))))
			}
		}
	}
	for _, name := range []string{longSecret, strings.Repeat(".", 40) + longSecret} {
		quoted := encoded(name)
		for _, message := range []string{
			`{"jsonrpc":"2.0",` + quoted + `:1,` + quoted + `:2,"id":$ID,"result":{}}`, `{"jsonrpc":"2.0","id":$ID,"result":{},"error":{"code":1,"message":` + quoted + `}}`,
			`{"jsonrpc":` + quoted + `,"id":7,"result":{}}`, `{"jsonrpc":"2.0","id":` + quoted + `,"result":{}}`, `{"jsonrpc":"2.0","method":` + quoted + `}`,
			`{"jsonrpc":"2.0","id":5,"method":` + quoted + `,"params":{}}`,
		} {
			check("a malformed message", tool(t, c, "fake_log", fmt.Sprintf(`{"to":"stdout","text":%s}`, encoded(message))))
		}
	}
	check("progress", tool(t, c, "fake_notify", fmt.Sprintf(`{"method":"notifications/message","params":{"level":"info","logger":%s,"data":{"k":[%s]},"_meta":{%s:1}}}`, encoded(longSecret), encoded(longSecret), encoded(longSecret))))
	marked("_meta", tool(t, c, "fake_answer", fmt.Sprintf(`{"result":{"_meta":{"a":%s,%s:{"b":[%s]}},"content":[{"type":"text","text":"x","_meta":{"c":%s},"annotations":{"d":%s}}]}}`,
		encoded(longSecret), encoded(longSecret), encoded(keySecret), encoded(longSecret), encoded(longSecret))))
	// The preview of an artifact is cut, its parts are read one by one.
	for _, before := range []int{100, 1000, 1 << 12} {
		text := strings.Repeat(".", before) + longSecret + strings.Repeat("-", 8<<10) + longSecret
		r := tool(t, c, "fake_answer", fmt.Sprintf(`{"result":{"content":[{"type":"text","text":%s}],"structuredContent":{"a":%s}}}`, encoded(text), encoded(text)))
		if check("a large result", r); !strings.Contains(string(r.Raw), `"drawbridge/redacted":true`) {
			t.Errorf("a large result is not marked: %.300s", r.Raw)
		}
	}
	// What was in base64 is decoded.
	b64 := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(".", 5000) + longSecret + strings.Repeat("-", 5000)))
	for _, block := range []string{
		`{"type":"image","mimeType":"image/png","data":"` + b64 + `"}`, `{"type":"audio","mimeType":"audio/wav","data":"` + b64 + `"}`,
		`{"type":"resource","resource":{"uri":"file:///x","mimeType":"text/plain","blob":"` + b64 + `"}}`,
	} {
		r := tool(t, c, "fake_answer", fmt.Sprintf(`{"result":{"content":[%s]}}`, block))
		if check("large data", r); !strings.Contains(string(r.Raw), `"drawbridge/redacted":true`) || !strings.Contains(string(r.Raw), "drawbridge://artifacts/") {
			t.Errorf("large data is not marked, or not kept: %.300s", r.Raw)
		}
	}
	for _, end := range []string{longSecret, strings.Repeat(".", 250) + longSecret, strings.Repeat(".", 150) + longSecret} {
		marked("a crash", tool(t, c, "fake_exit", fmt.Sprintf(`{"stderr":%s,"code":7}`, encoded("panic: "+end+"\n\ngoroutine 1 [running]:\n"+end))))
		check("after a crash", tool(t, c, "fake_echo", `{"text":"x"}`))
	}
	c.Request(t, "tools/call", fmt.Sprintf(`{"name":%s,"arguments":{}}`, encoded("fake_"+longSecret+longSecret)))
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"status", "fake"}, {"logs", "fake", "-n", "-1"}, {"calls", "--json"}, {"calls"}} {
		out, _ := p.Command(t, append(args, "--config", file)...).CombinedOutput()
		pieces(t, fmt.Sprint(args), string(out))
	}
	leave(t, c)
	pieces(t, "the host's log", h.Said())
	err := filepath.WalkDir(p.Path("state"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == p.Path("state/secrets") {
			return skipped(err, entry)
		}
		if entry.Type().IsRegular() {
			text, err := os.ReadFile(path)
			pieces(t, path, string(text))
			return err
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestC086_NoSpaceMakesASecret: where a text is made one line, what stood apart by a tab or
// a line break stands apart by a space.
func TestC086_NoSpaceMakesASecret(t *testing.T) {
	const phrase = "correct horse battery staple"
	p := hosttest.NewPlace(t)
	file := config(t, p, "", provider{name: "fake", args: []string{"--tools", "exit,echo"}, config: `    env = { K = secret("phrase") }`,
		body: "  restart {\n    intensity = 1000\n    backoff = \"10ms\"\n    backoff_max = \"20ms\"\n  }"},
		provider{name: "dies", args: []string{"--stderr", "it is " + strings.ReplaceAll(phrase, " ", "\t"), "--exit-at-start", "3"}, body: "  restart {\n    intensity = 0\n  }"})
	keep(t, p, file, "phrase", phrase)
	h := setting{flags: []string{"--log-level", "debug"}}.http(t, p, file)
	c := dial(t, h)
	said := map[string]string{
		"a crash": string(tool(t, c, "fake_exit", fmt.Sprintf(`{"stderr":%s,"code":7}`, encoded("panic: "+strings.ReplaceAll(phrase, " ", "\t")))).Raw),
		"a start": string(tool(t, c, "dies_echo", "{}").Raw),
	}
	for where, text := range said {
		if !strings.Contains(text, "battery") {
			t.Errorf("%s does not tell what the server said: %s", where, text)
		}
	}
	for _, args := range []string{"status", "status --json", "status dies", "status fake", "logs dies", "call dies echo", "tools", "doctor"} {
		out, _ := p.Command(t, append(strings.Fields(args), "--config", file)...).CombinedOutput()
		said[args] = string(out)
	}
	leave(t, c)
	said["the log"] = h.Said()
	for where, text := range said {
		if i := strings.Index(text, phrase); i >= 0 {
			t.Errorf("%s holds the secret: …%.200s…", where, text[max(0, i-100):])
		}
	}
}
