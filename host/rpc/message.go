package rpc

import (
	"bytes"
	"encoding/json"
	"io"
	"os"

	"github.com/drawbridge-mcp/drawbridge/shared/jsonscan"
)

// ID is a JSON-RPC id as the literal JSON it came in: 0, "1" and 1 are three
// ids. The empty ID stands for "none" and for null.
type ID string

// Kind is what a message is.
type Kind uint8

// The kinds of message.
const (
	Request Kind = iota + 1
	Notification
	Result  // a response with a result
	Failure // a response with an error
)

func (k Kind) String() string {
	switch k {
	case Request:
		return "request"
	case Notification:
		return "notification"
	case Result:
		return "result"
	case Failure:
		return "failure"
	}
	return "invalid"
}

// Origin says whose message is parsed, and so how strictly.
type Origin uint8

// The origins. A client's message decides what runs and is parsed strictly
// (top level, params, params._meta); of a server's only the top level is.
const (
	FromClient Origin = iota + 1
	FromServer
)

// SpoolOver is the length in bytes above which a message is kept in an unlinked
// file instead of in memory.
const SpoolOver = 1 << 20

// Message is one parsed JSON-RPC message: the bytes it came in, and where its
// parts stand in them. It is immutable; Edit makes a changed copy on the way out.
type Message struct {
	Kind   Kind
	ID     ID
	Method string

	body    body
	members []member
}

// member is what is kept of a jsonscan.Member.
type member struct {
	name          string
	nameAt, value jsonscan.Span
	parent        int32
	kind          byte
	// open says that the value is an object whose members are recorded too.
	open bool
}

const root = -1

// body holds the text of a message: in memory, or in a spool file.
type body struct {
	mem  []byte
	file *os.File
	size int64
}

func memory(b []byte) body { return body{mem: b, size: int64(len(b))} }

// piece is the part of the body within span.
func (b body) piece(at jsonscan.Span) segment {
	if b.file == nil {
		return segment{mem: b.mem[at.Start:at.End]}
	}
	return segment{file: b.file, off: at.Start, n: at.Len()}
}

// read returns the bytes within span: of a body in memory the bytes themselves.
func (b body) read(at jsonscan.Span) ([]byte, error) {
	if b.file == nil {
		return b.mem[at.Start:at.End:at.End], nil
	}
	p := make([]byte, at.Len())
	if _, err := b.file.ReadAt(p, at.Start); err != nil {
		return nil, err
	}
	return p, nil
}

func (b body) reader(at jsonscan.Span) io.Reader {
	if b.file == nil {
		return bytes.NewReader(b.mem[at.Start:at.End])
	}
	return io.NewSectionReader(b.file, at.Start, at.Len())
}

// Size is the length of the message in bytes.
func (m *Message) Size() int64 { return m.body.size }

// Close frees the file of a spooled message; its payloads and edits end with it.
// A message in memory needs no Close. A message that is dropped without one frees
// its file when it is collected.
func (m *Message) Close() error {
	if m.body.file == nil {
		return nil
	}
	return m.body.file.Close()
}

// Find returns the value at a path of member names from the root, among the
// members that are recorded: the root's, those of params, result and error, and
// those of a _meta in them. Of a member that occurs twice (which below the top
// level only a server's message can have) it is the last.
func (m *Message) Find(path ...string) (jsonscan.Span, bool) {
	found := m.find(path)
	if found == nil {
		return jsonscan.Span{}, false
	}
	return found.value, true
}

func (m *Message) find(path []string) *member {
	i, ok := m.index(path)
	if !ok || i == root {
		return nil
	}
	return &m.members[i]
}

// index returns the place in members of the member at a path, root for the
// empty path.
func (m *Message) index(path []string) (int32, bool) {
	at := int32(root)
	for _, name := range path {
		i := len(m.members) - 1
		for ; i >= 0; i-- {
			if c := &m.members[i]; c.parent == at && c.name == name {
				break
			}
		}
		if i < 0 {
			return 0, false
		}
		at = int32(i) // bounded by maxMembersServer
	}
	return at, true
}

// FindKind is Find, and says what the value is by its first byte: { [ " t f n,
// and 0 for every number.
func (m *Message) FindKind(path ...string) (jsonscan.Span, byte, bool) {
	found := m.find(path)
	if found == nil {
		return jsonscan.Span{}, 0, false
	}
	return found.value, found.kind, true
}

// FindAll returns every value at a path, in order: those of a member that occurs more
// than once, of which Find is the last.
func (m *Message) FindAll(path ...string) []Part {
	if len(path) == 0 {
		return nil
	}
	parent, ok := m.index(path[:len(path)-1])
	if !ok {
		return nil
	}
	var all []Part
	for i := range m.members {
		if c := &m.members[i]; c.parent == parent && c.name == path[len(path)-1] {
			all = append(all, Part{Name: c.name, At: c.value, Kind: c.kind})
		}
	}
	return all
}

// Get returns the bytes of the value at a path, nil where there is none or its
// file cannot be read. It reads from the file of a spooled message, so it is for
// small values. The bytes are not to be changed.
func (m *Message) Get(path ...string) json.RawMessage {
	found := m.find(path)
	if found == nil {
		return nil
	}
	b, err := m.body.read(found.value)
	if err != nil {
		return nil
	}
	return b
}

// GetString returns the string at a path, unescaped; false where there is none
// or it is no string.
func (m *Message) GetString(path ...string) (string, bool) {
	found := m.find(path)
	if found == nil || found.kind != '"' {
		return "", false
	}
	b, err := m.body.read(found.value)
	if err != nil {
		return "", false
	}
	return unquote(b), true
}

func unquote(quoted []byte) string {
	if len(quoted) >= 2 && bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	return string(jsonscan.AppendUnquoted(nil, quoted))
}

// Names returns the names of the recorded members of the object at a path, in
// order; with no path, those of the root.
func (m *Message) Names(path ...string) []string {
	parent, ok := m.index(path)
	if !ok {
		return nil
	}
	var names []string
	for i := range m.members {
		if m.members[i].parent == parent {
			names = append(names, m.members[i].name)
		}
	}
	return names
}

// Reader reads the bytes within a span that Find returned, from memory or file.
func (m *Message) Reader(at jsonscan.Span) io.Reader { return m.body.reader(at) }

// Section is the bytes within a span that Find returned, as a payload of their own.
func (m *Message) Section(at jsonscan.Span) Payload {
	return payloadOf(m.body.piece(at))
}

// Payload returns the message as it came.
func (m *Message) Payload() Payload {
	return payloadOf(m.body.piece(jsonscan.Span{End: m.body.size}))
}
