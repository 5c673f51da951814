package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/clientfile"
	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/control"
	"github.com/drawbridge-mcp/drawbridge/host/internal/secretstore"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// suggest gives the words that may stand at a place of a command line, given what
// stands before it. What cannot be read gives none: a shell has nowhere to show why.
type suggest func(g *globals, cmd *cobra.Command, before []string) []string

// arguments are what a command's arguments may be, by its path without "drawbridge".
// Commands that are not here take none that can be told, and no files either.
var arguments = map[string]suggest{
	"status":        first(enabledProviders),
	"restart":       first(enabledProviders),
	"logs":          first(enabledProviders),
	"lock":          others(enabledProviders),
	"call":          atPlace(enabledProviders, toolsOfProvider),
	"access":        atPlace(principals, everyTool),
	"token new":     first(principals),
	"secret set":    first(secretNames),
	"secret rm":     first(secretNames),
	"calls settle":  atPlace(nil, words("ok", "not-run")),
	"client add":    first(words(clientfile.Kinds()...)),
	"client remove": first(words(clientfile.Kinds()...)),
}

// flagValues are what the values of flags may be, wherever a command has the flag.
var flagValues = map[string]suggest{
	"project":          projects,
	"provider":         enabledProviders,
	"principal":        principals,
	"host":             hostIDs,
	"outcome":          words(outcomes...),
	"client":           words(clientNames()...),
	"log-level":        words("debug", "info", "warn", "error"),
	"containment-tier": words("pidns", "subreaper"),
}

// takesFiles are the commands whose arguments are paths.
var takesFiles = []string{"fmt"}

// addCompletions gives every command what a shell may suggest for it. Nothing is
// started for a suggestion: what is known comes from the configuration, the lock file
// and the folder of running hosts.
func addCompletions(g *globals, cmd *cobra.Command, path string) {
	if at, ok := arguments[path]; ok {
		cmd.ValidArgsFunction = at.completion(g)
	} else if cmd.ValidArgsFunction == nil && !slices.Contains(takesFiles, path) {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for name, of := range flagValues {
		if cmd.Flags().Lookup(name) != nil || cmd.PersistentFlags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, of.completion(g)) // the flag is there, and has none
		}
	}
	for _, sub := range cmd.Commands() {
		addCompletions(g, sub, strings.TrimSpace(path+" "+sub.Name()))
	}
}

func (s suggest) completion(g *globals) cobra.CompletionFunc {
	return func(cmd *cobra.Command, before []string, begun string) ([]string, cobra.ShellCompDirective) {
		var fit []string
		for _, word := range s(g, cmd, before) {
			if strings.HasPrefix(word, begun) {
				fit = append(fit, word)
			}
		}
		return fit, cobra.ShellCompDirectiveNoFileComp
	}
}

// first suggests for the first argument alone.
func first(of suggest) suggest { return atPlace(of) }

// atPlace suggests for each argument by its place; nil where nothing is known.
func atPlace(places ...suggest) suggest {
	return func(g *globals, cmd *cobra.Command, before []string) []string {
		if len(before) >= len(places) || places[len(before)] == nil {
			return nil
		}
		return places[len(before)](g, cmd, before)
	}
}

// others suggests at every place what does not stand there yet.
func others(of suggest) suggest {
	return func(g *globals, cmd *cobra.Command, before []string) []string {
		return slices.DeleteFunc(of(g, cmd, before), func(word string) bool { return slices.Contains(before, word) })
	}
}

func words(all ...string) suggest {
	return func(*globals, *cobra.Command, []string) []string { return all }
}

// declared is the configuration as far as it can be read; an empty one if it cannot.
func (g *globals) declared() *config.Config {
	path, err := g.configPath()
	if err != nil {
		return new(config.Config)
	}
	cfg, _ := config.Load(path) // mistakes do not matter here
	return cfg
}

func enabledProviders(g *globals, _ *cobra.Command, _ []string) (names []string) {
	for _, p := range g.declared().Providers {
		if p.Enabled && p.Slug != "" {
			names = append(names, p.Slug)
		}
	}
	return names
}

func principals(g *globals, _ *cobra.Command, _ []string) []string {
	names := []string{config.Local}
	for _, p := range g.declared().Principals {
		names = append(names, p.Name)
	}
	return names
}

func projects(g *globals, _ *cobra.Command, _ []string) (names []string) {
	for _, p := range g.declared().Projects {
		names = append(names, p.Name)
	}
	return names
}

// toolsOfProvider are those that the lock file has of the provider named before.
func toolsOfProvider(g *globals, _ *cobra.Command, before []string) (names []string) {
	file, err := readLock(g.declared())
	if err != nil || file == nil {
		return nil
	}
	for name := range file.Providers[before[0]] {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// everyTool are the tools that the lock file has, as PROVIDER/TOOL.
func everyTool(g *globals, cmd *cobra.Command, _ []string) (names []string) {
	for _, provider := range enabledProviders(g, cmd, nil) {
		for _, tool := range toolsOfProvider(g, cmd, []string{provider}) {
			names = append(names, provider+"/"+tool)
		}
	}
	return names
}

func secretNames(g *globals, _ *cobra.Command, _ []string) (names []string) {
	cfg := g.declared()
	if cfg.Host.StateDir == "" {
		return nil
	}
	entries, _ := secretstore.In(cfg.Host.StateDir).List() // what is no secret there is not suggested
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

func hostIDs(_ *globals, cmd *cobra.Command, _ []string) (ids []string) {
	hosts, err := control.Hosts(cmd.Context(), supervise.RunBases(), nil)
	if err != nil {
		return nil
	}
	for _, c := range hosts {
		ids = append(ids, c.Info().ID)
	}
	return ids
}
