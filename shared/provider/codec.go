package provider

import (
	"sync"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/drawbridge-mcp/drawbridge/shared/providerpb"
)

// frameCodec is gRPC's proto codec with a short way for the two messages that
// carry payload. The bytes on the wire are the same; what it saves is one copy
// of every chunk on receipt (gRPC hands a message over in pieces of 16 KiB, and
// the proto codec puts them together before it copies the chunk out of them).
// Whatever does not look exactly like what Marshal makes of a chunk takes the
// long way.
type frameCodec struct{ encoding.CodecV2 }

func newFrameCodec() frameCodec { return frameCodec{encoding.GetCodecV2(proto.Name)} }

const (
	hostSeq   protowire.Number = 1
	hostData  protowire.Number = 2
	hostLast  protowire.Number = 3
	kindChunk protowire.Number = 1
	chunkData protowire.Number = 1
	chunkLast protowire.Number = 2

	// maxHead is the most that can stand before a chunk's data.
	maxHead = 32
)

// Marshal copies the chunk once, into a pooled buffer: the caller may reuse its
// own as soon as the send has returned, while gRPC may still hold the message.
func (c frameCodec) Marshal(v any) (mem.BufferSlice, error) {
	var head [maxHead]byte
	switch m := v.(type) {
	case *providerpb.HostFrame:
		if len(m.GetData()) == 0 || len(m.ProtoReflect().GetUnknown()) > 0 {
			break
		}
		b := head[:0]
		if m.GetSeq() != 0 {
			b = protowire.AppendVarint(protowire.AppendTag(b, hostSeq, protowire.VarintType), m.GetSeq())
		}
		b = appendBytesHead(b, hostData, len(m.GetData()))
		return join(b, m.GetData(), tail(hostLast, m.GetLast())), nil
	case *providerpb.PluginFrame:
		kind, ok := m.GetKind().(*providerpb.PluginFrame_Chunk)
		if !ok || len(kind.Chunk.GetData()) == 0 || len(m.ProtoReflect().GetUnknown()) > 0 ||
			len(kind.Chunk.ProtoReflect().GetUnknown()) > 0 {
			break
		}
		data, end := kind.Chunk.GetData(), tail(chunkLast, kind.Chunk.GetLast())
		inner := protowire.SizeTag(chunkData) + protowire.SizeBytes(len(data)) + len(end)
		b := appendBytesHead(head[:0], kindChunk, inner)
		b = appendBytesHead(b, chunkData, len(data))
		return join(b, data, end), nil
	}
	return c.CodecV2.Marshal(v)
}

func appendBytesHead(b []byte, n protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.BytesType), uint64(size))
}

// tail is the encoding of a bool field that is the last of its message; false is
// not encoded. Both numbers used here make a tag of one byte.
func tail(n protowire.Number, set bool) []byte {
	if !set {
		return nil
	}
	return []byte{byte(protowire.EncodeTag(n, protowire.VarintType)), 1}
}

func join(head, data, end []byte) mem.BufferSlice {
	size := len(head) + len(data) + len(end)
	if mem.IsBelowBufferPoolingThreshold(size) {
		b := make([]byte, 0, size)
		return mem.BufferSlice{mem.SliceBuffer(append(append(append(b, head...), data...), end...))}
	}
	pool := mem.DefaultBufferPool()
	buf := pool.Get(size)
	b := (*buf)[:0]
	*buf = append(append(append(b, head...), data...), end...)
	return mem.BufferSlice{mem.NewBuffer(buf, pool)}
}

// Unmarshal copies the chunk once, into memory of its own.
func (c frameCodec) Unmarshal(in mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *providerpb.HostFrame:
		if seq, data, last, ok := hostFrame(in); ok {
			m.Seq, m.Data, m.Last = seq, data, last
			return nil
		}
		m.Reset()
	case *providerpb.PluginFrame:
		if data, last, ok := pluginChunk(in); ok {
			m.Kind = &providerpb.PluginFrame_Chunk{Chunk: &providerpb.Chunk{Data: data, Last: last}}
			return nil
		}
		m.Reset()
	}
	return c.CodecV2.Unmarshal(in, v)
}

// hostFrame reads seq, data and last, in this order and nothing else.
func hostFrame(in mem.BufferSlice) (seq uint64, data []byte, last, ok bool) {
	var buf [maxHead]byte
	r := newHead(in, &buf)
	if seq, ok = r.varint(hostSeq); !ok {
		return 0, nil, false, false
	}
	data, last, ok = r.payload(hostData, hostLast)
	return seq, data, last, ok
}

// pluginChunk reads a chunk that is all there is in the frame.
func pluginChunk(in mem.BufferSlice) (data []byte, last, ok bool) {
	var buf [maxHead]byte
	r := newHead(in, &buf)
	if size, ok := r.size(kindChunk); !ok || size != r.left() {
		return nil, false, false
	}
	return r.payload(chunkData, chunkLast)
}

// head reads the fields before a chunk's data from a copy of the first bytes.
type head struct {
	in    mem.BufferSlice
	total int
	b     []byte // the copy
	off   int    // read so far
}

func newHead(in mem.BufferSlice, buf *[maxHead]byte) head {
	return head{in: in, total: in.Len(), b: buf[:in.CopyTo(buf[:])]}
}

func (r *head) left() int { return r.total - r.off }

func (r *head) tag(n protowire.Number, t protowire.Type) bool {
	gotN, gotT, size := protowire.ConsumeTag(r.b[r.off:])
	if size < 0 || gotN != n || gotT != t {
		return false
	}
	r.off += size
	return true
}

func (r *head) varint(n protowire.Number) (uint64, bool) {
	if !r.tag(n, protowire.VarintType) {
		return 0, false
	}
	return r.number()
}

func (r *head) size(n protowire.Number) (int, bool) {
	if !r.tag(n, protowire.BytesType) {
		return 0, false
	}
	v, ok := r.number()
	if !ok || v > uint64(r.left()) {
		return 0, false
	}
	return int(v), true
}

func (r *head) number() (uint64, bool) {
	v, size := protowire.ConsumeVarint(r.b[r.off:])
	if size < 0 {
		return 0, false
	}
	r.off += size
	return v, true
}

// payload copies the data out; what follows it must be nothing or last = true.
func (r *head) payload(n, lastN protowire.Number) (data []byte, last, ok bool) {
	size, ok := r.size(n)
	if !ok || size == 0 {
		return nil, false, false
	}
	end := r.left() - size
	if end != 0 && end != 2 {
		return nil, false, false
	}
	var after [2]byte
	if end == 2 {
		gather(r.in, r.off+size, after[:])
		if want := tail(lastN, true); after[0] != want[0] || after[1] != want[1] {
			return nil, false, false
		}
	}
	data = chunkMemory(size)
	gather(r.in, r.off, data)
	return data, end == 2, true
}

// usedChunks is the memory of chunks that were freed, *[SendChunk]byte each. A
// message of 100 MiB is four hundred of them, which the collector would find later
// than the next ones come.
var usedChunks sync.Pool

// chunkMemory is room for a chunk. Only large ones are worth the room of the
// largest that we send.
func chunkMemory(size int) []byte {
	if size <= SendChunk/2 || size > SendChunk {
		return make([]byte, size)
	}
	used, ok := usedChunks.Get().(*[SendChunk]byte)
	if !ok {
		used = new([SendChunk]byte)
	}
	return used[:size]
}

// Free gives the bytes of a chunk that came from Recv back, for another to be read
// into. Nobody may use them any more. It need not be called.
func (c Chunk) Free() {
	if cap(c.Data) == SendChunk {
		usedChunks.Put((*[SendChunk]byte)(c.Data[:SendChunk]))
	}
}

// gather fills dst from the bytes of in from off on.
func gather(in mem.BufferSlice, off int, dst []byte) {
	for _, b := range in {
		p := b.ReadOnlyData()
		if off >= len(p) {
			off -= len(p)
			continue
		}
		n := copy(dst, p[off:])
		if dst = dst[n:]; len(dst) == 0 {
			return
		}
		off = 0
	}
}
