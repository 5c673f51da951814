package provider

import (
	"encoding/json"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/shared/providerpb"
)

func frameToProto(f Frame) *providerpb.HostFrame {
	return &providerpb.HostFrame{Seq: f.Seq, Data: f.Data, Last: f.Last}
}

func frameFromProto(f *providerpb.HostFrame) Frame {
	return Frame{Seq: f.GetSeq(), Data: f.GetData(), Last: f.GetLast()}
}

func eventToProto(e Event) (*providerpb.PluginFrame, error) {
	switch e := e.(type) {
	case Chunk:
		return &providerpb.PluginFrame{Kind: &providerpb.PluginFrame_Chunk{
			Chunk: &providerpb.Chunk{Data: e.Data, Last: e.Last},
		}}, nil
	case Undelivered:
		return &providerpb.PluginFrame{Kind: &providerpb.PluginFrame_Undelivered{
			Undelivered: &providerpb.Undelivered{Seq: e.Seq, Reason: toUTF8(e.Reason)},
		}}, nil
	case Exited:
		return &providerpb.PluginFrame{Kind: &providerpb.PluginFrame_Exited{
			Exited: &providerpb.Exited{Status: exitToProto(e.Status)},
		}}, nil
	case Noise:
		return &providerpb.PluginFrame{Kind: &providerpb.PluginFrame_Noise{
			Noise: &providerpb.Noise{Line: cut(e.Line, MaxNoise)},
		}}, nil
	case TooLarge:
		if err := checkID(e.ID); err != nil {
			return nil, err
		}
		return &providerpb.PluginFrame{Kind: &providerpb.PluginFrame_TooLarge{
			TooLarge: &providerpb.TooLarge{IdJson: e.ID, Size: e.Size},
		}}, nil
	case Spoke:
		return &providerpb.PluginFrame{Kind: &providerpb.PluginFrame_Spoke{Spoke: &providerpb.Spoke{}}}, nil
	}
	return nil, violation("event %T", e)
}

func eventFromProto(f *providerpb.PluginFrame) (Event, error) {
	switch k := f.GetKind().(type) {
	case *providerpb.PluginFrame_Chunk:
		return Chunk{Data: k.Chunk.GetData(), Last: k.Chunk.GetLast()}, nil
	case *providerpb.PluginFrame_Undelivered:
		if k.Undelivered.GetSeq() == 0 {
			return nil, violation("undelivered: seq 0")
		}
		return Undelivered{Seq: k.Undelivered.GetSeq(), Reason: k.Undelivered.GetReason()}, nil
	case *providerpb.PluginFrame_Exited:
		return Exited{Status: exitFromProto(k.Exited.GetStatus())}, nil
	case *providerpb.PluginFrame_Noise:
		return Noise{Line: cut(k.Noise.GetLine(), MaxNoise)}, nil
	case *providerpb.PluginFrame_TooLarge:
		id := rawJSON(k.TooLarge.GetIdJson())
		if err := checkID(id); err != nil {
			return nil, err
		}
		if k.TooLarge.GetSize() < 0 {
			return nil, violation("too large: size %d", k.TooLarge.GetSize())
		}
		return TooLarge{ID: id, Size: k.TooLarge.GetSize()}, nil
	case *providerpb.PluginFrame_Spoke:
		return Spoke{}, nil
	}
	return nil, violation("plugin frame: unknown kind")
}

// checkID accepts no id, or a JSON string, number or null of at most MaxID bytes.
func checkID(id json.RawMessage) error {
	if len(id) == 0 {
		return nil
	}
	if len(id) > MaxID {
		return violation("id of %d bytes, at most %d", len(id), MaxID)
	}
	switch c := id[0]; {
	case c == '"', c == '-', c == 'n', c >= '0' && c <= '9':
	default:
		return violation("id that begins with %q", c)
	}
	if !json.Valid(id) {
		return violation("id is no JSON")
	}
	return nil
}

func cut(b []byte, n int) []byte {
	if len(b) > n {
		return b[:n]
	}
	return b
}

func toUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
