package config

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// extension ends the names of the files that Load reads in a folder. A lock file
// has the same ending and another purpose.
const (
	extension     = ".hcl"
	lockExtension = ".lock.hcl"
)

// Load reads a file, or every *.hcl of a folder but lock files and hidden ones,
// and checks it whole. With an error among the diagnostics the Config is not to
// be used, but holds what could be read. The diagnostics are in the order of
// files and lines.
func Load(path string) (*Config, hcl.Diagnostics) {
	sources, diags := read(path)
	return loadAt(path, sources, diags)
}

// loadAt checks files that were read from path, with what reading them has found.
func loadAt(path string, sources map[string][]byte, diags hcl.Diagnostics) (*Config, hcl.Diagnostics) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return &Config{Path: path}, hcl.Diagnostics{unreadable(path, err)}
	}
	base := absolute
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		base = filepath.Dir(absolute)
	}
	c, found := load(sources, place{base: base, home: home()}, diags.HasErrors())
	c.Path = absolute
	return c, append(diags, found...)
}

// read gives the text of each file by the name that diagnostics use.
func read(path string) (map[string][]byte, hcl.Diagnostics) {
	names := []string{filepath.Clean(path)}
	info, err := os.Stat(path)
	if err != nil {
		return nil, hcl.Diagnostics{unreadable(path, whyNot(err))}
	}
	if info.IsDir() {
		names, err = filepath.Glob(filepath.Join(escapeGlob(path), "*"+extension))
		if err != nil {
			return nil, hcl.Diagnostics{unreadable(path, err)}
		}
		names = slices.DeleteFunc(names, func(name string) bool {
			return strings.HasSuffix(name, lockExtension) || strings.HasPrefix(filepath.Base(name), ".")
		})
		if len(names) == 0 {
			return nil, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "No configuration",
				Detail: fmt.Sprintf("The folder %q holds no file whose name ends with %s.", path, extension)}}
		}
	}
	var diags hcl.Diagnostics
	sources := map[string][]byte{}
	for _, name := range names {
		text, err := readConfig(name)
		if err != nil {
			diags = append(diags, unreadable(name, err))
			continue
		}
		sources[name] = bytes.TrimPrefix([]byte(text), []byte("\ufeff"))
	}
	return sources, diags
}

// readConfig reads one file of the configuration, which may be a pipe.
func readConfig(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", whyNot(err)
	}
	defer func() { _ = f.Close() }()
	return readBounded(f)
}

// escapeGlob makes a path stand for itself in a pattern.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func unreadable(name string, err error) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Configuration not readable",
		Detail: fmt.Sprintf("The file or folder %q %s.", name, err)}
}

// load checks files whose text is at hand. partial says that some are not.
func load(sources map[string][]byte, at place, partial bool) (*Config, hcl.Diagnostics) {
	c := &Config{Sources: sources, Plugins: map[string]*Plugin{}}
	d := &decoder{scope: newScope(at), at: at, partial: partial, seen: map[string]bool{}, settings: map[string]setting{}}
	table := root(c, at)
	all := &hclsyntax.Body{}
	d.broken = map[*hclsyntax.Block]bool{}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		body, diags := parse(sources[name], name)
		maps.Copy(d.broken, body.broken)
		d.partial = d.partial || body.partial
		d.diags = append(d.diags, diags...)
		d.diags = append(d.diags, disguiseLiterals(body.Body, sources[name])...)
		d.diags = append(d.diags, checkLanguage(body.Body)...)
		for _, attr := range body.Attributes {
			d.unknownAttribute(attr, "", table)
		}
		all.Blocks = append(all.Blocks, body.Blocks...)
	}
	d.children(all, "", table)
	c.finish(d)
	SortDiagnostics(d.diags)
	SortDiagnostics(d.notices)
	c.Notices, c.settings = d.notices, d.settings
	c.Secrets = unique(d.scope.beyondHost())
	return c, d.diags
}
