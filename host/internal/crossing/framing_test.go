package crossing

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

const mib = 1 << 20

// inline lets results of any size pass as they are.
var inline = limits(`inline_result = "64MiB"`)

// isBig checks that a text is the one that the tool big returns.
func isBig(t testing.TB, what, text string, length int) {
	t.Helper()
	if text != fakeserver.BigText(length) {
		t.Errorf("%s: %d bytes, beginning with %.40q, want %d of the server's", what, len(text), text, length)
	}
}

// TestC042_LinesOfAnyLength: frames around 64 KiB and far above pass whole. One over
// max_message ends its own call, and the same process serves on.
func TestC042_LinesOfAnyLength(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake", body: inline},
			provider{name: "small", body: limits("inline_result = \"1MiB\"\n    max_message = \"1MiB\"")}))
		for _, frame := range []int{65535, 65536, 65537, mib, 10 * mib} {
			text := hosttest.CallTool(t, c, "fake_big", fmt.Sprintf(`{"frame":%d}`, frame)).Text()
			isBig(t, fmt.Sprintf("a frame of %d bytes", frame), text, len(text))
			if envelope := frame - len(text); envelope < 60 || envelope > 120 {
				t.Errorf("a frame of %d bytes brought a text of %d", frame, len(text))
			}
		}
		if got := hosttest.CallTool(t, c, "fake_echo", `{"text":"after"}`).Text(); got != "after" {
			t.Errorf("echo: %q", got)
		}
		before := nonce(t, c, "small")
		e := errorOf(t, tool(t, c, "small_big", `{"bytes":2097152}`))
		if e.Data.Outcome != "unknown" || e.Data.Reason != "result_too_large" || !e.Data.Dispatched {
			t.Errorf("over the limit: %+v", e)
		}
		says(t, "the error", e.Message, "max_message", "1048576")
		if after := nonce(t, c, "small"); after != before {
			t.Errorf("after it process %s serves, before it %s", after, before)
		}
	})
}

// TestC043_NoiseEndsNothing: what a server prints besides its frames is counted for
// its provider and reaches no client. (The count is for `status` to show; here the
// log has a line for each.)
func TestC043_NoiseEndsNothing(t *testing.T) {
	setting{flags: []string{"--log-level", "debug"}}.transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake", args: []string{"--noise"}}, provider{name: "quiet"}))
		hosttest.CallTool(t, c, "quiet_echo", "{}")
		for _, text := range []string{"one", "two", "three"} {
			if got := hosttest.CallTool(t, c, "fake_echo", fmt.Sprintf(`{"text":%q}`, text)).Text(); got != text {
				t.Errorf("echo: %q", got)
			}
		}
		if all := strings.Join(names(t, c), " "); !strings.Contains(all, "fake_echo") {
			t.Errorf("listed: %s", all)
		}
		rounds := 1 // once at its start, then before each frame
		for _, e := range fakeserver.Dir(logged(t, p, "fake"), fakeserver.DirIn) {
			if m := e.Message(); m.ID != nil && m.Method != "" {
				rounds++
			}
		}
		noise := func(provider string) int {
			n := 0
			for line := range strings.Lines(c.host().Said()) {
				if strings.Contains(line, "noise on standard output") && strings.Contains(line, "provider="+provider+" ") {
					n++
				}
			}
			return n
		}
		eventually(t, "not all noise is counted", func() bool { return noise("fake") >= 4*rounds })
		if fake, quiet := noise("fake"), noise("quiet"); fake != 4*rounds || quiet != 0 {
			t.Errorf("%d lines of noise in %d rounds, want four in each; %d of the quiet server", fake, rounds, quiet)
		}
		for _, m := range c.Heard() {
			if bytes.Contains(m.Raw, []byte("level")) || bytes.Contains(m.Raw, []byte("ready")) {
				t.Errorf("the client heard %s", m.Raw)
			}
		}
	})
}

// TestC044_AChattyServer writes a quarter of a megabyte to stderr before each of a
// hundred answers, without a newline: nothing blocks, and no memory grows with it.
func TestC044_AChattyServer(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake", args: []string{"--stderr-flood", "262144"}}))
		call := func(n int) {
			for range n {
				began := time.Now()
				if got := hosttest.CallTool(t, c, "fake_echo", `{"text":"still here"}`).Text(); got != "still here" {
					t.Fatalf("echo: %q", got)
				}
				if took := time.Since(began); took > atOnce {
					t.Errorf("a call took %v", took)
				}
			}
		}
		call(50) // by now everything that is kept is full
		pids := map[string]int{"host": c.host().PID(), "plugin": onlyOne(t, plugins(p, "fake")).PID}
		before := map[string]int{}
		for name, pid := range pids {
			before[name] = rss(t, pid)
		}
		call(100)
		for name, pid := range pids {
			grown := rss(t, pid) - before[name]
			t.Logf("%s: %d KiB, and %d more after 25 MiB of stderr", name, before[name], grown)
			if grown > 2*5*1024 && !hosttest.Race { // the detector keeps what it likes
				t.Errorf("the %s has grown by %d KiB", name, grown)
			}
		}
		r := tool(t, c, "fake_exit", `{"code":5,"stderr":"\nthe end"}`)
		if e := errorOf(t, r); !strings.Contains(e.Message, "the end") || len(r.Raw) > 8<<10 {
			t.Errorf("an error of %d bytes: %.300s", len(r.Raw), e.Message)
		}
		kept := 0
		_ = filepath.WalkDir(p.Path("state/logs"), func(_ string, one fs.DirEntry, err error) error {
			if err != nil {
				t.Error(err)
				return nil
			}
			if info, err := one.Info(); err == nil && info.Mode().IsRegular() {
				kept += int(info.Size())
			}
			return nil
		})
		if kept == 0 || kept > 50*mib {
			t.Errorf("the logs have %d bytes", kept)
		}
	})
}

func onlyOne(t testing.TB, all []hosttest.Process) hosttest.Process {
	t.Helper()
	if len(all) != 1 {
		t.Fatalf("%d processes, want one: %+v", len(all), all)
	}
	return all[0]
}

// rss is a process's resident memory in KiB.
func rss(t testing.TB, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no VmRSS of process %d", pid)
	return 0
}

// TestC046_LongRequests: one of 300 KB passes, one over max_request is refused under
// its id, and the session lives. (Over HTTP: 413.)
func TestC046_LongRequests(t *testing.T) {
	long := func(bytes int) string { return `{"text":"` + fakeserver.BigText(bytes) + `"}` }
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake", body: inline}))
		isBig(t, "300 KB", hosttest.CallTool(t, c, "fake_echo", long(300<<10)).Text(), 300<<10)
		if h, ok := c.(overHTTP); ok {
			r, status := h.Raw(t, called("46", "fake_echo", long(20*mib)))
			if status != http.StatusRequestEntityTooLarge {
				t.Errorf("20 MiB: HTTP %d: %.300s", status, r.Raw)
			}
			says(t, "the error", string(r.Raw), "max_request")
		} else {
			e := errorOf(t, c.begin(t, "46", called("46", "fake_echo", long(20*mib)))())
			if e.Code != codeInvalidRequest {
				t.Errorf("20 MiB: %+v", e)
			}
			says(t, "the error", e.Message, "max_request")
		}
		if got := hosttest.CallTool(t, c, "fake_echo", `{"text":"small"}`).Text(); got != "small" {
			t.Errorf("echo: %q", got)
		}
		if n := len(received(t, p, "fake")); n != 2 {
			t.Errorf("the server received %d calls, want 2", n)
		}
	})
}

// TestC108_NoLimitOfTheLibrary: messages over gRPC's 4 MiB pass in both directions
// and in a list; what is over a limit of ours is told by the name of the setting.
func TestC108_NoLimitOfTheLibrary(t *testing.T) {
	const fillers, each = 60, 100 << 10
	filler := []string{"--tool-count", strconv.Itoa(fillers), "--tool-bytes", strconv.Itoa(each)}
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{name: "fake", args: filler, body: inline},
			provider{name: "small", body: limits(`max_message = "1MiB"`)},
			provider{name: "long", args: filler, body: limits("max_list_bytes = \"1MiB\"\n    start_timeout = \"5s\"") + neverAgain}))
		// First, for once it has failed the provider is not tried again for long.
		list := errorOf(t, tool(t, c, "long_echo", "{}"))
		isBig(t, "a result", hosttest.CallTool(t, c, "fake_big", fmt.Sprintf(`{"bytes":%d}`, 5*mib)).Text(), 5*mib)
		argument := `{"text":"` + fakeserver.BigText(5*mib) + `"}`
		isBig(t, "an argument", hosttest.CallTool(t, c, "fake_echo", argument).Text(), 5*mib)
		found := 0
		for _, d := range hosttest.Definitions(t, c) {
			if strings.HasPrefix(d.Name, "fake_filler_") {
				found++
				if !bytes.Contains(d.Raw, []byte(`"`+fakeserver.BigText(each)+`"`)) {
					t.Errorf("%s is not whole", d.Name)
				}
			}
		}
		if found != fillers {
			t.Errorf("%d of %d tools are listed", found, fillers)
		}
		e := errorOf(t, tool(t, c, "small_echo", argument))
		if e.Data.Outcome != "unavailable" || e.Data.Reason != "message_too_large" || e.Data.Dispatched || e.Data.Retry != "never" {
			t.Errorf("an argument over the limit: %+v", e)
		}
		for what, message := range map[string][2]string{
			"an argument": {e.Message, "max_message"},
			"a result":    {errorOf(t, tool(t, c, "small_big", `{"bytes":2097152}`)).Message, "max_message"},
			"a list":      {list.Message, "max_list_bytes"},
		} {
			says(t, "the error about "+what, message[0], message[1], "1048576")
			for _, bad := range []string{"4194304", "ResourceExhausted", "grpc", "rpc error"} {
				if strings.Contains(message[0], bad) {
					t.Errorf("the error about %s says %q: %s", what, bad, message[0])
				}
			}
		}
	})
}

// TestC099_AllPages: a list in pages is read to its end, and one that fails in the
// middle is no list. (Resources, templates and prompts come later.)
func TestC099_AllPages(t *testing.T) {
	pages := []string{"--tools", "none", "--tool-count", "120", "--pages", "50"}
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, `list_wait = "30s"`, provider{name: "fake", args: pages},
			provider{name: "torn", args: append([]string{"--pages-fail-at", "2"}, pages...), body: limits(`start_timeout = "5s"`) + neverAgain}))
		e := errorOf(t, tool(t, c, "torn_filler_0001", "{}"))
		if e.Data.Outcome != "unavailable" {
			t.Errorf("a tool of a list that failed: %+v", e)
		}
		says(t, "the error", e.Message, "tools/list", "this page is broken")
		listed := map[string]bool{}
		for _, name := range names(t, c) {
			listed[name] = true
			if strings.HasPrefix(name, "torn_") {
				t.Errorf("%s of a list that failed is listed", name)
			}
		}
		for i := 1; i <= 120; i++ {
			if name := fmt.Sprintf("fake_filler_%04d", i); !listed[name] {
				t.Errorf("%s is not listed", name)
			}
		}
		if len(listed) != 120 {
			t.Errorf("%d tools are listed", len(listed))
		}
		if n := len(fakeserver.Method(logged(t, p, "fake"), "tools/list")); n != 3 {
			t.Errorf("the server was asked for %d pages", n)
		}
	})
}

// TestC102_EveryKindOfContent passes as a client of the server itself gets it. (The
// same blocks in a prompt come with prompts.)
func TestC102_EveryKindOfContent(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		cmd := exec.Command(fakeserver.Build(t), "--life", "5m")
		cmd.Dir, cmd.Env = p.Dir, p.Env()
		direct := hosttest.Open(t, hosttest.StartStdio(t, cmd)).Request(t, "tools/call", `{"name":"blocks","arguments":{}}`)
		c := open(config(t, p, "", provider{name: "fake", body: inline}))
		r := tool(t, c, "fake_blocks", "{}")
		if direct.Result == nil || !bytes.Equal(r.Result, direct.Result) {
			t.Errorf("through the host\n%.500s\nwant\n%.500s", r.Raw, direct.Raw)
		}
		var kinds []string
		for _, block := range hosttest.ParseResult(t, "blocks", r.Result).Content {
			kinds = append(kinds, block.Type)
		}
		if got, want := fmt.Sprint(kinds), "[text image audio resource resource resource_link x-new]"; got != want {
			t.Errorf("blocks %s, want %s", got, want)
		}
	})
}
