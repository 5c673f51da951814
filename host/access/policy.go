package access

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/host/config"
)

// Kind is the kind of thing that a grant gives.
type Kind string

// The kinds, each with a list of its own in a grant.
const (
	KindTool          Kind = "tool"
	KindResource      Kind = "resource"
	KindPrompt        Kind = "prompt"
	KindMethod        Kind = "method"
	KindServerRequest Kind = "server_request"
)

// Item is what somebody asks for.
type Item struct {
	Kind Kind
	// Provider is a slug. Name is what the server calls it; of a resource its URI.
	Provider, Name string
}

// Decision says whether a caller may have an item.
type Decision struct {
	Allowed bool
	// Grant is the one that decides, nil where none does.
	Grant *Grant
	// Why is a clause for the owner of the machine. It is not for callers: it tells
	// what is there and not granted.
	Why string
}

// Policy is who may have what. It is immutable.
type Policy struct {
	spec Spec
	open bool
	// grants are those that name a principal, in the order of the files.
	grants map[holder][]rule
	// projects are those in which a principal has grants, in the order of the files.
	projects map[string][]string
	named    map[string]Project
	// without are the providers of which nobody has anything; see Without.
	without []string
}

// holder is who has something of whom.
type holder struct{ principal, project, provider string }

// rule is a grant with what Decision.Why says of it, so that deciding makes no text.
type rule struct {
	*Grant
	allows, excepts string
}

// What Why says where no grant decides.
const (
	whyOpen       = "no principal and no project is declared, so " + config.Local + " has everything"
	whyOpenOthers = "no principal is declared, so there is none but " + config.Local
	whyMethod     = "a method that the host does not know passes only where a grant lists it"
	whyNoGrant    = "no grant of this project gives this principal anything of this provider"
	whyUnlisted   = "the grants that give this principal something of this provider do not list it"
)

// everyone's requests while nothing is declared: the default of a grant.
var openRequests = []string{"elicitation", "sampling", "roots"}

// New makes a policy. It keeps the grants of spec.
func New(spec Spec) *Policy {
	p := &Policy{
		spec: spec, open: len(spec.Tokens)+len(spec.Identities)+len(spec.Projects) == 0,
		grants: map[holder][]rule{}, projects: map[string][]string{}, named: map[string]Project{},
	}
	for _, project := range spec.Projects {
		p.named[project.Name] = project
		for _, g := range project.Grants {
			r := rule{Grant: g, allows: "the grant at " + g.Where + " lists it", excepts: "the grant at " + g.Where + " excepts it"}
			for _, principal := range slices.Compact(slices.Sorted(slices.Values(g.Principals))) {
				at := holder{principal, project.Name, g.Provider}
				p.grants[at] = append(p.grants[at], r)
				if !slices.Contains(p.projects[principal], project.Name) {
					p.projects[principal] = append(p.projects[principal], project.Name)
				}
			}
		}
	}
	return p
}

// Without is the policy for as long as some providers pass from one principal to
// another: nobody has anything of those, and everything else is as it was.
func (p *Policy) Without(providers []string) *Policy {
	next := *p
	next.without = providers
	return &next
}

// Open says that neither principals nor projects are declared, so that "local" has
// everything and the token of the first start is his.
func (p *Policy) Open() bool { return p.open }

// Decide says whether a principal may have an item in a project: in "" where
// nothing is declared. It depends on nothing but the policy and its arguments.
func (p *Policy) Decide(principal, project string, it Item) Decision {
	if slices.Contains(p.without, it.Provider) {
		return Decision{Why: whyNoGrant}
	}
	if p.open {
		return decideOpen(principal, project, it)
	}
	rules := p.grants[holder{principal, project, it.Provider}]
	if len(rules) == 0 {
		return Decision{Why: whyNoGrant}
	}
	if it.Kind == KindTool {
		for _, r := range rules {
			if matches(r.Except, it.Name) {
				return Decision{Grant: r.Grant, Why: r.excepts}
			}
		}
	}
	for _, r := range rules {
		if matches(r.list(it.Kind), it.Name) {
			return Decision{Allowed: true, Grant: r.Grant, Why: r.allows}
		}
	}
	return Decision{Why: whyUnlisted}
}

func decideOpen(principal, project string, it Item) Decision {
	switch {
	case principal != config.Local || project != "":
		return Decision{Why: whyOpenOthers}
	case it.Kind == KindMethod:
		return Decision{Why: whyMethod}
	case it.Kind == KindServerRequest:
		return Decision{Allowed: slices.Contains(openRequests, it.Name), Why: whyOpen}
	case it.Kind == KindTool, it.Kind == KindResource, it.Kind == KindPrompt:
		return Decision{Allowed: true, Why: whyOpen}
	}
	return Decision{Why: "there is no such kind of thing"}
}

func matches(patterns []string, name string) bool {
	for _, pattern := range patterns {
		if config.Match(pattern, name) {
			return true
		}
	}
	return false
}

// Sees says whether a caller has anything to do with a provider: a grant names it
// for him, be it to give nothing.
func (p *Policy) Sees(principal, project, provider string) bool {
	if slices.Contains(p.without, provider) {
		return false
	}
	if p.open {
		return principal == config.Local && project == ""
	}
	return len(p.grants[holder{principal, project, provider}]) > 0
}

// Project is the project that a principal works in when he asks for one: that one
// if he has a grant there, and for "" the only one where he has. While nothing is
// declared there is none, and it is "".
func (p *Policy) Project(principal, asked string) (project string, ok bool) {
	if p.open {
		return "", asked == "" && principal == config.Local
	}
	has := p.projects[principal]
	if asked != "" {
		return asked, slices.Contains(has, asked)
	}
	if len(has) != 1 {
		return "", false
	}
	return has[0], true
}

// Projects are those in which a principal has grants, in the order of the files.
func (p *Policy) Projects(principal string) []string { return slices.Clone(p.projects[principal]) }

// Grants are those that name a principal in a project, in the order of the files.
func (p *Policy) Grants(principal, project string) []*Grant {
	var out []*Grant
	for _, g := range p.named[project].Grants {
		if slices.Contains(g.Principals, principal) {
			out = append(out, g)
		}
	}
	return out
}

// Naming is how a project's tools are named: its own way, else the host's.
func (p *Policy) Naming(project string) (names string, nameMax int) {
	own := p.named[project]
	return cmp.Or(own.Names, p.spec.Names), cmp.Or(own.NameMax, p.spec.NameMax)
}

// Tokens are the principals' own tokens, and Identities the principals of identity
// providers. The slices must not be changed.
func (p *Policy) Tokens() []StaticToken { return p.spec.Tokens }

// Identities are the principals whom identity providers tell. The slice must not be
// changed.
func (p *Policy) Identities() []Identity { return p.spec.Identities }

// Principals are all who may call, "local" first, in the order of the files.
func (p *Policy) Principals() []string {
	out := []string{config.Local}
	for _, t := range p.spec.Tokens {
		out = append(out, t.Principal)
	}
	for _, i := range p.spec.Identities {
		out = append(out, i.Principal)
	}
	return out
}

// String tells a policy's size, and nothing of what is in it.
func (p *Policy) String() string {
	if p.open {
		return "open"
	}
	return fmt.Sprintf("%d principals, %d projects", len(p.Principals())-1, len(p.spec.Projects))
}
