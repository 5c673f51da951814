package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newRestart(g *globals) *cobra.Command {
	return g.addressesHost(g.wantsJSON(&cobra.Command{
		Use:   "restart PROVIDER",
		Short: "Give a provider of the running host a new server, and wait until it is ready",
		Long: `Ends the provider's server, if one runs, and starts a new one, in whatever state the
provider is: it waits for no backoff and no cooldown, and the count of restarts
begins anew. Calls in flight may end within stop_grace; new ones wait for the new
server.

Exit codes: 0 ready, 1 it did not start, or no host answers.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			host, err := g.running(cmd.Context())
			if err != nil {
				return err
			}
			p, err := host.Restart(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), p)
			}
			for _, i := range p.Instances {
				fmt.Fprintf(cmd.OutOrStdout(), "%s is %s: %s\n", p.Name, p.State, i.ID)
			}
			return nil
		},
	}))
}
