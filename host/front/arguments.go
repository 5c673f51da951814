package front

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// maxSafeInteger is the largest integer that a header may mirror, for every
// reader takes it for the same (MCP 2026-07-28, "Schema Extension").
const maxSafeInteger = 1<<53 - 1

// argumentsMirrored checks that the headers which a tool's definition asks for say
// what the arguments of the call say (MCP 2026-07-28,
// basic/transports/streamable-http, "Server Behavior for Custom Headers").
func (r *request) argumentsMirrored(tool *catalog.Tool) *rpc.Error {
	if len(tool.Headers) == 0 {
		return nil
	}
	values, err := r.arguments(tool.Headers)
	if err != nil {
		var own *rpc.Error
		if errors.As(err, &own) {
			return own
		}
		return &rpc.Error{Code: rpc.CodeInternal, Message: "internal error: the arguments cannot be read"}
	}
	for i, p := range tool.Headers {
		if err := mirrorsArgument(r.header, p, values[i]); err != nil {
			return err
		}
	}
	return nil
}

// mirrorsArgument checks one header. An argument that is absent or null has none.
func mirrorsArgument(header http.Header, p catalog.HeaderParam, value jsontext.Value) *rpc.Error {
	argument := strings.Join(p.Path, ".")
	if value == nil || value.Kind() == jsontext.KindNull {
		if n := len(header.Values(p.Header)); n != 0 {
			return mismatch(fmt.Sprintf("%s is there, and the argument %q is not", p.Header, argument))
		}
		return nil
	}
	got, err := decoded(header, p.Header)
	if err != nil {
		return err
	}
	if !sameArgument(value, got) {
		return mismatch(fmt.Sprintf("%s is %q, the argument %q says otherwise", p.Header, got, argument))
	}
	return nil
}

// sameArgument says whether a header's value, decoded, is that of an argument.
func sameArgument(value jsontext.Value, header string) bool {
	switch value.Kind() {
	case jsontext.KindString:
		text, err := jsontext.AppendUnquote(nil, value)
		return err == nil && string(text) == header
	case jsontext.KindTrue, jsontext.KindFalse:
		return string(value) == header
	case jsontext.KindNumber:
		want, ok := safeInteger(string(value))
		if !ok || jsontext.Value(header).Kind() != jsontext.KindNumber || !jsontext.Value(header).IsValid() {
			return false
		}
		got, ok := safeInteger(header)
		return ok && got == want
	}
	return false
}

// safeInteger reads a JSON number whose value is a whole one that a header may
// mirror: 42, 42.0 and 4.2e1 are the same.
func safeInteger(number string) (float64, bool) {
	f, err := strconv.ParseFloat(number, 64)
	return f, err == nil && f == math.Trunc(f) && math.Abs(f) <= maxSafeInteger
}

// arguments returns the values of those arguments, in the same order, nil where
// there is none. It refuses a member on the way to one that is there twice, or in
// another spelling of case: a server may read that one, and the header is of the other.
func (r *request) arguments(params []catalog.HeaderParam) ([]jsontext.Value, error) {
	values := make([]jsontext.Value, len(params))
	at, kind, _ := r.FindKind("params", "arguments")
	if kind != '{' {
		return values, nil
	}
	w := argumentWalk{params: params, values: values}
	w.dec = jsontext.NewDecoder(r.Reader(at), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	all := make([]int, len(params))
	for i := range all {
		all[i] = i
	}
	return values, w.object(all, 0)
}

// argumentWalk reads the arguments of one call once.
type argumentWalk struct {
	dec    *jsontext.Decoder
	params []catalog.HeaderParam
	values []jsontext.Value
}

// object reads an object that the paths of some params lead to, depth steps deep.
func (w *argumentWalk) object(some []int, depth int) error {
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for w.dec.PeekKind() != jsontext.KindEndObject {
		token, err := w.dec.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		inside, leaf, err := w.step(some, depth, name, seen)
		if err != nil {
			return err
		}
		switch {
		case leaf >= 0:
			value, err := w.dec.ReadValue()
			if err != nil {
				return err
			}
			w.values[leaf] = value.Clone()
		case len(inside) > 0 && w.dec.PeekKind() == jsontext.KindBeginObject:
			if err := w.object(inside, depth+1); err != nil {
				return err
			}
		default:
			if err := w.dec.SkipValue(); err != nil {
				return err
			}
		}
	}
	_, err := w.dec.ReadToken()
	return err
}

// step says what of some params a member leads to: one whose value it is, or -1,
// and those that are further inside.
func (w *argumentWalk) step(some []int, depth int, name string, seen map[string]bool) (inside []int, leaf int, err error) {
	leaf = -1
	for _, i := range some {
		path := w.params[i].Path
		switch step := path[depth]; {
		case step == name && len(path) == depth+1:
			leaf = i
		case step == name:
			inside = append(inside, i)
		case strings.EqualFold(step, name):
			return nil, 0, mismatch(fmt.Sprintf("an argument is named %q, the one that %s repeats %q", name, w.params[i].Header, step))
		}
	}
	if leaf < 0 && inside == nil {
		return nil, -1, nil
	}
	if seen[name] {
		return nil, 0, mismatch(fmt.Sprintf("the argument %q is there twice, and a header repeats it", name))
	}
	seen[name] = true
	return inside, leaf, nil
}
