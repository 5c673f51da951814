package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// logsFolder is where logs are in a state dir.
const logsFolder = "logs"

func newLogs(g *globals) *cobra.Command {
	var follow bool
	var lines int
	cmd := g.addressesHost(&cobra.Command{
		Use:   "logs PROVIDER",
		Short: "Print what a provider's servers wrote to their standard error",
		Long: `Prints the end of STATE_DIR/logs/PROVIDER.log and of the files that it was rotated to.
Each line has its time and the ordinal of the instance that wrote it. With -f it
goes on with what is added, across rotations and restarts of the host. It needs
no running host: without one of this configuration the state dir is the configuration's.

Exit codes: 0 printed, 1 there is no such log.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			slug, err := config.Slug(args[0])
			if err != nil {
				return err
			}
			state, err := g.stateDirHere(cmd)
			if err != nil {
				return err
			}
			dir := filepath.Join(state, logsFolder)
			err = supervise.TailLog(cmd.Context(), dir, slug, lines, follow, cmd.OutOrStdout())
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s has no log of a provider %q: it was never started, or there is none", dir, slug)
			}
			return err
		},
	})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is added")
	cmd.Flags().IntVarP(&lines, "lines", "n", 100, "how many of the last `LINES`; a negative number for all")
	return cmd
}

// stateDir is that of the hosts that may be meant, where they agree on one, and of
// the configuration where none runs.
func (g *globals) stateDir(cmd *cobra.Command) (string, error) {
	hosts, err := g.candidates(cmd.Context())
	if err != nil && !errors.Is(err, errNoHost) {
		return "", err
	}
	if g.host == "" && len(hosts) > 0 {
		state := hosts[0].Info().StateDir
		for _, c := range hosts {
			if c.Info().StateDir != state {
				state = ""
			}
		}
		if state != "" {
			return state, nil
		}
	}
	if g.host != "" || len(hosts) > 0 {
		host, err := pick(hosts, g.host)
		if err != nil {
			return "", err
		}
		return host.Info().StateDir, nil
	}
	cfg, err := g.readable()
	if err != nil {
		return "", err
	}
	return cfg.Host.StateDir, nil
}
