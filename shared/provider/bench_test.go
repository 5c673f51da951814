package provider

import (
	"bytes"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/drawbridge-mcp/drawbridge/shared/providerpb"
)

func BenchmarkExchange(b *testing.B) {
	for name, size := range map[string]int{"small": 200, "1MB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			lis, err := net.Listen("unix", b.TempDir()+"/s")
			if err != nil {
				b.Fatal(err)
			}
			s := grpc.NewServer(ServerOptions("tok")...)
			providerpb.RegisterProviderServer(s, newServer(&fake{exchange: echo}))
			go func() { _ = s.Serve(lis) }()
			defer s.Stop()
			cc, err := grpc.NewClient("unix:"+lis.Addr().String(), append(DialOptions("tok"),
				grpc.WithTransportCredentials(insecure.NewCredentials()))...)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = cc.Close() }()
			r := NewRemote(cc)
			if _, err := r.Start(b.Context(), StartRequest{MaxMessage: 1}); err != nil {
				b.Fatal(err)
			}
			c, err := r.Exchange(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			data := bytes.Repeat([]byte("x"), size)
			b.SetBytes(int64(2 * size))
			b.ReportAllocs()
			seq := uint64(0)
			for b.Loop() {
				seq++
				for off := 0; off < size; off += SendChunk {
					end := min(off+SendChunk, size)
					if err := c.Send(Frame{Seq: seq, Data: data[off:end], Last: end == size}); err != nil {
						b.Fatal(err)
					}
				}
				for {
					e, err := c.Recv()
					if err != nil {
						b.Fatal(err)
					}
					if chunk, ok := e.(Chunk); ok && chunk.Last {
						break
					}
				}
			}
		})
	}
}
