//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// notebook writes the file that declares the notebook alone, which needs nothing.
func (p place) notebook(t testing.TB) string {
	t.Helper()
	return p.Write(t, "providers.hcl", fmt.Sprintf("host {\n  state_dir = %q\n  list_wait = \"60s\"\n  http {\n    listen = \"127.0.0.1:0\"\n  }\n}\n"+
		"provider \"notebook\" {\n  plugin = \"stdio\"\n  config {\n    command = %q\n  }\n}\n", p.Path("state"), filepath.Join(hosttest.Build(t), "notebook")))
}

// run runs a command of this program.
func (p place) run(t testing.TB, args ...string) {
	t.Helper()
	if _, err := hosttest.Output(t, p.Command(t, args...)); err != nil {
		t.Fatal(err)
	}
}

// model is a language model, as far as a client can tell: it calls the counter, where it is
// offered one, and says what that has answered.
func model(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Tools []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	delta, finish := map[string]any{"role": "assistant", "content": "no counter"}, "stop"
	for _, tool := range asked.Tools {
		if strings.HasSuffix(tool.Function.Name, "notebook_counter") {
			call := map[string]any{"index": 0, "id": "call-1", "type": "function", "function": map[string]any{"name": tool.Function.Name, "arguments": "{}"}}
			delta, finish = map[string]any{"role": "assistant", "tool_calls": []any{call}}, "tool_calls"
		}
	}
	for _, m := range asked.Messages {
		if m.Role == "tool" {
			delta, finish = map[string]any{"role": "assistant", "content": "the counter says " + string(m.Content)}, "stop"
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, choice := range []map[string]any{
		{"index": 0, "delta": delta, "finish_reason": nil},
		{"index": 0, "delta": map[string]any{}, "finish_reason": finish},
	} {
		chunk, err := json.Marshal(map[string]any{"id": "1", "object": "chat.completion.chunk", "choices": []any{choice}})
		if err != nil {
			return
		}
		fmt.Fprintf(w, "data: %s\n\n", chunk)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// TestContinue: what is written into Continue's own file, over stdio and over HTTP with the
// token by reference, is what it connects by, and its calls reach one server. Without the
// token it does not. Then its file is as it was.
func TestContinue(t *testing.T) {
	p := newPlace(t)
	config := p.notebook(t)
	h := p.ServeHTTP(t, config)
	llm := httptest.NewServer(http.HandlerFunc(model))
	defer llm.Close()
	file := filepath.Join(p.Home, ".continue", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprintf("name: mine # and nobody else's\nversion: 1.0.0\nschema: v1\nmodels:\n  - name: fake\n    provider: openai\n    model: gpt-4o\n    apiBase: %s/v1\n    apiKey: none\n    roles: [chat]\n", llm.URL)
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(token string) (string, error) {
		cmd := exec.Command(program(t, "cn"), "--config", file, "--auto", "-p", "count")
		cmd.Dir = p.Dir
		cmd.Env = p.Env(newerNode(t), "DRAWBRIDGE_TOKEN="+token, "CONTINUE_TELEMETRY_ENABLED=0", "CONTINUE_ALLOW_ANONYMOUS_TELEMETRY=0")
		return hosttest.Output(t, cmd)
	}
	if said, err := ask(h.Token); err != nil || !strings.Contains(said, "no counter") {
		t.Fatalf("before: %q, %v", said, err)
	}
	for count, over := range []string{"--http=false", "--http"} {
		p.run(t, "client", "add", "continue", "--config", config, over)
		said, err := ask(h.Token)
		if want := fmt.Sprintf(`"%d`, count+1); err != nil || !strings.Contains(said, "the counter says") || !strings.Contains(strings.ReplaceAll(said, `\`, ""), want) {
			t.Errorf("%s: %q, %v, want a count of %d", over, said, err, count+1)
		}
	}
	if said, err := ask("wrong"); err == nil && strings.Contains(said, "the counter says") {
		t.Errorf("with another token: %q", said)
	}
	p.run(t, "client", "remove", "continue", "--config", config)
	if after, err := os.ReadFile(file); err != nil || string(after) != before {
		t.Errorf("afterwards: %v\n%s", err, after)
	}
}

// TestInspectorConfig: the inspector reads a file that has the form of most clients, with
// servers of its own beside ours.
func TestInspectorConfig(t *testing.T) {
	p := newPlace(t)
	config := p.notebook(t)
	p.ServeHTTP(t, config)
	file := p.Write(t, "mcp.json", "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"false\" }\n  }\n}\n")
	p.run(t, "client", "add", "generic", "--file", file, "--config", config)
	i := inspector{p: p, flags: []string{"--config", file, "--server", "drawbridge"}}
	if got := i.tools(t); !slices.Contains(got, "notebook_counter") {
		t.Errorf("the tools: %v", got)
	}
}
