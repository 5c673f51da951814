//go:build unix

package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// cpuTime is what this process has used, by which a test measures work on a
// machine that is busy with other things.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// FuzzLoad gives arbitrary text to all that reads it. Nothing panics, nothing
// takes long, every error has a place and a remedy, and what is decoded is JSON.
// Run it with -fuzzminimizetime 1x: minimising long files eats the time.
func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("testdata/*.hcl")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	for _, c := range attributeCases {
		f.Add(fileWith(c.path, c.good))
	}
	f.Add("provider \"p\" {\n plugin = \"stdio\"\n config {\n size = 1e31e3p0\n }\n}")
	f.Add("provider \"p\" {\n plugin = \"stdio\"\n config {\n command = 1 / 0\n any = 1 % 0\n size = 1e300 * 1e300\n }\n}")
	f.Fuzz(func(t *testing.T, text string) {
		start := cpuTime(t)
		c, diags := loadText(text)
		for _, p := range c.Providers {
			d, wrong, missing := DecodeBody(p, testSchema, nil)
			if !wrong.HasErrors() && !missing.HasErrors() && !diags.HasErrors() && !json.Valid(d.Config.JSON) {
				t.Errorf("not JSON: %q", d.Config.JSON)
			}
			located := Locate(p, testSchema, provider.Diagnostics{{Summary: "s", Detail: "d", Path: provider.Path{provider.AttributeStep("args"), provider.IndexStep(1)}}})
			diags = append(append(append(diags, wrong...), missing...), located...)
		}
		diags = append(diags, c.Notices...)
		for _, d := range diags {
			if d.Severity == hcl.DiagError && (d.Subject == nil || d.Detail == "") {
				t.Errorf("no place or remedy: %v", d)
			}
		}
		if err := WriteDiagnostics(new(bytes.Buffer), c, diags, true); err != nil {
			t.Error(err)
		}
		Findings(c, diags)
		if formatted, wrong := Format("test.hcl", []byte(text)); !wrong.HasErrors() {
			if _, wrong := Format("test.hcl", formatted); wrong.HasErrors() {
				t.Errorf("formatting breaks %q: %v", text, wrong)
			}
		}
		if d := cpuTime(t) - start; d > 5*time.Second {
			t.Errorf("%d bytes take %v", len(text), d)
		}
	})
}
