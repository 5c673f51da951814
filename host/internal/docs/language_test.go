package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/config"
)

// broken are pieces in which the language itself finds a mistake, before what stands in
// them is looked at.
var broken = []string{
	"provider \"a\" {\n",
	"provider \"a\" {\n  plugin =\n}\n",
	"provider \"a\" {\n  plugin = \"x\n}\n",
	"provider \"a\" {\n  plugin = \"x\" start = \"eager\"\n}\n",
	"provider \"a\" {\n  plugin = 'x'\n}\n",
	"provider \"a\" {\n  tools = [\"a\" \"b\"]\n}\n",
	"provider \"a\" {\n  config {\n    args = [\"a\", ]]\n  }\n}\n",
	"provider \"a\" \n{\n}\n",
	"provider \"a\" {\n  plugin\n}\n",
	"provider \"a\" {\n  plugin = \"x\"\n  plugin = \"y\"\n}\n",
	"provider \"a\" {\n  plugin = nothing\n}\n",
	"provider \"a\" {\n  plugin = what(\"x\")\n}\n",
	"provider \"a\" {\n  plugin = env()\n}\n",
	"provider \"a\" {\n  plugin = \"${x\"\n}\n",
	"}\n",
	"provider \"a\" {\n  plugin = path.nowhere\n}\n",
	"provider \"a\" {\n  plugin = \"\\q\"\n}\n",
}

// TestWhatTheLanguageSaysHasARemedy compares the mistakes that HCL finds by itself with
// the table of them, in both directions.
func TestWhatTheLanguageSaysHasARemedy(t *testing.T) {
	_, table, _ := strings.Cut(pages(t)[filepath.FromSlash("docs/troubleshoot/configuration.md")], "| message of the language |")
	table, _, _ = strings.Cut(table, "\n\n")
	listed := map[string]bool{}
	for line := range strings.SplitSeq(table, "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, one := range code.FindAllStringSubmatch(cells[1], -1) {
				listed[one[1]] = false
			}
		}
	}
	for _, piece := range broken {
		path := filepath.Join(t.TempDir(), "providers.hcl")
		if err := os.WriteFile(path, []byte(piece), 0o600); err != nil {
			t.Fatal(err)
		}
		_, diags := config.Load(path)
		known := false
		for _, d := range diags {
			if _, ok := listed[d.Summary]; ok {
				known, listed[d.Summary] = true, true
			}
		}
		if !known {
			t.Errorf("no row is for what is said of\n%s%v", piece, diags)
		}
	}
	for said, found := range listed {
		if !found {
			t.Errorf("nothing says %q", said)
		}
	}
}
