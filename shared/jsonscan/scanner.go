package jsonscan

// state is what the scanner expects next.
type state uint8

const (
	atValue     state = iota // a value
	atFirstItem              // a value or ']'
	atFirstName              // a name or '}'
	atName                   // a name
	atColon                  // ':'
	atNext                   // ',' or the end of the container
	atEnd                    // nothing but white space
	inString
	inNumber
	inLiteral
)

// frame is one open container.
type frame struct {
	// member is the index of the recorded member whose value it is, or none.
	member int32
	object bool
	// record says that its members are recorded.
	record bool
}

const none = -1

// Scanner validates one JSON text that is fed in pieces, without keeping it,
// and records where members stand. The zero Scanner is not usable; see New.
type Scanner struct {
	opts  Options
	state state
	err   error
	// base + index in the current piece is the offset spans count, see
	// Options.OmitBreaks; omitted is what has to be added for the offset as fed.
	base, omitted int64
	stack         []frame
	root          byte
	breaks        bool

	// Within a token.
	str     strState
	isName  bool // the string is a name
	escaped bool // the name holds an escape
	num     numPart
	literal string // what must still come of true, false or null

	record recorder
}

// New returns a scanner for one text.
func New(opts Options) *Scanner {
	s := &Scanner{opts: opts.withDefaults()}
	s.stack = make([]frame, 0, 16)
	s.Reset()
	return s
}

// Reset makes the scanner ready for another text under the same options.
func (s *Scanner) Reset() {
	s.state, s.err = atValue, nil
	s.base, s.omitted = 0, 0
	s.stack = s.stack[:0]
	s.root, s.breaks = 0, false
	s.record.reset()
}

// Members returns what was recorded, in the order of the text; valid until Reset.
func (s *Scanner) Members() []Member { return s.record.members }

// Root is the first byte of the root value ('0' for a number), 0 before it was seen.
func (s *Scanner) Root() byte { return s.root }

// Breaks says whether a CR or LF stood outside strings (inside one it is an error).
func (s *Scanner) Breaks() bool { return s.breaks }

// Feed scans the next piece, of which it keeps nothing. After an error, a
// *SyntaxError or *LimitError, the scanner takes no more and repeats it.
func (s *Scanner) Feed(p []byte) error {
	if s.err != nil {
		return s.err
	}
	s.record.piece()
	for i := 0; i < len(p); {
		switch s.state {
		case inString:
			i = s.scanString(p, i)
		case inNumber:
			i = s.scanNumber(p, i)
		case inLiteral:
			i = s.scanLiteral(p, i)
		default:
			i = s.scanToken(p, i)
		}
		if s.err != nil {
			return s.err
		}
	}
	if s.state == inString && s.isName && s.recording() {
		s.keepName(p[s.record.nameFrom:], int64(len(p)))
	}
	s.record.capture(p, len(p), s.opts.MaxCapture)
	s.base += int64(len(p))
	return s.err
}

// End says that the text is complete: nil if it was one whole JSON value.
func (s *Scanner) End() error {
	if s.err != nil {
		return s.err
	}
	if s.state == inNumber && s.num.complete() {
		s.endScalar(nil, 0)
	}
	if s.state != atEnd {
		s.syntax(0, "unexpected end of text")
	}
	return s.err
}

// scanToken skips white space and takes tokens, up to one that needs more than
// its one byte.
func (s *Scanner) scanToken(p []byte, i int) int {
	for ; i < len(p); i++ {
		c := p[i]
		switch c {
		case ' ', '\t':
			continue
		case '\r', '\n':
			s.breaks = true
			if s.opts.OmitBreaks {
				s.base--
				s.omitted++
			}
			continue
		}
		switch s.state {
		case atNext:
			s.next(p, i, c)
		case atColon:
			if c != ':' {
				s.syntax(i, "expected ':' after a member name")
			}
			s.state = atValue
		case atFirstName, atName:
			switch {
			case c == '"':
				return s.beginName(i)
			case c == '}' && s.state == atFirstName:
				s.pop(p, i)
			default:
				s.syntax(i, "expected a member name")
			}
		case atFirstItem, atValue:
			if c == ']' && s.state == atFirstItem {
				s.pop(p, i)
				break
			}
			s.beginValue(i, c)
		default:
			s.syntax(i, "more after the end of the value")
		}
		if s.err != nil || s.state >= inString {
			return i + 1
		}
	}
	return i
}

// next takes what follows a value inside a container.
func (s *Scanner) next(p []byte, i int, c byte) {
	object := s.stack[len(s.stack)-1].object
	switch {
	case c == ',' && object:
		s.state = atName
	case c == ',':
		s.state = atValue
	case c == '}' && object, c == ']' && !object:
		s.pop(p, i)
	case object:
		s.syntax(i, "expected ',' or '}'")
	default:
		s.syntax(i, "expected ',' or ']'")
	}
}

func (s *Scanner) beginValue(i int, c byte) {
	kind := c
	switch c {
	case '{', '[':
		s.noteValue(i, kind)
		s.push(i, c == '{')
		return
	case '"':
		s.state, s.isName, s.str.part = inString, false, plain
	case 't':
		s.state, s.literal = inLiteral, "rue"
	case 'f':
		s.state, s.literal = inLiteral, "alse"
	case 'n':
		s.state, s.literal = inLiteral, "ull"
	case '-':
		s.state, s.num, kind = inNumber, numMinus, '0'
	case '0':
		s.state, s.num = inNumber, numZero
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		s.state, s.num, kind = inNumber, numInt, '0'
	default:
		s.syntax(i, "expected a value")
		return
	}
	s.noteValue(i, kind)
}

// noteValue remembers where a value begins.
func (s *Scanner) noteValue(i int, kind byte) {
	if len(s.stack) == 0 {
		s.root = kind
	}
	if s.record.pending != none {
		s.record.begin(s.base+int64(i), i, kind)
	}
}

func (s *Scanner) push(i int, object bool) {
	if len(s.stack)+1 >= s.opts.MaxDepth {
		s.limit(i, "nested too deep")
		return
	}
	f := frame{member: none, object: object}
	if object && len(s.stack) == 0 {
		f.record = true
	}
	if m := s.record.pending; m != none {
		f.member = int32(m) // bounded by MaxMembers
		member := &s.record.members[m]
		f.record = object && s.opts.Into != nil && s.opts.Into(member.Depth, member.Name)
		s.record.pending = none
	}
	s.stack = append(s.stack, f)
	s.state = atFirstItem
	if object {
		s.state = atFirstName
	}
}

// pop ends the innermost container at p[i].
func (s *Scanner) pop(p []byte, i int) {
	f := s.stack[len(s.stack)-1]
	s.stack = s.stack[:len(s.stack)-1]
	if f.member != none {
		s.endMember(int(f.member), p, i+1)
	}
	s.afterValue()
}

// endScalar ends a string, number or literal before p[i].
func (s *Scanner) endScalar(p []byte, i int) {
	if m := s.record.pending; m != none {
		s.record.pending = none
		s.endMember(m, p, i)
	}
	s.afterValue()
}

func (s *Scanner) endMember(m int, p []byte, i int) {
	s.record.members[m].Value.End = s.base + int64(i)
	if s.record.capturing == m {
		s.record.capture(p, i, s.opts.MaxCapture)
		s.record.endCapture(s.opts.OmitBreaks)
	}
}

func (s *Scanner) afterValue() {
	s.state = atNext
	if len(s.stack) == 0 {
		s.state = atEnd
	}
}

func (s *Scanner) scanLiteral(p []byte, i int) int {
	for i < len(p) && s.literal != "" {
		if p[i] != s.literal[0] {
			s.syntax(i, "expected true, false or null")
			return i
		}
		s.literal = s.literal[1:]
		i++
	}
	if s.literal == "" {
		s.endScalar(p, i)
	}
	return i
}

// syntax and limit end the scan at p[i].
func (s *Scanner) syntax(i int, problem string) {
	s.err = &SyntaxError{Offset: s.base + s.omitted + int64(i), Problem: problem}
}

func (s *Scanner) limit(i int, problem string) {
	s.err = &LimitError{Offset: s.base + s.omitted + int64(i), Problem: problem}
}
