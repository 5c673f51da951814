package config

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

func TestLocate(t *testing.T) {
	p := bodyOf(t, `    command = "x"
    args    = [
      "a",
      (["b", "c"]),
    ]
    env = {
      A         = "1"
      "B C"     = "2"
      (path.home) = "3"
    }
    cwd = path.home
    proxy {
      host = "h"
    }
    rule {
      path = "a"
    }
    rule {
      path  = "b"
      value = { k = [1, 2] }
    }`)
	a := func(s string) provider.Step { return provider.AttributeStep(s) }
	k := func(s string) provider.Step { return provider.KeyStep(s) }
	i := func(n int64) provider.Step { return provider.IndexStep(n) }
	for name, c := range map[string]struct {
		path provider.Path
		want string
	}{
		"nothing":                    {nil, "test.hcl:3:3"},
		"attribute":                  {provider.Path{a("command")}, "test.hcl:4:15"},
		"absent attribute":           {provider.Path{a("token")}, "test.hcl:3:3"},
		"unknown attribute":          {provider.Path{a("none")}, "test.hcl:3:3"},
		"element of a list":          {provider.Path{a("args"), i(0)}, "test.hcl:6:7"},
		"element in an element":      {provider.Path{a("args"), i(1), i(1)}, "test.hcl:7:14"},
		"element that is not there":  {provider.Path{a("args"), i(9)}, "test.hcl:5:15"},
		"element before the first":   {provider.Path{a("args"), i(-1)}, "test.hcl:5:15"},
		"key of a map":               {provider.Path{a("env"), k("A")}, "test.hcl:10:19"},
		"key in quotes":              {provider.Path{a("env"), k("B C")}, "test.hcl:11:19"},
		"key as an attribute":        {provider.Path{a("env"), a("A")}, "test.hcl:10:19"},
		"key that is computed":       {provider.Path{a("env"), k("/home/user")}, "test.hcl:9:11"},
		"key of what is no map":      {provider.Path{a("cwd"), k("A")}, "test.hcl:14:11"},
		"single block":               {provider.Path{a("proxy")}, "test.hcl:15:5"},
		"in a single block":          {provider.Path{a("proxy"), a("host")}, "test.hcl:16:14"},
		"absent, in a single block":  {provider.Path{a("proxy"), a("port")}, "test.hcl:15:5"},
		"second block":               {provider.Path{a("rule"), i(1)}, "test.hcl:21:5"},
		"in the second block":        {provider.Path{a("rule"), i(1), a("value"), a("k"), i(1)}, "test.hcl:23:25"},
		"third block":                {provider.Path{a("rule"), i(2), a("path")}, "test.hcl:3:3"},
		"first step is no attribute": {provider.Path{i(0)}, "test.hcl:3:3"},
	} {
		t.Run(name, func(t *testing.T) {
			diags := Locate(p, testSchema, provider.Diagnostics{{Severity: provider.Error, Summary: "s", Detail: "d", Path: c.path}})
			if len(diags) != 1 || !diags.HasErrors() || diags[0].Summary != "s" || diags[0].Detail != "d" {
				t.Fatal(diags)
			}
			if got := where(*diags[0].Subject); got != c.want {
				t.Errorf("%s, not %s", got, c.want)
			}
		})
	}
	if diags := Locate(p, testSchema, provider.Diagnostics{{Severity: provider.Warning}}); diags.HasErrors() {
		t.Error("a warning became an error")
	}
	if diags := Locate(p, testSchema, provider.Diagnostics{{}}); !diags.HasErrors() {
		t.Error("a finding without a severity is let pass")
	}
}

// TestLocate_NoBlock: a provider without a config block is itself the place.
func TestLocate_NoBlock(t *testing.T) {
	c, _ := loadText("\nprovider \"p\" {\n  plugin = \"stdio\"\n}")
	diags := Locate(c.Providers[0], testSchema, provider.Diagnostics{{Path: provider.Path{provider.AttributeStep("command")}}})
	if got := where(*diags[0].Subject); got != "test.hcl:2:1" {
		t.Error(got)
	}
}
