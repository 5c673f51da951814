package config

import (
	"fmt"
	"strings"
)

// referenceHead is what stands before the table in the documentation.
const referenceHead = `# Configuration

Made from the table in host/config/blocks.go. A change there is followed by
go test ./host/config -run TestReference -update

A configuration is a file, or a folder of *.hcl files, in HCL. A name that is not
in this list is an error, and so is a value that cannot be used.

- A *duration* is a string like "250ms", "30s", "1h30m" or "90d".
- A *size* is a string like "512KiB" or "1GB": KiB, MiB, GiB and TiB are powers of
  1024; kB, MB, GB and TB are powers of 1000.
- A *time* is a string in RFC 3339's notation, like "2027-01-31T00:00:00Z".
- A *path* is relative to the folder of the file; "~/" is the home folder.
- A *bool* is true or false without quotes; "true" is taken for true.
- A list that is given and empty is empty: the default is for what is absent.
- Expressions may use ` + "`env(name)`, `env(name, default)`, `file(path)`" + ` (a file's text without
  its last line break), ` + "`path.config` and `path.home`" + `, and in a provider's config block
  ` + "`secret(name)`" + `, a value that ` + "`drawbridge secret set NAME`" + ` has kept. There are no loops.

`

// Reference is the documentation of every block and attribute, in Markdown, made
// from the table that decoding goes by.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	table := root(&Config{}, place{home: "~"})
	for _, kind := range table.blocks {
		writeBlock(&b, kind, "", 2)
	}
	return b.String()
}

func writeBlock(b *strings.Builder, kind blockType, outer string, level int) {
	path := join(outer, kind.name)
	title := strings.ReplaceAll(path, ".", " › ")
	if kind.label != "" {
		title += fmt.Sprintf(" %q", kind.label)
	}
	fmt.Fprintf(b, "%s `%s`\n\n%s%s\n\n", strings.Repeat("#", level), title, kind.usage, pendingText(path))
	inner := kind.open()
	if len(inner.attributes) > 0 {
		b.WriteString("| attribute | value | default | |\n|---|---|---|---|\n")
	}
	for _, a := range inner.attributes {
		fallback := a.fallback
		switch {
		case a.required:
			fallback = "required"
		case fallback != "":
			fallback = "`" + fallback + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s%s |\n", a.name, a.kind, fallback, a.usage, pendingText(join(path, a.name)))
	}
	if len(inner.attributes) > 0 {
		b.WriteString("\n")
	}
	for _, block := range inner.blocks {
		writeBlock(b, block, path, level+1)
	}
}

// pendingText says what of a block or attribute is not in force yet.
func pendingText(path string) string {
	var b strings.Builder
	for _, p := range pendings {
		if p.path != path {
			continue
		}
		what := "Not in force yet"
		if p.value != "" {
			what = fmt.Sprintf("`%s` is not in force yet", p.value)
		}
		if p.refused {
			what += ", and refused"
		}
		fmt.Fprintf(&b, " *%s: %s*", what, p.instead)
	}
	return b.String()
}
