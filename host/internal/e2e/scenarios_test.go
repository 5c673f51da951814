//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// face is a way to the four servers: each of them directly, the host over one of
// its transports, or a stranger's client in front of the host.
type face interface {
	// tools lists the names of all tools, as that way shows them.
	tools(t testing.TB) []string
	// call calls a tool of one server by its own name, with arguments as JSON.
	call(t testing.TB, server, tool, args string) hosttest.Result
}

// exposed is the name under which the host shows a tool.
func exposed(server, tool string) string { return server + "_" + tool }

// hostFace is the host, seen by a plain client.
type hostFace struct{ c hosttest.Client }

func (f hostFace) tools(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, d := range hosttest.Definitions(t, f.c) {
		names = append(names, d.Name)
	}
	return names
}

func (f hostFace) call(t testing.TB, server, tool, args string) hosttest.Result {
	t.Helper()
	return hosttest.CallTool(t, f.c, exposed(server, tool), args)
}

// directFace is the servers without a host: the scenarios hold for them too, so
// that a scenario that fails only through the host is the host's fault.
type directFace map[string]hosttest.Client

func (f directFace) tools(t testing.TB) []string {
	t.Helper()
	var names []string
	for server, c := range f {
		for _, d := range hosttest.Definitions(t, c) {
			names = append(names, exposed(server, d.Name))
		}
	}
	return names
}

func (f directFace) call(t testing.TB, server, tool, args string) hosttest.Result {
	t.Helper()
	return hosttest.CallTool(t, f[server], tool, args)
}

// listed checks that a few tools of each server are there.
func listed(t *testing.T, f face) {
	t.Helper()
	names := f.tools(t)
	for _, want := range []string{
		"everything_echo", "everything_get-sum", "files_write_file", "files_list_directory",
		"memory_create_entities", "memory_search_nodes", "browser_browser_navigate", "browser_browser_snapshot",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("no tool %s among %v", want, names)
		}
	}
}

func everything(t *testing.T, f face) {
	t.Helper()
	if got := f.call(t, "everything", "echo", `{"message":"über <&> \"the\" bridge"}`).Text(); got != `Echo: über <&> "the" bridge` {
		t.Errorf("echo: %q", got)
	}
	if got := f.call(t, "everything", "get-sum", `{"a":2,"b":40}`).Text(); got != "The sum of 2 and 40 is 42." {
		t.Errorf("get-sum: %q", got)
	}
	r := f.call(t, "everything", "get-structured-content", `{"location":"Chicago"}`)
	var weather struct {
		Temperature float64 `json:"temperature"`
		Conditions  string  `json:"conditions"`
	}
	if err := json.Unmarshal(r.Structured, &weather); err != nil || weather.Conditions == "" {
		t.Errorf("get-structured-content: %v in %s", err, r.Structured)
	}
	if r := f.call(t, "everything", "get-sum", `{"a":"no number"}`); !r.IsError {
		t.Errorf("get-sum of no numbers is no error: %q", r.Text())
	}
}

func filesystem(t *testing.T, f face, dir string) {
	t.Helper()
	path, text := filepath.Join(dir, "note.txt"), "line one\nline two\t\u2713\n"
	arg := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if r := f.call(t, "files", "write_file", arg(map[string]string{"path": path, "content": text})); r.IsError {
		t.Fatalf("write_file: %s", r.Text())
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("the file on disk: %q, %v; want %q", got, err, text)
	}
	if r := f.call(t, "files", "read_text_file", arg(map[string]string{"path": path})); r.Text() != text {
		t.Errorf("read_text_file: %q, want %q", r.Text(), text)
	}
	if r := f.call(t, "files", "list_directory", arg(map[string]string{"path": dir})); !strings.Contains(r.Text(), "[FILE] note.txt") {
		t.Errorf("list_directory: %q", r.Text())
	}
	outside := f.call(t, "files", "read_text_file", arg(map[string]string{"path": "/etc/hostname"}))
	if !outside.IsError || !strings.Contains(outside.Text(), "outside allowed directories") {
		t.Errorf("a file outside of the server's folder: %q, an error: %v", outside.Text(), outside.IsError)
	}
}

func remember(t *testing.T, f face, what string) {
	t.Helper()
	args := fmt.Sprintf(`{"entities":[{"name":%q,"entityType":"bridge","observations":["raised at dusk"]}]}`, what)
	if r := f.call(t, "memory", "create_entities", args); r.IsError {
		t.Fatalf("create_entities: %s", r.Text())
	}
}

func recall(t *testing.T, f face, what string) {
	t.Helper()
	r := f.call(t, "memory", "search_nodes", fmt.Sprintf(`{"query":%q}`, what))
	if !strings.Contains(r.Text(), what) || !strings.Contains(r.Text(), "raised at dusk") {
		t.Errorf("search_nodes %s: %q", what, r.Text())
	}
}

// page is what the browser visits: a button that counts its clicks, on loopback.
type page struct {
	url    string
	clicks atomic.Int32
}

const pageHTML = `<!doctype html><title>The gate</title>
<h1>The gate</h1><button id="b">Lower</button><p id="p">raised</p>
<script>
let n = 0
document.getElementById("b").onclick = async () => {
  n++
  await fetch("/clicked", {method: "POST"})
  document.getElementById("p").textContent = "lowered " + n + " times"
}
</script>`

func newPage(t testing.TB) *page {
	p := &page{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(pageHTML))
	})
	mux.HandleFunc("POST /clicked", func(http.ResponseWriter, *http.Request) { p.clicks.Add(1) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// button is the button's line in a snapshot; its reference is what one clicks.
var button = regexp.MustCompile(`button "Lower".*\[ref=(\w+)\]`)

// browse navigates, takes a snapshot, clicks, and takes a second one. Each is a
// call of its own: they work only if they reach one browser.
func browse(t *testing.T, f face) {
	t.Helper()
	p := newPage(t)
	if r := f.call(t, "browser", "browser_navigate", fmt.Sprintf(`{"url":%q}`, p.url)); r.IsError {
		t.Fatalf("browser_navigate: %s", r.Text())
	}
	before := f.call(t, "browser", "browser_snapshot", `{}`)
	ref := button.FindStringSubmatch(before.Text())
	if ref == nil || !strings.Contains(before.Text(), "raised") || strings.Contains(before.Text(), "lowered") {
		t.Fatalf("the first snapshot: %q", before.Text())
	}
	click := f.call(t, "browser", "browser_click", fmt.Sprintf(`{"element":"the button","target":%q}`, ref[1]))
	if click.IsError {
		t.Fatalf("browser_click: %s", click.Text())
	}
	if r := f.call(t, "browser", "browser_wait_for", `{"text":"lowered 1 times"}`); r.IsError {
		t.Errorf("browser_wait_for: %s", r.Text())
	}
	after := f.call(t, "browser", "browser_snapshot", `{}`)
	if !strings.Contains(after.Text(), "lowered 1 times") {
		t.Errorf("the second snapshot shows no click: %q", after.Text())
	}
	if n := p.clicks.Load(); n != 1 {
		t.Errorf("the page was clicked %d times, want once", n)
	}
	if r := f.call(t, "browser", "browser_close", `{}`); r.IsError {
		t.Errorf("browser_close: %s", r.Text())
	}
}
