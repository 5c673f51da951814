package importer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Bounds of a client's file. That of JSON is large because Claude Code keeps its
// history beside its servers; the parsers of the others take more time and stack for
// a byte.
const (
	maxJSON  = 16 << 20
	maxOther = 1 << 20
	// maxDepth is that of nested values.
	maxDepth = 200
	// maxNodes bounds what aliases of YAML can multiply.
	maxNodes = 200_000
)

// FileError says why a file cannot be used as a whole. It holds no value of the file.
type FileError struct {
	File string
	// Line and Column count from 1; 0 where the mistake has no place.
	Line, Column int
	Problem      string
	// Empty says that nothing is wrong with the file: there are no servers in it.
	Empty bool
}

func (e *FileError) Error() string { return fmt.Sprintf("%s: %s", e.File, e.Place()) }

// Place is the error without the file's name.
func (e *FileError) Place() string {
	switch {
	case e.Line == 0:
		return e.Problem
	case e.Column == 0:
		return fmt.Sprintf("line %d: %s", e.Line, e.Problem)
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Problem)
}

// format is what a file is written in.
type format string

const (
	inJSON format = "JSON"
	inTOML format = "TOML"
	inYAML format = "YAML"
)

// ReadFile reads a client's file. A file that cannot be used gives a *FileError.
func ReadFile(path string, opts Options) (*Import, error) {
	src, err := readBounded(path)
	if err != nil {
		return nil, &FileError{File: path, Problem: err.Error()}
	}
	return Read(path, src, opts)
}

// readBounded reads a regular file. Anything else could block or never end.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, whyNot(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, whyNot(err)
	}
	defer func() { _ = f.Close() }()
	src, err := io.ReadAll(io.LimitReader(f, maxJSON+1))
	if err != nil {
		return nil, whyNot(err)
	}
	return src, nil
}

// whyNot words an error of the file system without the path.
func whyNot(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("it does not exist")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("it may not be read by this user")
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return fmt.Errorf("it cannot be read: %w", err)
}

// parse reads the text of a file into a tree. notes are of the file as a whole.
func parse(name string, src []byte) (root *node, in format, notes []Note, err error) {
	fail := func(line, column int, problem string) error {
		return &FileError{File: name, Line: line, Column: column, Problem: problem}
	}
	in = formatOf(name, src)
	limit := maxOther
	if in == inJSON {
		limit = maxJSON
	}
	if len(src) > limit {
		return nil, in, nil, fail(0, 0, fmt.Sprintf("it is larger than %d MiB; a client's file of servers is not", limit>>20))
	}
	text := string(src)
	switch {
	case strings.HasPrefix(text, "\xff\xfe"), strings.HasPrefix(text, "\xfe\xff"):
		return nil, in, nil, fail(0, 0, "it is written in UTF-16; save it as UTF-8")
	case strings.ContainsRune(text, 0):
		return nil, in, nil, fail(0, 0, "it is not a text file")
	case !utf8.ValidString(text):
		line, column := position(text, firstInvalid(text))
		return nil, in, nil, fail(line, column, "it is not a text in UTF-8")
	}
	text = strings.TrimPrefix(text, "\ufeff")
	if strings.TrimSpace(text) == "" {
		return nil, in, nil, &FileError{File: name, Empty: true, Problem: "it is empty"}
	}
	switch in {
	case inTOML:
		root, err = parseTOML(name, text)
	case inYAML:
		root, notes, err = parseYAML(name, text)
	default:
		root, notes, err = parseJSON(name, text)
	}
	return root, in, notes, err
}

func firstInvalid(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, width := utf8.DecodeRuneInString(s[i:]); width == 1 {
				return i
			}
		}
	}
	return len(s)
}

// formatOf tells by the name, and where that does not by how the text begins.
func formatOf(name string, src []byte) format {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json", ".jsonc", ".json5":
		return inJSON
	case ".toml":
		return inTOML
	case ".yaml", ".yml":
		return inYAML
	}
	head := strings.TrimLeft(strings.TrimPrefix(string(src[:min(len(src), 4096)]), "\ufeff"), " \t\r\n")
	switch {
	case strings.HasPrefix(head, "{"), strings.HasPrefix(head, "//"), strings.HasPrefix(head, "/*"), head == "":
		return inJSON
	}
	for line := range strings.Lines(head) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			return inTOML
		}
		if name, _, ok := strings.Cut(line, "="); ok && !strings.ContainsAny(name, ":#") {
			return inTOML
		}
	}
	return inYAML
}
