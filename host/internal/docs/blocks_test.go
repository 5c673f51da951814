package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/drawbridge-mcp/drawbridge/host/config"
)

// block is a piece of a configuration in a page.
var block = regexp.MustCompile("(?ms)^```hcl\n(.*?)^```")

// unfinished are the mistakes that a piece may have because it is one: what it refers
// to stands elsewhere, or is left to the reader ("…").
var unfinished = []string{
	"No provider", "Unknown provider", "Unknown principal", "Principals without a project", "Projects without a principal",
	"Unknown plugin", "Missing attribute", "Principal ", "No way to know",
}

// TestPiecesOfConfigurationAreValid reads every piece of HCL that a page shows to copy.
// A "…" in it stands for what the reader has to fill in.
func TestPiecesOfConfigurationAreValid(t *testing.T) {
	pieces := 0
	for name, text := range pages(t) {
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			pieces++
			path := filepath.Join(t.TempDir(), "providers.hcl")
			piece := strings.ReplaceAll(m[1], `"…"`, `"`+strings.Repeat("a", 64)+`"`)
			if err := os.WriteFile(path, []byte(piece), 0o600); err != nil {
				t.Fatal(err)
			}
			_, diags := config.Load(path)
			for _, d := range diags {
				excused := slices.ContainsFunc(unfinished, func(s string) bool { return strings.HasPrefix(d.Summary, s) })
				if d.Severity == hcl.DiagError && !excused {
					t.Errorf("%s: %v in\n%s", name, d, m[1])
				}
			}
		}
	}
	if pieces < 10 {
		t.Errorf("only %d pieces were found: the search is broken", pieces)
	}
}
