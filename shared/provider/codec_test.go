package provider

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/drawbridge-mcp/drawbridge/shared/providerpb"
)

// split cuts b into buffers of n bytes, as a transport hands a message over.
func split(b []byte, n int) mem.BufferSlice {
	var out mem.BufferSlice
	for len(b) > n {
		out = append(out, mem.SliceBuffer(b[:n]))
		b = b[n:]
	}
	return append(out, mem.SliceBuffer(b))
}

func codecMessages() map[string]proto.Message {
	chunk := func(data []byte, last bool) *providerpb.PluginFrame {
		return &providerpb.PluginFrame{Kind: &providerpb.PluginFrame_Chunk{Chunk: &providerpb.Chunk{Data: data, Last: last}}}
	}
	big := bytes.Repeat([]byte("0123456789abcdef"), MaxChunk/16)
	return map[string]proto.Message{
		"frame":            &providerpb.HostFrame{Seq: 7, Data: []byte(`{"a":1}`), Last: true},
		"frame, not last":  &providerpb.HostFrame{Seq: 1 << 40, Data: []byte(`x`)},
		"frame, seq 0":     &providerpb.HostFrame{Data: []byte(`x`), Last: true},
		"frame, big":       &providerpb.HostFrame{Seq: 300, Data: big, Last: true},
		"frame, empty":     &providerpb.HostFrame{Seq: 3, Last: true},
		"frame, nothing":   &providerpb.HostFrame{},
		"chunk":            chunk([]byte(`{"a":1}`), true),
		"chunk, not last":  chunk([]byte(`{`), false),
		"chunk, big":       chunk(big, true),
		"chunk, big, open": chunk(big[:1<<18], false),
		"chunk, empty":     chunk(nil, true),
		"chunk, nothing":   chunk(nil, false),
		"noise":            &providerpb.PluginFrame{Kind: &providerpb.PluginFrame_Noise{Noise: &providerpb.Noise{Line: []byte("hi")}}},
		"spoke":            &providerpb.PluginFrame{Kind: &providerpb.PluginFrame_Spoke{Spoke: &providerpb.Spoke{}}},
		"no kind":          &providerpb.PluginFrame{},
		"another message":  &providerpb.StopRequest{GraceMs: 9},
	}
}

// A peer with the plain proto codec must see the same bytes, and the other way round.
func TestCodecIsProto(t *testing.T) {
	codec := newFrameCodec()
	for name, m := range codecMessages() {
		want, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		out, err := codec.Marshal(m)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := out.Materialize(); !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(want))
		}
		out.Free()
		for _, n := range []int{1, 2, 3, 7, 16 << 10, len(want) + 1} {
			if n < 16 && len(want) > 1000 {
				continue
			}
			// Into a message that held something else.
			back := m.ProtoReflect().New().Interface()
			if f, ok := back.(*providerpb.HostFrame); ok {
				f.Seq, f.Data, f.Last = 99, []byte("old"), true
			}
			if err := codec.Unmarshal(split(want, n), back); err != nil {
				t.Errorf("%s by %d: %v", name, n, err)
			}
			if !proto.Equal(m, back) {
				t.Errorf("%s by %d differs", name, n)
			}
		}
	}
}

// The caller may reuse its memory once Marshal has returned.
func TestCodecCopies(t *testing.T) {
	codec := newFrameCodec()
	for _, size := range []int{10, 100 << 10} {
		data := bytes.Repeat([]byte("a"), size)
		out, err := codec.Marshal(&providerpb.HostFrame{Seq: 1, Data: data, Last: true})
		if err != nil {
			t.Fatal(err)
		}
		clear(data)
		var back providerpb.HostFrame
		if err := codec.Unmarshal(out, &back); err != nil {
			t.Fatal(err)
		}
		out.Free()
		if bytes.IndexByte(back.GetData(), 0) >= 0 || len(back.GetData()) != size {
			t.Errorf("%d bytes: changed after Marshal", size)
		}
	}
}

// FuzzPluginFrame feeds what a plugin may put on the wire: the short way and
// proto's must agree, and nothing may panic.
func FuzzPluginFrame(f *testing.F) {
	for _, m := range codecMessages() {
		if b, err := proto.Marshal(m); err == nil && len(b) < 1<<10 {
			f.Add(b, 5)
		}
	}
	f.Add([]byte{0x0a, 0x03, 0x0a, 0x01, 'x'}, 1)
	f.Add([]byte{0x0a, 0x05, 0x0a, 0x01, 'x', 0x10, 0x02}, 2) // last = 2 is true as well
	f.Add([]byte{0x0a, 0x04, 0x0a, 0x02, 'x', '\n'}, 3)
	plain := encoding.GetCodecV2(grpcproto.Name)
	codec := newFrameCodec()
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		if n < 1 || n > 64 {
			n = 1
		}
		var want, got providerpb.PluginFrame
		wantErr := plain.Unmarshal(split(b, n), &want)
		gotErr := codec.Unmarshal(split(b, n), &got)
		if (wantErr == nil) != (gotErr == nil) {
			t.Fatalf("proto says %v, we say %v", wantErr, gotErr)
		}
		if wantErr == nil && !proto.Equal(&want, &got) {
			t.Fatalf("proto reads %v, we read %v", &want, &got)
		}
		var host providerpb.HostFrame
		_ = codec.Unmarshal(split(b, n), &host)
		if gotErr != nil {
			return
		}
		e, err := eventFromProto(&got)
		if err != nil {
			return
		}
		if err := new(framing).event(e); err != nil {
			return
		}
		if c, ok := e.(Chunk); ok && (len(c.Data) > MaxChunk || bytes.ContainsAny(c.Data, "\r\n")) {
			t.Fatalf("passed: %q", c.Data)
		}
	})
}

func BenchmarkCodec(b *testing.B) {
	data := bytes.Repeat([]byte("x"), SendChunk)
	m := &providerpb.HostFrame{Seq: 300, Data: data, Last: true}
	wire, err := proto.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	for name, codec := range map[string]encoding.CodecV2{"proto": encoding.GetCodecV2(grpcproto.Name), "frame": newFrameCodec()} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(SendChunk)
			b.ReportAllocs()
			for b.Loop() {
				out, err := codec.Marshal(m)
				if err != nil {
					b.Fatal(err)
				}
				out.Free()
				var back providerpb.HostFrame
				if err := codec.Unmarshal(split(wire, 16<<10), &back); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
