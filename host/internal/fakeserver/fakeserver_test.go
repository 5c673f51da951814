package fakeserver

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fake is one running fake server under test.
type fake struct {
	t     *testing.T
	log   string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
}

func run(t *testing.T, args ...string) *fake {
	t.Helper()
	f := &fake{t: t, log: filepath.Join(t.TempDir(), "log")}
	f.cmd = exec.Command(Build(t), append([]string{"--log", f.log, "--life", "1m"}, args...)...)
	in, err := f.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.in, f.lines = in, bufio.NewReader(out)
	t.Cleanup(func() {
		_ = f.in.Close()
		_ = f.cmd.Process.Kill()
		_ = f.cmd.Wait()
	})
	return f
}

func (f *fake) send(line string) {
	f.t.Helper()
	if _, err := io.WriteString(f.in, line+"\n"); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) read() string {
	f.t.Helper()
	line, err := f.lines.ReadString('\n')
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.TrimSuffix(line, "\n")
}

func toolCall(id, tool, args string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}`
}

func TestEchoKeepsBytes(t *testing.T) {
	f := run(t)
	args := `{ "n":9007199254740993, "f":1.0,"e":1e2 }`
	f.send(toolCall("1", "echo", args))
	if got := f.read(); !strings.Contains(got, `"structuredContent":`+args) {
		t.Errorf("structuredContent is not the arguments' bytes: %s", got)
	}
	got := Method(WaitLog(t, f.log, 5*time.Second, func(e []Entry) bool { return len(Dir(e, DirIn)) == 1 }), "tools/call")
	if len(got) != 1 || got[0].Raw != toolCall("1", "echo", args) {
		t.Errorf("log holds %+v", got)
	}
}

func TestPagesLeadToAllTools(t *testing.T) {
	f := run(t, "--tools", "none", "--tool-count", "7", "--pages", "3")
	var names []string
	for cursor := ""; ; {
		f.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + cursor + `}}`)
		var answer struct {
			Result struct {
				Tools []struct {
					Name string `json:"name"`
				} `json:"tools"`
				Next string `json:"nextCursor"`
			} `json:"result"`
		}
		if err := json.Unmarshal([]byte(f.read()), &answer); err != nil {
			t.Fatal(err)
		}
		for _, tool := range answer.Result.Tools {
			names = append(names, tool.Name)
		}
		if answer.Result.Next == "" {
			break
		}
		cursor = `"cursor":"` + answer.Result.Next + `"`
	}
	if len(names) != 7 || !slices.IsSorted(names) {
		t.Errorf("listed %v", names)
	}
}

func TestFrameHasTheSizeAskedFor(t *testing.T) {
	f := run(t)
	for _, size := range []int{200, 65535, 65536, 65537} {
		f.send(toolCall(`"a"`, "big", `{"frame":`+strconv.Itoa(size)+`}`))
		if got := len(f.read()); got != size {
			t.Errorf("a frame of %d came as %d bytes", size, got)
		}
	}
}

func TestCallsRunSideBySideAndCanBeCancelled(t *testing.T) {
	f := run(t)
	f.send(toolCall("1", "slow", `{"ms":60000}`))
	f.send(toolCall("2", "echo", `{"text":"x"}`))
	if got := f.read(); !strings.Contains(got, `"id":2`) {
		t.Errorf("the second call waited: %s", got)
	}
	f.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	WaitLog(t, f.log, 5*time.Second, func(e []Entry) bool {
		return slices.ContainsFunc(Dir(e, DirNote), func(n Entry) bool { return n.Raw == "cancelled 1" })
	})
}

func TestModernWantsItsMeta(t *testing.T) {
	f := run(t, "--modern")
	for _, step := range []struct{ send, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, "-32601"},
		{`{"jsonrpc":"2.0","id":2,"method":"server/discover"}`, "-32602"},
		{`{"jsonrpc":"2.0","id":3,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
			`"supportedVersions":["2026-07-28"]`},
	} {
		f.send(step.send)
		if got := f.read(); !strings.Contains(got, step.want) {
			t.Errorf("%s\ngot %s, want %s", step.send, got, step.want)
		}
	}
}

func TestHTTPSessions(t *testing.T) {
	f := run(t, "--http", "127.0.0.1:0")
	started := WaitLog(t, f.log, 5*time.Second, func(e []Entry) bool { return len(Dir(e, DirListen)) == 1 })
	url := Dir(started, DirListen)[0].Raw
	post := func(session, body string) (*http.Response, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(headerSession, session)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(text)
	}
	if res, _ := post("nope", toolCall("1", "get", "{}")); res.StatusCode != http.StatusNotFound {
		t.Errorf("unknown session: %s", res.Status)
	}
	res, _ := post("", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`)
	session := res.Header.Get(headerSession)
	if res, text := post(session, toolCall("1", "inc", "{}")); res.Header.Get("Content-Type") != "application/json" || !strings.Contains(text, `"value":1`) {
		t.Errorf("inc: %s %s", res.Status, text)
	}
	_, text := post(session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"progress","arguments":{"n":2},"_meta":{"progressToken":"p"}}}`)
	if strings.Count(text, "event: message") != 3 || strings.Count(text, `"progressToken":"p"`) != 2 {
		t.Errorf("progress: %q", text)
	}
}
