package main

import (
	"context"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// TestRemembers drives the server as a client does: what one call writes, the next finds.
func TestRemembers(t *testing.T) {
	ctx := t.Context()
	c, err := client.NewInProcessClient(newServer())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Initialize(ctx, mcp.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		tool   string
		args   map[string]any
		want   string
		failed bool
	}{
		{"note_list", nil, "no notes", false},
		{"note_add", map[string]any{"text": "milk"}, "note 1: milk", false},
		{"note_add", map[string]any{"text": "eggs"}, "note 2: eggs", false},
		{"note_list", nil, "1. milk\n2. eggs", false},
		{"note_add", map[string]any{}, "text", true},
		{"note_add", map[string]any{"text": ""}, "needs a text", true},
		{"note_clear", nil, "threw 2 notes away", false},
		{"note_list", nil, "no notes", false},
		{"counter", nil, "1", false},
		{"counter", nil, "2", false},
	} {
		if got, failed := call(ctx, t, c, step.tool, step.args); failed != step.failed || !strings.Contains(got, step.want) {
			t.Errorf("%s(%v): %q, an error: %v; want %q, %v", step.tool, step.args, got, failed, step.want, step.failed)
		}
	}
}

// TestFull fills the notebook: it says so instead of growing without bound.
func TestFull(t *testing.T) {
	n := &notebook{notes: make([]string, maxNotes)}
	var req mcp.CallToolRequest
	req.Params.Arguments = map[string]any{"text": "one too many"}
	res, err := n.add(t.Context(), req)
	if err != nil || !res.IsError || len(n.notes) != maxNotes {
		t.Errorf("add to a full notebook: %v, %v, %d notes", res, err, len(n.notes))
	}
}

func call(ctx context.Context, t *testing.T, c *client.Client, tool string, args map[string]any) (text string, failed bool) {
	t.Helper()
	var req mcp.CallToolRequest
	req.Params.Name, req.Params.Arguments = tool, args
	res, err := c.CallTool(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Content) != 1 {
		t.Fatalf("%s: %d blocks of content", tool, len(res.Content))
	}
	block, ok := res.Content[0].(mcp.TextContent)
	if !ok {
		t.Fatalf("%s: content is a %T", tool, res.Content[0])
	}
	return block.Text, res.IsError
}
