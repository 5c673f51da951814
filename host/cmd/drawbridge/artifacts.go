package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/artifact"
	"github.com/drawbridge-mcp/drawbridge/host/config"
)

// artifactsFolder is where large results are kept in the state dir.
const artifactsFolder = "artifacts"

// openArtifacts prepares where large results are kept, and removes what expires
// there for as long as the host lives.
func (h *host) openArtifacts(ctx context.Context) (err error) {
	h.endSweeps = func() {}
	if h.artifacts, err = artifact.Open(artifactOptions(h.cfg)); err != nil {
		return err
	}
	ctx, h.endSweeps = context.WithCancel(context.WithoutCancel(ctx))
	h.warming.Go(func() { h.artifacts.Run(ctx) })
	return nil
}

func artifactOptions(cfg *config.Config) artifact.Options {
	return artifact.Options{
		Dir:   filepath.Join(cfg.Host.StateDir, artifactsFolder),
		Quota: cfg.Host.ArtifactsQuota, TTL: cfg.Host.ArtifactsTTL,
	}
}

func newArtifacts(g *globals) *cobra.Command {
	cmd := g.wantsJSON(&cobra.Command{
		Use:   "artifacts",
		Short: "List the large results that are kept, the newest first",
		Long: `Lists results that were too large to pass on whole (inline_result) and are kept for
their callers: whose each is, what it came from, and until when it is kept. A caller
reads his own with the tool read_artifact, with resources/read, or over HTTP.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := g.artifactStore()
			if err != nil {
				return err
			}
			all, err := store.All()
			if err != nil {
				return err
			}
			if g.json {
				if all == nil {
					all = []artifact.Record{}
				}
				return writeJSON(cmd.OutOrStdout(), all)
			}
			return writeArtifacts(cmd.OutOrStdout(), all)
		},
	})
	cmd.AddCommand(&cobra.Command{
		Use:   "rm ID…",
		Short: "Remove artifacts before their time",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, ids []string) error {
			store, err := g.artifactStore()
			if err != nil {
				return err
			}
			for _, id := range ids {
				if err := store.Remove(id); err != nil {
					return fmt.Errorf("%s: %w; drawbridge artifacts lists what is there", id, err)
				}
			}
			return nil
		},
	})
	return cmd
}

// artifactStore is that of the configuration; a host need not run.
func (g *globals) artifactStore() (*artifact.Store, error) {
	cfg, err := g.readable()
	if err != nil {
		return nil, err
	}
	return artifact.Open(artifactOptions(cfg))
}

func writeArtifacts(w io.Writer, all []artifact.Record) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSIZE\tTYPE\tOWNER\tPROVIDER\tTOOL\tCALL\tUNTIL")
	for _, r := range all {
		owner := r.Origin.Principal
		if r.Origin.Project != "" {
			owner += " in " + r.Origin.Project
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Size, r.MIME, owner, r.Origin.Provider, r.Origin.Tool, r.Origin.Call,
			r.Expires.Local().Format(time.DateTime))
	}
	return table.Flush()
}
