package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/config"
)

func newToken(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make bearer tokens for principals",
	}
	cmd.AddCommand(newTokenNew(g))
	return cmd
}

// newlyMade is what `token new --json` prints; programs rely on its form.
type newlyMade struct {
	Principal   string `json:"principal"`
	Token       string `json:"token"`
	TokenSHA256 string `json:"token_sha256"`
	// Expires is in RFC 3339's notation; absent for never.
	Expires string `json:"expires,omitempty"`
	// HCL is the block to paste.
	HCL string `json:"hcl"`
}

func newTokenNew(g *globals) *cobra.Command {
	var expires string
	cmd := g.wantsJSON(&cobra.Command{
		Use:   "new NAME",
		Short: "Make a token, print it once, and the block that declares its principal",
		Long: `Makes a random bearer token for the principal NAME and prints it, with the block to
paste into the configuration. The block holds its SHA-256 alone. The token is kept
nowhere: whoever is to call with it must get it now. Nothing is changed on disk.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := config.CheckPrincipal(args[0]); err != nil {
				return fmt.Errorf("the name %q %w", args[0], err)
			}
			until, err := expiry(expires, time.Now())
			if err != nil {
				return err
			}
			made := makeToken(args[0], until)
			if g.json {
				return writeJSON(cmd.OutOrStdout(), made)
			}
			return writeToken(cmd.OutOrStdout(), made)
		},
	})
	cmd.Flags().StringVar(&expires, "expires", "", "when it ceases to be taken: a `TIME` like 2027-01-31T00:00:00Z, or a span from now on like 90d (default never)")
	return cmd
}

// expiry reads when a token is to expire; "" is the zero time, never.
func expiry(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	until, err := time.Parse(time.RFC3339, s)
	if err != nil {
		span, spanErr := config.ParseDuration(s)
		if spanErr != nil {
			return time.Time{}, fmt.Errorf("--expires %q: use a time like 2027-01-31T00:00:00Z, or a span like 90d", s)
		}
		until = now.Add(span).UTC().Truncate(time.Second)
	}
	if !until.After(now) {
		return time.Time{}, fmt.Errorf("--expires %q: that is over already", s)
	}
	return until, nil
}

func makeToken(principal string, until time.Time) newlyMade {
	m := newlyMade{Principal: principal, Token: access.NewSecret()}
	m.TokenSHA256 = access.HashOf(m.Token)
	m.HCL = fmt.Sprintf("principal %q {\n  token_sha256 = %q\n", principal, m.TokenSHA256)
	if !until.IsZero() {
		m.Expires = until.Format(time.RFC3339)
		m.HCL += fmt.Sprintf("  expires      = %q\n", m.Expires)
	}
	m.HCL += "}\n"
	return m
}

func writeToken(w io.Writer, m newlyMade) error {
	_, err := fmt.Fprintf(w, `The token of %q, which is shown this once and kept nowhere:

%s

Paste this into the configuration, and name the principal in a grant:

%s`, m.Principal, m.Token, m.HCL)
	return err
}
