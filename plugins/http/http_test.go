package http

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// TestValidate checks each mistake at its attribute, and that a good config has none.
func TestValidate(t *testing.T) {
	for _, c := range []struct {
		config string
		want   []string // "path: summary" of each error
	}{
		{`{"url":"http://127.0.0.1:8931/mcp","transport":"auto","headers":{"X-Key":"k"}}`, nil},
		{`{"url":"https://localhost/mcp","transport":"sse"}`, nil},
		{`{"url":"http://[::1]:7021/","transport":"http"}`, nil},
		{`{"url":"http://127.8.0.1:1/","transport":"http"}`, nil},
		{`{"url":"http://[::ffff:127.0.0.1]:1/","transport":"http"}`, nil},
		{`{"command":"server","args":["--http"],"env":{"A":"b"},"cwd":"/srv","transport":"auto"}`, nil},
		{`{}`, []string{": Neither url nor command"}},
		{`[]`, []string{": The config is not what the schema says"}},
		{`{"url":"http://localhost/","command":"x"}`, []string{"command: Both url and command"}},
		{`{"url":"localhost:7005/mcp"}`, []string{"url: Not a URL"}},
		{`{"url":"unix:///run/mcp.sock"}`, []string{"url: Not a URL"}},
		{`{"url":"ws://127.0.0.1/"}`, []string{"url: Not a URL of HTTP"}},
		{`{"url":"https://mcp.example.test/mcp"}`, []string{"url: The server is not on this machine"}},
		{`{"url":"http://127.0.0.1.example.test/"}`, []string{"url: The server is not on this machine"}},
		{`{"url":"http://2130706433/"}`, []string{"url: The server is not on this machine"}},
		{`{"url":"http://0.0.0.0:1/"}`, []string{"url: The server is not on this machine"}},
		{`{"url":"http://localhost/#x"}`, []string{"url: The URL has a fragment"}},
		{`{"url":"http://localhost/","transport":"stdio"}`, []string{"transport: Unknown transport"}},
		{`{"url":"http://localhost/","headers":{"a b":"x","C":null,"D":"x\ny"}}`, []string{"headers.C: The header is null", "headers.D: Not a header's value", "headers.a b: Not a header's name"}},
		{`{"url":"http://localhost/","args":[],"cwd":"x"}`, []string{"args: args without a command", "cwd: cwd without a command"}},
		{`{"command":"","args":[null,"a\u0000"],"env":{"A=B":"x","DRAWBRIDGE_INSTANCE":"x","N":null}}`,
			[]string{"command: No command", "args: No argument of a program", "args: No argument of a program", "env.A=B: No variable of an environment", "env.DRAWBRIDGE_INSTANCE: No variable of an environment", "env.N: No variable of an environment"}},
	} {
		found, err := New().Validate(t.Context(), provider.Config{JSON: json.RawMessage(c.config)})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		warned := false
		for _, d := range found {
			if d.Severity == provider.Error {
				got = append(got, where(d.Path)+": "+d.Summary)
			}
			warned = warned || d.Severity == provider.Warning && d.Detail == NotYet
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: got %q, want %q", c.config, got, c.want)
		}
		if !warned {
			t.Errorf("%s: no warning that the provider will not start", c.config)
		}
	}
}

func where(path provider.Path) string {
	var names []string
	for _, step := range path {
		switch step := step.(type) {
		case provider.AttributeStep:
			names = append(names, string(step))
		case provider.KeyStep:
			names = append(names, string(step))
		}
	}
	return strings.Join(names, ".")
}

// TestNoValues checks that no text of a diagnostic holds what a config holds.
func TestNoValues(t *testing.T) {
	found, err := New().Validate(t.Context(), provider.Config{JSON: json.RawMessage(
		`{"url":"http://user:s3cr3t@far.example.test/?k=s3cr3t","headers":{"A":"s3cr3t\n"},"transport":"s3cr3t","command":"x","args":["s3cr3t\u0000"]}`)})
	if err != nil || !found.HasErrors() {
		t.Fatal(found, err)
	}
	for _, d := range found {
		if strings.Contains(d.Summary+d.Detail, "s3cr3t") {
			t.Errorf("%s: %s holds a value", d.Summary, d.Detail)
		}
	}
}

// TestStart checks that a start refuses, with the reason.
func TestStart(t *testing.T) {
	p := New()
	found, err := p.Start(t.Context(), provider.StartRequest{Config: provider.Config{JSON: json.RawMessage(`{"url":"http://localhost/mcp"}`)}})
	if err != nil || !found.HasErrors() || found[0].Detail != NotYet {
		t.Fatalf("got %v, %v", found, err)
	}
	if err := p.Exchange(context.Background(), nil); err == nil {
		t.Error("an exchange without a server")
	}
	if status, err := p.Stop(t.Context(), provider.StopRequest{}); err != nil || status != (provider.ExitStatus{}) {
		t.Errorf("stop: %v, %v", status, err)
	}
}
