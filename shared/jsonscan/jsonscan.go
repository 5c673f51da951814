package jsonscan

import "fmt"

// SyntaxError says that the text is not valid JSON in UTF-8.
type SyntaxError struct {
	// Offset of the first wrong byte in the text as it was fed.
	Offset int64
	// Problem says what is wrong there.
	Problem string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Problem)
}

// LimitError says that the text exceeds a bound of Options. It may be valid.
type LimitError struct {
	// Offset of the byte at which the bound was exceeded, in the text as it was fed.
	Offset int64
	// Problem says which bound.
	Problem string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("JSON at byte %d: %s", e.Offset, e.Problem)
}

// Span is a half-open range of byte offsets in the scanned text. The zero Span
// stands for "absent".
type Span struct{ Start, End int64 }

// Len is the length of the span in bytes.
func (s Span) Len() int64 { return s.End - s.Start }

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
	// space around it. Until the value has ended, Value.End is 0.
	NameAt, Value Span
	// Kind is the first byte of the value, '0' for every number; 0 until the
	// value has begun.
	Kind byte
	// Captured is a copy of the value where Options.Capture asked for one and it
	// is complete and within MaxCapture; else nil. Valid until Reset.
	Captured []byte
}

// Options says what to record and what to bound.
type Options struct {
	// Into says whether the members of the object that is the value of the recorded
	// member (depth, name) are recorded too. Nil: only the root's members.
	Into func(depth int, name string) bool
	// Keep says whether a member is recorded. Nil: all.
	Keep func(depth int, name string) bool
	// Capture says whether the value of a recorded member is copied into
	// Member.Captured. Inside a value that is being captured nothing else is. Nil: none.
	Capture func(depth int, name string) bool
	// OmitBreaks makes spans count the text as it is once every CR and LF outside
	// strings has been removed (inside a string they are errors, so these are all
	// of them). Offsets in errors still count the text as it was fed.
	OmitBreaks bool
	// PairedSurrogates refuses a \u escape of half a surrogate pair, as jsontext
	// does. Without it such an escape passes in values, and in names that are not
	// recorded: RFC 8259 (section 8.2) has it in its grammar, and servers written in
	// JavaScript send one whenever they cut a text in the middle of an emoji. It is
	// plain ASCII, so the text is UTF-8 all the same. In a recorded name it is always
	// an error, since two such names could not be told apart.
	PairedSurrogates bool
	// MaxMembers bounds the recorded members (default 4096), MaxDepth the nesting
	// (default 1000: a text nested that deep, or deeper, is refused), MaxName the
	// length of a recorded name in bytes (default 1024). Exceeding one is a *LimitError.
	MaxMembers, MaxDepth, MaxName int
	// MaxCapture bounds each captured value in bytes (default 1024); a longer one
	// is not captured, which is no error.
	MaxCapture int
}

// The defaults of Options.
const (
	defaultMaxMembers = 4096
	defaultMaxDepth   = 1000
	defaultMaxName    = 1024
	defaultMaxCapture = 1024
)

func (o Options) withDefaults() Options {
	set := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	set(&o.MaxMembers, defaultMaxMembers)
	set(&o.MaxDepth, defaultMaxDepth)
	set(&o.MaxName, defaultMaxName)
	set(&o.MaxCapture, defaultMaxCapture)
	return o
}
