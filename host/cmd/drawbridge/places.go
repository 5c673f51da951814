package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/host/config"
)

// placesOf gives what takes the folders of a host out of a text: what stands below one
// is still told, and where it is is not.
func placesOf(cfg *config.Config, runDir string) func(string) string {
	names := map[string]string{}
	name := func(dir, as string) {
		if abs, err := filepath.Abs(dir); dir != "" && err == nil && abs != filepath.Dir(abs) {
			names[abs] = as
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		name(home, "~")
	}
	for _, p := range cfg.Plugins {
		if p.Path != "" {
			name(filepath.Dir(p.Path), "PLUGIN_DIR")
		}
	}
	folder := cfg.Path
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		folder = filepath.Dir(folder)
	}
	name(folder, "CONFIG_DIR")
	name(cfg.Host.PluginDir, "PLUGIN_DIR")
	name(runDir, "RUN_DIR")
	name(cfg.Host.StateDir, "STATE_DIR")
	// The longest first, for one may stand in another.
	dirs := slices.SortedFunc(maps.Keys(names), func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, dir := range dirs {
		pairs = append(pairs, dir, names[dir])
	}
	return strings.NewReplacer(pairs...).Replace
}
