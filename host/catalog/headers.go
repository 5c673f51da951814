package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/mark3labs/mcp-go/mcp"
)

// HeaderParam is an argument of a tool that a client of the stateless era repeats
// in an HTTP header, as the tool's input schema asks by `x-mcp-header` (MCP
// 2026-07-28, basic/transports/streamable-http, "Custom Headers from Tool Parameters").
type HeaderParam struct {
	// Header is the whole name of the header.
	Header string
	// Path leads to the argument: the names of members from the arguments down.
	Path []string
}

const (
	// annotation is the keyword of a schema that asks for a header.
	annotation = "x-mcp-header"
	// maxHeaders bounds the headers of one tool: all headers of a request share a
	// few ten thousand bytes, and each is looked for in each call.
	maxHeaders = 128
)

// headerParams reads which headers a definition's input schema asks for. fault
// says why the definition is invalid: then no conforming client on HTTP has the
// tool, and no header means anything. Leaving such a tool out of its list is a
// client's duty; the host passes the definition as it came.
//
// (The reader of mcp-go does not look for annotations where none may stand, and
// takes a schema for one without annotations if a property of it is `true`.)
func headerParams(raw json.RawMessage) (params []HeaderParam, fault string) {
	if !bytes.Contains(raw, []byte(annotation)) && !bytes.Contains(raw, []byte(`\u`)) {
		return nil, ""
	}
	err := eachMember(raw, func(name string, value jsontext.Value, _ int64) error {
		if name != "inputSchema" {
			return nil
		}
		s := headerScan{dec: jsontext.NewDecoder(bytes.NewReader(value), lenient...)}
		if err := s.schema(true); err != nil {
			return err
		}
		params, fault = s.found, s.fault // of a doubled member the last
		return nil
	})
	if err != nil || fault != "" {
		return nil, fault
	}
	return params, ""
}

// headerScan walks a schema once, from its first byte to its last.
type headerScan struct {
	dec *jsontext.Decoder
	// path are the names by which maps of schemas led here.
	path  []string
	found []HeaderParam
	fault string // the first
}

// keywords whose value maps names of any kind to schemas.
var schemaMaps = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}

// keywords whose value is data, in which no keyword means anything.
var schemaData = []string{"const", "enum", "default", "examples"}

// schema reads one value in which schemas may stand. reachable says that the way
// to it led through `properties` alone.
func (s *headerScan) schema(reachable bool) error {
	switch s.dec.PeekKind() {
	case jsontext.KindBeginObject:
		return s.object(reachable)
	case jsontext.KindBeginArray:
		return s.each(func() error { return s.schema(false) })
	}
	return s.dec.SkipValue()
}

// object reads the members of one schema.
func (s *headerScan) object(reachable bool) error {
	var asked []jsontext.Value
	var kind jsontext.Value
	err := s.each(func() error {
		name, err := s.name()
		switch {
		case err != nil:
			return err
		case name == annotation:
			value, err := s.dec.ReadValue()
			asked = append(asked, value.Clone())
			return err
		case name == "type":
			value, err := s.dec.ReadValue()
			kind = value.Clone()
			return err
		case slices.Contains(schemaData, name):
			return s.dec.SkipValue()
		case slices.Contains(schemaMaps, name) && s.dec.PeekKind() == jsontext.KindBeginObject:
			return s.schemas(reachable && name == "properties")
		}
		return s.schema(false)
	})
	if err == nil && len(asked) > 0 {
		s.annotated(reachable, asked, kind)
	}
	return err
}

// schemas reads an object whose members are schemas.
func (s *headerScan) schemas(reachable bool) error {
	return s.each(func() error {
		name, err := s.name()
		if err != nil {
			return err
		}
		s.path = append(s.path, name)
		err = s.schema(reachable)
		s.path = s.path[:len(s.path)-1]
		return err
	})
}

// each calls f at each member or element of the object or array that comes next.
func (s *headerScan) each(f func() error) error {
	if _, err := s.dec.ReadToken(); err != nil {
		return err
	}
	for k := s.dec.PeekKind(); k != jsontext.KindEndObject && k != jsontext.KindEndArray; k = s.dec.PeekKind() {
		if err := f(); err != nil {
			return err
		}
	}
	_, err := s.dec.ReadToken()
	return err
}

func (s *headerScan) name() (string, error) {
	tok, err := s.dec.ReadToken()
	return tok.String(), err
}

// annotated takes the annotation of the schema at s.path.
func (s *headerScan) annotated(reachable bool, asked []jsontext.Value, kind jsontext.Value) {
	var name []byte
	err := error(nil)
	if asked[0].Kind() == jsontext.KindString {
		name, err = jsontext.AppendUnquote(nil, asked[0])
	}
	header := mcp.HeaderParamPrefix + string(name)
	switch {
	case s.fault != "":
	case !reachable || len(s.path) == 0:
		s.fault = fmt.Sprintf("it has %s where no header can be made of it: at %s", annotation, asked[0])
	case len(asked) > 1:
		s.fault = fmt.Sprintf("its argument %q asks for two headers", strings.Join(s.path, "."))
	case err != nil || !isToken(name):
		s.fault = fmt.Sprintf("its argument %q asks for a header named %s, which is no name of one", strings.Join(s.path, "."), asked[0])
	case !isPrimitive(kind):
		s.fault = fmt.Sprintf("its argument %q asks for a header, and its type is none of string, integer and boolean", strings.Join(s.path, "."))
	case slices.ContainsFunc(s.found, func(p HeaderParam) bool { return strings.EqualFold(p.Header, header) }):
		s.fault = fmt.Sprintf("two of its arguments ask for the header %s", header)
	case len(s.found) == maxHeaders:
		s.fault = fmt.Sprintf("more than %d of its arguments ask for headers", maxHeaders)
	default:
		s.found = append(s.found, HeaderParam{Header: header, Path: slices.Clone(s.path)})
	}
}

// isPrimitive says whether the value of a schema's `type` lets an argument be a
// string, an integer or a boolean, or null, which has no header.
func isPrimitive(kind jsontext.Value) bool {
	var one string
	var several []string
	if json.Unmarshal(kind, &one) == nil {
		several = []string{one}
	} else if json.Unmarshal(kind, &several) != nil {
		return false
	}
	primitive := false
	for _, name := range several {
		switch name {
		case "string", "integer", "boolean":
			primitive = true
		case "null":
		default:
			return false
		}
	}
	return primitive
}

// isToken says whether name can be part of a header's name (RFC 9110, section 5.6.2).
func isToken(name []byte) bool {
	for _, c := range name {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return len(name) > 0
}
