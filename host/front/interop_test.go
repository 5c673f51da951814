package front

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// A client that we did not write, in both eras on both transports. It is here to
// show that the raw writers of the other tests are not a dialect.
func TestAClientOfAnotherMaker(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		for _, wire := range []string{"stdio", "http"} {
			t.Run(era+" over "+wire, func(t *testing.T) {
				b := newFakeBroker("echo", "say")
				s := newServer(t, b)
				c := strange(t, s, wire, era)
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				if err := c.Start(ctx); err != nil {
					t.Fatal(err)
				}
				changed := make(chan struct{}, 8)
				progress := make(chan mcp.JSONRPCNotification, 8)
				c.OnNotification(func(n mcp.JSONRPCNotification) {
					switch n.Method {
					case "notifications/tools/list_changed":
						changed <- struct{}{}
					case "notifications/progress":
						progress <- n
					}
				})
				init, err := c.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{
					ProtocolVersion: mcp.LATEST_PROTOCOL_VERSION, ClientInfo: mcp.Implementation{Name: "strange", Version: "1"},
				}})
				if err != nil {
					t.Fatal(err)
				}
				if got := mcp.IsModernProtocol(init.ProtocolVersion); got != (era == "modern") || init.ServerInfo.Name != "drawbridge" {
					t.Errorf("initialized with %+v", init)
				}
				list, err := c.ListTools(ctx, mcp.ListToolsRequest{})
				if err != nil || len(list.Tools) != 2 || list.Tools[0].Name != "echo" {
					t.Fatalf("list %+v, %v", list, err)
				}
				var call mcp.CallToolRequest
				call.Params.Name, call.Params.Arguments = "echo", map[string]any{"a": "b"}
				result, err := c.CallTool(ctx, call)
				if err != nil || fmt.Sprint(result.StructuredContent) != "map[a:b]" {
					t.Errorf("call %+v, %v", result, err)
				}
				call.Params.Name = "say"
				call.Params.Arguments = map[string]any{"say": []any{map[string]any{"jsonrpc": "2.0", "method": "notifications/progress", "params": map[string]any{"progressToken": "up", "progress": 1}}}}
				call.Params.Meta = &mcp.Meta{ProgressToken: "mine"}
				if _, err := c.CallTool(ctx, call); err != nil {
					t.Error(err)
				}
				if n := <-progress; n.Params.AdditionalFields["progressToken"] != "mine" {
					t.Errorf("progress %+v", n.Params)
				}
				call.Params.Name = "gone"
				if _, err := c.CallTool(ctx, call); err == nil || !strings.Contains(err.Error(), "no such tool") {
					t.Errorf("call of no tool: %v", err)
				}
				if era == "modern" {
					stop, err := c.ListenAsync(ctx, mcp.SubscriptionFilter{ToolsListChanged: true}, nil)
					if err != nil {
						t.Fatal(err)
					}
					defer stop()
				}
				eventually(t, "the client listens", func() bool {
					s.audience.mu.RLock()
					defer s.audience.mu.RUnlock()
					return len(s.audience.all) == 1
				})
				b.changes(s)
				<-changed
			})
		}
	}
}

// strange makes mcp-go's client of s.
func strange(t *testing.T, s *Server, wire, era string) *client.Client {
	t.Helper()
	var options []client.ClientOption
	if era == "legacy" {
		options = append(options, client.WithLegacyProtocolOnly()) //nolint:staticcheck // the era that most clients speak
	}
	if wire == "stdio" {
		inR, inW, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		outR, outW := io.Pipe()
		done := make(chan error, 1)
		go func() {
			done <- s.ServeStdio(context.Background(), inR, outW)
			_ = outW.Close()
		}()
		c := client.NewClient(transport.NewIO(outR, inW, io.NopCloser(strings.NewReader(""))), options...)
		t.Cleanup(func() {
			_ = c.Close()
			if err := <-done; err != nil {
				t.Error(err)
			}
			_ = inR.Close()
		})
		return c
	}
	site := newSite(t, s)
	with := []transport.StreamableHTTPCOption{
		transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + testToken}),
		transport.WithHTTPBasicClient(&http.Client{Transport: site.client.Transport}),
	}
	if era == "legacy" {
		with = append(with, transport.WithContinuousListening()) //nolint:staticcheck // the era that most clients speak
	}
	trans, err := transport.NewStreamableHTTP(site.URL+"/mcp", with...)
	if err != nil {
		t.Fatal(err)
	}
	c := client.NewClient(trans, options...)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
