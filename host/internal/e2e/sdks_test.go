//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// seen is what a client library saw of the fixture through the host.
type seen struct {
	Revision string    `json:"revision"` // that was agreed on
	Tools    []string  `json:"tools"`
	Simple   string    `json:"simple"`   // the text of a plain call
	IsError  bool      `json:"isError"`  // of a tool that fails
	Progress []float64 `json:"progress"` // under the client's token, in order
	Header   string    `json:"header"`   // of a call with an argument that a header repeats
	Input    string    `json:"input"`    // of a call whose server asks for input first
	Changed  bool      `json:"changed"`  // it was told that the tools had changed
}

// TestSDKs drives the host with the two Go libraries that speak both eras, in each
// era, over each transport, with a server of each era behind the host.
func TestSDKs(t *testing.T) {
	clients := map[string]func(t *testing.T, p place, config, wire, revision string) seen{
		"go-sdk": goSDK, "mcp-go": mcpGo,
	}
	for name, drive := range clients {
		for _, wire := range []string{"stdio", "http"} {
			for _, revision := range []string{mcp.LATEST_PROTOCOL_VERSION, mcp.LATEST_LEGACY_PROTOCOL_VERSION} {
				for _, older := range []bool{false, true} {
					server := map[bool]string{false: "modern server", true: "older server"}[older]
					t.Run(fmt.Sprintf("%s %s over %s to a %s", name, revision, wire, server), func(t *testing.T) {
						p := newPlace(t)
						got := drive(t, p, p.fixtureConfig(t, older, ""), wire, revision)
						got.check(t, revision, older)
					})
				}
			}
		}
	}
}

func (s seen) check(t *testing.T, revision string, older bool) {
	t.Helper()
	own := len(s.Tools)
	s.Tools = slices.DeleteFunc(s.Tools, func(name string) bool { return name == "read_artifact" })
	if own != len(s.Tools)+1 {
		t.Error("the host's own tool is not listed")
	}
	if s.Revision != revision {
		t.Errorf("agreed on %q, want %q", s.Revision, revision)
	}
	if len(s.Tools) != 28 || !slices.Contains(s.Tools, "test_x_mcp_header") {
		t.Errorf("%d tools: %v", len(s.Tools), s.Tools)
	}
	if s.Simple != "This is a simple text response for testing." || !s.IsError {
		t.Errorf("called: %q; the failing one is an error: %v", s.Simple, s.IsError)
	}
	if !slices.Equal(s.Progress, []float64{0, 50, 100}) {
		t.Errorf("progress %v", s.Progress)
	}
	if s.Header != "region=übersee" {
		t.Errorf("with a header: %q", s.Header)
	}
	input := "Hello, Ada!"
	switch {
	case older: // it asks in the middle of the call, which nobody hears yet, and says so
		input = "client does not support elicitation"
	case revision != mcp.LATEST_PROTOCOL_VERSION:
		input = "its server wants input first (elicitation/create)"
	}
	if !strings.Contains(s.Input, input) {
		t.Errorf("asked for input: %q, want %q", s.Input, input)
	}
	if !s.Changed {
		t.Error("not told of the change")
	}
}

// serveWarm starts a host that has its list already. The first one to list would
// otherwise be told of a change on its stream, which knows nothing of that list,
// and the Go SDK's client forgets what it has listed when it hears of one.
func (p place) serveWarm(t *testing.T, config string) hosttest.Host {
	t.Helper()
	h := p.ServeHTTP(t, config)
	hosttest.Definitions(t, h.Client(t))
	return h
}

// goSDK runs the Go SDK's client, a program of a module of its own.
func goSDK(t *testing.T, p place, config, wire, revision string) seen {
	t.Helper()
	host := p.Command(t, "serve", "--stdio", "--config", config)
	args, env := append([]string{revision}, host.Args...), p.Env()
	if wire == "http" {
		h := p.serveWarm(t, config)
		args, env = []string{revision, h.URL}, p.Env("BEARER="+h.Token)
	}
	cmd := exec.Command(fixture(t, "client"), args...)
	cmd.Dir, cmd.Env = p.Dir, env
	out, err := hosttest.Output(t, cmd)
	if err != nil {
		t.Fatal(err)
	}
	var got seen
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return got
}

// answerer answers what a server asks for.
type answerer struct{}

func (answerer) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{"name": "Ada"},
	}}, nil
}

// mcpGo runs mcp-go's client.
func mcpGo(t *testing.T, p place, config, wire, revision string) seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hosttest.CallLimit)
	defer cancel()
	c := client.NewClient(mcpGoTransport(t, p, config, wire, revision),
		client.WithProtocolVersion(revision), client.WithElicitationHandler(answerer{}))
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	var (
		got     seen
		mu      sync.Mutex
		changed = make(chan struct{}, 16)
	)
	c.OnNotification(func(n mcp.JSONRPCNotification) {
		mu.Lock()
		defer mu.Unlock()
		switch n.Method {
		case "notifications/tools/list_changed":
			changed <- struct{}{}
		case "notifications/progress":
			value, _ := n.Params.AdditionalFields["progress"].(float64)
			if n.Params.AdditionalFields["progressToken"] == "mine" {
				got.Progress = append(got.Progress, value)
			}
		}
	})
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	init, err := c.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: revision, ClientInfo: mcp.Implementation{Name: "mcp-go", Version: "1"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	got.Revision = init.ProtocolVersion
	if mcp.IsModernProtocol(revision) {
		stop, err := c.ListenAsync(ctx, mcp.SubscriptionFilter{ToolsListChanged: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
	}
	list, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		got.Tools = append(got.Tools, tool.Name)
	}
	call := func(name string, args any) (string, bool) {
		var r mcp.CallToolRequest
		r.Params.Name, r.Params.Arguments = name, args
		r.Params.Meta = &mcp.Meta{ProgressToken: "mine"}
		result, err := c.CallTool(ctx, r)
		if err != nil {
			return err.Error(), true
		}
		var text []string
		for _, c := range result.Content {
			if t, ok := c.(mcp.TextContent); ok {
				text = append(text, t.Text)
			}
		}
		return strings.Join(text, "\n"), result.IsError
	}
	got.Simple, _ = call("test_simple_text", nil)
	_, got.IsError = call("test_error_handling", nil)
	call("test_tool_with_progress", nil)
	got.Header, _ = call("test_x_mcp_header", map[string]any{"region": "übersee", "level": 1})
	got.Input, _ = call("test_input_required_result_elicitation", nil)
	call("test_trigger_tool_change", nil)
	select {
	case <-changed:
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	got.Changed = ctx.Err() == nil
	return got
}

func mcpGoTransport(t *testing.T, p place, config, wire, revision string) transport.Interface {
	t.Helper()
	if wire == "stdio" {
		return transport.NewStdioWithOptions("drawbridge", nil, nil, transport.WithCommandFunc(
			func(context.Context, string, []string, []string) (*exec.Cmd, error) {
				return p.Command(t, "serve", "--stdio", "--config", config), nil
			}))
	}
	h := p.serveWarm(t, config)
	options := []transport.StreamableHTTPCOption{transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + h.Token})}
	if !mcp.IsModernProtocol(revision) {
		options = append(options, transport.WithContinuousListening()) //nolint:staticcheck // the era that most clients speak
	}
	out, err := transport.NewStreamableHTTP(h.URL, options...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
