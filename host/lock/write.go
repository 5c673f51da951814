package lock

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/drawbridge-mcp/drawbridge/shared/wholefile"
)

const heading = `# What has been looked at and approved: the checksums of plugins and the digests of
# tools' definitions. Written by "drawbridge lock"; keep it in version control, and
# read what changes in it.

`

// Bytes is the file's text. It depends on what the file holds and on nothing else:
// every list is sorted, every value stands on a line of its own.
func (f *File) Bytes() []byte {
	var b bytes.Buffer
	b.WriteString(heading)
	fmt.Fprintf(&b, "version = %d\n", formatVersion)
	for _, name := range slices.Sorted(maps.Keys(f.Plugins)) {
		fmt.Fprintf(&b, "\nplugin %s {\n  sha256 = ", quoted(name))
		writeMap(&b, "  ", f.Plugins[name])
		b.WriteString("}\n")
	}
	for _, slug := range slices.Sorted(maps.Keys(f.Providers)) {
		fmt.Fprintf(&b, "\nprovider %s {\n", quoted(slug))
		for i, name := range slices.Sorted(maps.Keys(f.Providers[slug])) {
			if i > 0 {
				b.WriteByte('\n')
			}
			t := f.Providers[slug][name]
			fmt.Fprintf(&b, "  tool %s {\n    digest = %s\n", quoted(name), quoted(t.Digest))
			if len(t.Fields) > 0 {
				b.WriteString("    fields = ")
				writeMap(&b, "    ", t.Fields)
			}
			b.WriteString("  }\n")
		}
		b.WriteString("}\n")
	}
	return b.Bytes()
}

// Write puts the file at path, whole or not at all. Where a link stands there, it goes
// where that leads.
func (f *File) Write(path string) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	// It holds nothing private, and others who build from the same tree read it.
	if err := wholefile.Write(path, f.Bytes(), wholefile.Options{Mode: 0o644, Synced: true}); err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	return nil
}

// writeMap writes an object, its equals signs in one column as `drawbridge fmt`
// would have them.
func writeMap(b *bytes.Buffer, indent string, m map[string]string) {
	keys := slices.Sorted(maps.Keys(m))
	widest := 0
	for i, k := range keys {
		if !hclsyntax.ValidIdentifier(k) {
			keys[i] = quoted(k)
		}
		widest = max(widest, len(keys[i]))
	}
	b.WriteString("{\n")
	for i, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(b, "%s  %-*s = %s\n", indent, widest, keys[i], quoted(m[k]))
	}
	fmt.Fprintf(b, "%s}\n", indent)
}

// quoted is a string literal of HCL in ASCII: what a review shows is what is
// there, and HCL, which normalises the text of literals, leaves escapes in labels
// as they are.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case (r == '$' || r == '%') && strings.HasPrefix(s[i+1:], "{"):
			b.WriteRune(r)
			b.WriteRune(r)
		case r >= 0x20 && r < 0x7f:
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
