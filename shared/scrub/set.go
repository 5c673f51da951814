package scrub

import (
	"strings"
	"sync"
)

// Mark stands where a secret was.
const Mark = "[redacted]"

// MinLength is the least length in bytes of what is looked for. What is shorter
// stands in nearly every text.
const MinLength = 4

// State is how far a text has come towards one of the patterns. The zero State is
// that of the empty text.
type State int32

// Set is a set of patterns. The nil Set has none.
type Set struct {
	nodes []node
	first [256]State // the transitions of the zero state
	// patterns are kept for the automaton that reads backwards, which few need.
	patterns  []string
	backwards func() *Set
}

// node is one beginning of a pattern. Those that continue it by one byte are a list.
type node struct {
	child, sibling State
	fail           State // the longest other beginning that ends this one
	depth          int32 // its length
	hit            int32 // the length of the longest pattern that ends here, 0 for none
	c              byte
}

// New makes the set of these patterns; those below MinLength are left out. It is
// nil if none is left.
func New(patterns []string) *Set {
	s := build(patterns)
	if s != nil {
		s.backwards = sync.OnceValue(func() *Set {
			reversed := make([]string, len(s.patterns))
			for i, p := range s.patterns {
				reversed[i] = reverse(p)
			}
			return build(reversed)
		})
	}
	return s
}

func build(patterns []string) *Set {
	s := &Set{nodes: make([]node, 1)}
	for _, p := range patterns {
		if len(p) >= MinLength {
			s.insert(p)
			s.patterns = append(s.patterns, p)
		}
	}
	if len(s.patterns) == 0 {
		return nil
	}
	s.link()
	return s
}

func (s *Set) insert(pattern string) {
	at := State(0)
	for i := range len(pattern) {
		next := s.childOf(at, pattern[i])
		if next == 0 {
			next = State(len(s.nodes)) // far below 2^31: patterns are values of a config
			s.nodes = append(s.nodes, node{sibling: s.nodes[at].child, depth: s.nodes[at].depth + 1, c: pattern[i]})
			s.nodes[at].child = next
			if at == 0 {
				s.first[pattern[i]] = next
			}
		}
		at = next
	}
	s.nodes[at].hit = s.nodes[at].depth
}

// childOf is the state that a byte leads to, 0 if no pattern goes on so.
func (s *Set) childOf(at State, c byte) State {
	if at == 0 {
		return s.first[c]
	}
	for n := s.nodes[at].child; n != 0; n = s.nodes[n].sibling {
		if s.nodes[n].c == c {
			return n
		}
	}
	return 0
}

// link sets where a state falls back to, the shorter ones first.
func (s *Set) link() {
	var queue []State
	for n := s.nodes[0].child; n != 0; n = s.nodes[n].sibling {
		queue = append(queue, n)
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for n := s.nodes[at].child; n != 0; n = s.nodes[n].sibling {
			fail := s.Next(s.nodes[at].fail, s.nodes[n].c)
			s.nodes[n].fail = fail
			s.nodes[n].hit = max(s.nodes[n].hit, s.nodes[fail].hit)
			queue = append(queue, n)
		}
	}
}

// Next is the state after one more byte.
func (s *Set) Next(at State, c byte) State {
	for {
		if next := s.childOf(at, c); next != 0 || at == 0 {
			return next
		}
		at = s.nodes[at].fail
	}
}

// Hit is the length of the longest pattern that ends where the text stands, 0 if
// none does.
func (s *Set) Hit(at State) int { return int(s.nodes[at].hit) }

// Depth is how many of the text's last bytes may be the beginning of a pattern:
// what is before them is settled.
func (s *Set) Depth(at State) int { return int(s.nodes[at].depth) }

// Text is the text with Mark in the place of each pattern; what overlaps is one.
// A text without any is returned as it is.
func (s *Set) Text(text string) string {
	out, _ := s.run(text)
	return out
}

// Head is Text for a text whose rest was cut off: what may be the beginning of a
// pattern at its end is left out too.
func (s *Set) Head(text string) string {
	out, open := s.run(text)
	if open == 0 {
		return out
	}
	return strings.TrimSuffix(out, text[len(text)-open:])
}

// Tail is Text for a text whose beginning was cut off: what may be the end of a
// pattern at its beginning is left out too.
func (s *Set) Tail(text string) string {
	if s == nil {
		return text
	}
	back := s.backwards()
	at := State(0)
	// No more than the longest pattern decides, and what is before it falls away.
	for i := len(text) - 1; i >= 0; i-- {
		at = back.Next(at, text[i])
	}
	return s.Text(text[back.Depth(at):])
}

// run is Text, and says how many bytes at its end, all of them in the output, may
// begin a pattern.
func (s *Set) run(text string) (out string, open int) {
	if s == nil {
		return text, 0
	}
	var found []span
	at := State(0)
	for i := range len(text) {
		at = s.Next(at, text[i])
		if n := s.Hit(at); n > 0 {
			found = add(found, span{i + 1 - n, i + 1})
		}
	}
	open = s.Depth(at)
	if len(found) == 0 {
		return text, open
	}
	if end := found[len(found)-1].end; len(text)-open < end {
		// What is left of the text after the last pattern may go on to another one.
		open = len(text) - end
	}
	var b strings.Builder
	from := 0
	for _, f := range found {
		b.WriteString(text[from:f.start])
		b.WriteString(Mark)
		from = f.end
	}
	b.WriteString(text[from:])
	return b.String(), open
}

type span struct{ start, end int }

// add adds a span that ends where none before it does, and makes one of those
// that overlap.
func add(found []span, next span) []span {
	for len(found) > 0 && found[len(found)-1].end > next.start {
		next.start = min(next.start, found[len(found)-1].start)
		found = found[:len(found)-1]
	}
	return append(found, next)
}

func reverse(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}
