package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/config"
)

func newValidate(g *globals) *cobra.Command {
	return g.wantsJSON(&cobra.Command{
		Use:   "validate",
		Short: "Check the configuration whole, without starting a server",
		Long: `Reads every file, decodes each provider's config against its plugin's schema and
asks the plugin to check it. Every mistake is shown, with its place and the fix.

Exit codes: 0 valid, 1 not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, diags, err := g.load()
			if err != nil {
				return err
			}
			if missing := needsLock(cfg); missing != nil {
				diags = append(diags, missing)
			}
			diags = append(diags, g.check(cmd.Context(), cfg, !diags.HasErrors())...)
			config.SortDiagnostics(diags)
			diags = append(diags, cfg.Notices...)
			if g.json {
				if err := writeJSON(cmd.OutOrStdout(), map[string]any{"valid": !diags.HasErrors(), "diagnostics": config.Findings(cfg, diags)}); err != nil {
					return err
				}
			} else if err := config.WriteDiagnostics(cmd.ErrOrStderr(), cfg, diags, false); err != nil {
				return err
			}
			if diags.HasErrors() {
				return exit(exitError)
			}
			if !g.json {
				fmt.Fprintf(cmd.OutOrStdout(), "%s is valid: %d providers\n", cfg.Path, len(cfg.Providers))
			}
			return nil
		},
	})
}

// load finds and reads the configuration.
func (g *globals) load() (*config.Config, hcl.Diagnostics, error) {
	path, err := g.configPath()
	if err != nil {
		return nil, nil, err
	}
	cfg, diags := config.Load(path)
	g.std.redactor.Add(cfg.Secrets...)
	file, err := readLock(cfg)
	if err != nil {
		diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Lock file not usable", Detail: err.Error()})
	}
	approveFound(cfg, file)
	return cfg, diags, nil
}

// check is what validate does beyond reading: it asks the plugins. It does so where
// reading has found mistakes too, so that all of them are told in one run; then it
// sets up a host only for plugins that have to be started.
func (g *globals) check(ctx context.Context, cfg *config.Config, valid bool) hcl.Diagnostics {
	asked := pluginsOf(cfg, nil, g.std.redactor)
	if valid || slices.ContainsFunc(asked.askable(cfg), asked.foreign) {
		h, err := g.newHost(ctx, cfg, false)
		if err != nil {
			return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Host cannot be set up", Detail: err.Error()}}
		}
		defer h.close(g.std.hurry) //nolint:contextcheck // hurry ends the waits of a stop
		asked = h.plugins
	}
	var diags hcl.Diagnostics
	for _, p := range asked.prepare(ctx, cfg) {
		diags = append(append(diags, p.mistakes...), p.faults...)
	}
	return diags
}

// readable loads the configuration for a command that needs a valid one, and
// shows what is wrong with it.
func (g *globals) readable() (*config.Config, error) {
	cfg, diags, err := g.load()
	if err != nil {
		return nil, err
	}
	if err := config.WriteDiagnostics(g.std.err, cfg, diags, false); err != nil {
		return nil, err
	}
	if diags.HasErrors() {
		return nil, exit(exitError)
	}
	return cfg, nil
}

// lockedReadable is readable for a command that needs the lock file too, where
// there has to be one.
func (g *globals) lockedReadable() (*config.Config, error) {
	cfg, err := g.readable()
	if err != nil {
		return nil, err
	}
	if missing := needsLock(cfg); missing != nil {
		if err := config.WriteDiagnostics(g.std.err, cfg, hcl.Diagnostics{missing}, false); err != nil {
			return nil, err
		}
		return nil, exit(exitError)
	}
	return cfg, nil
}

func newFmt(g *globals) *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "fmt [PATH…]",
		Short: "Write HCL files in the canonical form",
		Long: `Formats the configuration, or the files and folders named, and prints the name of
each file that it changed. With --check nothing is written.

Exit codes: 0 all in form, 2 with --check when a file is not, 1 on an error.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				path, err := g.configPath()
				if err != nil {
					return err
				}
				args = []string{path}
			}
			changed := 0
			for _, arg := range args {
				files, err := hclFiles(arg)
				if err != nil {
					return err
				}
				for _, file := range files {
					did, err := formatFile(file, check)
					if err != nil {
						return err
					}
					if did {
						changed++
						fmt.Fprintln(cmd.OutOrStdout(), file)
					}
				}
			}
			if check && changed > 0 {
				return exit(exitChanges)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing; exit 2 if a file is not in form")
	return cmd
}

// hclFiles are the files of a path: itself, or *.hcl of a folder.
func hclFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist", path)
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	return filepath.Glob(filepath.Join(path, "*.hcl"))
}

// formatFile brings one file into form and says whether it was not.
func formatFile(path string, check bool) (changed bool, err error) {
	src, err := os.ReadFile(path) // the person names the file
	if err != nil {
		return false, err
	}
	formatted, diags := config.Format(path, src)
	if diags.HasErrors() {
		return false, diags
	}
	if bytes.Equal(src, formatted) {
		return false, nil
	}
	if check {
		return true, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	return true, os.WriteFile(path, formatted, info.Mode().Perm())
}
