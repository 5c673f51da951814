package stdio

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// maxEnvFile is far above any environment a system accepts (Linux: about 2 MiB
// for arguments and environment together).
const maxEnvFile = 1 << 20

var (
	errNotRegular = errors.New("it is not a regular file")
	errTooLong    = fmt.Errorf("it is longer than %d bytes", maxEnvFile)
)

// lineError says what is wrong in a line of an env file, never what it holds.
type lineError struct {
	line    int
	problem string
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.problem) }

// readEnvFile reads NAME=VALUE lines; the errors are of the file, or *lineError.
// A FIFO or a device would hold up the start for ever, so only regular files are read.
func readEnvFile(path string) (map[string]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxEnvFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxEnvFile {
		return nil, errTooLong
	}
	return parseEnvFile(string(text))
}

// parseEnvFile understands what the dialects of such files have in common, and
// refuses what they read differently:
//
//	NAME=VALUE        the value is the rest of the line, white space around it removed
//	NAME='VALUE'      as it stands
//	NAME="VALUE"      with \n \t \r \" \\ and \$ as escapes
//	export NAME=…     as without export
//	# a comment       on a line of its own, or after a quoted value
//
// Nothing is expanded. A name twice, and " #" in a value without quotes, are errors.
func parseEnvFile(text string) (map[string]string, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	values, seen := map[string]string{}, map[string]int{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		wrong := func(format string, args ...any) error {
			return &lineError{number, fmt.Sprintf(format, args...)}
		}
		if rest, found := strings.CutPrefix(line, "export"); found && strings.TrimLeft(rest, " \t") != rest {
			line = strings.TrimLeft(rest, " \t")
		}
		name, value, found := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		switch {
		case !found:
			return nil, wrong("no = in it")
		case !plainName(name):
			return nil, wrong("what stands before the = is not a variable's name")
		case reserved(name):
			return nil, wrong("%s cannot be set", name)
		case seen[name] != 0:
			return nil, wrong("%s is set a second time, first in line %d", name, seen[name])
		}
		value, problem := unquoteEnv(strings.TrimSpace(value))
		if problem != "" {
			return nil, wrong("%s", problem)
		}
		if strings.ContainsRune(value, 0) || !utf8.ValidString(value) {
			return nil, wrong("the value holds a NUL byte or is not UTF-8")
		}
		values[name], seen[name] = value, number
	}
	return values, nil
}

// plainName is a name that every shell would take.
func plainName(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

func unquoteEnv(value string) (text, problem string) {
	switch {
	case strings.HasPrefix(value, "'"):
		text, after, closed := strings.Cut(value[1:], "'")
		return text, afterQuote(after, closed)
	case strings.HasPrefix(value, `"`):
		return unescapeEnv(value[1:])
	case strings.Contains(value, " #") || strings.Contains(value, "\t#"):
		return "", "a value with a # after white space needs quotes: some programs take it for a comment, others do not"
	}
	return value, ""
}

func unescapeEnv(value string) (text, problem string) {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		switch c := value[i]; c {
		case '"':
			return b.String(), afterQuote(value[i+1:], true)
		case '\\':
			i++
			if i == len(value) {
				return "", afterQuote("", false)
			}
			at := strings.IndexByte(`ntr"\$`, value[i])
			if at < 0 {
				return "", `a \ stands before something other than n, t, r, ", \ or $; write \\ for a \`
			}
			b.WriteByte("\n\t\r\"\\$"[at])
		default:
			b.WriteByte(c)
		}
	}
	return "", afterQuote("", false)
}

func afterQuote(after string, closed bool) string {
	switch rest := strings.TrimSpace(after); {
	case !closed:
		return "the quote is not closed on this line"
	case rest != "" && !strings.HasPrefix(rest, "#"):
		return "something follows the closing quote"
	}
	return ""
}
