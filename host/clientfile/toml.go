package clientfile

import (
	"regexp"
	"strings"
)

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// tomlKey is a name as a key.
func tomlKey(name string) string {
	if bareKey.MatchString(name) {
		return name
	}
	return quoted(name)
}

// putTOML writes an entry as a table at the end, in the place of one that is there.
func (s shape) putTOML(text, name string, entry []field) (string, error) {
	// An inline table is closed, though some readers let tables add to it.
	if regexp.MustCompile(`(?m)^\s*"?` + s.at[0] + `"?\s*=`).MatchString(text) {
		return "", ErrForm
	}
	if root, err := s.decode(text); err == nil && s.entry(root, name) != nil {
		if text, err = s.takeTOML(text, name); err != nil {
			return "", err
		}
	}
	nl := newline(text)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += nl
	}
	var b strings.Builder
	b.WriteString(text)
	if text != "" {
		b.WriteString(nl)
	}
	b.WriteString("[" + s.at[0] + "." + tomlKey(name) + "]" + nl)
	for _, f := range entry {
		b.WriteString(tomlKey(f.name) + " = " + inline(f.value, " = ", tomlKey) + nl)
	}
	return b.String(), nil
}

// takeTOML takes out the table of an entry and those below it: from its header to the
// next, with the blank line before it. (A line within a text of several that looks like a
// header makes the result another, which is then not used.)
func (s shape) takeTOML(text, name string) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	path := `\s*\[\s*` + s.at[0] + `\s*\.\s*(?:` + regexp.QuoteMeta(name) + `|` + regexp.QuoteMeta(quoted(name)) + `|'` + regexp.QuoteMeta(name) + `')\s*`
	ours := regexp.MustCompile(`^` + path + `[.\]]`)
	header := regexp.MustCompile(`^\s*\[`)
	var out []string
	inside, found := false, false
	for _, line := range lines {
		if header.MatchString(line) {
			if inside = ours.MatchString(line); inside {
				if !found && len(out) > 0 && strings.TrimSpace(out[len(out)-1]) == "" {
					out = out[:len(out)-1]
				}
				found = true
			}
		}
		// What stands between this table and the next is the next one's.
		if t := strings.TrimSpace(line); !inside || t == "" || strings.HasPrefix(t, "#") {
			out = append(out, line)
		}
	}
	if !found {
		return "", ErrForm
	}
	return strings.Join(out, ""), nil
}
