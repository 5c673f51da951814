package jsonscan

// numPart is the last part of a number that was seen, RFC 8259 section 6.
type numPart uint8

const (
	numMinus numPart = iota
	numZero
	numInt
	numDot
	numFrac
	numE
	numSign
	numExp
)

// complete says whether a number may end here.
func (n numPart) complete() bool {
	return n == numZero || n == numInt || n == numFrac || n == numExp
}

// after returns the part that c makes; false if c does not continue the number.
func (n numPart) after(c byte) (numPart, bool) {
	digit := c-'0' <= 9
	switch n {
	case numMinus:
		if c == '0' {
			return numZero, true
		}
		return numInt, digit
	case numInt, numZero:
		switch {
		case digit && n == numInt:
			return numInt, true
		case c == '.':
			return numDot, true
		case c|0x20 == 'e':
			return numE, true
		}
	case numDot:
		return numFrac, digit
	case numFrac:
		if digit {
			return numFrac, true
		}
		return numE, c|0x20 == 'e'
	case numE:
		if c == '+' || c == '-' {
			return numSign, true
		}
		return numExp, digit
	case numSign, numExp:
		return numExp, digit
	}
	return n, false
}

func (s *Scanner) scanNumber(p []byte, i int) int {
	for ; i < len(p); i++ {
		if p[i]-'0' <= 9 && (s.num == numInt || s.num >= numFrac && s.num != numE && s.num != numSign) {
			continue
		}
		next, ok := s.num.after(p[i])
		if !ok {
			if !s.num.complete() {
				s.syntax(i, "incomplete number")
				return i
			}
			s.endScalar(p, i)
			return i
		}
		s.num = next
	}
	return i
}
