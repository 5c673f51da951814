package access

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/config"
)

// Spec is what a Policy is made of.
type Spec struct {
	// Names and NameMax are the host's, for projects that say nothing.
	Names   string
	NameMax int
	// Tokens and Identities tell principals; without either and without projects
	// the policy is open.
	Tokens     []StaticToken
	Identities []Identity
	Projects   []Project
}

// StaticToken is a principal's own bearer token.
type StaticToken struct {
	Principal string
	SHA256    [sha256.Size]byte
	// Expires is when it ceases to be taken; zero for never.
	Expires time.Time
}

// Identity is a principal whom an identity provider's tokens tell.
type Identity struct {
	Principal string
	config.OIDC
}

// Project is a project and what it grants.
type Project struct {
	Name string
	// Names is "", and NameMax 0, where the host's hold.
	Names   string
	NameMax int
	Grants  []*Grant
}

// Grant lets principals of a project have things of one provider. In each list "*"
// stands for any run of characters, and an empty list allows nothing. Once it is
// part of a Policy it must not be changed.
type Grant struct {
	Project    string
	Principals []string
	// Provider is a slug.
	Provider string
	// Tools are given and Except are denied, also where another grant gives them.
	Tools, Except                               []string
	Resources, Prompts, Methods, ServerRequests []string
	// Rate bounds the calls of each principal; zero does not.
	Rate Rate
	// RateOf names what the rate is of: the provider, the principals and the rate
	// itself, and which one it is, in the order of the files, of the grants that are
	// alike in these. It holds where a file is changed elsewhere, and so does what is
	// left of the rate.
	RateOf string
	// Where is the place of the block, file:line.
	Where string
}

// Rate is a number of calls in a span of time.
type Rate struct {
	Calls int
	Per   time.Duration
}

// list is the grant's list of a kind.
func (g *Grant) list(k Kind) []string {
	switch k {
	case KindTool:
		return g.Tools
	case KindResource:
		return g.Resources
	case KindPrompt:
		return g.Prompts
	case KindMethod:
		return g.Methods
	case KindServerRequest:
		return g.ServerRequests
	}
	return nil
}

// From is what a checked configuration says.
func From(cfg *config.Config) Spec {
	s := Spec{Names: cfg.Host.Names, NameMax: cfg.Host.NameMax}
	for _, p := range cfg.Principals {
		if p.OIDC != nil {
			s.Identities = append(s.Identities, Identity{Principal: p.Name, OIDC: *p.OIDC})
			continue
		}
		// Loading has checked the digits. Were they no hash, the principal would be
		// there all the same, for the policy not to be open, and no token be his.
		t := StaticToken{Principal: p.Name, Expires: p.Expires}
		if hash, err := hex.DecodeString(p.TokenSHA256); err == nil {
			copy(t.SHA256[:], hash)
		}
		s.Tokens = append(s.Tokens, t)
	}
	for _, p := range cfg.Projects {
		project := Project{Name: p.Name, Names: p.Names, NameMax: p.NameMax}
		alike := map[string]int{}
		for _, g := range p.Grants {
			var rate Rate
			var of string
			if g.Rate != "" { // checked when it was read
				rate.Calls, rate.Per, _ = config.ParseRate(g.Rate)
				like := fmt.Sprintf("%q %q %v", g.Provider, slices.Sorted(slices.Values(g.Principals)), rate)
				of = fmt.Sprintf("%s %d", like, alike[like])
				alike[like]++
			}
			project.Grants = append(project.Grants, &Grant{
				Rate: rate, RateOf: of,
				Project: p.Name, Principals: g.Principals, Provider: g.Provider, Tools: g.Tools, Except: g.Except,
				Resources: g.Resources, Prompts: g.Prompts, Methods: g.Methods, ServerRequests: g.ServerRequests,
				Where: fmt.Sprintf("%s:%d", g.Range.Filename, g.Range.Start.Line),
			})
		}
		s.Projects = append(s.Projects, project)
	}
	return s
}
