package jsonscan

// problemName is what is wrong with a name that cannot be told from another.
const problemName = "unpaired surrogate in a member name"

// Above these lengths what a text needed is not kept for the next.
const (
	keptMembers = 1 << 10
	keptBytes   = 64 << 10
)

// What is interned at most.
const (
	internedNames  = 256
	internedLength = 64
)

// recorder holds what is remembered of a text.
type recorder struct {
	members []Member
	// pending is the member whose value comes next, or runs and is a scalar.
	pending int

	// The name that is being read: where it begins, in the text and in the current
	// piece, and what earlier pieces held of it.
	nameAt   int64
	nameFrom int
	name     []byte

	// The value that is being captured: its member, where it begins in the arena
	// of captured bytes, and from where on the current piece belongs to it.
	capturing int
	capAt     int
	capFrom   int
	arena     []byte

	scratch []byte
	// interned holds names of recent texts, so that a scanner that sees the same
	// few names again and again makes no new strings of them.
	interned map[string]string
}

func (r *recorder) reset() {
	clear(r.members)
	r.members = r.members[:0]
	if cap(r.members) > keptMembers {
		r.members = nil
	}
	for _, b := range []*[]byte{&r.name, &r.arena, &r.scratch} {
		*b = (*b)[:0]
		if cap(*b) > keptBytes {
			*b = nil
		}
	}
	r.pending, r.capturing = none, none
}

// piece says that a new piece begins.
func (r *recorder) piece() { r.nameFrom, r.capFrom = 0, 0 }

// begin notes that the pending member's value begins, at offset off and at index
// i of the piece.
func (r *recorder) begin(off int64, i int, kind byte) {
	m := &r.members[r.pending]
	m.Value.Start, m.Kind = off, kind
	if r.capturing == r.pending {
		r.capAt, r.capFrom = len(r.arena), i
	}
}

// capture keeps what the piece holds, up to index i, of the value being captured.
func (r *recorder) capture(p []byte, i, limit int) {
	if r.capturing == none || r.members[r.capturing].Kind == 0 || p == nil {
		return
	}
	if len(r.arena)-r.capAt+i-r.capFrom > limit {
		r.arena = r.arena[:r.capAt]
		r.capturing = none
		return
	}
	r.arena = append(r.arena, p[r.capFrom:i]...)
	r.capFrom = i
}

func (r *recorder) endCapture(omitBreaks bool) {
	if r.capturing == none {
		return
	}
	if omitBreaks {
		kept := r.arena[:r.capAt]
		for _, c := range r.arena[r.capAt:] {
			if c != '\r' && c != '\n' {
				kept = append(kept, c)
			}
		}
		r.arena = kept
	}
	r.members[r.capturing].Captured = r.arena[r.capAt:len(r.arena):len(r.arena)]
	r.capturing = none
}

// intern returns b as a string, an old one if it is there.
func (r *recorder) intern(b []byte) string {
	if len(b) > internedLength {
		return string(b)
	}
	if name, ok := r.interned[string(b)]; ok {
		return name
	}
	if r.interned == nil {
		r.interned = make(map[string]string, 16)
	} else if len(r.interned) >= internedNames {
		clear(r.interned)
	}
	name := string(b)
	r.interned[name] = name
	return name
}

// recording says whether the innermost container's members are recorded.
func (s *Scanner) recording() bool { return s.stack[len(s.stack)-1].record }

func (s *Scanner) beginName(i int) int {
	s.state, s.isName, s.str.part, s.escaped = inString, true, plain, false
	s.record.nameAt = s.base + int64(i)
	s.record.nameFrom = i + 1
	s.record.name = s.record.name[:0]
	return i + 1
}

// keepName keeps what a piece, which ends at index end, holds of a recorded name.
func (s *Scanner) keepName(part []byte, end int64) {
	// An escape takes at most six bytes for one.
	if len(s.record.name)+len(part) > 6*s.opts.MaxName {
		s.limit(int(end), "member name too long")
		return
	}
	s.record.name = append(s.record.name, part...)
}

// endString ends a string at the quote p[i].
func (s *Scanner) endString(p []byte, i int) {
	if !s.isName {
		s.endScalar(p, i+1)
		return
	}
	s.state = atColon
	if s.recording() {
		s.addMember(p, i)
	}
}

// addMember records the member whose name ends at the quote p[i].
func (s *Scanner) addMember(p []byte, i int) {
	r := &s.record
	raw := p[r.nameFrom:i]
	if len(r.name) > 0 {
		r.name = append(r.name, raw...)
		raw = r.name
	}
	if s.escaped {
		var paired bool
		if r.scratch, paired = appendUnescaped(r.scratch[:0], raw); !paired {
			s.syntax(i, problemName)
			return
		}
		raw = r.scratch
	}
	if len(raw) > s.opts.MaxName {
		s.limit(i, "member name too long")
		return
	}
	m := Member{
		Parent: int(s.stack[len(s.stack)-1].member),
		Depth:  1,
		Name:   r.intern(raw),
		NameAt: Span{r.nameAt, s.base + int64(i) + 1},
	}
	if m.Parent != none {
		m.Depth = r.members[m.Parent].Depth + 1
	}
	if s.opts.Keep != nil && !s.opts.Keep(m.Depth, m.Name) {
		return
	}
	if len(r.members) >= s.opts.MaxMembers {
		s.limit(i, "too many members")
		return
	}
	r.pending = len(r.members)
	r.members = append(r.members, m)
	if r.capturing == none && s.opts.Capture != nil && s.opts.Capture(m.Depth, m.Name) {
		r.capturing = r.pending
	}
}
