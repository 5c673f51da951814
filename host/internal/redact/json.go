package redact

import (
	"bytes"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/shared/scrub"
)

// JSON passes on one JSON text that is written to it in pieces, without what a set
// has. Strings are looked at as they read, whatever escapes they are written with,
// and what is taken out of one leaves a string; a number that holds a pattern
// becomes one. All else passes byte for byte, and a text that is no JSON does no
// harm. It holds no more of the text than may begin a pattern, or one number.
//
// One goroutine uses it. Close ends the text.
type JSON struct {
	set *scrub.Set
	out io.Writer // nil to look without writing
	err error

	state state
	at    scrub.State
	// src are the bytes of the text that wait for what follows them, and units what
	// they decode to; spans, in bytes decoded, are what is to go of them.
	src   []byte
	units []unit
	spans []span
	seen  int // bytes decoded before units
	found bool
	// escape is the one being read: a half of a surrogate pair before it included.
	escape []byte
	half   rune
}

// state is what the next byte belongs to.
type state uint8

const (
	between state = iota
	inString
	inEscape
	inNumber
)

// unit is one byte that a string reads as: how many bytes of the text are written
// for it, the first of an escape having them all.
type unit = uint8

type span struct{ start, end int }

// NewJSON passes a text on to out. With a nil out it only looks.
func NewJSON(set *scrub.Set, out io.Writer) *JSON { return &JSON{set: set, out: out} }

// Found says whether something was taken out so far.
func (j *JSON) Found() bool { return j.found }

// Raw passes bytes on that are not looked at: a whole value, or what is around
// values.
func (j *JSON) Raw(p []byte) error {
	j.end()
	j.write(p)
	return j.err
}

// Close passes on what waits.
func (j *JSON) Close() error {
	j.end()
	return j.err
}

// end ends whatever is being read.
func (j *JSON) end() {
	switch j.state {
	case inNumber:
		j.endNumber()
	case inEscape:
		j.unescape(true)
		fallthrough
	case inString:
		j.dropHalf()
		j.settle(len(j.units))
	}
	j.state, j.at = between, 0
}

// Write takes the next piece. The error is that of the writer it goes on to.
func (j *JSON) Write(p []byte) (int, error) {
	for i := 0; i < len(p) && j.err == nil; {
		switch j.state {
		case between:
			i += j.between(p[i:])
		case inNumber:
			i += j.number(p[i:])
		case inString:
			i += j.text(p[i:])
		case inEscape:
			j.escape = append(j.escape, p[i])
			i++
			j.unescape(false)
		}
	}
	return len(p), j.err
}

// between passes on what is neither string nor number, and says how much it was.
func (j *JSON) between(p []byte) int {
	for i, c := range p {
		switch {
		case c == '"':
			j.write(p[:i+1])
			j.state = inString
			return i + 1
		case c == '-' || '0' <= c && c <= '9':
			j.write(p[:i])
			j.state = inNumber
			return i
		}
	}
	j.write(p)
	return len(p)
}

// number takes the digits of a number.
func (j *JSON) number(p []byte) int {
	for i, c := range p {
		if bytes.IndexByte([]byte("0123456789+-.eE"), c) < 0 {
			j.src = append(j.src, p[:i]...)
			j.endNumber()
			return i
		}
		j.at = j.set.Next(j.at, c)
		if j.set.Hit(j.at) > 0 {
			j.found = true
			j.spans = append(j.spans[:0], span{})
		}
	}
	j.src = append(j.src, p...)
	return len(p)
}

func (j *JSON) endNumber() {
	if len(j.spans) > 0 {
		j.write([]byte(`"` + Mark + `"`))
	} else {
		j.write(j.src)
	}
	j.src, j.spans, j.state, j.at = j.src[:0], j.spans[:0], between, 0
}

// text takes what stands in a string.
func (j *JSON) text(p []byte) int {
	if j.at == 0 && len(j.units) == 0 && j.half == 0 { // nothing waits
		if n := j.plainRun(p); n > 0 {
			j.write(p[:n])
			j.seen += n
			return n
		}
	}
	switch c := p[0]; c {
	case '"':
		j.dropHalf()
		j.settle(len(j.units))
		j.write(p[:1])
		j.state, j.at = between, 0
	case '\\':
		j.escape = append(j.escape, c)
		j.state = inEscape
	default:
		j.dropHalf()
		j.src = append(j.src, c)
		j.push(c, 1)
	}
	return 1
}

// plainRun is how many bytes begin no pattern and end nothing.
func (j *JSON) plainRun(p []byte) int {
	for i, c := range p {
		if c == '"' || c == '\\' || j.set.Next(0, c) != 0 {
			return i
		}
	}
	return len(p)
}

// unescape decodes the escape if it is whole, or with last as far as it goes.
func (j *JSON) unescape(last bool) {
	from := 0
	if j.half != 0 {
		from = halfSize
	}
	own := j.escape[from:]
	if len(own) < 2 && !last {
		return
	}
	if len(own) >= 2 && own[1] == 'u' {
		if len(own) < halfSize && !last {
			return
		}
		j.unicode(own)
		return
	}
	j.dropHalf()
	c := byte('\\')
	if len(own) >= 2 {
		c = simple(own[1])
	}
	j.src = append(j.src, own...)
	j.push(c, unit(len(own))) // 2 at most
	j.escape, j.state = j.escape[:0], inString
}

// halfSize is the length of an escape like \ud83d.
const halfSize = 6

// unicode decodes an escape by number, alone or with the half of a pair before it.
func (j *JSON) unicode(own []byte) {
	r, size := hex(own), len(own)
	whole := utf16.DecodeRune(j.half, r)
	switch {
	case j.half != 0 && whole != utf8.RuneError:
		r, size = whole, halfSize+len(own)
		own = j.escape
		j.half = 0
	case j.half != 0:
		own = append([]byte(nil), own...)
		j.dropHalf()
	}
	if utf16.IsSurrogate(r) && r < 0xDC00 {
		j.half, j.state = r, inString
		j.escape = append(j.escape[:0], own...)
		return
	}
	j.src = append(j.src, own...)
	j.pushRune(r, size)
	j.escape, j.state = j.escape[:0], inString
}

// dropHalf gives up a half of a surrogate pair that nothing completed.
func (j *JSON) dropHalf() {
	if j.half == 0 {
		return
	}
	next := append([]byte(nil), j.escape[halfSize:]...) // the escape after it
	j.src = append(j.src, j.escape[:halfSize]...)
	j.half = 0
	j.pushRune(utf8.RuneError, halfSize)
	j.escape = append(j.escape[:0], next...)
}

func (j *JSON) pushRune(r rune, size int) {
	var text [utf8.UTFMax]byte
	n := utf8.EncodeRune(text[:], r)
	j.push(text[0], unit(size)) // 12 at most
	for _, c := range text[1:n] {
		j.push(c, 0)
	}
}

// push takes one byte that the string reads as, for which size bytes of src stand.
func (j *JSON) push(c byte, size unit) {
	j.units = append(j.units, size)
	j.at = j.set.Next(j.at, c)
	if n := j.set.Hit(j.at); n > 0 {
		end := j.seen + len(j.units)
		next := span{end - n, end}
		for len(j.spans) > 0 && j.spans[len(j.spans)-1].end > next.start {
			next.start = min(next.start, j.spans[len(j.spans)-1].start)
			j.spans = j.spans[:len(j.spans)-1]
		}
		j.spans = append(j.spans, next)
		j.found = true
	}
	// Half at a time, so that what waits is not moved again with every byte.
	if open := j.set.Depth(j.at); len(j.units) >= 2*open {
		j.settle(len(j.units) - open)
	}
}

// settle passes on the first n units, which no pattern can touch any more.
func (j *JSON) settle(n int) {
	if n <= 0 {
		return
	}
	size, from, span := 0, 0, 0 // of src; span is the one that comes next
	for i := range n {
		at := j.seen + i
		hidden := span < len(j.spans) && at >= j.spans[span].start
		if hidden && at == j.spans[span].start {
			j.write(j.src[from:size])
			j.write([]byte(Mark))
		}
		size += int(j.units[i])
		if hidden {
			from = size
			if at+1 == j.spans[span].end {
				span++
			}
		}
	}
	j.write(j.src[from:size])
	j.src = j.src[:copy(j.src, j.src[size:])]
	j.units = j.units[:copy(j.units, j.units[n:])]
	j.spans = j.spans[:copy(j.spans, j.spans[span:])]
	j.seen += n
}

func (j *JSON) write(p []byte) {
	if j.out != nil && j.err == nil && len(p) > 0 {
		_, j.err = j.out.Write(p)
	}
}

func simple(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c // " \ /
}

// hex is the number of an escape; what is no digit counts as 0.
func hex(escape []byte) rune {
	var r rune
	for _, c := range escape[2:] {
		r <<= 4
		switch {
		case '0' <= c && c <= '9':
			r |= rune(c - '0')
		case 'a' <= c && c <= 'f':
			r |= rune(c-'a') + 10
		case 'A' <= c && c <= 'F':
			r |= rune(c-'A') + 10
		}
	}
	return r
}

// scrubJSON is a JSON text without what the set has; raw itself if it has nothing.
func scrubJSON(set *scrub.Set, raw []byte) []byte {
	if set == nil {
		return raw
	}
	look := NewJSON(set, nil)
	_, _ = look.Write(raw) // it writes nowhere
	_ = look.Close()
	if !look.Found() {
		return raw
	}
	var out bytes.Buffer
	j := NewJSON(set, &out)
	_, _ = j.Write(raw) // a buffer takes everything
	_ = j.Close()
	return out.Bytes()
}
