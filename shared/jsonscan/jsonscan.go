package jsonscan

// Span is a half-open range of byte offsets in the scanned text. The zero Span
// stands for "absent".
type Span struct{ Start, End int64 }

// Member is one member of an object, recorded as Options says.
type Member struct {
	// Parent is the index, in Members, of the member whose value is the object
	// this one stands in; -1 in the root object.
	Parent int
	// Depth is 1 in the root object.
	Depth int
	// Name is the name with escapes resolved.
	Name string
	// NameAt covers the name with its quotes, Value the value without white
	// space around it.
	NameAt, Value Span
	// Kind is the first byte of the value, '0' for every number.
	Kind byte
}

// Options says what to record and what to bound.
type Options struct {
	// Into says whether the members of the object that is the value of the member
	// (depth, name) are recorded too. Nil: only the root's members.
	Into func(depth int, name string) bool
	// Keep says whether a member is recorded. Nil: all.
	Keep func(depth int, name string) bool
	// MaxMembers bounds the recorded members (default 4096), MaxDepth the nesting
	// (default 1000), MaxName the length of a recorded name in bytes (default 1024).
	MaxMembers, MaxDepth, MaxName int
}

// Scanner validates one JSON text that is fed in pieces, without keeping it,
// and records where members stand. The zero Scanner is not usable; see New.
type Scanner struct{}

// New returns a scanner for one text.
func New(opts Options) *Scanner { panic("jsonscan") }

// Reset makes the scanner ready for another text under the same options.
func (s *Scanner) Reset() { panic("jsonscan") }

// Feed scans the next piece. After an error, which names the offset, the
// scanner takes no more.
func (s *Scanner) Feed(p []byte) error { panic("jsonscan") }

// End says that the text is complete: nil if it was one whole JSON value.
func (s *Scanner) End() error { panic("jsonscan") }

// Members returns what was recorded, in the order of the text; valid until Reset.
func (s *Scanner) Members() []Member { panic("jsonscan") }

// Root is the first byte of the root value, 0 before it was seen.
func (s *Scanner) Root() byte { panic("jsonscan") }

// Breaks says whether a CR or LF stood outside strings (inside one it is an error).
func (s *Scanner) Breaks() bool { panic("jsonscan") }
