package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// pluginReference is the page that is made of what the built-in plugins say of
// themselves.
const pluginReference = "../../../docs/reference/plugins.md"

const pluginReferenceHead = `# The config block of each built-in plugin

Made from what the plugins say of themselves. A change there is followed by
go test ./host/cmd/drawbridge -run TestPluginReference -update

Which plugin a provider has is said by ` + "`plugin`" + ` in its block; what stands here goes into its block ` + "`config`" + `. Expressions are
those of the [configuration](configuration.md), and ` + "`secret(name)`" + `. What is *kept secret* is never shown in a log, a list or a
message.
`

// TestPluginReference compares the page with the schemas of the built-in plugins.
func TestPluginReference(t *testing.T) {
	var b strings.Builder
	b.WriteString(pluginReferenceHead)
	for _, name := range slices.Sorted(maps.Keys(builtin)) {
		about, err := builtin[name]().Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\n## `%s`\n\n", name)
		if reason, ok := checkOnly[name]; ok {
			fmt.Fprintf(&b, "*%s*\n\n", reason)
		}
		if len(about.Config.Blocks) > 0 {
			t.Fatalf("the plugin %s has blocks in its config: teach this page to show them", name)
		}
		b.WriteString("| attribute | value | default | |\n|---|---|---|---|\n")
		for _, a := range about.Config.Attributes {
			b.WriteString(attributeRow(t, a))
		}
	}
	if *update {
		if err := os.WriteFile(pluginReference, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(pluginReference)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(page)); diff != "" {
		t.Errorf("the page is not current; run this test with -update:\n%s", diff)
	}
}

// attributeRow is the line of one attribute.
func attributeRow(t *testing.T, a provider.Attribute) string {
	t.Helper()
	of, err := ctyjson.UnmarshalType(a.Type)
	if err != nil {
		t.Fatal(err)
	}
	fallback := ""
	switch {
	case a.Required:
		fallback = "required"
	case a.Default != nil && json.Valid(a.Default):
		fallback = "`" + string(a.Default) + "`"
	}
	usage := a.Description
	if a.Sensitive {
		usage += " *Kept secret.*"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n", a.Name, typeWords(of), fallback, usage)
}

// typeWords names a type as the rest of the reference does.
func typeWords(of cty.Type) string {
	switch {
	case of.IsListType():
		return "list of " + typeWords(of.ElementType()) + "s"
	case of.IsMapType():
		return "map of " + typeWords(of.ElementType()) + "s"
	}
	return of.FriendlyName()
}
