package importer

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/internal/secretstore"
)

// affixes say no more than that a server is one.
var affixes = regexp.MustCompile(`^(mcp-server-|server-|mcp-)|(-mcp-server|-server|-mcp)$`)

// name makes the name of an entry's provider from the one in the file: its slug, so
// that label, tools and files are called alike. No other entry of the file has it.
func (r *reader) name(source, path string) string {
	base := slugOf(source)
	name := base
	for n := 2; r.names[name]; n++ {
		end := fmt.Sprintf("-%d", n)
		name = base[:min(len(base), config.MaxSlug-len(end))] + end
	}
	r.names[name] = true
	if name != source {
		r.info(path, "its provider is named %q; the original name is %q", name, source)
	}
	return name
}

// slugOf is the slug of a name. Of a path like github.com/owner/name-mcp it is what
// tells most, its end; what is too long is cut and told apart by a checksum.
func slugOf(source string) string {
	plain := transliterate(source)
	if i := strings.LastIndexByte(strings.TrimRight(plain, "/"), '/'); i >= 0 {
		end := affixes.ReplaceAllString(strings.ToLower(strings.TrimRight(plain, "/")[i+1:]), "")
		if slug, err := config.Slug(end); err == nil && end != "mcp" {
			return slug
		}
	}
	if slug, err := config.Slug(plain); err == nil {
		return slug
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(source)))[:8]
	var short strings.Builder
	for _, r := range strings.ToLower(plain) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			short.WriteRune(r)
		} else if s := short.String(); s != "" && !strings.HasSuffix(s, "-") {
			short.WriteByte('-')
		}
		if short.Len() == config.MaxSlug-len(sum)-1 {
			break
		}
	}
	if start := strings.Trim(short.String(), "-"); start != "" {
		return start + "-" + sum
	}
	return "server-" + sum
}

// transliterate takes marks off letters: ü becomes u.
func transliterate(s string) string {
	var b strings.Builder
	for _, r := range norm.NFKD.String(s) {
		if !unicode.Is(unicode.Mn, r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// secretName is a name as the secret store takes it: a/api-key becomes a.api-key.
func secretName(path string) string {
	var b strings.Builder
	for _, r := range path {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-', r == '.':
			b.WriteRune(r)
		case r == '/':
			b.WriteByte('.')
		default:
			b.WriteByte('_')
		}
	}
	name := strings.TrimLeft(b.String(), "-.")
	if len(name) > secretstore.MaxName || name == "" {
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(path)))[:8]
		name = name[:min(len(name), secretstore.MaxName-len(sum)-1)] + "_" + sum
	}
	return name
}
