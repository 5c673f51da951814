package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// version is the release, set by the linker; a development build has none.
var version = "dev"

func newVersion(g *globals) *cobra.Command {
	return g.wantsJSON(&cobra.Command{
		Use:   "version",
		Short: "Print the version, and the protocol versions it speaks",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := struct {
				Version  string   `json:"version"`
				Revision string   `json:"revision,omitempty"`
				Go       string   `json:"go"`
				Platform string   `json:"platform"`
				Contract int      `json:"contract"`
				MCP      []string `json:"mcp"`
			}{version, revision(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, provider.ProtocolVersion, mcp.ValidProtocolVersions}
			if g.json {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "drawbridge %s %s\ncontract %d (unstable), MCP %v\n%s %s\n",
				v.Version, v.Revision, v.Contract, v.MCP, v.Go, v.Platform)
			return nil
		},
	})
}

// revision is the commit the binary was built from, as far as the build knows.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return ""
}
