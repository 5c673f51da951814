package importer

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// parseJSON reads JSON with comments and commas before closing brackets.
func parseJSON(name, src string) (*node, []Note, error) {
	if at := tooDeep(src); at >= 0 {
		line, column := position(src, at)
		return nil, nil, &FileError{File: name, Line: line, Column: column, Problem: "its values are nested too deeply"}
	}
	// A comment may end with the file, but for the parser, which wants the line's end.
	value, err := hujson.Parse([]byte(src + "\n"))
	if err != nil {
		return nil, nil, jsonError(name, src, err)
	}
	t := &jsonTree{src: src, lines: lineStarts(src)}
	root := t.node(&value)
	var notes []Note
	if t.comments || commented(value.BeforeExtra) || commented(value.AfterExtra) {
		notes = append(notes, Note{Path: "(file)", Text: "it is JSON with comments; they are not carried over", Info: true})
	}
	return root, notes, nil
}

// tooDeep is the offset of the bracket that opens one level too many, -1 if none.
// The parser recurses, and a file of brackets alone would exhaust its stack.
func tooDeep(src string) int {
	depth := 0
	for i := 0; i < len(src); i++ {
		switch src[i] {
		case '"':
			for i++; i < len(src) && src[i] != '"'; i++ {
				if src[i] == '\\' {
					i++
				}
			}
		case '/':
			end := ""
			if strings.HasPrefix(src[i:], "//") {
				end = "\n"
			} else if strings.HasPrefix(src[i:], "/*") {
				end = "*/"
			}
			if end == "" {
				continue
			}
			n := strings.Index(src[i+2:], end)
			if n < 0 {
				return -1
			}
			i += 2 + n + len(end) - 1
		case '{', '[':
			if depth++; depth > maxDepth {
				return i
			}
		case '}', ']':
			depth--
		}
	}
	return -1
}

func lineStarts(src string) []int {
	starts := []int{0}
	for i := range len(src) {
		if src[i] == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// jsonTree turns the parser's values into nodes.
type jsonTree struct {
	src      string
	lines    []int
	comments bool
}

func (t *jsonTree) node(v *hujson.Value) *node {
	n := &node{}
	n.line, n.column = t.position(v.StartOffset)
	t.comments = t.comments || commented(v.BeforeExtra) || commented(v.AfterExtra)
	switch value := v.Value.(type) {
	case *hujson.Object:
		n.kind = table
		for i := range value.Members {
			m := &value.Members[i]
			key := t.node(&m.Name)
			n.members = append(n.members, member{key: key.text, value: t.node(&m.Value)})
		}
		t.comments = t.comments || commented(value.AfterExtra)
	case *hujson.Array:
		n.kind = list
		for i := range value.Elements {
			n.items = append(n.items, t.node(&value.Elements[i]))
		}
		t.comments = t.comments || commented(value.AfterExtra)
	case hujson.Literal:
		literal(n, value)
	}
	return n
}

func literal(n *node, value hujson.Literal) {
	switch value.Kind() {
	case '"':
		n.kind, n.text = text, value.String()
		// Half of a surrogate pair stands for no character, and reads as U+FFFD.
		n.broken = strings.ContainsRune(n.text, utf8.RuneError) && !bytes.ContainsRune(value, utf8.RuneError) &&
			!bytes.Contains(bytes.ToLower(value), []byte(`\ufffd`))
	case '0':
		n.kind, n.text = number, string(value)
	case 't', 'f':
		n.kind, n.text = boolean, string(value)
	default:
		n.kind = null
	}
}

func (t *jsonTree) position(offset int) (line, column int) {
	low, high := 0, len(t.lines)
	for high-low > 1 {
		if mid := (low + high) / 2; t.lines[mid] <= offset {
			low = mid
		} else {
			high = mid
		}
	}
	offset = min(offset, len(t.src))
	return low + 1, 1 + utf8.RuneCountInString(t.src[t.lines[low]:offset])
}

func commented(extra hujson.Extra) bool { return bytes.ContainsRune(extra, '/') }

var hujsonPlace = regexp.MustCompile(`line (\d+), column (\d+): (.*)`)

// jsonProblems words what the parser says; its own words may hold text of the file.
var jsonProblems = []struct{ says, problem string }{
	{"expecting ',' or '}'", "expected , or }"},
	{"expecting ',' or ']'", "expected , or ]"},
	{"after object name", "expected : after a name"},
	{"at start of object name", "expected a name in double quotes"},
	{"at start of value", "expected a value"},
	{"unexpected EOF", "the file ends in the middle"},
	{"after top-level value", "something follows the end of the object"},
	{"invalid literal", "this is no value of JSON"},
}

func jsonError(name, src string, err error) error {
	e := &FileError{File: name, Problem: "it is no valid JSON"}
	parts := hujsonPlace.FindStringSubmatch(err.Error())
	if parts == nil {
		return e
	}
	e.Line, _ = strconv.Atoi(parts[1])
	e.Column, _ = strconv.Atoi(parts[2])
	if starts := lineStarts(src); e.Line <= len(starts) { // the parser counts bytes
		start := starts[e.Line-1]
		e.Column = 1 + utf8.RuneCountInString(src[start:min(start+e.Column-1, len(src))])
	}
	for _, p := range jsonProblems {
		if strings.Contains(parts[3], p.says) {
			e.Problem = p.problem
			break
		}
	}
	return e
}
