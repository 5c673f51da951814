//go:build unix

package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// overTheWire serves the plugin on a unix socket, as in life, and returns the
// host's view of it with the fake server running and the exchange open.
func overTheWire(t testing.TB, args ...string) (provider.Remote, provider.HostConn) {
	t.Helper()
	dir, err := os.MkdirTemp("", "wire") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	token := provider.NewToken()
	server := grpc.NewServer(provider.ServerOptions(token)...)
	p := &stdioProvider{stderr: io.Discard, environ: os.Environ}
	if err := (&provider.GRPCPlugin{Impl: p}).GRPCServer(nil, server); err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	cc, err := grpc.NewClient("unix:"+filepath.Join(dir, "s"),
		append(provider.DialOptions(token), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		over, stop := contextDone()
		stop()
		_, _ = p.Stop(over, provider.StopRequest{})
		cancel()
		_ = cc.Close()
		server.Stop()
		serving.Wait()
	})
	remote := provider.NewRemote(cc)
	config := configJSON(t, map[string]any{"command": fakeServer, "args": append([]string{"--life", "2m"}, args...)})
	diags, err := remote.Start(ctx, provider.StartRequest{Config: provider.Config{JSON: config, BaseDir: dir}, MaxMessage: 64 << 20})
	if err != nil || diags.HasErrors() {
		t.Fatalf("start: %v %+v", err, diags)
	}
	conn, err := remote.Exchange(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return remote, conn
}

func sendAll(t testing.TB, conn provider.HostConn, seq uint64, message string) {
	t.Helper()
	for rest := []byte(message); ; {
		n := min(len(rest), provider.SendChunk)
		if err := conn.Send(provider.Frame{Seq: seq, Data: rest[:n], Last: n == len(rest)}); err != nil {
			t.Fatal(err)
		}
		if rest = rest[n:]; len(rest) == 0 {
			return
		}
	}
}

func readMessage(t testing.TB, conn provider.HostConn) string {
	t.Helper()
	var message []byte
	for {
		event, err := conn.Recv()
		if err != nil {
			t.Fatal(err)
		}
		switch e := event.(type) {
		case provider.Chunk:
			message = append(message, e.Data...)
			if e.Last {
				return string(message)
			}
		case provider.Spoke:
		default:
			t.Fatalf("got %T %+v", e, e)
		}
	}
}

func TestC108_OverTheWire(t *testing.T) {
	remote, conn := overTheWire(t)
	big := toolCall(1, "echo", `{"text":"`+bigText(5<<20)+`"}`)
	sendAll(t, conn, 1, big)
	if got := text(t, readMessage(t, conn)); got != bigText(5<<20) {
		t.Errorf("%d bytes came back", len(got))
	}
	// What is on its way when the server ends arrives before the news of it.
	sendAll(t, conn, 2, toolCall(2, "exit", `{"code":6,"after":true,"stderr":"bye"}`))
	if got := text(t, readMessage(t, conn)); got != "goodbye" {
		t.Errorf("got %q", got)
	}
	event, err := conn.Recv()
	want := provider.ExitStatus{Code: 6, StderrTail: "bye"}
	if exited, ok := event.(provider.Exited); err != nil || !ok || exited.Status != want {
		t.Errorf("got %+v, %v", event, err)
	}
	if event, err := conn.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("then %+v, %v", event, err)
	}
	if status, err := remote.Stop(t.Context(), provider.StopRequest{}); err != nil || status != want {
		t.Errorf("Stop says %+v, %v", status, err)
	}
}

func TestDiagnosticsOverTheWire(t *testing.T) {
	remote, _ := overTheWire(t)
	diags, err := remote.Validate(t.Context(), provider.Config{JSON: configJSON(t, map[string]any{"command": ""})})
	if err != nil {
		t.Fatal(err)
	}
	check(t, diags, ".command")
	d, err := remote.Describe(t.Context())
	if err != nil || d.Name != "stdio" || len(d.Config.Attributes) != len(schema.Attributes) {
		t.Errorf("%+v, %v", d, err)
	}
}

// BenchmarkRoundTrip is a message to the server and back through the plugin.
func BenchmarkRoundTrip(b *testing.B) {
	for _, size := range []int{100, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			_, conn := overTheWire(b)
			message := toolCall(1, "echo", `{"text":"`+strings.Repeat("x", size)+`"}`)
			b.SetBytes(int64(2 * len(message)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				sendAll(b, conn, uint64(i+1), message)
				readMessage(b, conn)
			}
		})
	}
}
