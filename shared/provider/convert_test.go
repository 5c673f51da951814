package provider

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/drawbridge-mcp/drawbridge/shared/providerpb"
)

// onWire sends a message through its bytes, so that a test sees what a peer sees.
func onWire[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	out, ok := m.ProtoReflect().New().Interface().(M)
	if !ok {
		t.Fatalf("no %T", m)
	}
	if err := proto.Unmarshal(b, out); err != nil {
		t.Fatalf("unmarshal: %v", err)
	}
	return out
}

func TestDescriptionRoundTrip(t *testing.T) {
	want := Description{
		Name: "stdio", Version: "1.2.3",
		Config: Schema{
			Attributes: []Attribute{
				{Name: "command", Type: json.RawMessage(`"string"`), Required: true, Description: "what to run"},
				{Name: "env", Type: json.RawMessage(`["map","string"]`), Default: json.RawMessage(`{}`), Sensitive: true},
			},
			Blocks: []Block{{
				Name: "tls", MinItems: 1, MaxItems: 2, Description: "keys",
				Schema: Schema{Attributes: []Attribute{{Name: "cert", Type: json.RawMessage(`"string"`)}}},
			}},
		},
	}
	if diff := cmp.Diff(want, descriptionFromProto(onWire(t, descriptionToProto(want)))); diff != "" {
		t.Error(diff)
	}
	if got := descriptionFromProto(&providerpb.DescribeResponse{}); !cmp.Equal(got, Description{}) {
		t.Errorf("empty answer: %+v", got)
	}
}

func TestRequestsRoundTrip(t *testing.T) {
	config := Config{JSON: json.RawMessage(`{"a":null}`), BaseDir: "/etc/x"}
	if diff := cmp.Diff(config, configFromValidate(onWire(t, configToValidate(config)))); diff != "" {
		t.Error(diff)
	}
	start := StartRequest{Config: config, Mark: "h/s/1", MaxMessage: math.MaxInt64}
	gotStart, err := startFromProto(onWire(t, startToProto(start)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(start, gotStart); diff != "" {
		t.Error(diff)
	}
	stop := StopRequest{Grace: 1500 * time.Millisecond}
	gotStop, err := stopFromProto(onWire(t, stopToProto(stop)))
	if err != nil || gotStop != stop {
		t.Errorf("stop: %v, %v", gotStop, err)
	}
}

func TestRequestsOutOfBounds(t *testing.T) {
	for _, max := range []int64{0, -1} {
		if _, err := startFromProto(&providerpb.StartRequest{MaxMessage: max}); !errors.Is(err, ErrContract) {
			t.Errorf("max_message %d: %v", max, err)
		}
	}
	for _, ms := range []int64{-1, math.MaxInt64} {
		if _, err := stopFromProto(&providerpb.StopRequest{GraceMs: ms}); !errors.Is(err, ErrContract) {
			t.Errorf("grace_ms %d: %v", ms, err)
		}
	}
}

func TestDiagnosticsRoundTrip(t *testing.T) {
	want := Diagnostics{
		{Severity: Error, Summary: "no such folder", Detail: "make it", Path: Path{
			AttributeStep("mount"), IndexStep(0), KeyStep("a b"), IndexStep(math.MaxInt64),
		}},
		{Severity: Warning, Summary: "old"},
	}
	wire, err := diagnosticsToProto(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := diagnosticsFromProto(onWire(t, &providerpb.ValidateResponse{Diagnostics: wire}).GetDiagnostics())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

type strangeStep struct{}

func (strangeStep) isStep() {}

type strangeEvent struct{}

func (strangeEvent) isEvent() {}

func TestUnknownIsRefused(t *testing.T) {
	step := func(s *providerpb.PathStep) []*providerpb.Diagnostic {
		return []*providerpb.Diagnostic{{
			Severity: providerpb.Diagnostic_SEVERITY_ERROR, Path: []*providerpb.PathStep{s},
		}}
	}
	incoming := map[string][]*providerpb.Diagnostic{
		"no severity":      {{Summary: "x"}},
		"new severity":     {{Severity: 3}},
		"negative":         {{Severity: -1}},
		"empty path step":  step(&providerpb.PathStep{}),
		"nil path step":    step(nil),
		"negative index":   step(&providerpb.PathStep{Step: &providerpb.PathStep_Index{Index: -1}}),
		"nil diagnostic":   {nil},
		"second is broken": {{Severity: providerpb.Diagnostic_SEVERITY_ERROR}, {}},
	}
	for name, ds := range incoming {
		if got, err := diagnosticsFromProto(ds); !errors.Is(err, ErrContract) || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	outgoing := map[string]Diagnostic{
		"no severity":    {},
		"new severity":   {Severity: 3},
		"strange step":   {Severity: Error, Path: Path{strangeStep{}}},
		"nil step":       {Severity: Error, Path: Path{nil}},
		"negative index": {Severity: Error, Path: Path{IndexStep(-1)}},
	}
	for name, d := range outgoing {
		if _, err := diagnosticsToProto(Diagnostics{d}); !errors.Is(err, ErrContract) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEventRoundTrip(t *testing.T) {
	events := map[string]Event{
		"chunk":              Chunk{Data: []byte(`{"a":1}`), Last: true},
		"chunk, not last":    Chunk{Data: []byte(`{`)},
		"empty last chunk":   Chunk{Last: true},
		"undelivered":        Undelivered{Seq: math.MaxUint64, Reason: "pipe full"},
		"exited":             Exited{Status: ExitStatus{Code: -1, Signal: 9, StderrTail: "boom\n"}},
		"noise":              Noise{Line: []byte("hello \xff")},
		"too large":          TooLarge{ID: json.RawMessage(`"a"`), Size: 1 << 40},
		"too large, no id":   TooLarge{Size: 5},
		"too large, null id": TooLarge{ID: json.RawMessage(`null`), Size: 5},
		"spoke":              Spoke{},
	}
	for name, want := range events {
		wire, err := eventToProto(want)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := eventFromProto(onWire(t, wire))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestEventsOutOfBounds(t *testing.T) {
	long := json.RawMessage(`"` + strings.Repeat("x", MaxID) + `"`)
	for name, f := range map[string]*providerpb.PluginFrame{
		"no kind":       {},
		"nil":           nil,
		"seq 0":         {Kind: &providerpb.PluginFrame_Undelivered{}},
		"long id":       {Kind: &providerpb.PluginFrame_TooLarge{TooLarge: &providerpb.TooLarge{IdJson: long}}},
		"object as id":  {Kind: &providerpb.PluginFrame_TooLarge{TooLarge: &providerpb.TooLarge{IdJson: []byte(`{}`)}}},
		"broken id":     {Kind: &providerpb.PluginFrame_TooLarge{TooLarge: &providerpb.TooLarge{IdJson: []byte(`"a`)}}},
		"negative size": {Kind: &providerpb.PluginFrame_TooLarge{TooLarge: &providerpb.TooLarge{Size: -1}}},
	} {
		if e, err := eventFromProto(f); !errors.Is(err, ErrContract) || e != nil {
			t.Errorf("%s: %v, %v", name, e, err)
		}
	}
	for name, e := range map[string]Event{
		"strange": strangeEvent{}, "nil": nil, "object as id": TooLarge{ID: json.RawMessage(`[]`)},
	} {
		if _, err := eventToProto(e); !errors.Is(err, ErrContract) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBoundedTexts(t *testing.T) {
	tail := strings.Repeat("é", MaxStderrTail)
	got := exitFromProto(onWire(t, exitToProto(ExitStatus{StderrTail: tail}))).StderrTail
	if len(got) > MaxStderrTail || !strings.HasSuffix(tail, got) || len(got) < MaxStderrTail-1 {
		t.Errorf("tail of %d bytes", len(got))
	}
	// What a server writes need not be UTF-8; it must still arrive.
	if got := exitFromProto(onWire(t, exitToProto(ExitStatus{StderrTail: "a\xffb"}))).StderrTail; got != "a\uFFFDb" {
		t.Errorf("tail %q", got)
	}
	if got := exitToProto(ExitStatus{Code: math.MaxInt64}).GetCode(); got != math.MaxInt32 {
		t.Errorf("code %d", got)
	}
	wire, err := eventToProto(Noise{Line: make([]byte, 2*MaxNoise)})
	if err != nil || len(wire.GetNoise().GetLine()) != MaxNoise {
		t.Errorf("noise of %d bytes, %v", len(wire.GetNoise().GetLine()), err)
	}
	in, err := eventFromProto(&providerpb.PluginFrame{Kind: &providerpb.PluginFrame_Noise{
		Noise: &providerpb.Noise{Line: make([]byte, 2*MaxNoise)},
	}})
	if noise, ok := in.(Noise); !ok || err != nil || len(noise.Line) != MaxNoise {
		t.Errorf("noise on receipt: %v, %v", in, err)
	}
}
