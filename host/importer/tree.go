package importer

import (
	"fmt"
	"regexp"
	"strings"
)

// kind is what a value of a client's file is.
type kind int

const (
	null kind = iota
	boolean
	number
	text
	list
	table
)

func (k kind) String() string {
	return [...]string{"null", "true or false", "a number", "a text", "a list", "an object"}[k]
}

// node is a value of a client's file, whatever the file is written in. Members keep
// the order of the file, and all of those with one name.
type node struct {
	kind kind
	// text is the value of a text, and a number or boolean as it is written.
	text    string
	items   []*node
	members []member
	// line and column count from 1; they are 0 where the parser does not tell.
	line, column int
	// broken says that the text cannot be had as it was meant.
	broken bool
	// odd says that other readers of the format take the text for something else,
	// reworded that it is not as it is written, which the parser does not tell.
	odd, reworded bool
}

// member is one member of an object.
type member struct {
	key   string
	value *node
}

// get is the first member of a name; nil where there is none, or n is no object.
func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	for _, m := range n.members {
		if m.key == name {
			return m.value
		}
	}
	return nil
}

// at follows names; nil where one leads nowhere.
func (n *node) at(names ...string) *node {
	for _, name := range names {
		n = n.get(name)
	}
	return n
}

// twice is a name that more than one member has, "" if none.
func (n *node) twice() string {
	seen := map[string]bool{}
	for _, m := range n.members {
		if seen[m.key] {
			return m.key
		}
		seen[m.key] = true
	}
	return ""
}

// scalar says whether the value is one text.
func (n *node) scalar() bool { return n.kind == text || n.kind == number || n.kind == boolean }

// empty says whether there is nothing in a value.
func (n *node) empty() bool {
	return n == nil || n.kind == null || n.kind == text && n.text == "" ||
		n.kind == list && len(n.items) == 0 || n.kind == table && len(n.members) == 0
}

var plainKey = regexp.MustCompile(`^[\p{L}\p{M}_][\p{L}\p{M}\p{N}_-]*$`)

// step adds a name to a path: mcpServers.web, or mcpServers["team.docs"].
func step(path, key string) string {
	if !plainKey.MatchString(key) {
		return fmt.Sprintf("%s[%q]", path, key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// index adds a position to a path.
func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// position is where an offset is in a text; columns count characters.
func position(src string, offset int) (line, column int) {
	before := src[:min(offset, len(src))]
	start := strings.LastIndexByte(before, '\n') + 1
	return 1 + strings.Count(before, "\n"), 1 + len([]rune(before[start:]))
}
