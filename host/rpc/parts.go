package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/drawbridge-mcp/drawbridge/shared/jsonscan"
)

// ErrTooManyParts is for an array that has more elements than were asked for.
var ErrTooManyParts = errors.New("the array has too many elements")

// Part is a value within a message, where a Message itself does not look.
type Part struct {
	// Name is the member's, "" for an element of an array.
	Name string
	At   jsonscan.Span
	// Kind is the value's first byte, 0 for every number; see FindKind.
	Kind byte
}

// Members returns the members of the object at a span, in order, doubled ones
// included. It reads the object once, in pieces if it is in a file.
func (m *Message) Members(object jsonscan.Span) ([]Part, error) {
	limbs, err := text{body: m.body}.scanLimbs(nil, object)
	if err != nil {
		return nil, fmt.Errorf("members: %w", err)
	}
	parts := make([]Part, len(limbs))
	for i, l := range limbs {
		parts[i] = Part{Name: l.name, At: l.value, Kind: l.kind}
	}
	return parts, nil
}

// Elements returns the elements of the array at a span, in order. The error is
// ErrTooManyParts for more than most, or that of a file that cannot be read.
func (m *Message) Elements(array jsonscan.Span, most int) ([]Part, error) {
	e := elements{at: array.Start, most: most}
	if m.body.file == nil {
		return e.parts, e.feed(m.body.mem[array.Start:array.End])
	}
	block, _ := blocks.Get().(*[blockSize]byte)
	defer blocks.Put(block)
	for r := m.body.reader(array); ; {
		n, err := r.Read(block[:])
		if fault := e.feed(block[:n]); fault != nil {
			return nil, fault
		}
		if errors.Is(err, io.EOF) {
			return e.parts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("elements: %w", err)
		}
	}
}

// elements finds the elements of an array that is known to be valid.
type elements struct {
	at      int64 // of the next byte
	depth   int
	quoted  bool
	escaped bool
	// inside says that an element has begun and its end was not seen.
	inside bool
	most   int
	parts  []Part
}

func (e *elements) feed(p []byte) error {
	for i := 0; i < len(p); i++ {
		if e.quoted && !e.escaped {
			// Most of a long text is passed in one go.
			if n := bytes.IndexAny(p[i:], `"\`); n < 0 {
				e.at += int64(len(p) - i)
				return nil
			} else if n > 0 {
				i += n
				e.at += int64(n)
			}
		}
		if err := e.step(p[i]); err != nil {
			return err
		}
		e.at++
	}
	return nil
}

func (e *elements) step(c byte) error {
	switch {
	case e.escaped:
		e.escaped = false
		return nil
	case e.quoted:
		e.escaped, e.quoted = c == '\\', c != '"'
		e.parts[len(e.parts)-1].At.End = e.at + 1
		return nil
	}
	switch c {
	case ' ', '\t', '\r', '\n':
		return nil
	case ',':
		if e.depth == 1 {
			e.inside = false
			return nil
		}
	case ']', '}':
		e.depth--
		if e.depth == 0 {
			return nil
		}
	case '[', '{':
		e.depth++
		if e.depth == 1 {
			return nil
		}
	case '"':
		e.quoted = true
	}
	if !e.inside {
		if len(e.parts) == e.most {
			return ErrTooManyParts
		}
		e.inside = true
		if c == '-' || '0' <= c && c <= '9' {
			c = 0
		}
		e.parts = append(e.parts, Part{At: jsonscan.Span{Start: e.at}, Kind: c})
	}
	e.parts[len(e.parts)-1].At.End = e.at + 1
	return nil
}

// Text reads what the string at a span stands for, in pieces if it is in a file.
// Half a surrogate pair reads as U+FFFD.
func (m *Message) Text(at jsonscan.Span) io.Reader {
	inner := jsonscan.Span{Start: at.Start + 1, End: max(at.End-1, at.Start+1)}
	return &unescaper{from: m.body.reader(inner)}
}

// unescaper resolves the escapes of a string that arrives in pieces.
type unescaper struct {
	from io.Reader
	// raw is what was read and not resolved: at most the beginning of an escape,
	// once out is empty. out is what was resolved and not handed on.
	raw, out []byte
	// store and resolved are the memory of both, used again for each block.
	store, resolved []byte
	ended           bool
}

// unescapeBlock is how much of a text is resolved at a time.
const unescapeBlock = 32 << 10

// longestEscape is a surrogate pair: \ud83d\ude00.
const longestEscape = 12

func (u *unescaper) Read(p []byte) (int, error) {
	for len(u.out) == 0 {
		if u.ended {
			return 0, io.EOF
		}
		if err := u.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, u.out)
	u.out = u.out[n:]
	return n, nil
}

// fill reads and resolves one block.
func (u *unescaper) fill() error {
	if u.store == nil {
		u.store = make([]byte, 1, 1+longestEscape+unescapeBlock+1)
		u.store[0] = '"'
	}
	block := append(u.store[:1], u.raw...)
	had := len(block)
	block = block[:had+unescapeBlock]
	n, err := io.ReadFull(u.from, block[had:])
	block = block[:had+n]
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		u.ended = true
	case err != nil:
		return err
	}
	whole := len(block)
	if !u.ended {
		whole = 1 + wholeEscapes(block[1:])
	}
	u.raw = append([]byte(nil), block[whole:]...)
	u.resolved = jsonscan.AppendUnquoted(u.resolved[:0], append(block[:whole], '"'))
	u.out = u.resolved
	return nil
}

// wholeEscapes is the length of what of p can be resolved without what follows.
func wholeEscapes(p []byte) int {
	for at := 0; ; {
		next := bytes.IndexByte(p[at:], '\\')
		if next < 0 {
			return len(p)
		}
		at += next
		if len(p)-at < longestEscape {
			// It might be one half of a pair whose other half is to come.
			return at
		}
		if p[at+1] != 'u' {
			at += 2
			continue
		}
		// Two escapes are passed at once only if they are a pair; else the second
		// might be the first of one.
		at += 6
		if isHighSurrogate(p[at-4:at]) && p[at] == '\\' && p[at+1] == 'u' {
			at += 6
		}
	}
}

// isHighSurrogate says whether four hex digits are the first of a surrogate pair.
func isHighSurrogate(hex []byte) bool {
	return (hex[0] == 'd' || hex[0] == 'D') && bytes.IndexByte([]byte("89abAB"), hex[1]) >= 0
}

// Replacement is what is to stand in the place of a span.
type Replacement struct {
	At   jsonscan.Span
	With []byte
}

// Replace returns the message with other bytes in the place of spans that Find,
// Members or Elements gave, which are in order and do not overlap. What it makes
// must be a valid message.
func (m *Message) Replace(list []Replacement) Payload {
	p := Payload{more: make([]segment, 0, 2*len(list)+1)}
	at := int64(0)
	for _, r := range list {
		p.add(m.body.piece(jsonscan.Span{Start: at, End: r.At.Start}))
		p.add(segment{mem: unbroken(r.With)})
		at = r.At.End
	}
	p.add(m.body.piece(jsonscan.Span{Start: at, End: m.body.size}))
	return p
}
