package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/internal/redact"
	"github.com/drawbridge-mcp/drawbridge/host/internal/secretstore"
)

func newSecret(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Keep the values that secret(NAME) stands for in a configuration",
		Long: `Keeps secrets in the state dir, one file each, readable by this user alone. In a
provider's config block secret("NAME") is the value. What is set or removed counts
for servers that a host starts from then on with a configuration it has read anew.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSecretSet(g), newSecretList(g), newSecretRemove(g))
	return cmd
}

// secrets is the store of the configuration. Mistakes in the files do not matter as
// long as they say where it is: what is to be mended may be a secret.
func (g *globals) secrets() (*secretstore.Store, error) {
	cfg, diags, err := g.load()
	if err != nil {
		return nil, err
	}
	if diags.HasErrors() || cfg.Host.StateDir == "" {
		if err := config.WriteDiagnostics(g.std.err, cfg, diags, false); err != nil {
			return nil, err
		}
		return nil, exit(exitError)
	}
	return secretstore.In(cfg.Host.StateDir), nil
}

func newSecretSet(g *globals) *cobra.Command {
	var exact bool
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Set a secret to what stands on stdin, or what is typed",
		Long: `Reads the value from stdin, or asks for it without showing what is typed. It is never
an argument, which other users could see and the shell would remember.

The line break that ends a value of one line is left out, since commands and
keyboards add it; a value of several lines, such as a key, is kept byte for byte, as
every value is with --exact.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if err := secretstore.CheckName(name); err != nil {
				return fmt.Errorf("secret %q: %w", name, err)
			}
			store, err := g.secrets()
			if err != nil {
				return err
			}
			value, err := g.readSecret(cmd.Context(), name)
			if err != nil {
				return fmt.Errorf("secret %s: %w", name, err)
			}
			if !exact {
				value = withoutLineEnd(value)
			}
			if err := store.Set(name, value); err != nil {
				return fmt.Errorf("secret %s: %w", name, err)
			}
			adviseOn(g.std.err, name, value)
			fmt.Fprintf(cmd.OutOrStdout(), "secret %s is set\n", name)
			return nil
		},
	}
	cmd.Flags().BoolVar(&exact, "exact", false, "keep the line break that ends a value of one line")
	return cmd
}

// withoutLineEnd takes the line break off a value of one line.
func withoutLineEnd(value []byte) []byte {
	if i := bytes.IndexByte(value, '\n'); i < 0 || i < len(value)-1 {
		return value
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(value, []byte("\n")), []byte("\r"))
}

// adviseOn says of a value what may not be expected.
func adviseOn(w io.Writer, name string, value []byte) {
	switch {
	case len(value) < redact.MinLength:
		fmt.Fprintf(w, "drawbridge: secret %s is too short to be told from other text: it is not taken out of logs and results\n", name)
	case len(value) < usualLength:
		fmt.Fprintf(w, "drawbridge: secret %s is short: wherever the same characters stand in a log or a result, they are taken out\n", name)
	}
	if !utf8.Valid(value) {
		fmt.Fprintf(w, "drawbridge: secret %s is not text in UTF-8, and secret() cannot give it to a config\n", name)
	}
}

// usualLength is that from which a value rarely is a part of other text.
const usualLength = 8

// readSecret reads the value: from a terminal one line, which is not shown, else
// all of the input.
func (g *globals) readSecret(ctx context.Context, name string) ([]byte, error) {
	if file, ok := g.std.in.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return g.promptSecret(ctx, file, name)
	}
	value, err := io.ReadAll(io.LimitReader(g.std.in, secretstore.MaxValue+3)) // a line break, and one byte that tells there is more
	if err != nil {
		return nil, err
	}
	if len(value) == 0 {
		return nil, errors.New("nothing stands on stdin")
	}
	return value, nil
}

// promptSecret asks for the value. A command that is interrupted meanwhile leaves
// the terminal as it was.
func (g *globals) promptSecret(ctx context.Context, terminal *os.File, name string) ([]byte, error) {
	fd := int(terminal.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(g.std.err, "Value of %s (it is not shown): ", name)
	type answer struct {
		value []byte
		err   error
	}
	typed := make(chan answer, 1)
	go func() { // ends with the line, or with the process
		value, err := term.ReadPassword(fd)
		typed <- answer{value, err}
	}()
	select {
	case a := <-typed:
		fmt.Fprintln(g.std.err)
		if a.err == nil && len(a.value) == 0 {
			return nil, errors.New("nothing was typed")
		}
		return a.value, a.err
	case <-ctx.Done():
		_ = term.Restore(fd, before)
		fmt.Fprintln(g.std.err)
		return nil, ctx.Err()
	}
}

func newSecretList(g *globals) *cobra.Command {
	return g.wantsJSON(&cobra.Command{
		Use:   "list",
		Short: "List the names of the secrets and when each was set",
		Long: `Lists names and times, never values. What is in the store and is no secret is told
on stderr, and is an error.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := g.secrets()
			if err != nil {
				return err
			}
			entries, wrong := store.List()
			if g.json {
				err = writeJSON(cmd.OutOrStdout(), map[string]any{"secrets": append([]secretstore.Entry{}, entries...)})
			} else {
				table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "NAME\tSET")
				for _, e := range entries {
					fmt.Fprintf(table, "%s\t%s\n", e.Name, e.Set.Local().Format(time.DateTime))
				}
				err = table.Flush()
			}
			return errors.Join(err, wrong)
		},
	})
}

func newSecretRemove(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME",
		Aliases: []string{"remove"},
		Short:   "Remove a secret",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := g.secrets()
			if err != nil {
				return err
			}
			if err := store.Remove(args[0]); err != nil {
				return fmt.Errorf("secret %q: %w", args[0], err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "secret %s is removed\n", args[0])
			return nil
		},
	}
}

// withoutKept is a person's text as it may be written down: without the secrets of a
// state dir.
func withoutKept(stateDir, text string) string {
	var r redact.Redactor
	store := secretstore.In(stateDir)
	entries, _ := store.List() // what is wrong with the others is told by who uses them
	for _, e := range entries {
		if value, err := store.Get(e.Name); err == nil {
			r.Add(string(withoutLineEnd(value)))
		}
	}
	return r.Text(text)
}

// lookup answers secret() from the store of a state dir.
func lookup(stateDir string) config.Lookup {
	if stateDir == "" { // the file does not say where; what is wrong with it is told
		return func(string) (string, bool, error) {
			return "", false, errors.New("it is not known where secrets are kept")
		}
	}
	store := secretstore.In(stateDir)
	return func(name string) (string, bool, error) {
		value, err := store.Get(name)
		if errors.Is(err, secretstore.ErrNotSet) {
			return "", false, nil
		}
		return string(value), err == nil, err
	}
}
