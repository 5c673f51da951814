// Command client is the Go SDK's client, for the end-to-end tests: it lists and
// calls the fixture server's tools and prints what it saw as one line of JSON.
//
//	client REVISION URL
//	client REVISION COMMAND [ARG...]
//
// BEARER, in its environment, is the token it sends to a URL.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// limit bounds the whole run.
const limit = 80 * time.Second

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: client REVISION URL | client REVISION COMMAND [ARG...]")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := run(ctx, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// seen is what the client saw.
type seen struct {
	Revision string    `json:"revision"`
	Tools    []string  `json:"tools"`
	Simple   string    `json:"simple"`
	IsError  bool      `json:"isError"`
	Progress []float64 `json:"progress"`
	Header   string    `json:"header"`
	Input    string    `json:"input"`
	Changed  bool      `json:"changed"`
}

func run(ctx context.Context, revision string, target []string) (err error) {
	var (
		got      seen
		progress = make(chan float64, 16)
		changed  = make(chan struct{}, 16)
	)
	client := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			if r.Params.ProgressToken == "mine" {
				progress <- r.Params.Progress
			}
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
	})
	session, err := client.Connect(ctx, transport(target), &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	got.Revision = session.InitializeResult().ProtocolVersion
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		got.Tools = append(got.Tools, tool.Name)
	}
	call := func(name string, args any) (string, bool) {
		params := &mcp.CallToolParams{Name: name, Arguments: args}
		params.SetProgressToken("mine")
		result, err := session.CallTool(ctx, params)
		if err != nil {
			return err.Error(), true
		}
		var text []string
		for _, c := range result.Content {
			if t, ok := c.(*mcp.TextContent); ok {
				text = append(text, t.Text)
			}
		}
		return strings.Join(text, "\n"), result.IsError
	}
	got.Simple, _ = call("test_simple_text", nil)
	_, got.IsError = call("test_error_handling", nil)
	call("test_tool_with_progress", nil)
	for len(got.Progress) < 3 { // it hands them over on a goroutine of its own
		select {
		case value := <-progress:
			got.Progress = append(got.Progress, value)
		case <-ctx.Done():
			return fmt.Errorf("progress %v: %w", got.Progress, ctx.Err())
		}
	}
	got.Header, _ = call("test_x_mcp_header", map[string]any{"region": "übersee", "level": 1})
	got.Input, _ = call("test_input_required_result_elicitation", nil)
	call("test_trigger_tool_change", nil)
	select {
	case <-changed:
		got.Changed = true
	case <-ctx.Done():
	}
	return json.NewEncoder(os.Stdout).Encode(got)
}

// transport is over HTTP for a URL, else over the standard streams of a command.
func transport(target []string) mcp.Transport {
	if strings.HasPrefix(target[0], "http://") {
		return &mcp.StreamableClientTransport{Endpoint: target[0], HTTPClient: &http.Client{Transport: bearer(os.Getenv("BEARER"))}}
	}
	cmd := exec.Command(target[0], target[1:]...)
	cmd.Stderr = os.Stderr
	return &mcp.CommandTransport{Command: cmd}
}

// bearer sends its token with every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}
