package front

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/broker"
)

// instant answers every call at once with a message that is already parsed.
type instant struct {
	*fakeBroker
	reply broker.Reply
}

func (b instant) Call(context.Context, broker.Call) broker.Reply { return b.reply }

func newInstant() instant {
	return instant{newFakeBroker("echo"), broker.Reply{Message: fromServer(`{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"hello"}]}}`)}}
}

var benchLine = call("12", "echo", `{"text":"hello"}`, "") + "\n"

// BenchmarkStdio is what a call over stdio costs in the face alone.
func BenchmarkStdio(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(map[int]string{1: "alone", 64: "pipelined"}[callers], func(b *testing.B) {
			s := newServer(b, newInstant())
			inR, inW, _ := os.Pipe()
			outR, outW, _ := os.Pipe()
			done := make(chan error, 1)
			go func() { done <- s.ServeStdio(context.Background(), inR, outW) }()
			out := bufio.NewReader(outR)
			b.ReportAllocs()
			lines := make([]string, callers)
			for i := range lines {
				lines[i] = strings.Replace(benchLine, `"id":12`, `"id":`+unique(), 1)
			}
			text := strings.Join(lines, "")
			for range b.N {
				_, _ = io.WriteString(inW, text)
				for range callers {
					if _, err := out.ReadSlice('\n'); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.StopTimer()
			_ = inW.Close()
			<-done
			_, _, _ = inR.Close(), outR.Close(), outW.Close()
		})
	}
}

// BenchmarkHTTP is what a call over HTTP costs in the face and net/http.
func BenchmarkHTTP(b *testing.B) {
	s := newServer(b, newInstant())
	web := newSite(b, s)
	id := web.open()
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	req := web.request(context.Background(), http.MethodPost, benchLine, "Mcp-Session-Id", id)
	var text strings.Builder
	if err := req.Write(&text); err != nil {
		b.Fatal(err)
	}
	in := bufio.NewReader(conn)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = io.WriteString(conn, text.String())
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			b.Fatal(res.Status, err)
		}
	}
}
