package front

import (
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// mirrored checks that the headers of a modern request say what its body says, so
// that nothing in between is deceived about what it lets through
// (MCP 2026-07-28, basic/transports/streamable-http, "Server Validation"). What
// is missing in the body is admit's to tell.
func (r *request) mirrored(header http.Header) *rpc.Error {
	if r.version == "" {
		return nil
	}
	if err := mirrors(header, mcp.HeaderProtocolVersion, r.version); err != nil {
		return err
	}
	if !mcp.IsValidProtocolVersion(r.version) {
		return nil // whoever speaks it may have other headers
	}
	if err := mirrors(header, mcp.HeaderMethod, r.Method); err != nil {
		return err
	}
	if r.method == nil || r.method.named == "" {
		return nil
	}
	name, ok := r.GetString("params", r.method.named)
	if !ok {
		return nil
	}
	return mirrors(header, mcp.HeaderName, name)
}

// mirrors checks one header, which if it is Mcp-Name may be encoded.
func mirrors(header http.Header, key, want string) *rpc.Error {
	read := single
	if key == mcp.HeaderName {
		read = decoded
	}
	got, err := read(header, key)
	if err != nil {
		return err
	}
	if got != want {
		return mismatch(fmt.Sprintf("%s is %q, the body says %q", key, got, want))
	}
	return nil
}

// single returns the value of a header that must be there once, of the characters
// that a header may hold (RFC 9110, section 5.5; older ones are not taken).
func single(header http.Header, key string) (string, *rpc.Error) {
	values := header.Values(key)
	if len(values) != 1 {
		return "", mismatch(fmt.Sprintf("%s must be there once, and is there %d times", key, len(values)))
	}
	for _, c := range []byte(values[0]) {
		if (c < ' ' || c > '~') && c != '\t' {
			return "", mismatch(key + " holds what is no visible ASCII character; such a value is to be in Base64")
		}
	}
	return values[0], nil
}

// decoded is single for a header whose value may be in Base64 (MCP 2026-07-28,
// "Value Encoding").
func decoded(header http.Header, key string) (string, *rpc.Error) {
	value, err := single(header, key)
	if err != nil {
		return "", err
	}
	text, ok := mcp.DecodeHeaderValue(value)
	if !ok {
		return "", mismatch(key + " is not valid Base64")
	}
	return text, nil
}

func mismatch(what string) *rpc.Error {
	return &rpc.Error{Code: mcp.HEADER_MISMATCH, Message: "header mismatch: " + what}
}

// statusOf is the HTTP status of a request that was refused before it was served.
func statusOf(e era, err *rpc.Error) int {
	switch {
	case err.Code == rpc.CodeMethodNotFound && e == legacy:
		return http.StatusOK // to a legacy client 404 says that its session has ended
	case err.Code == rpc.CodeMethodNotFound:
		return http.StatusNotFound
	case err.Code == rpc.CodeInternal:
		return http.StatusInternalServerError
	case err.Code < -32000:
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable // one of the host's own: it does not take it now
}

// isJSON says whether a request's body is declared as JSON.
func isJSON(header http.Header) bool {
	declared := header.Get("Content-Type")
	if declared == typeJSON {
		return true
	}
	kind, _, err := mime.ParseMediaType(declared)
	return err == nil && kind == typeJSON
}

// accepts says whether a client takes responses of a type. No Accept header takes all.
func accepts(header http.Header, kind string) bool {
	values := header["Accept"]
	if len(values) == 0 {
		return true
	}
	major, _, _ := strings.Cut(kind, "/")
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			item, _, _ = strings.Cut(item, ";")
			item = strings.ToLower(strings.TrimSpace(item))
			if item == kind || item == "*/*" || item == major+"/*" {
				return true
			}
		}
	}
	return false
}
