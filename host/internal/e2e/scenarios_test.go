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
)

// face is a way to the four servers: each of them directly, the host over one of
// its transports, or a stranger's client in front of the host.
type face interface {
	// tools lists the names of all tools, as that way shows them.
	tools(t testing.TB) []string
	// call calls a tool of one server by its own name, with arguments as JSON.
	call(t testing.TB, server, tool, args string) result
}

// result is a tool's result, as far as scenarios look into it.
type result struct {
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	IsError    bool            `json:"isError"`
	Structured json.RawMessage `json:"structuredContent"`
}

func (r result) text() string {
	var all []string
	for _, c := range r.Content {
		all = append(all, c.Text)
	}
	return strings.Join(all, "\n")
}

func resultOf(t testing.TB, what string, raw []byte) result {
	t.Helper()
	var r result
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatalf("%s: no tool result: %v: %.400s", what, err, raw)
	}
	return r
}

// exposed is the name under which the host shows a tool.
func exposed(server, tool string) string { return server + "_" + tool }

// hostFace is the host, seen by a plain client.
type hostFace struct{ c client }

func (f hostFace) tools(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, d := range definitions(t, f.c) {
		names = append(names, d.name)
	}
	return names
}

func (f hostFace) call(t testing.TB, server, tool, args string) result {
	t.Helper()
	return toolCall(t, f.c, exposed(server, tool), args)
}

// directFace is the servers without a host: the scenarios hold for them too, so
// that a scenario that fails only through the host is the host's fault.
type directFace map[string]client

func (f directFace) tools(t testing.TB) []string {
	t.Helper()
	var names []string
	for server, c := range f {
		for _, d := range definitions(t, c) {
			names = append(names, exposed(server, d.name))
		}
	}
	return names
}

func (f directFace) call(t testing.TB, server, tool, args string) result {
	t.Helper()
	return toolCall(t, f[server], tool, args)
}

func toolCall(t testing.TB, c client, name, args string) result {
	t.Helper()
	r := c.request(t, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args))
	if r.Error != nil {
		t.Fatalf("%s: %s", name, r.Error)
	}
	return resultOf(t, name, r.Result)
}

// definition is one entry of a tools/list, as it came.
type definition struct {
	name string
	raw  json.RawMessage
}

func definitions(t testing.TB, c client) []definition {
	t.Helper()
	r := c.request(t, "tools/list", "{}")
	if r.Error != nil {
		t.Fatalf("tools/list: %s", r.Error)
	}
	var list struct {
		Tools      []json.RawMessage `json:"tools"`
		NextCursor *string           `json:"nextCursor"`
	}
	if err := json.Unmarshal(r.Result, &list); err != nil {
		t.Fatal(err)
	}
	if list.NextCursor != nil {
		t.Fatalf("tools/list has a second page: %s", *list.NextCursor)
	}
	var out []definition
	for _, raw := range list.Tools {
		var d struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		out = append(out, definition{d.Name, raw})
	}
	return out
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
	if got := f.call(t, "everything", "echo", `{"message":"über <&> \"the\" bridge"}`).text(); got != `Echo: über <&> "the" bridge` {
		t.Errorf("echo: %q", got)
	}
	if got := f.call(t, "everything", "get-sum", `{"a":2,"b":40}`).text(); got != "The sum of 2 and 40 is 42." {
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
		t.Errorf("get-sum of no numbers is no error: %q", r.text())
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
		t.Fatalf("write_file: %s", r.text())
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("the file on disk: %q, %v; want %q", got, err, text)
	}
	if r := f.call(t, "files", "read_text_file", arg(map[string]string{"path": path})); r.text() != text {
		t.Errorf("read_text_file: %q, want %q", r.text(), text)
	}
	if r := f.call(t, "files", "list_directory", arg(map[string]string{"path": dir})); !strings.Contains(r.text(), "[FILE] note.txt") {
		t.Errorf("list_directory: %q", r.text())
	}
	outside := f.call(t, "files", "read_text_file", arg(map[string]string{"path": "/etc/hostname"}))
	if !outside.IsError || !strings.Contains(outside.text(), "outside allowed directories") {
		t.Errorf("a file outside of the server's folder: %q, an error: %v", outside.text(), outside.IsError)
	}
}

func remember(t *testing.T, f face, what string) {
	t.Helper()
	args := fmt.Sprintf(`{"entities":[{"name":%q,"entityType":"bridge","observations":["raised at dusk"]}]}`, what)
	if r := f.call(t, "memory", "create_entities", args); r.IsError {
		t.Fatalf("create_entities: %s", r.text())
	}
}

func recall(t *testing.T, f face, what string) {
	t.Helper()
	r := f.call(t, "memory", "search_nodes", fmt.Sprintf(`{"query":%q}`, what))
	if !strings.Contains(r.text(), what) || !strings.Contains(r.text(), "raised at dusk") {
		t.Errorf("search_nodes %s: %q", what, r.text())
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
		t.Fatalf("browser_navigate: %s", r.text())
	}
	before := f.call(t, "browser", "browser_snapshot", `{}`)
	ref := button.FindStringSubmatch(before.text())
	if ref == nil || !strings.Contains(before.text(), "raised") || strings.Contains(before.text(), "lowered") {
		t.Fatalf("the first snapshot: %q", before.text())
	}
	click := f.call(t, "browser", "browser_click", fmt.Sprintf(`{"element":"the button","target":%q}`, ref[1]))
	if click.IsError {
		t.Fatalf("browser_click: %s", click.text())
	}
	if r := f.call(t, "browser", "browser_wait_for", `{"text":"lowered 1 times"}`); r.IsError {
		t.Errorf("browser_wait_for: %s", r.text())
	}
	after := f.call(t, "browser", "browser_snapshot", `{}`)
	if !strings.Contains(after.text(), "lowered 1 times") {
		t.Errorf("the second snapshot shows no click: %q", after.text())
	}
	if n := p.clicks.Load(); n != 1 {
		t.Errorf("the page was clicked %d times, want once", n)
	}
	if r := f.call(t, "browser", "browser_close", `{}`); r.IsError {
		t.Errorf("browser_close: %s", r.text())
	}
}
