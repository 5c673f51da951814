package lock

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// What values look like. The digest of a definition that has no canonical form is
// prefixed.
var (
	checksumForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
	digestForm   = regexp.MustCompile(`^(raw:)?[0-9a-f]{64}$`)
	fieldForm    = regexp.MustCompile(`^[0-9a-f]{16}$`)
)

// The format, as gohcl decodes it: what is not in it is an error.
type (
	document struct {
		Version   int             `hcl:"version"`
		Plugins   []pluginBlock   `hcl:"plugin,block"`
		Providers []providerBlock `hcl:"provider,block"`
	}
	pluginBlock struct {
		Name   string            `hcl:"name,label"`
		SHA256 map[string]string `hcl:"sha256"`
		At     hcl.Range         `hcl:",def_range"`
	}
	providerBlock struct {
		Slug  string      `hcl:"slug,label"`
		Tools []toolBlock `hcl:"tool,block"`
		At    hcl.Range   `hcl:",def_range"`
	}
	toolBlock struct {
		Name   string            `hcl:"name,label"`
		Digest string            `hcl:"digest"`
		Fields map[string]string `hcl:"fields,optional"`
		At     hcl.Range         `hcl:",def_range"`
	}
)

// readBounded reads all, unless it is more than a lock file can be.
func readBounded(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err == nil && len(text) > maxSize {
		err = fmt.Errorf("it has more than %d bytes", maxSize)
	}
	return text, err
}

// Parse reads a lock file's text; name is for messages. Whatever this format does
// not have is an error (ErrInvalid, with file, line and column): a file that a
// newer version or another hand wrote is not half understood.
func Parse(name string, text []byte) (*File, error) {
	source, diags := hclsyntax.ParseConfig(text, name, hcl.InitialPos)
	var doc document
	if !diags.HasErrors() {
		diags = gohcl.DecodeBody(source.Body, nil, &doc)
	}
	if diags.HasErrors() {
		return nil, fmt.Errorf("%w: %w; restore it, or delete it, make a new one with drawbridge lock and review that", ErrInvalid, diags)
	}
	if doc.Version != formatVersion {
		return nil, fmt.Errorf("%w: %s: it has version = %d, and this drawbridge reads version %d", ErrInvalid, name, doc.Version, formatVersion)
	}
	f := New()
	for _, p := range doc.Plugins {
		diags = append(diags, f.addPlugin(p)...)
	}
	for _, p := range doc.Providers {
		diags = append(diags, f.addProvider(p)...)
	}
	if diags.HasErrors() {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, diags)
	}
	return f, nil
}

func (f *File) addPlugin(p pluginBlock) (diags hcl.Diagnostics) {
	if _, again := f.Plugins[p.Name]; again {
		return wrong(p.At, "Block twice", "plugin %q has a block already.", p.Name)
	}
	f.Plugins[p.Name] = p.SHA256
	for _, platform := range slices.Sorted(maps.Keys(p.SHA256)) {
		if !checksumForm.MatchString(p.SHA256[platform]) {
			diags = append(diags, wrong(p.At, "No checksum", "sha256 of plugin %q for %s is no SHA-256 in hexadecimal.", p.Name, platform)...)
		}
	}
	return diags
}

func (f *File) addProvider(p providerBlock) (diags hcl.Diagnostics) {
	if _, again := f.Providers[p.Slug]; again {
		return wrong(p.At, "Block twice", "provider %q has a block already.", p.Slug)
	}
	f.Providers[p.Slug] = map[string]Tool{}
	for _, t := range p.Tools {
		if _, again := f.Providers[p.Slug][t.Name]; again {
			diags = append(diags, wrong(t.At, "Block twice", "tool %q has a block already.", t.Name)...)
			continue
		}
		if !digestForm.MatchString(t.Digest) {
			diags = append(diags, wrong(t.At, "No digest", "digest of tool %q is none: 64 hexadecimal digits are.", t.Name)...)
		}
		for _, field := range slices.Sorted(maps.Keys(t.Fields)) {
			if !fieldForm.MatchString(t.Fields[field]) {
				diags = append(diags, wrong(t.At, "No digest", "fields.%s of tool %q is no short digest: 16 hexadecimal digits are.", field, t.Name)...)
			}
		}
		f.Providers[p.Slug][t.Name] = Tool{Digest: t.Digest, Fields: t.Fields}
	}
	return diags
}

func wrong(at hcl.Range, summary, format string, args ...any) hcl.Diagnostics {
	return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(format, args...), Subject: &at}}
}
