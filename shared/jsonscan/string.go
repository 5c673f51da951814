package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// strPart is where inside a string the scanner is.
type strPart uint8

const (
	plain   strPart = iota
	inEsc           // after a backslash
	inHex           // among the four digits of a \u escape
	inPair          // after a high surrogate: a backslash must come
	inPairU         // and then a u
	inRune          // within the bytes of one non-ASCII character
)

// strState is what has to be remembered from one byte of a string to the next.
type strState struct {
	part   strPart
	hex    uint16 // digits read so far
	digits uint8
	second bool // the escape must be the other half of a surrogate pair
	// Within a character: bytes still to come, and the range of the next one.
	need, lo, hi byte
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks, by their high bits, the bytes of w that are not plain ASCII
// inside a string: control characters, quote, backslash and everything above
// 0x7f. The lowest mark is exact; a subtraction may mark bytes above it wrongly.
func special(w uint64) uint64 {
	return (w | (w - ones*0x20) | ((w ^ ones*'"') - ones) | ((w ^ ones*'\\') - ones)) & highs
}

// skipPlain returns the index of the first byte of p at or after i that is not
// plain ASCII inside a string.
func skipPlain(p []byte, i int) int {
	for i+16 <= len(p) {
		m := special(binary.LittleEndian.Uint64(p[i:]))
		if m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		m = special(binary.LittleEndian.Uint64(p[i+8:]))
		if m != 0 {
			return i + 8 + bits.TrailingZeros64(m)>>3
		}
		i += 16
	}
	for i < len(p) {
		if c := p[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
		i++
	}
	return i
}

// scanString goes on inside a string until its end or the end of the piece.
func (s *Scanner) scanString(p []byte, i int) int {
	for i < len(p) {
		if s.str.part != plain {
			i = s.scanPart(p, i)
			if s.err != nil {
				return i
			}
			continue
		}
		i = skipPlain(p, i)
		if i == len(p) {
			break
		}
		switch c := p[i]; {
		case c == '"':
			s.endString(p, i)
			return i + 1
		case c == '\\':
			s.str.part = inEsc
			s.escaped = true
			i++
		case c < 0x20:
			s.syntax(i, "control character in a string")
			return i
		default:
			i = s.skipRunes(p, i)
			if s.err != nil {
				return i
			}
		}
	}
	return i
}

// skipRunes skips whole non-ASCII characters, and enters one that the piece cuts.
func (s *Scanner) skipRunes(p []byte, i int) int {
	for i < len(p) && p[i] >= utf8.RuneSelf {
		c := p[i]
		// The common three byte ranges (E1 to EC, EE, EF) and two bytes, inline.
		if i+2 < len(p) {
			if c1 := p[i+1]; c >= 0xc2 && c <= 0xdf && c1&0xc0 == 0x80 {
				i += 2
				continue
			} else if c > 0xe0 && c <= 0xef && c != 0xed && c1&0xc0 == 0x80 && p[i+2]&0xc0 == 0x80 {
				i += 3
				continue
			}
		}
		if !s.str.enterRune(c) {
			s.syntax(i, "invalid UTF-8")
			return i
		}
		i++
		for i < len(p) && s.str.part == inRune {
			if !s.str.nextByte(p[i]) {
				s.syntax(i, "invalid UTF-8")
				return i
			}
			i++
		}
	}
	return i
}

// enterRune takes the first byte of a non-ASCII character; the ranges are those
// of the Unicode Standard, table 3-7.
func (t *strState) enterRune(c byte) bool {
	t.lo, t.hi = 0x80, 0xbf
	switch {
	case c < 0xc2 || c > 0xf4:
		return false
	case c <= 0xdf:
		t.need = 1
	case c <= 0xef:
		t.need = 2
		if c == 0xe0 {
			t.lo = 0xa0
		} else if c == 0xed {
			t.hi = 0x9f
		}
	default:
		t.need = 3
		if c == 0xf0 {
			t.lo = 0x90
		} else if c == 0xf4 {
			t.hi = 0x8f
		}
	}
	t.part = inRune
	return true
}

// nextByte takes a further byte of a character.
func (t *strState) nextByte(c byte) bool {
	if c < t.lo || c > t.hi {
		return false
	}
	t.lo, t.hi = 0x80, 0xbf
	t.need--
	if t.need == 0 {
		t.part = plain
	}
	return true
}

// scanPart takes one byte of an escape, or of a character that a piece has cut.
func (s *Scanner) scanPart(p []byte, i int) int {
	c := p[i]
	switch s.str.part {
	case inEsc:
		switch c {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			s.str.part = plain
		case 'u':
			s.str.part, s.str.hex, s.str.digits, s.str.second = inHex, 0, 0, false
		default:
			s.syntax(i, "invalid escape in a string")
		}
	case inHex:
		if !s.str.nextDigit(c, s.opts.PairedSurrogates) {
			s.syntax(i, "invalid \\u escape in a string")
		}
	case inPair:
		if c != '\\' {
			s.syntax(i, "unpaired surrogate in a string")
		}
		s.str.part = inPairU
	case inPairU:
		if c != 'u' {
			s.syntax(i, "unpaired surrogate in a string")
		}
		s.str.part, s.str.hex, s.str.digits = inHex, 0, 0
	default:
		if !s.str.nextByte(c) {
			s.syntax(i, "invalid UTF-8")
		}
	}
	return i + 1
}

// nextDigit takes a digit of a \u escape; false if it is none, or, where
// surrogates must be paired, if it completes one that has no other half.
func (t *strState) nextDigit(c byte, paired bool) bool {
	d, ok := unhex(c)
	if !ok {
		return false
	}
	t.hex = t.hex<<4 | uint16(d)
	t.digits++
	if t.digits < 4 {
		return true
	}
	t.part = plain
	if !paired {
		return true
	}
	isHigh, isLow := t.hex>>10 == 0xd800>>10, t.hex>>10 == 0xdc00>>10
	if t.second {
		t.second = false
		return isLow
	}
	if isHigh {
		t.second, t.part = true, inPair
	}
	return !isLow
}

func unhex(c byte) (byte, bool) {
	switch {
	case c-'0' <= 9:
		return c - '0', true
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// AppendUnquoted appends what a valid JSON string stands for; quoted is the
// string with its quotes. Half a surrogate pair becomes U+FFFD. It is for strings
// that a Scanner has accepted: what it makes of anything else is unspecified, but
// it does not panic.
func AppendUnquoted(dst, quoted []byte) []byte {
	if len(quoted) < 2 {
		return dst
	}
	dst, _ = appendUnescaped(dst, quoted[1:len(quoted)-1])
	return dst
}

// appendUnescaped resolves the escapes of a string without its quotes; ok says
// that every surrogate had its other half.
func appendUnescaped(dst, raw []byte) (_ []byte, ok bool) {
	ok = true
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c != '\\' || i+1 >= len(raw) {
			dst = append(dst, c)
			continue
		}
		i++
		switch c = raw[i]; c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r := hex4(raw, i+1)
			i += 4
			if utf16.IsSurrogate(r) {
				second := rune(-1)
				if i+2 < len(raw) && raw[i+1] == '\\' && raw[i+2] == 'u' {
					second = hex4(raw, i+3)
				}
				if r = utf16.DecodeRune(r, second); r == utf8.RuneError {
					ok = false
				} else {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
			continue
		}
		dst = append(dst, c)
	}
	return dst, ok
}

// hex4 reads four hex digits at raw[i:], as far as there are any.
func hex4(raw []byte, i int) rune {
	var r rune
	for end := i + 4; i < end && i < len(raw); i++ {
		d, _ := unhex(raw[i])
		r = r<<4 | rune(d)
	}
	return r
}
