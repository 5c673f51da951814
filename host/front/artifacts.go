package front

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/artifact"
	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// ReadArtifact is the name of the host's own tool that reads artifacts. No other
// tool may have it.
const ReadArtifact = "read_artifact"

const (
	// defaultPart is how much of an artifact the tool gives at a time, and mostPart
	// how much it gives to who asks for more: what a context window can take.
	defaultPart = 64 << 10
	mostPart    = 512 << 10
	// codeNotFound is "Resource not found" (MCP 2025-11-25, server/resources). From MCP
	// 2026-07-28 on that is CodeInvalidParams.
	codeNotFound = -32002
	// metaRange says which part of an artifact a result holds.
	metaRange = metaPrefix + "range"
)

// readArtifactTool is its definition.
var readArtifactTool = encode(map[string]any{
	"name":  ReadArtifact,
	"title": "Read a large result",
	"description": "Reads a part of a large result that was kept as an artifact. A tool whose result was too large says so, and gives a link drawbridge://artifacts/ID: " +
		"pass it as uri. Read from offset (bytes, default 0); length defaults to 65536 bytes and is 524288 at most. The answer says where the next part begins.",
	"inputSchema": map[string]any{
		"type": "object",
		"properties": map[string]any{
			"uri":    map[string]any{"type": "string", "description": "drawbridge://artifacts/ID"},
			"offset": map[string]any{"type": "integer", "minimum": 0, "description": "first byte to read"},
			"length": map[string]any{"type": "integer", "minimum": 1, "maximum": mostPart, "description": "most bytes to read"},
		},
		"required": []string{"uri"},
	},
	"annotations": map[string]any{"readOnlyHint": true, "openWorldHint": false},
})

// artifacts says whether a caller may meet any: to others there is neither the tool
// nor the methods. It goes by grants and not by what is listed now, for what a server
// gave once may be read while it is down.
func (s *Server) artifacts(c broker.Caller) bool {
	return s.opts.Artifacts != nil && s.broker.Capabilities(c).Results
}

// listResources answers with the caller's artifacts, the newest first. Resources of
// servers are not among them.
func (s *Server) listResources(_ context.Context, r *request) error {
	if !s.artifacts(r.caller) {
		return methodNotFound(r.Method)
	}
	cursor, err := cursorOf(r.Message)
	if err != nil {
		return err
	}
	type resource struct {
		URI         string `json:"uri"`
		Name        string `json:"name"`
		Description string `json:"description"`
		MIME        string `json:"mimeType"`
		Size        int64  `json:"size"`
	}
	records, err := s.opts.Artifacts.List(r.caller.Principal)
	if err != nil {
		return s.artifactFailed(r, err, "")
	}
	records, next, err := pageOf(records, r.caller.Principal, cursor, s.opts.PageSize)
	if err != nil {
		return err
	}
	list := []resource{}
	for _, a := range records {
		list = append(list, resource{a.URI(), a.Origin.Tool + " result",
			fmt.Sprintf("From %s of %s, kept until %s; sha256 %s", a.Origin.Tool, a.Origin.Provider, a.Expires.Format("2006-01-02 15:04 MST"), a.SHA256), a.MIME, a.Size})
	}
	members := `"resources":` + string(encode(list))
	if next != "" {
		members += `,"nextCursor":"` + next + `"`
	}
	return s.ownResult(r, members)
}

// listTemplates answers that there are none: the ranges of an artifact's URI are
// documented where the artifact is shown.
func (s *Server) listTemplates(_ context.Context, r *request) error {
	if !s.artifacts(r.caller) {
		return methodNotFound(r.Method)
	}
	if cursor, err := cursorOf(r.Message); err != nil || cursor != "" {
		return badCursor(notOurs)
	}
	return s.ownResult(r, `"resourceTemplates":[]`)
}

// ownResult answers with a result of the host's own, given as its members.
func (s *Server) ownResult(r *request, members string) error {
	return r.answer(rpc.NewResult(r.ID, json.RawMessage("{"+members+s.ending(r)+"}")))
}

// ending are the members that end a result of the host's own: what a modern client
// needs.
func (s *Server) ending(r *request) string {
	if r.era != modern {
		return ""
	}
	end := `,"resultType":"complete"`
	if r.method.cached {
		end += `,"ttlMs":` + strconv.Itoa(cacheTTL) + `,"cacheScope":"` + string(mcp.CacheScopePrivate) + `"`
	}
	return end + `,"_meta":{"` + mcp.MetaKeyServerInfo + `":` + string(s.identity) + `}`
}

// readResource reads an artifact, or the part of it that its URI asks for, whole:
// nothing is cut that the client did not ask to be cut. It takes no more memory
// for a large one.
func (s *Server) readResource(_ context.Context, r *request) error {
	if !s.artifacts(r.caller) {
		return methodNotFound(r.Method)
	}
	uri, ok := r.GetString("params", "uri")
	if !ok {
		return &rpc.Error{Code: rpc.CodeInvalidParams, Message: `invalid params: "uri" must be a string`}
	}
	id, part, err := artifact.ParseURI(uri)
	if err != nil {
		return notFound(r, fmt.Sprintf("resource not found: %v", err), uri)
	}
	f, record, err := s.openArtifact(r, id)
	if err != nil {
		return s.artifactFailed(r, err, uri)
	}
	defer f.Close()
	if part, err = part.Within(record.Size, record.Size); err != nil {
		return s.artifactFailed(r, err, uri)
	}
	a := rpc.NewAssembler(rpc.FromServer, s.opts.SpoolDir, 0)
	defer a.Abort()
	if err := s.writeContents(a, r, f, record, uri, part); err != nil {
		return s.artifactFailed(r, err, uri)
	}
	m, err := a.Finish()
	if err != nil {
		return s.artifactFailed(r, err, uri)
	}
	defer func() { _ = m.Close() }()
	return r.answer(m.Payload())
}

// writeContents writes the whole response of resources/read.
func (s *Server) writeContents(w io.Writer, r *request, f *os.File, record artifact.Record, uri string, part artifact.Range) error {
	text, err := isText(f, record, part)
	if err != nil {
		return err
	}
	member := `"blob":"`
	if text {
		member = `"text":"`
	}
	head := `{"jsonrpc":"2.0","id":` + string(r.ID) + `,"result":{"contents":[{"uri":` + string(rpc.Quote(uri)) +
		`,"mimeType":` + string(rpc.Quote(record.MIME)) + `,"_meta":{"` + metaRange + `":` + string(encode(rangeOf(record, part))) + `},` + member
	if _, err := io.WriteString(w, head); err != nil {
		return err
	}
	content := io.NewSectionReader(f, part.Offset, part.Length)
	if text {
		err = quoteInto(w, content)
	} else {
		encoder := base64.NewEncoder(base64.StdEncoding, w)
		if _, err = io.Copy(encoder, content); err == nil {
			err = encoder.Close()
		}
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, `"}]`+s.ending(r)+`}}`)
	return err
}

// shownRange says, for programs, which part of an artifact a result holds.
type shownRange struct {
	Offset int64  `json:"offset"`
	Length int64  `json:"length"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // of the whole
}

func rangeOf(r artifact.Record, p artifact.Range) shownRange {
	return shownRange{p.Offset, p.Length, r.Size, r.SHA256}
}

// isText says whether a part of an artifact can be given as text: it is part of one,
// and begins and ends between characters.
func isText(f *os.File, record artifact.Record, part artifact.Range) (bool, error) {
	if !record.Text {
		return false, nil
	}
	for _, at := range []int64{part.Offset, part.Offset + part.Length} {
		var next [1]byte
		if n, err := f.ReadAt(next[:], at); n == 1 && !utf8.RuneStart(next[0]) {
			return false, nil
		} else if n == 0 && !errors.Is(err, io.EOF) {
			return false, err
		}
	}
	return true, nil
}

// quoteInto writes text as the inside of a JSON string.
func quoteInto(w io.Writer, text io.Reader) error {
	const block = 32 << 10
	buf := make([]byte, 0, block+utf8.UTFMax)
	var quoted []byte
	for {
		had := len(buf)
		n, err := io.ReadFull(text, buf[had:had+block])
		buf = buf[:had+n]
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ended {
			return err
		}
		whole := buf
		if !ended {
			whole = artifact.WholeRunes(buf)
		}
		quoted = rpc.AppendQuoted(quoted[:0], whole)
		if _, err := w.Write(quoted[1 : len(quoted)-1]); err != nil {
			return err
		}
		if ended {
			return nil
		}
		buf = append(buf[:0], buf[len(whole):]...)
	}
}

func (s *Server) openArtifact(r *request, id string) (*os.File, artifact.Record, error) {
	return s.opts.Artifacts.Reader(r.caller.Principal, id)
}

// notFound is the error for what is no resource, in the words of the client's era.
func notFound(r *request, message, uri string) *rpc.Error {
	code := codeNotFound
	if r.era == modern {
		code = rpc.CodeInvalidParams
	}
	return &rpc.Error{Code: code, Message: message, Data: encode(map[string]string{"uri": clip(uri)})}
}

// artifactFailed is the error of an artifact that cannot be given.
func (s *Server) artifactFailed(r *request, err error, uri string) *rpc.Error {
	switch {
	case errors.Is(err, artifact.ErrNotFound):
		return notFound(r, "resource not found: there is no such artifact, or it is kept no longer", uri)
	case errors.Is(err, artifact.ErrRange):
		return &rpc.Error{Code: rpc.CodeInvalidParams, Message: "invalid params: " + err.Error()}
	}
	s.log.Warn("an artifact could not be given", "error", err)
	return &rpc.Error{Code: rpc.CodeInternal, Message: "the artifact could not be read; the host's log says why"}
}

// clip bounds what a client sent, where it is sent back.
func clip(text string) string {
	const most = 256
	if len(text) <= most {
		return text
	}
	return string(artifact.WholeRunes([]byte(text[:most]))) + "…"
}

// readArtifactCall serves the tool. What is wrong with the arguments is a tool's
// error, so that a model can mend it.
func (s *Server) readArtifactCall(r *request) error {
	say := func(why string) error {
		return s.ownResult(r, `"isError":true,"content":[`+string(encode(mcp.NewTextContent(why)))+`]`)
	}
	var args struct {
		URI    string `json:"uri"`
		Offset int64  `json:"offset"`
		Length int64  `json:"length"`
	}
	dec := json.NewDecoder(bytes.NewReader(r.Get("params", "arguments")))
	if err := dec.Decode(&args); err != nil {
		return say(`arguments must be {"uri": "drawbridge://artifacts/ID", "offset": N, "length": N}, the last two optional`)
	}
	id, part, err := artifact.ParseURI(args.URI)
	switch {
	case err != nil:
		return say(err.Error())
	case args.Offset < 0 || args.Length < 0:
		return say("offset and length are numbers of bytes, and not negative")
	case part == artifact.Range{}:
		part = artifact.Range{Offset: args.Offset, Length: args.Length}
	case args.Offset != 0 || args.Length != 0:
		return say("say offset and length as arguments or in the uri, not both")
	}
	f, record, err := s.openArtifact(r, id)
	if err != nil {
		return say(s.artifactFailed(r, err, args.URI).Message)
	}
	defer f.Close()
	if part.Length == 0 {
		part.Length = defaultPart
	}
	if part, err = part.Within(record.Size, mostPart); err != nil {
		return say(err.Error())
	}
	content := make([]byte, part.Length)
	if _, err := f.ReadAt(content, part.Offset); err != nil {
		return say(s.artifactFailed(r, err, args.URI).Message)
	}
	if record.Text && part.Offset+part.Length < record.Size {
		content = artifact.WholeRunes(content)
		part.Length = int64(len(content))
	}
	return s.ownResult(r, `"content":[`+string(shownPart(record, part, content))+`,`+
		string(encode(mcp.NewTextContent(whereNext(record, part))))+`]`)
}

// shownPart is a part as a block of content: text where it is text, else an
// embedded resource.
func shownPart(record artifact.Record, part artifact.Range, content []byte) json.RawMessage {
	if record.Text && utf8.Valid(content) {
		return encode(mcp.NewTextContent(string(content)))
	}
	uri := fmt.Sprintf("%s?offset=%d&length=%d", record.URI(), part.Offset, part.Length)
	return encode(mcp.NewEmbeddedResource(mcp.BlobResourceContents{URI: uri, MIMEType: record.MIME, Blob: base64.StdEncoding.EncodeToString(content)}))
}

// whereNext tells a model where it is.
func whereNext(record artifact.Record, part artifact.Range) string {
	end := part.Offset + part.Length
	if end >= record.Size {
		return fmt.Sprintf("[bytes %d to %d of %d: this is the end]", part.Offset, end, record.Size)
	}
	return fmt.Sprintf("[bytes %d to %d of %d; the next part begins at offset %d]", part.Offset, end, record.Size, end)
}
