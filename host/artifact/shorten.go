package artifact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/shared/scrub"
)

const (
	// leastPart is the size of a part of a result below which a link to it would
	// save little.
	leastPart = 4 << 10
	// previewSize is how much of a text a caller sees of it, in bytes.
	previewSize = 1 << 10
	// mostBlocks is how many blocks of content are looked at one by one. The
	// content of a result that has more is kept as one artifact.
	mostBlocks = 4096
	// mostAnnotations bounds what is copied from a block to the link to it.
	mostAnnotations = 1 << 10

	mimeText = "text/plain; charset=utf-8"
	mimeJSON = "application/json"
	mimeAny  = "application/octet-stream"
)

// Bounds says how large a result may be, and what of it must stay.
type Bounds struct {
	// Inline is the most bytes of a result that is passed as it is.
	Inline int64
	// KeepStructured says that the tool declares an outputSchema: clients reject
	// its result without structuredContent, so that stays however large.
	KeepStructured bool
	// SpoolDir is where what is still large goes, in an unlinked file.
	SpoolDir string
	// Secrets are taken out of data that stood in the result in base64: decoded it may
	// hold what nobody could see in it. Nil: none.
	Secrets *scrub.Set
}

// Shortened is a result with links in place of its large parts.
type Shortened struct {
	// Message is the result to pass on. It does not depend on the original.
	Message *rpc.Message
	// Kept are the artifacts, in the order of the links to them.
	Kept []Record
	// Lost is why a part could not be kept; nil if all were. The result says so too.
	Lost error
	// Redacted says that secrets were taken out of data.
	Redacted bool
}

// Shorten keeps the large parts of a tool's result that is over the bound as
// artifacts and puts links in their place, the largest first, until the rest is
// within it. It returns nil for a result that is to be passed as it is. A part
// that cannot be kept costs the result that part and nothing else: what the call
// did is done. The error is that of a message that cannot be read.
func (s *Store) Shorten(m *rpc.Message, o Origin, b Bounds) (*Shortened, error) {
	result, ok := m.Find("result")
	if m.Kind != rpc.Result || !ok || result.Len() <= b.Inline {
		return nil, nil
	}
	h := shortening{store: s, m: m, origin: o, bounds: b, left: result.Len()}
	if err := h.findParts(); err != nil {
		return nil, err
	}
	if len(h.parts) == 0 {
		return nil, nil
	}
	h.choose()
	for i := range h.parts {
		if p := &h.parts[i]; p.chosen {
			if err := h.keep(p); err != nil {
				return nil, err
			}
		}
	}
	return h.assemble()
}

// shortening is one result on its way through Shorten.
type shortening struct {
	store  *Store
	m      *rpc.Message
	origin Origin
	bounds Bounds
	// left is how much is still too large, while parts are chosen.
	left  int64
	parts []part
	kept  []Record
	lost  error
	// redacted says that a secret was taken out.
	redacted bool
}

// part is what may become an artifact: a block of content, all of it, or the
// structured content.
type part struct {
	at rpc.Part
	// structured says that it is no block, and stands beside the content; all that
	// it is the whole content.
	structured, all bool
	chosen          bool
	// blocks are what stands in its place.
	blocks []json.RawMessage
}

// findParts finds what of the result is large. Of a member that occurs more than once
// each one counts: clients differ in which of them they take.
func (h *shortening) findParts() error {
	for _, content := range h.m.FindAll("result", "content") {
		if content.Kind != '[' {
			continue
		}
		parts, err := h.blocksOf(content)
		if err != nil {
			return err
		}
		h.parts = append(h.parts, parts...)
	}
	if h.bounds.KeepStructured {
		return nil
	}
	for _, at := range h.m.FindAll("result", "structuredContent") {
		h.parts = append(h.parts, part{at: at, structured: true})
	}
	return nil
}

// blocksOf are the blocks of one array of content, or all of it as one part.
func (h *shortening) blocksOf(content rpc.Part) ([]part, error) {
	together := []part{{at: content, all: true}}
	blocks, err := h.m.Elements(content.At, mostBlocks)
	if errors.Is(err, rpc.ErrTooManyParts) {
		return together, nil
	}
	if err != nil {
		return nil, err
	}
	parts, large := make([]part, 0, len(blocks)), int64(0)
	for _, block := range blocks {
		parts = append(parts, part{at: block})
		if block.At.Len() >= leastPart {
			large += block.At.Len()
		}
	}
	// Where the small ones alone are too much, they are kept together.
	if content.At.Len()-large > h.bounds.Inline {
		return together, nil
	}
	return parts, nil
}

// choose marks the largest parts, until the rest is within the bound, and with one
// structured content every other: none of them stays then.
func (h *shortening) choose() {
	h.chooseLargest()
	if slices.ContainsFunc(h.parts, func(p part) bool { return p.structured && p.chosen }) {
		for i := range h.parts {
			h.parts[i].chosen = h.parts[i].chosen || h.parts[i].structured
		}
	}
}

func (h *shortening) chooseLargest() {
	order := make([]*part, len(h.parts))
	for i := range h.parts {
		order[i] = &h.parts[i]
	}
	slices.SortStableFunc(order, func(a, b *part) int { return int(b.at.At.Len() - a.at.At.Len()) })
	for _, p := range order {
		if h.left <= h.bounds.Inline || p.at.At.Len() < leastPart {
			return
		}
		p.chosen = true
		h.left -= p.at.At.Len()
	}
}

// source is the content of a part, ready to be read.
type source struct {
	from io.Reader
	mime string
	text bool
	// hide is what is taken out of it, nil for nothing.
	hide *scrub.Set
	// name is what the link is called, annotations what it carries over.
	name        string
	annotations json.RawMessage
}

// keep writes a part to an artifact and makes what stands in its place.
func (h *shortening) keep(p *part) error {
	src, err := h.source(p)
	if err != nil {
		return err
	}
	record, head, err := h.write(src)
	var damaged base64.CorruptInputError
	if errors.As(err, &damaged) || errors.Is(err, io.ErrUnexpectedEOF) { // it is no base64: then it is what it is
		src.from, src.mime, src.text, src.hide = h.m.Reader(p.at.At), mimeJSON, true, nil
		record, head, err = h.write(src)
	}
	if err != nil {
		h.lost = err
		p.blocks = []json.RawMessage{textBlock(fmt.Sprintf(
			"[This part of the result, %d bytes of %s as JSON, could not be kept: %v. The call has run to its end all the same; do not repeat it for that. To get such results in full, raise artifacts.quota or inline_result.]",
			p.at.At.Len(), src.mime, withoutPath(err)))}
		return nil
	}
	h.kept = append(h.kept, record)
	p.blocks = []json.RawMessage{textBlock(preview(record, head)), link(record, src)}
	return nil
}

// withoutPath is why a part could not be kept, without where on this machine: the
// result may go to another.
func withoutPath(err error) error {
	var at *fs.PathError
	var between *os.LinkError
	switch {
	case errors.As(err, &at):
		return at.Err
	case errors.As(err, &between):
		return between.Err
	}
	return err
}

// write copies a source into an artifact. The head is the beginning of a text.
func (h *shortening) write(src source) (Record, []byte, error) {
	w, err := h.store.Create(h.origin, src.mime, src.text)
	if err != nil {
		return Record{}, nil, err
	}
	w.spare = h.kept
	head := headWriter{most: previewSize}
	clean := scrub.NewWriter(src.hide, io.MultiWriter(w, &head))
	_, err = io.Copy(clean, src.from)
	if err == nil {
		err = clean.Close()
	}
	if err != nil {
		w.Abort()
		return Record{}, nil, err
	}
	h.redacted = h.redacted || clean.Found()
	r, err := w.Commit()
	return r, head.kept, err
}

// headWriter keeps the beginning of what is written to it.
type headWriter struct {
	kept []byte
	most int
}

func (h *headWriter) Write(p []byte) (int, error) {
	h.kept = append(h.kept, p[:min(len(p), h.most-len(h.kept))]...)
	return len(p), nil
}

// source finds the content of a part: the text or the decoded data of a block of
// a kind that is known (MCP, server/tools, "Tool Result"), else its JSON.
func (h *shortening) source(p *part) (source, error) {
	whole := source{from: h.m.Reader(p.at.At), mime: mimeJSON, text: true, name: h.origin.Tool + " content"}
	if p.structured {
		whole.name = h.origin.Tool + " structuredContent"
	}
	if p.structured || p.all || p.at.Kind != '{' {
		return whole, nil
	}
	block, err := h.fields(p.at)
	if err != nil {
		return source{}, err
	}
	whole.name = h.origin.Tool + " result"
	if a, ok := block["annotations"]; ok && a.Kind == '{' && a.At.Len() <= mostAnnotations {
		if whole.annotations, err = h.m.Section(a.At).Append(nil); err != nil {
			return source{}, err
		}
	}
	switch h.short(block["type"]) {
	case "text":
		return h.content(whole, block, "text", ""), nil
	case "image", "audio":
		return h.content(whole, block, "", "data"), nil
	case "resource":
		inner, err := h.fields(block["resource"])
		if err != nil {
			return source{}, err
		}
		if uri := h.short(inner["uri"]); uri != "" {
			whole.name = path.Base(uri)
		}
		return h.content(whole, inner, "text", "blob"), nil
	}
	return whole, nil
}

// content is the text or the data of an object with its type; whole if it has none.
func (h *shortening) content(whole source, object map[string]rpc.Part, text, data string) source {
	src := whole
	switch t, d := object[text], object[data]; {
	case t.Kind == '"':
		src.from, src.mime, src.text = h.m.Text(t.At), mimeText, true
	case d.Kind == '"':
		src.from, src.mime, src.text = base64.NewDecoder(base64.StdEncoding, h.m.Text(d.At)), mimeAny, false
		src.hide = h.bounds.Secrets
	default:
		return whole
	}
	if mime := h.short(object["mimeType"]); mime != "" {
		src.mime = mime
	}
	return src
}

// fields are the members of an object by name; the last of one that is doubled.
func (h *shortening) fields(object rpc.Part) (map[string]rpc.Part, error) {
	if object.Kind != '{' {
		return nil, nil
	}
	list, err := h.m.Members(object.At)
	if err != nil {
		return nil, err
	}
	out := make(map[string]rpc.Part, len(list))
	for _, f := range list {
		out[f.Name] = f
	}
	return out, nil
}

// short is the text of a string that is no longer than a name or a type, else "".
func (h *shortening) short(p rpc.Part) string {
	const most = 1 << 10
	if p.Kind != '"' || p.At.Len() > most {
		return ""
	}
	text, err := io.ReadAll(h.m.Text(p.At))
	if err != nil {
		return ""
	}
	return string(text)
}

// preview says what was kept, and shows the beginning of a text.
func preview(r Record, head []byte) string {
	about := fmt.Sprintf("[%d bytes of %s are kept as %s until %s. Read them in parts with read_artifact, or with resources/read of the URI followed by ?offset=N&length=M.",
		r.Size, r.MIME, r.URI(), r.Expires.Format("2006-01-02 15:04 MST"))
	if !r.Text {
		return about + "]"
	}
	head = WholeRunes(head)
	return fmt.Sprintf("%s The first %d bytes:]\n%s", about, len(head), strings.ToValidUTF8(string(head), "\uFFFD"))
}

func textBlock(text string) json.RawMessage {
	return encode(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text", text})
}

// link is the resource_link to an artifact (MCP, server/tools, "Resource Links").
func link(r Record, src source) json.RawMessage {
	return encode(struct {
		Type        string          `json:"type"`
		URI         string          `json:"uri"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		MIME        string          `json:"mimeType"`
		Size        int64           `json:"size"`
		Annotations json.RawMessage `json:"annotations,omitempty"`
	}{"resource_link", r.URI(), src.name, "sha256 " + r.SHA256, r.MIME, r.Size, src.annotations})
}

// encode is for values of our own, whose strings and raw JSON are valid.
func encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil { // annotations that Go's parser takes for invalid: the link counts
		return json.RawMessage(`{"type":"text","text":""}`)
	}
	return text
}

// assemble makes the result that is passed on.
func (h *shortening) assemble() (*Shortened, error) {
	var (
		replaced []rpc.Replacement
		beside   []json.RawMessage // for what stood beside the content
		removed  bool
	)
	for _, p := range h.parts {
		switch {
		case !p.chosen:
		case p.structured:
			beside, removed = append(beside, p.blocks...), true
		case p.all:
			replaced = append(replaced, rpc.Replacement{At: p.at.At, With: array(p.blocks)})
		default:
			replaced = append(replaced, rpc.Replacement{At: p.at.At, With: joined(p.blocks)})
		}
	}
	m, err := h.reparse(h.m.Replace(replaced))
	if err != nil || !removed {
		return h.shortened(m), err
	}
	m, err = h.extend(m, beside)
	return h.shortened(m), err
}

// extend takes the structured content out and puts what stands for it at the end of
// the content, of each where there are several. It owns the message it is given.
func (h *shortening) extend(m *rpc.Message, beside []json.RawMessage) (*rpc.Message, error) {
	defer func() { _ = m.Close() }()
	all := m.FindAll("result", "content")
	without := m.Edit().Remove("result", "structuredContent")
	if !slices.ContainsFunc(all, func(c rpc.Part) bool { return c.Kind == '[' }) {
		return h.reparse(without.Set(array(beside), "result", "content").Payload())
	}
	bare, err := h.reparse(without.Payload())
	if err != nil {
		return nil, err
	}
	defer bare.Close() //nolint:errcheck // nothing of it is kept
	var replaced []rpc.Replacement
	for _, c := range bare.FindAll("result", "content") {
		if c.Kind != '[' {
			continue
		}
		content, err := bare.Section(c.At).Append(nil)
		if err != nil {
			return nil, err
		}
		replaced = append(replaced, rpc.Replacement{At: c.At, With: extended(content, beside)})
	}
	return h.reparse(bare.Replace(replaced))
}

func (h *shortening) shortened(m *rpc.Message) *Shortened {
	return &Shortened{Message: m, Kept: h.kept, Lost: h.lost, Redacted: h.redacted}
}

// joined are blocks as they stand in an array.
func joined(blocks []json.RawMessage) json.RawMessage {
	var out json.RawMessage
	for i, b := range blocks {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, b...)
	}
	return out
}

func array(blocks []json.RawMessage) json.RawMessage {
	return append(append(json.RawMessage{'['}, joined(blocks)...), ']')
}

// extended is an array with more blocks; content is one, or empty.
func extended(content []byte, more []json.RawMessage) json.RawMessage {
	end := bytes.LastIndexByte(content, ']')
	if end < 0 {
		return array(more)
	}
	out := append(json.RawMessage(nil), content[:end]...)
	if len(bytes.TrimSpace(out)) > 1 {
		out = append(out, ',')
	}
	return append(append(out, joined(more)...), ']')
}

// reparse makes a message of its own of a payload.
func (h *shortening) reparse(p rpc.Payload) (*rpc.Message, error) {
	a := rpc.NewAssembler(rpc.FromServer, h.bounds.SpoolDir, 0)
	defer a.Abort()
	if _, err := p.WriteTo(a); err != nil {
		return nil, fmt.Errorf("shortening a result: %w", err)
	}
	m, err := a.Finish()
	if err != nil {
		return nil, fmt.Errorf("shortening a result: %w", err)
	}
	return m, nil
}
