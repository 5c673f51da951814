// Command notebook is a small MCP server with a memory: notes and a counter that
// live as long as its process. It is an ordinary server on standard input and
// output, written with mcp-go, that knows nothing of what starts it. What it
// remembers shows that one session keeps one server.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	if err := server.ServeStdio(newServer()); err != nil {
		fmt.Fprintln(os.Stderr, "notebook:", err)
		os.Exit(1)
	}
}

// maxNotes bounds what a forgetful caller can pile up.
const maxNotes = 1000

// notebook is the state of one process. Calls come concurrently.
type notebook struct {
	mu    sync.Mutex
	notes []string
	count int
}

func newServer() *server.MCPServer {
	n := &notebook{}
	s := server.NewMCPServer("notebook", "1.0.0",
		server.WithToolCapabilities(false),
		server.WithInstructions("Notes and a counter that last as long as this server's process."))
	s.AddTool(mcp.NewTool("note_add",
		mcp.WithDescription("Writes a note down and says its number."),
		mcp.WithString("text", mcp.Required(), mcp.MinLength(1), mcp.Description("What to remember")),
		mcp.WithReadOnlyHintAnnotation(false),
		mcp.WithDestructiveHintAnnotation(false),
	), n.add)
	s.AddTool(mcp.NewTool("note_list",
		mcp.WithDescription("Lists the notes, oldest first."),
		mcp.WithReadOnlyHintAnnotation(true),
	), n.list)
	s.AddTool(mcp.NewTool("note_clear",
		mcp.WithDescription("Throws all notes away."),
		mcp.WithReadOnlyHintAnnotation(false),
		mcp.WithDestructiveHintAnnotation(true),
		mcp.WithIdempotentHintAnnotation(true),
	), n.clear)
	s.AddTool(mcp.NewTool("counter",
		mcp.WithDescription("Counts its own calls, from 1: the number says whether the same process answers as before."),
		mcp.WithReadOnlyHintAnnotation(false),
		mcp.WithDestructiveHintAnnotation(false),
	), n.counter)
	return s
}

func (n *notebook) add(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	text, err := req.RequireString("text")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	if text == "" {
		return mcp.NewToolResultError("a note needs a text"), nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.notes) >= maxNotes {
		return mcp.NewToolResultErrorf("the notebook is full: it holds %d notes; note_clear empties it", maxNotes), nil
	}
	n.notes = append(n.notes, text)
	return mcp.NewToolResultText(fmt.Sprintf("note %d: %s", len(n.notes), text)), nil
}

func (n *notebook) list(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.notes) == 0 {
		return mcp.NewToolResultText("no notes"), nil
	}
	var b strings.Builder
	for i, text := range n.notes {
		fmt.Fprintf(&b, "%d. %s\n", i+1, text)
	}
	return mcp.NewToolResultText(strings.TrimSuffix(b.String(), "\n")), nil
}

func (n *notebook) clear(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	was := len(n.notes)
	n.notes = nil
	return mcp.NewToolResultText(fmt.Sprintf("threw %d notes away", was)), nil
}

func (n *notebook) counter(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count++
	return mcp.NewToolResultText(fmt.Sprintf("%d", n.count)), nil
}
