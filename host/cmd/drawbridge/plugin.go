package main

import (
	"strings"

	"github.com/drawbridge-mcp/drawbridge/plugins/http"
	"github.com/drawbridge-mcp/drawbridge/plugins/stdio"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
	"github.com/drawbridge-mcp/drawbridge/shared/sdk"
)

// builtin are the plugins in this binary. They run as processes of their own and
// use the public contract and nothing else.
var builtin = map[string]func() provider.Provider{
	"stdio": stdio.New,
	"http":  http.New,
}

// checkOnly says why a built-in plugin that cannot run servers yet fails every start.
var checkOnly = map[string]string{"http": http.NotYet}

// runsNothingYet says whether a plugin is one of these, and with which cause its
// providers fail.
func runsNothingYet(plugin string) (cause string, ok bool) {
	reason, ok := checkOnly[plugin]
	return strings.TrimSuffix(reason, "."), ok
}

// asPlugin says whether this process is to be a built-in plugin: `drawbridge
// plugin NAME`, as the host starts it.
func asPlugin(args []string) (string, bool) {
	if len(args) == 3 && args[1] == "plugin" {
		if _, ok := builtin[args[2]]; ok {
			return args[2], true
		}
	}
	return "", false
}

func servePlugin(name string) {
	tunePlugin()
	sdk.Serve(builtin[name]())
}
