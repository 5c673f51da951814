package importer

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// parseTOML reads TOML. Names that stand twice are mistakes of the file there.
func parseTOML(name, src string) (*node, error) {
	if at := tooDeepTOML(src); at >= 0 {
		line, column := position(src, at)
		return nil, &FileError{File: name, Line: line, Column: column, Problem: "its values are nested too deeply"}
	}
	var root map[string]any
	meta, err := toml.Decode(src, &root)
	if err != nil {
		e := &FileError{File: name, Problem: "it is no valid TOML"}
		var wrong toml.ParseError
		if errors.As(err, &wrong) {
			e.Line, e.Column, e.Problem = wrong.Position.Line, wrong.Position.Col, withoutValues(wrong.Message)
		}
		return nil, e
	}
	order := map[string]int{}
	for i, key := range meta.Keys() {
		for n := range key {
			path := strings.Join(key[:n+1], "\x00")
			if _, ok := order[path]; !ok {
				order[path] = i
			}
		}
	}
	n := tomlNode(root, "", order, 0)
	if n == nil {
		return nil, &FileError{File: name, Problem: "its values are nested too deeply"}
	}
	return n, nil
}

// tooDeepTOML is the offset at which brackets, or the parts of one name, are too many;
// -1 if nowhere. The parser recurses, and its work grows with the square of the depth.
func tooDeepTOML(src string) int {
	depth, parts := 0, 0
	for i := 0; i < len(src); i++ {
		switch c := src[i]; c {
		case '#':
			n := strings.IndexByte(src[i:], '\n')
			if n < 0 {
				return -1
			}
			i += n - 1
		case '"', '\'':
			i = endOfString(src, i)
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		case '.':
			parts++
		case ',', '=', '\n':
			parts = 0
		}
		if depth > maxDepth || parts > maxDepth {
			return i
		}
	}
	return -1
}

// endOfString is where the string that begins at an offset ends. One that is not closed
// on its line ends with that, for the parser to complain of.
func endOfString(src string, i int) int {
	quote := src[i : i+1]
	if three := strings.Repeat(quote, 3); strings.HasPrefix(src[i:], three) {
		quote = three
	}
	for j := i + len(quote); j < len(src); j++ {
		switch {
		case quote[0] == '"' && src[j] == '\\':
			j++
		case len(quote) == 1 && src[j] == '\n':
			return j - 1
		case strings.HasPrefix(src[j:], quote):
			return j + len(quote) - 1
		}
	}
	return len(src)
}

var quotedText = regexp.MustCompile(`'[^']*'|"[^"]*"|` + "`[^`]*`")

// withoutValues takes out of a parser's message what it quotes of the file.
func withoutValues(message string) string {
	first, _, _ := strings.Cut(message, "\n")
	return quotedText.ReplaceAllStringFunc(first, func(s string) string {
		if len(s) == 3 { // one character, of the format itself
			return s
		}
		return "…"
	})
}

// tomlNode is nil where values are nested too deeply.
func tomlNode(v any, path string, order map[string]int, depth int) *node {
	if depth > maxDepth {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		n := &node{kind: table}
		for key, value := range v {
			inner := tomlNode(value, tomlPath(path, key), order, depth+1)
			if inner == nil {
				return nil
			}
			n.members = append(n.members, member{key, inner})
		}
		slices.SortFunc(n.members, func(a, b member) int {
			return cmp.Or(cmp.Compare(order[tomlPath(path, a.key)], order[tomlPath(path, b.key)]), cmp.Compare(a.key, b.key))
		})
		return n
	case []any:
		return tomlList(v, path, order, depth)
	case []map[string]any:
		items := make([]any, len(v))
		for i, item := range v {
			items[i] = item
		}
		return tomlList(items, path, order, depth)
	case string:
		return &node{kind: text, text: v}
	case bool:
		return &node{kind: boolean, text: strconv.FormatBool(v)}
	case int64:
		return &node{kind: number, text: strconv.FormatInt(v, 10), reworded: true}
	case float64:
		return &node{kind: number, text: strconv.FormatFloat(v, 'f', -1, 64), reworded: true}
	case time.Time:
		return &node{kind: text, text: v.Format(time.RFC3339Nano), reworded: true}
	}
	return &node{kind: text, text: fmt.Sprint(v), reworded: true}
}

func tomlList(items []any, path string, order map[string]int, depth int) *node {
	n := &node{kind: list}
	for _, item := range items {
		inner := tomlNode(item, path, order, depth+1)
		if inner == nil {
			return nil
		}
		n.items = append(n.items, inner)
	}
	return n
}

func tomlPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "\x00" + key
}
