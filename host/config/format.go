package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format gives a file in HCL's canonical layout: indentation, spaces and
// alignment change, and nothing else. A file that does not parse is not touched;
// name is for the diagnostics.
func Format(name string, src []byte) ([]byte, hcl.Diagnostics) {
	if _, diags := parse(src, name); diags.HasErrors() {
		return src, diags
	}
	return hclwrite.Format(src), nil
}
