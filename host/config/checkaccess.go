package config

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// What principals, projects and grants say of each other, and of providers, is
// checked here.

// grantIn is a grant, the project it stands in, and its block.
type grantIn struct {
	declared[*Grant]
	project *Project
}

// principalName is what a principal may be called: what people use as user names
// and addresses, in one spelling only.
var principalName = regexp.MustCompile(`^[a-z0-9][a-z0-9._@-]{0,63}$`)

// errPrincipalName and errReserved read after the name.
var (
	errPrincipalName = errors.New("must hold lower case letters, digits and . _ @ - only, begin with a letter or digit, and have at most 64 characters")
	errReserved      = errors.New("is reserved for whoever speaks over stdio, and needs no block")
)

// CheckPrincipal says what is wrong with the name of a principal that is to be
// declared. The error reads after the name.
func CheckPrincipal(name string) error {
	switch {
	case name == Local:
		return errReserved
	case !principalName.MatchString(name):
		return errPrincipalName
	}
	return nil
}

func (d *decoder) addPrincipal(c *Config, p *Principal, src *hclsyntax.Block) {
	p.Name, p.Range = src.Labels[0], src.DefRange()
	p.TokenSHA256 = strings.ToLower(p.TokenSHA256)
	label := src.LabelRanges[0]
	before := slices.IndexFunc(c.Principals, func(o *Principal) bool { return o.Name == p.Name })
	switch {
	case p.Name == Local:
		d.errorf(label, fmt.Sprintf("Principal %q is reserved", Local),
			"It is whoever speaks over stdio, and needs no block: name it in a grant, or give this principal another name.")
		return
	case CheckPrincipal(p.Name) != nil:
		d.errorf(label, "Bad name of a principal", "The name %s.", CheckPrincipal(p.Name))
		return
	case before >= 0:
		d.errorf(label, fmt.Sprintf("Second principal %q", p.Name), "There is already one at %s. Give one of them another name.", where(c.Principals[before].Range))
		return
	}
	d.checkProof(p, src)
	c.Principals = append(c.Principals, p)
	d.principals = append(d.principals, declared[*Principal]{p, src})
}

// checkProof sees to it that there is one way to tell who a principal is, and that
// it is no other's.
func (d *decoder) checkProof(p *Principal, src *hclsyntax.Block) {
	token, oidc := src.Body.Attributes["token_sha256"], nth(src.Body, "oidc", 0)
	switch {
	case token == nil && oidc == nil && !d.inBroken:
		d.errorf(p.Range, fmt.Sprintf("No way to know the principal %q", p.Name),
			"Set token_sha256 to the SHA-256 of its token (`drawbridge token new %s` makes one), or add a block oidc.", p.Name)
	case token != nil && oidc != nil:
		d.errorf(oidc.DefRange(), "Both token_sha256 and oidc", "A principal has a token of its own, or an identity provider's. Remove one.")
	}
	if expires := src.Body.Attributes["expires"]; expires != nil && oidc != nil {
		d.errorf(expires.NameRange, "expires beside oidc", "The tokens of an identity provider say themselves when they expire. Remove it.")
	}
	for _, o := range d.principals {
		other := o.value
		switch {
		case p.TokenSHA256 != "" && p.TokenSHA256 == other.TokenSHA256:
			d.errorf(rangeIn(src, "token_sha256"), "Second principal of one token",
				"The principal %q at %s has the same token, so nobody can tell the two apart. Make another with `drawbridge token new %s`.", other.Name, where(other.Range), p.Name)
		case p.OIDC != nil && other.OIDC != nil && *p.OIDC == *other.OIDC:
			d.errorf(oidc.DefRange(), "Second principal of one identity",
				"The principal %q at %s asks for the same, so nobody can tell the two apart. Set another value.", other.Name, where(other.Range))
		}
	}
}

func (d *decoder) addProject(c *Config, p *Project, src *hclsyntax.Block) {
	p.Name, p.Range = src.Labels[0], src.DefRange()
	label := src.LabelRanges[0]
	if slug, err := Slug(p.Name); err != nil || slug != p.Name {
		d.errorf(label, "Bad name of a project", "The name is part of a URL: it must hold lower case letters, digits and single dashes only, at most %d characters.", MaxSlug)
		return
	}
	if before := slices.IndexFunc(c.Projects, func(o *Project) bool { return o.Name == p.Name }); before >= 0 {
		d.errorf(label, fmt.Sprintf("Second project %q", p.Name), "There is already one at %s. Make the two one.", where(c.Projects[before].Range))
		return
	}
	c.Projects = append(c.Projects, p)
	d.projects = append(d.projects, declared[*Project]{p, src})
}

func (d *decoder) addGrant(p *Project, g *Grant, src *hclsyntax.Block) {
	g.Range = src.DefRange()
	p.Grants = append(p.Grants, g)
	d.grants = append(d.grants, grantIn{declared[*Grant]{g, src}, p})
}

// checkListener keeps a host that others can reach from letting in whoever asks.
func (c *Config) checkListener(d *decoder) {
	listen := c.Host.HTTP.Listen
	if d.host == nil || isLoopback(listen) || checkListen(listen) != nil || d.partial {
		return
	}
	at := rangeIn(d.host, "http", "listen")
	var lacks []string
	if http := nth(d.host.Body, "http", 0); http == nil || nth(http.Body, "tls", 0) == nil {
		lacks = append(lacks, "TLS (a block tls in http)")
	}
	if !d.seen["principal"] {
		lacks = append(lacks, "principals (a block principal for each who may call)")
	}
	if len(lacks) > 0 {
		d.errorf(at, "Listener off loopback", "An address that other machines reach needs %s. Declare that, or listen on loopback: "+
			`"127.0.0.1:7420", "[::1]:7420" or "localhost:7420".`, strings.Join(lacks, " and "))
	}
}

// checkAccess checks what needs all principals, projects and providers.
func (c *Config) checkAccess(d *decoder) {
	if d.partial {
		return // what is referred to may stand in what could not be read
	}
	if len(c.Principals) > 0 && !d.seen["project"] {
		d.errorf(c.Principals[0].Range, "Principals without a project",
			"Once a principal is declared, each has what grants name it, and there is none. Add a block project with a grant.")
	}
	if len(c.Projects) > 0 && !d.seen["principal"] {
		d.errorf(c.Projects[0].Range, "Projects without a principal",
			"Grants hold once it is told apart who calls, and no principal is declared. Add a block principal (`drawbridge token new NAME` prints one), or remove the projects to have everything open to whoever holds the host's token.")
	}
	for _, g := range d.grants {
		c.checkGrant(d, g)
	}
	c.checkShared(d)
	c.checkUnused(d)
	c.checkRoom(d)
}

func (c *Config) checkGrant(d *decoder, g grantIn) {
	known := []string{Local}
	for _, p := range c.Principals {
		known = append(known, p.Name)
	}
	for i, name := range g.value.Principals {
		if slices.Contains(known, name) || len(c.Principals) == 0 {
			continue
		}
		at := elementIn(g.src, "principals", i)
		if near := nearest(name, known); near != "" {
			d.errorf(at, fmt.Sprintf("Unknown principal %q", name), "Did you mean %q?", near)
		} else {
			d.errorf(at, fmt.Sprintf("Unknown principal %q", name), "Declared: %s. Declare any other with a block principal.", strings.Join(known, ", "))
		}
	}
	c.resolveProvider(d, g)
	v := g.value
	if len(v.Principals) == 0 && g.src.Body.Attributes["principals"] != nil {
		d.diags = append(d.diags, caution(rangeIn(g.src, "principals"), "Grant for nobody", "An empty list names nobody, so nothing is granted. Name a principal, or remove the grant."))
	}
	if len(v.Tools)+len(v.Except)+len(v.Resources)+len(v.Prompts)+len(v.Methods) == 0 && !d.wrongIn(g.src) {
		d.diags = append(d.diags, caution(v.Range, "Grant of nothing", `A list that is absent or empty allows nothing. Set tools, such as tools = ["*"], or remove the grant.`))
	}
}

// resolveProvider turns the provider's label in a grant into its slug.
func (c *Config) resolveProvider(d *decoder, g grantIn) {
	label := g.value.Provider
	if label == "" {
		return // said already
	}
	slug, err := Slug(label)
	if err == nil && slices.ContainsFunc(d.providers, func(p declared[*Provider]) bool {
		return p.value.Label == label || label == slug && p.value.Slug == slug
	}) {
		g.value.Provider = slug
		return
	}
	var known []string
	for _, p := range d.providers {
		known = append(known, p.value.Label)
	}
	at := rangeIn(g.src, "provider")
	switch near := nearest(label, known); {
	case near != "":
		d.errorf(at, fmt.Sprintf("Unknown provider %q", label), "Did you mean %q?", near)
	case len(known) == 0:
		d.errorf(at, fmt.Sprintf("Unknown provider %q", label), "No provider is declared. Declare it with a block provider.")
	default:
		d.errorf(at, fmt.Sprintf("Unknown provider %q", label), "Declared: %s. Declare any other with a block provider.", strings.Join(known, ", "))
	}
}

// user is who a provider is granted to, and where that is written.
type user struct {
	principal, project string
	at                 hcl.Range
}

// checkShared refuses what would let callers into each other's server process
// without the file saying so.
func (c *Config) checkShared(d *decoder) {
	first := map[string]user{}
	told := map[string]bool{}
	for _, g := range d.grants {
		p := c.provider(g.value.Provider)
		if p == nil || p.Session.Scope == "shared" {
			continue
		}
		for i, name := range g.value.Principals {
			u := user{name, g.project.Name, elementIn(g.src, "principals", i)}
			before, ok := first[p.Slug]
			switch {
			case !ok:
				first[p.Slug] = u
			case (before.principal != u.principal || before.project != u.project) && !told[p.Slug]:
				told[p.Slug] = true
				whose := fmt.Sprintf("%q in project %q", before.principal, before.project)
				d.errorf(u.at, fmt.Sprintf("Provider %q granted twice", p.Label),
					"There is one server process for each provider, and it is granted to %s at %s already, and here to %q in project %q: each would find what the other does in it. "+
						"If they may share it, say so in the provider's block at %s: session { scope = \"shared\" }. If not, declare a provider for each.",
					whose, where(before.at), u.principal, u.project, where(p.Range))
			}
		}
	}
}

func (c *Config) provider(slug string) *Provider {
	if i := slices.IndexFunc(c.Providers, func(p *Provider) bool { return p.Slug == slug }); i >= 0 {
		return c.Providers[i]
	}
	return nil
}

// checkUnused warns of who is let in and has nothing.
func (c *Config) checkUnused(d *decoder) {
	if len(c.Projects) == 0 {
		return
	}
	for _, declared := range d.principals {
		p := declared.value
		if !slices.ContainsFunc(d.grants, func(g grantIn) bool { return slices.Contains(g.value.Principals, p.Name) }) && !d.wrongIn(declared.src) {
			d.diags = append(d.diags, caution(p.Range, fmt.Sprintf("Principal %q has nothing", p.Name), "No grant names it, so it sees and calls nothing. Name it in a grant of a project."))
		}
	}
}

// checkRoom is checkNameOf for projects with names of their own.
func (c *Config) checkRoom(d *decoder) {
	for _, p := range d.projects {
		if p.value.Names == "" && p.value.NameMax == 0 {
			continue
		}
		names, most := cmp.Or(p.value.Names, c.Host.Names), cmp.Or(p.value.NameMax, c.Host.NameMax)
		for _, g := range p.value.Grants {
			if room := len(g.Provider) + 1 + nameRest; names == "prefixed" && room > most && c.provider(g.Provider) != nil {
				d.errorf(rangeIn(p.src, "name_max"), "No room for names of tools",
					"With the prefix %q a name has no room in name_max = %d. Raise it to %d.", g.Provider+"_", most, room)
				break
			}
		}
	}
}

// wrongIn says whether a block has mistakes in it, beside which a warning of what
// may follow from them would only distract.
func (d *decoder) wrongIn(src *hclsyntax.Block) bool {
	whole := hcl.RangeBetween(src.TypeRange, src.CloseBraceRange)
	return slices.ContainsFunc(d.diags, func(one *hcl.Diagnostic) bool {
		return one.Severity == hcl.DiagError && one.Subject != nil && one.Subject.Filename == whole.Filename && whole.ContainsPos(one.Subject.Start)
	})
}

// elementIn is the place of an element of a list that is written out, or of the
// attribute's value.
func elementIn(src *hclsyntax.Block, name string, index int) hcl.Range {
	attr := src.Body.Attributes[name]
	if attr == nil {
		return src.DefRange()
	}
	at, _ := placeOf(attr.Expr, name, &elementError{index: index})
	return at
}
