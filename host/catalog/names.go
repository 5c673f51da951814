package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/host/config"
)

const (
	// DefaultNameMax is `name_max` where the config says nothing: what the model
	// APIs accept.
	DefaultNameMax = 64
	// suffixLen is the length of what ends a name that had to be changed: `_` and
	// 8 hex digits of the SHA-256 of the tool's own name.
	suffixLen = 1 + 8
)

// Exposed returns the name under which clients see a tool: the provider's slug,
// `_`, and the tool's name as the server calls it. It matches [A-Za-z0-9_-]+ and
// is at most max characters long. A tool whose own name does not fit is cleaned
// (each other character becomes `_`), shortened and ended with `_` and 8 hex
// digits of the SHA-256 of its own name. Since a slug holds no `_`, the first one
// ends it, and two providers never share a name. It depends on nothing but its
// arguments. A max that has no room for slug, `_` and those 9 characters is taken
// as if it had.
func Exposed(slug, tool string, max int) string {
	whole := slug + "_" + tool
	if tool != "" && fits(tool) && len(whole) <= max {
		return whole
	}
	return shortened(slug+"_", tool, max)
}

// SlugOf returns the slug that a prefixed name begins with; false where there
// can be none.
func SlugOf(exposed string) (string, bool) {
	slug, _, ok := strings.Cut(exposed, "_")
	return slug, ok && slug != ""
}

// shortened cleans tool, cuts it so that prefix, tool and suffix have at most max
// characters, and ends it with the suffix of its name.
func shortened(prefix, tool string, max int) string {
	room := max - len(prefix) - suffixLen
	var b strings.Builder
	b.WriteString(prefix)
	written := 0
	for _, r := range tool {
		if written >= room {
			break
		}
		if r < 0x80 && inAlphabet(byte(r)) {
			b.WriteByte(byte(r))
		} else {
			b.WriteByte('_')
		}
		written++
	}
	sum := sha256.Sum256([]byte(tool))
	b.WriteByte('_')
	b.WriteString(hex.EncodeToString(sum[:4]))
	return b.String()
}

// fits says whether a name has only characters that exposed names may have.
func fits(name string) bool {
	for i := range len(name) {
		if !inAlphabet(name[i]) {
			return false
		}
	}
	return true
}

func inAlphabet(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// exposes says whether a provider shows the tool to anyone.
func exposes(p Provider, tool string) bool {
	return matchesAny(p.Tools, tool) && !matchesAny(p.Except, tool)
}

func matchesAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if Match(p, name) {
			return true
		}
	}
	return false
}

// Match is config.Match, by which provider blocks and grants go alike.
func Match(pattern, name string) bool { return config.Match(pattern, name) }
