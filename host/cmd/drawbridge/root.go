package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/containment"
)

// globals are the flags of every command.
type globals struct {
	std      process
	config   string
	json     bool
	logLevel string
	tier     string
	// host is the id, or its beginning, of the running host that is meant.
	host string
	// project is the one that "local" works in.
	project string
}

func newRoot(std process) *cobra.Command {
	g := &globals{std: std}
	root := &cobra.Command{
		Use:           "drawbridge",
		Short:         "The gate through which MCP clients reach the MCP servers of this machine",
		Long:          rootLong,
		Example:       rootExample,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&g.config, "config", "",
		"configuration `PATH`, a file or a folder of *.hcl (default $DRAWBRIDGE_CONFIG, ./providers.hcl, or $XDG_CONFIG_HOME/drawbridge/)")
	root.PersistentFlags().StringVar(&g.logLevel, "log-level", "info", "`LEVEL` of the log on stderr: debug, info, warn, error")
	root.AddCommand(
		newInit(g),
		newServe(g),
		newConnect(g),
		newClient(g),
		newValidate(g),
		newFmt(g),
		newPlan(g),
		newLock(g),
		newTools(g),
		newCall(g),
		newAccess(g),
		newToken(g),
		newSecret(g),
		newArtifacts(g),
		newStatus(g),
		newRestart(g),
		newLogs(g),
		newCalls(g),
		newDoctor(g),
		newVersion(g),
	)
	group(root)
	explain(root)
	addCompletions(g, root, "")
	return root
}

// wantsJSON adds the flag of commands that programs use.
func (g *globals) wantsJSON(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&g.json, "json", false, "print JSON for programs")
	return cmd
}

// addressesHost adds the flag of commands that a running host answers.
func (g *globals) addressesHost(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&g.host, "host", "", "`ID` of the running host, or how it begins, where there are several")
	return cmd
}

// inProject adds the flag of commands that act for "local".
func (g *globals) inProject(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&g.project, "project", "", `the `+"`PROJECT`"+` to work in, where "local" has grants in several`)
	return cmd
}

// configPath finds the configuration in the documented order.
func (g *globals) configPath() (string, error) {
	if g.config != "" {
		return g.config, nil
	}
	if p := os.Getenv("DRAWBRIDGE_CONFIG"); p != "" {
		return p, nil
	}
	looked := []string{"providers.hcl"}
	dir := os.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		if home, err := os.UserHomeDir(); err == nil {
			dir = filepath.Join(home, ".config")
		}
	}
	if dir != "" {
		looked = append(looked, filepath.Join(dir, "drawbridge"))
	}
	for _, p := range looked {
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("no configuration: looked for %s; write one, or name it with --config", strings.Join(looked, " and "))
}

// level is the level of the log that was asked for.
func (g *globals) level() (level slog.Level, err error) {
	if level.UnmarshalText([]byte(g.logLevel)) != nil {
		return level, fmt.Errorf("--log-level %q: use debug, info, warn or error", g.logLevel)
	}
	return level, nil
}

// newHost makes a host whose log is at the level asked for. With fresh it asks
// every server anew what it has.
func (g *globals) newHost(ctx context.Context, cfg *config.Config, fresh bool) (*host, error) {
	level, err := g.level()
	if err != nil {
		return nil, err
	}
	return newHost(ctx, cfg, hostOptions{level: level, tier: containment.Tier(g.tier), project: g.project, fresh: fresh, log: g.std.err, redactor: g.std.redactor})
}

// exit is an error that was already told to the person, with its code.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit %d", int(e)) }

func exitCode(err error, stderr io.Writer) int {
	var code exit
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintf(stderr, "drawbridge: %v\n", err)
	return exitError
}
