package main

import (
	"testing"

	"github.com/hashicorp/hcl/v2"
)

// TestFirstErrorHasAPlaceOrNone: of a file that is not there no line can be named.
func TestFirstErrorHasAPlaceOrNone(t *testing.T) {
	warning := &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "No matter"}
	at := &hcl.Range{Filename: "/etc/providers.hcl", Start: hcl.Pos{Line: 3}}
	for want, d := range map[string]*hcl.Diagnostic{
		"Unreadable: It is not there.": {Severity: hcl.DiagError, Summary: "Unreadable", Detail: "It is not there."},
		"providers.hcl:3: Bad":         {Severity: hcl.DiagError, Summary: "Bad", Subject: at},
	} {
		if got := firstError(hcl.Diagnostics{warning, d}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
