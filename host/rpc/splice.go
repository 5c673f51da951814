package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/shared/jsonscan"
)

// maxLooseMembers bounds the members of an object that a message does not
// record, in which an edit changes something.
const maxLooseMembers = 1 << 20

// text is an object that is edited: a message, or a value that was set in one.
type text struct {
	body    body
	message *Message // nil for a value
}

// patch puts bytes in the place of a span; patches of a text are in its order
// and do not overlap.
type patch struct {
	at    jsonscan.Span
	bytes []byte
}

// limb is one member of the object being edited; index is its place among the
// members of the message, none if it is not recorded there.
type limb struct {
	member
	index int32
}

const none = -2

// spliced lays the changes under n over the text.
func spliced(t text, n *node) Payload {
	whole := jsonscan.Span{End: t.body.size}
	patches, err := t.splice(make([]patch, 0, 8), whole, root, n)
	if err != nil {
		return Payload{err: fmt.Errorf("editing a message: %w", err)}
	}
	p := Payload{more: make([]segment, 0, 2*len(patches)+1)}
	at := int64(0)
	for _, c := range patches {
		p.add(t.body.piece(jsonscan.Span{Start: at, End: c.at.Start}))
		p.add(segment{mem: c.bytes})
		at = c.at.End
	}
	p.add(t.body.piece(jsonscan.Span{Start: at, End: whole.End}))
	return p
}

// splice appends the patches that make the changes under n in the object at the
// span, which is the value of member index.
func (t text) splice(patches []patch, object jsonscan.Span, index int32, n *node) ([]patch, error) {
	var few [12]limb
	limbs, err := t.limbs(few[:0], object, index)
	if err != nil {
		return nil, err
	}
	kept := false // a member before this one stays
	for i, l := range limbs {
		var gone bool
		if c := n.find(l.name); c == nil {
			gone = n.hides(l.name)
		} else if patches, gone, err = t.change(patches, l, c); err != nil {
			return nil, err
		}
		if !gone {
			kept = true
			continue
		}
		// A member goes with the comma before it, or after it if none before it stays.
		cut := jsonscan.Span{Start: l.nameAt.Start, End: l.value.End}
		if kept {
			cut.Start = limbs[i-1].value.End
		} else if i+1 < len(limbs) {
			cut.End = limbs[i+1].nameAt.Start
		}
		patches = append(patches, patch{at: cut})
	}
	added, err := n.additions(limbs, kept)
	if err != nil || len(added) == 0 {
		return patches, err
	}
	var end int64
	if len(limbs) > 0 {
		end = limbs[len(limbs)-1].value.End
	} else if end, err = t.brace(object); err != nil {
		return nil, err
	}
	return append(patches, patch{at: jsonscan.Span{Start: end, End: end}, bytes: added}), nil
}

// brace returns the offset after the opening brace of an object; white space
// stands before it in the whole text only.
func (t text) brace(object jsonscan.Span) (int64, error) {
	r := t.body.reader(object)
	var p [64]byte
	for at := object.Start; ; {
		n, err := r.Read(p[:])
		if i := bytes.IndexByte(p[:n], '{'); i >= 0 {
			return at + int64(i) + 1, nil
		}
		if err != nil {
			return 0, err
		}
		at += int64(n)
	}
}

// change makes the change c of a member that is there; gone says that it is to
// be cut out.
func (t text) change(patches []patch, l limb, c *node) (_ []patch, gone bool, err error) {
	switch {
	case c.value == nil && c.removed && !c.object:
		return patches, true, nil
	case c.value == nil && !c.removed && !c.deep() && !c.object:
		return patches, false, nil
	case c.value == nil && !c.removed && l.kind == '{':
		patches, err = t.splice(patches, l.value, l.index, c)
		return patches, false, err
	case c.value == nil && !c.object:
		return patches, false, nil
	}
	value, err := c.made()
	return append(patches, patch{at: l.value, bytes: value}), false, err
}

// made returns the value that the node stands for when what the message has
// there does not count; nil if that is nothing.
func (n *node) made() ([]byte, error) {
	value := []byte(n.value)
	switch {
	case value == nil && !n.object:
		return nil, nil
	case value == nil:
		value = []byte("{}")
	case !n.deep() && !n.object:
		return value, nil
	case !isObject(value) && !n.object:
		return value, nil
	case !isObject(value):
		value = []byte("{}")
	}
	return spliced(text{body: memory(value)}, n).Append(nil)
}

func isObject(value []byte) bool {
	value = bytes.TrimLeft(value, " \t")
	return len(value) > 0 && value[0] == '{'
}

// additions returns the text of the members that the changes add to an object
// with these limbs.
func (n *node) additions(limbs []limb, comma bool) ([]byte, error) {
	var added []byte
	for c := n.first; c != nil; c = c.next {
		if has(limbs, c.name) {
			continue
		}
		value, err := c.made()
		if err != nil {
			return nil, err
		}
		if value == nil {
			continue
		}
		if comma {
			added = append(added, ',')
		}
		comma = true
		added = append(append(appendQuoted(added, c.name), ':'), value...)
	}
	return added, nil
}

func has(limbs []limb, name string) bool {
	for i := range limbs {
		if limbs[i].name == name {
			return true
		}
	}
	return false
}

// limbs appends the members of the object at the span.
func (t text) limbs(limbs []limb, object jsonscan.Span, index int32) ([]limb, error) {
	m := t.message
	if m == nil || index != root && (index == none || !m.members[index].open) {
		return t.scanLimbs(limbs, object)
	}
	for i := range m.members {
		if m.members[i].parent == index {
			limbs = append(limbs, limb{m.members[i], int32(i)}) // bounded by maxMembers
		}
	}
	return limbs, nil
}

var looseScanners = sync.Pool{New: func() any {
	return jsonscan.New(jsonscan.Options{MaxMembers: maxLooseMembers, MaxName: maxNameServer})
}}

// scanLimbs finds the members of an object that no message records.
func (t text) scanLimbs(limbs []limb, object jsonscan.Span) ([]limb, error) {
	s, _ := looseScanners.Get().(*jsonscan.Scanner)
	s.Reset()
	defer looseScanners.Put(s)
	if err := t.feed(s, object); err != nil {
		return nil, err
	}
	if err := s.End(); err != nil {
		return nil, err
	}
	for _, f := range s.Members() {
		shift := func(at jsonscan.Span) jsonscan.Span {
			return jsonscan.Span{Start: at.Start + object.Start, End: at.End + object.Start}
		}
		limbs = append(limbs, limb{
			member: member{name: f.Name, nameAt: shift(f.NameAt), value: shift(f.Value), kind: f.Kind},
			index:  none,
		})
	}
	return limbs, nil
}

func (t text) feed(s *jsonscan.Scanner, at jsonscan.Span) error {
	if t.body.file == nil {
		return s.Feed(t.body.mem[at.Start:at.End])
	}
	block, _ := blocks.Get().(*[blockSize]byte)
	defer blocks.Put(block)
	for r := t.body.reader(at); ; {
		n, err := r.Read(block[:])
		if err := s.Feed(block[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
