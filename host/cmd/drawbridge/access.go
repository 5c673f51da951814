package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/config"
)

func newAccess(g *globals) *cobra.Command {
	return g.wantsJSON(&cobra.Command{
		Use:   "access PRINCIPAL [TOOL]",
		Short: "Tell what a principal may see and call, and which grant decides",
		Long: `Reads the configuration and tells, for each project, what its grants give PRINCIPAL;
"local" is whoever speaks over stdio. With TOOL it tells whether that tool is his,
which block decides, and why. TOOL is PROVIDER/NAME, with the name that the server
gives it; or the name that clients see; or the server's name alone, of whichever
providers.

Exit codes: 0 told, or with TOOL granted in a project; 4 with TOOL denied in all;
1 anything else.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := g.readable()
			if err != nil {
				return err
			}
			report, err := accessOf(cfg, args[0], g.std.redactor.Text, time.Now())
			if err != nil {
				return err
			}
			if len(args) == 2 {
				report.decide(cfg, args[1])
			}
			if g.json {
				err = writeJSON(cmd.OutOrStdout(), report)
			} else {
				err = report.write(cmd.OutOrStdout())
			}
			if err == nil && len(args) == 2 && !slices.ContainsFunc(report.Decisions, func(d decision) bool { return d.Allowed }) {
				return exit(exitDenied)
			}
			return err
		},
	})
}

// accessReport is what `access --json` prints; programs rely on its form.
type accessReport struct {
	Principal string `json:"principal"`
	// Open says that nothing is declared, so that "local" has everything.
	Open bool `json:"open"`
	// By is how he is known: "stdio", "token" or "oidc".
	By string `json:"by"`
	// Expires is when his token does; Expired that it has.
	Expires  *time.Time    `json:"expires,omitempty"`
	Expired  bool          `json:"expired"`
	Projects []projectSeen `json:"projects"`
	// Decisions are there when a tool was asked for.
	Decisions []decision `json:"decisions,omitempty"`

	policy *access.Policy
}

type projectSeen struct {
	Project string      `json:"project"`
	Grants  []grantSeen `json:"grants"`
}

type grantSeen struct {
	// Where is the place of the block.
	Where          string   `json:"where"`
	Provider       string   `json:"provider"`
	Tools          []string `json:"tools"`
	Except         []string `json:"except"`
	Resources      []string `json:"resources"`
	Prompts        []string `json:"prompts"`
	Methods        []string `json:"methods"`
	ServerRequests []string `json:"server_requests"`
}

type decision struct {
	Project  string `json:"project"`
	Provider string `json:"provider"`
	// Tool is its name as the server calls it.
	Tool    string `json:"tool"`
	Allowed bool   `json:"allowed"`
	// Grant is the place of the one that decides, "" where none does.
	Grant string `json:"grant"`
	Why   string `json:"why"`
}

// accessOf tells what a principal has. redact takes secrets out of what the files say: a
// pattern may come from env().
func accessOf(cfg *config.Config, principal string, redact func(string) string, now time.Time) (*accessReport, error) {
	policy := access.New(access.From(cfg))
	if known := policy.Principals(); !slices.Contains(known, principal) {
		return nil, fmt.Errorf("%s declares no principal %q; there are %s", cfg.Path, principal, strings.Join(known, ", "))
	}
	r := &accessReport{Principal: principal, Open: policy.Open(), By: "stdio", Projects: []projectSeen{}, policy: policy}
	for _, p := range cfg.Principals {
		if p.Name != principal {
			continue
		}
		r.By = "token"
		if p.OIDC != nil {
			r.By = "oidc"
		}
		if !p.Expires.IsZero() {
			r.Expires, r.Expired = &p.Expires, !now.Before(p.Expires)
		}
	}
	for _, name := range policy.Projects(principal) {
		seen := projectSeen{Project: name}
		for _, g := range policy.Grants(principal, name) {
			seen.Grants = append(seen.Grants, seenOf(g, redact))
		}
		r.Projects = append(r.Projects, seen)
	}
	return r, nil
}

func seenOf(g *access.Grant, redact func(string) string) grantSeen {
	list := func(s []string) []string {
		out := []string{}
		for _, pattern := range s {
			out = append(out, redact(pattern))
		}
		return out
	}
	return grantSeen{
		Where: g.Where, Provider: g.Provider, Tools: list(g.Tools), Except: list(g.Except), Resources: list(g.Resources),
		Prompts: list(g.Prompts), Methods: list(g.Methods), ServerRequests: list(g.ServerRequests),
	}
}

// decide adds what the policy says of a tool, in each project of the principal.
func (r *accessReport) decide(cfg *config.Config, tool string) {
	projects := r.policy.Projects(r.Principal)
	if r.Open {
		projects = []string{""}
	}
	for _, project := range projects {
		for _, c := range r.candidates(cfg, project, tool) {
			r.Decisions = append(r.Decisions, r.decideOne(project, c.provider, c.name))
		}
	}
}

func (r *accessReport) decideOne(project string, p *config.Provider, name string) decision {
	d := r.policy.Decide(r.Principal, project, access.Item{Kind: access.KindTool, Provider: p.Slug, Name: name})
	out := decision{Project: project, Provider: p.Slug, Tool: name, Allowed: d.Allowed, Why: d.Why}
	if d.Grant != nil {
		out.Grant = d.Grant.Where
	}
	block := fmt.Sprintf("%s:%d", p.Range.Filename, p.Range.Start.Line)
	matches := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool { return config.Match(pattern, name) })
	}
	switch {
	case !p.Enabled:
		out.Allowed, out.Why = false, "the provider at "+block+" is not enabled"
	case !matches(p.Tools) || matches(p.Except):
		out.Allowed, out.Why = false, "the provider at "+block+" does not expose it to anyone"
	}
	return out
}

// candidate is what a name may mean.
type candidate struct {
	provider *config.Provider
	name     string
}

// candidates are what a name may mean in a project. Which of these tools there are
// only the servers know; what is decided is whether they would be the principal's.
func (r *accessReport) candidates(cfg *config.Config, project, tool string) []candidate {
	var exact, prefixed, bare []candidate
	names, _ := r.policy.Naming(project)
	for _, p := range cfg.Providers {
		if name, ok := strings.CutPrefix(tool, p.Slug+"/"); ok {
			exact = append(exact, candidate{p, name})
		}
		if name, ok := strings.CutPrefix(tool, p.Slug+"_"); ok && names == "prefixed" {
			prefixed = append(prefixed, candidate{p, name})
		}
		if r.policy.Sees(r.Principal, project, p.Slug) {
			bare = append(bare, candidate{p, tool})
		}
	}
	if exact != nil {
		return exact
	}
	return append(prefixed, bare...)
}

func (r *accessReport) write(w io.Writer) error {
	switch {
	case r.Open:
		fmt.Fprintf(w, "No principal and no project is declared: %q has everything, over stdio and with the host's token.\n", r.Principal)
	case r.Expired:
		fmt.Fprintf(w, "%q is let in no more: the token expired on %s.\n", r.Principal, r.Expires.Format(time.RFC3339))
	case r.Expires != nil:
		fmt.Fprintf(w, "%q is let in until %s.\n", r.Principal, r.Expires.Format(time.RFC3339))
	}
	if r.Decisions != nil {
		return r.writeDecisions(w)
	}
	if len(r.Projects) == 0 && !r.Open {
		fmt.Fprintf(w, "No grant names %q: everything is denied.\n", r.Principal)
	}
	if len(r.Projects) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROJECT\tPROVIDER\tGIVES\tEXCEPT\tGRANT")
	for _, p := range r.Projects {
		for _, g := range p.Grants {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", p.Project, g.Provider, g.gives(), orDash(strings.Join(g.Except, " ")), g.Where)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nAll else is denied; what one grant of a project excepts, no other there gives.")
	return err
}

// gives is what a grant gives, in one cell.
func (g grantSeen) gives() string {
	var out []string
	for _, one := range []struct {
		what string
		list []string
	}{{"tools", g.Tools}, {"resources", g.Resources}, {"prompts", g.Prompts}, {"methods", g.Methods}} {
		if len(one.list) > 0 {
			out = append(out, one.what+" "+strings.Join(one.list, " "))
		}
	}
	return orDash(strings.Join(out, "; "))
}

func (r *accessReport) writeDecisions(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROJECT\tPROVIDER\tTOOL\tACCESS\tWHY")
	for _, d := range r.Decisions {
		verdict := "denied"
		if d.Allowed {
			verdict = "granted"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", orDash(d.Project), d.Provider, d.Tool, verdict, d.Why)
	}
	return table.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
