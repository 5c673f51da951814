package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/shared/providerpb"
)

// ErrContract marks a message that the contract does not allow: an unknown enum
// value, an empty oneof, a value out of bounds.
var ErrContract = errors.New("not allowed by the provider contract")

// violation makes an error that is ErrContract.
func violation(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrContract)...)
}

func descriptionToProto(d Description) *providerpb.DescribeResponse {
	return &providerpb.DescribeResponse{Name: d.Name, Version: d.Version, Config: schemaToProto(d.Config)}
}

func descriptionFromProto(d *providerpb.DescribeResponse) Description {
	return Description{Name: d.GetName(), Version: d.GetVersion(), Config: schemaFromProto(d.GetConfig())}
}

func schemaToProto(s Schema) *providerpb.Schema {
	out := &providerpb.Schema{}
	for _, a := range s.Attributes {
		out.Attributes = append(out.Attributes, &providerpb.Attribute{
			Name:        a.Name,
			TypeJson:    a.Type,
			Required:    a.Required,
			DefaultJson: a.Default,
			Sensitive:   a.Sensitive,
			Description: a.Description,
		})
	}
	for _, b := range s.Blocks {
		out.Blocks = append(out.Blocks, &providerpb.Block{
			Name:        b.Name,
			Schema:      schemaToProto(b.Schema),
			MinItems:    b.MinItems,
			MaxItems:    b.MaxItems,
			Description: b.Description,
		})
	}
	return out
}

func schemaFromProto(s *providerpb.Schema) Schema {
	var out Schema
	for _, a := range s.GetAttributes() {
		out.Attributes = append(out.Attributes, Attribute{
			Name:        a.GetName(),
			Type:        rawJSON(a.GetTypeJson()),
			Required:    a.GetRequired(),
			Default:     rawJSON(a.GetDefaultJson()),
			Sensitive:   a.GetSensitive(),
			Description: a.GetDescription(),
		})
	}
	for _, b := range s.GetBlocks() {
		out.Blocks = append(out.Blocks, Block{
			Name:        b.GetName(),
			Schema:      schemaFromProto(b.GetSchema()),
			MinItems:    b.GetMinItems(),
			MaxItems:    b.GetMaxItems(),
			Description: b.GetDescription(),
		})
	}
	return out
}

// rawJSON keeps "absent" and "empty" one thing: nil.
func rawJSON(b []byte) json.RawMessage {
	if len(b) == 0 {
		return nil
	}
	return b
}

func configToValidate(c Config) *providerpb.ValidateRequest {
	return &providerpb.ValidateRequest{ConfigJson: c.JSON, BaseDir: c.BaseDir}
}

func configFromValidate(r *providerpb.ValidateRequest) Config {
	return Config{JSON: rawJSON(r.GetConfigJson()), BaseDir: r.GetBaseDir()}
}

func startToProto(r StartRequest) *providerpb.StartRequest {
	return &providerpb.StartRequest{
		ConfigJson: r.Config.JSON, BaseDir: r.Config.BaseDir, Mark: r.Mark, MaxMessage: r.MaxMessage,
	}
}

func startFromProto(r *providerpb.StartRequest) (StartRequest, error) {
	if r.GetMaxMessage() <= 0 {
		return StartRequest{}, violation("max_message %d", r.GetMaxMessage())
	}
	return StartRequest{
		Config:     Config{JSON: rawJSON(r.GetConfigJson()), BaseDir: r.GetBaseDir()},
		Mark:       r.GetMark(),
		MaxMessage: r.GetMaxMessage(),
	}, nil
}

func stopToProto(r StopRequest) *providerpb.StopRequest {
	return &providerpb.StopRequest{GraceMs: r.Grace.Milliseconds()}
}

// maxGraceMs keeps the conversion to a Duration from overflowing.
const maxGraceMs = math.MaxInt64 / int64(time.Millisecond)

func stopFromProto(r *providerpb.StopRequest) (StopRequest, error) {
	if ms := r.GetGraceMs(); ms < 0 || ms > maxGraceMs {
		return StopRequest{}, violation("grace_ms %d", ms)
	}
	return StopRequest{Grace: time.Duration(r.GetGraceMs()) * time.Millisecond}, nil
}

func exitToProto(s ExitStatus) *providerpb.ExitStatus {
	return &providerpb.ExitStatus{
		Code:   clampInt32(s.Code),
		Signal: clampInt32(s.Signal),
		// A proto string that is no UTF-8 does not marshal, and what a server
		// writes to its stderr need not be.
		StderrTail: keepEnd(toUTF8(s.StderrTail), MaxStderrTail),
	}
}

// clampInt32 is for exit codes, which on Windows are unsigned.
func clampInt32(n int) int32 {
	return int32(max(math.MinInt32, min(math.MaxInt32, n)))
}

func exitFromProto(s *providerpb.ExitStatus) ExitStatus {
	return ExitStatus{
		Code:       int(s.GetCode()),
		Signal:     int(s.GetSignal()),
		StderrTail: keepEnd(s.GetStderrTail(), MaxStderrTail),
	}
}

// keepEnd cuts s to its last n bytes, at the beginning of a character.
func keepEnd(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for i := range min(utf8.UTFMax, len(s)) {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	return s
}

func diagnosticsToProto(ds Diagnostics) ([]*providerpb.Diagnostic, error) {
	var out []*providerpb.Diagnostic
	for _, d := range ds {
		one := &providerpb.Diagnostic{Summary: toUTF8(d.Summary), Detail: toUTF8(d.Detail)}
		switch d.Severity {
		case Error:
			one.Severity = providerpb.Diagnostic_SEVERITY_ERROR
		case Warning:
			one.Severity = providerpb.Diagnostic_SEVERITY_WARNING
		default:
			return nil, violation("diagnostic %q: severity %d", d.Summary, d.Severity)
		}
		path, err := pathToProto(d.Path)
		if err != nil {
			return nil, fmt.Errorf("diagnostic %q: %w", d.Summary, err)
		}
		one.Path = path
		out = append(out, one)
	}
	return out, nil
}

func diagnosticsFromProto(ds []*providerpb.Diagnostic) (Diagnostics, error) {
	var out Diagnostics
	for _, d := range ds {
		one := Diagnostic{Summary: d.GetSummary(), Detail: d.GetDetail()}
		switch d.GetSeverity() {
		case providerpb.Diagnostic_SEVERITY_ERROR:
			one.Severity = Error
		case providerpb.Diagnostic_SEVERITY_WARNING:
			one.Severity = Warning
		default:
			return nil, violation("diagnostic %q: severity %d", d.GetSummary(), d.GetSeverity())
		}
		path, err := pathFromProto(d.GetPath())
		if err != nil {
			return nil, fmt.Errorf("diagnostic %q: %w", d.GetSummary(), err)
		}
		one.Path = path
		out = append(out, one)
	}
	return out, nil
}

func pathToProto(p Path) ([]*providerpb.PathStep, error) {
	var out []*providerpb.PathStep
	for i, step := range p {
		switch s := step.(type) {
		case AttributeStep:
			out = append(out, &providerpb.PathStep{Step: &providerpb.PathStep_Attribute{Attribute: string(s)}})
		case KeyStep:
			out = append(out, &providerpb.PathStep{Step: &providerpb.PathStep_Key{Key: toUTF8(string(s))}})
		case IndexStep:
			if s < 0 {
				return nil, violation("path step %d: index %d", i, s)
			}
			out = append(out, &providerpb.PathStep{Step: &providerpb.PathStep_Index{Index: int64(s)}})
		default:
			return nil, violation("path step %d: %T", i, step)
		}
	}
	return out, nil
}

func pathFromProto(p []*providerpb.PathStep) (Path, error) {
	var out Path
	for i, step := range p {
		switch s := step.GetStep().(type) {
		case *providerpb.PathStep_Attribute:
			out = append(out, AttributeStep(s.Attribute))
		case *providerpb.PathStep_Key:
			out = append(out, KeyStep(s.Key))
		case *providerpb.PathStep_Index:
			if s.Index < 0 {
				return nil, violation("path step %d: index %d", i, s.Index)
			}
			out = append(out, IndexStep(s.Index))
		default:
			return nil, violation("path step %d: unknown kind", i)
		}
	}
	return out, nil
}
