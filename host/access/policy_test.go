package access

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/host/config"
)

// manual is the policy of TestDecide: a home with two people and two projects.
func manual() *Policy {
	return New(Spec{
		Names: "prefixed", NameMax: 64,
		Tokens: []StaticToken{{Principal: "ada", SHA256: [32]byte{1}}, {Principal: "ben", SHA256: [32]byte{2}}, {Principal: "cleo", SHA256: [32]byte{3}}},
		Projects: []Project{
			{Name: "site", Grants: []*Grant{
				{
					Project: "site", Where: "a.hcl:1", Principals: []string{"ada", "local"}, Provider: "browser",
					Tools: []string{"browser_*"}, Except: []string{"browser_install"},
				},
				{Project: "site", Where: "a.hcl:2", Principals: []string{"ada"}, Provider: "browser", Tools: []string{"browser_install", "pdf"}},
				{Project: "site", Where: "a.hcl:3", Principals: []string{"ben"}, Provider: "browser", Tools: []string{"browser_install"}},
				{
					Project: "site", Where: "a.hcl:4", Principals: []string{"ada"}, Provider: "files", Tools: []string{},
					Resources: []string{"file:///srv/*"}, Prompts: []string{"greet"}, Methods: []string{"vendor/*"}, ServerRequests: []string{"roots"},
				},
			}},
			{Name: "shop", Names: "bare", NameMax: 32, Grants: []*Grant{
				{Project: "shop", Where: "b.hcl:1", Principals: []string{"ada"}, Provider: "till", Tools: []string{"*"}, Except: []string{"*refund*"}},
			}},
		},
	})
}

// TestDecide is the manual of a policy: each line is a question and its answer.
func TestDecide(t *testing.T) {
	p := manual()
	tool := func(provider, name string) Item { return Item{KindTool, provider, name} }
	for _, c := range []struct {
		rule      string
		principal string
		project   string
		item      Item
		allowed   bool
		where     string // of the grant that decides; "" for none
	}{
		{"a pattern lists what it matches", "ada", "site", tool("browser", "browser_click"), true, "a.hcl:1"},
		{"a star stands for nothing too", "ada", "site", tool("browser", "browser_"), true, "a.hcl:1"},
		{"a pattern matches whole names", "ada", "site", tool("browser", "my_browser_click"), false, ""},
		{"names are told apart by case", "ada", "site", tool("browser", "Browser_click"), false, ""},
		{"a second grant adds to the first", "ada", "site", tool("browser", "pdf"), true, "a.hcl:2"},
		{"deny wins, also over another grant", "ada", "site", tool("browser", "browser_install"), false, "a.hcl:1"},
		{"one principal's except is not another's", "ben", "site", tool("browser", "browser_install"), true, "a.hcl:3"},
		{"one principal's grant is not another's", "ben", "site", tool("browser", "browser_click"), false, ""},
		{"local is a principal like any other", "local", "site", tool("browser", "browser_click"), true, "a.hcl:1"},
		{"local has what grants name him, once anyone is declared", "local", "shop", tool("till", "sum"), false, ""},
		{"a grant holds in its project", "ada", "shop", tool("browser", "browser_click"), false, ""},
		{"except with stars", "ada", "shop", tool("till", "do_refund_now"), false, "b.hcl:1"},
		{"what is not excepted", "ada", "shop", tool("till", "sum"), true, "b.hcl:1"},
		{"an empty list allows nothing", "ada", "site", tool("files", "read"), false, ""},
		{"an absent list allows nothing", "ada", "site", Item{KindPrompt, "browser", "greet"}, false, ""},
		{"a provider that nobody granted", "ada", "site", tool("till", "sum"), false, ""},
		{"a provider that is not there", "ada", "site", tool("nothing", "sum"), false, ""},
		{"resources go by URI", "ada", "site", Item{KindResource, "files", "file:///srv/a"}, true, "a.hcl:4"},
		{"and not by another", "ada", "site", Item{KindResource, "files", "file:///etc/passwd"}, false, ""},
		{"a tool's name is no prompt's", "ada", "site", Item{KindPrompt, "browser", "browser_click"}, false, ""},
		{"prompts go by name", "ada", "site", Item{KindPrompt, "files", "greet"}, true, "a.hcl:4"},
		{"methods that the host does not know", "ada", "site", Item{KindMethod, "files", "vendor/index"}, true, "a.hcl:4"},
		{"and others", "ada", "site", Item{KindMethod, "files", "tools/call"}, false, ""},
		{"what a server may ask of the client", "ada", "site", Item{KindServerRequest, "files", "roots"}, true, "a.hcl:4"},
		{"and may not", "ada", "site", Item{KindServerRequest, "files", "sampling"}, false, ""},
		{"a kind that is none", "ada", "site", Item{"thing", "browser", "browser_click"}, false, ""},
		{"a principal without grants", "cleo", "site", tool("browser", "browser_click"), false, ""},
		{"a principal that is not there", "dan", "site", tool("browser", "browser_click"), false, ""},
		{"nobody", "", "site", tool("browser", "browser_click"), false, ""},
		{"a project that is not there", "ada", "sites", tool("browser", "browser_click"), false, ""},
		{"no project", "ada", "", tool("browser", "browser_click"), false, ""},
	} {
		d := p.Decide(c.principal, c.project, c.item)
		where := ""
		if d.Grant != nil {
			where = d.Grant.Where
		}
		if d.Allowed != c.allowed || where != c.where {
			t.Errorf("%s: %s in %q, %v: allowed %v by %q", c.rule, c.principal, c.project, c.item, d.Allowed, where)
		}
		if d.Why == "" || c.where != "" && !strings.Contains(d.Why, c.where) {
			t.Errorf("%s: why is %q", c.rule, d.Why)
		}
	}
}

// TestOpen: while nothing is declared, local has everything, and nobody else is.
func TestOpen(t *testing.T) {
	p := New(Spec{Names: "prefixed", NameMax: 64})
	if !p.Open() || manual().Open() {
		t.Fatal("open is not what declares nothing")
	}
	for _, c := range []struct {
		principal, project string
		item               Item
		allowed            bool
	}{
		{"local", "", Item{KindTool, "browser", "x"}, true},
		{"local", "", Item{KindResource, "browser", "file:///x"}, true},
		{"local", "", Item{KindPrompt, "browser", "x"}, true},
		{"local", "", Item{KindServerRequest, "browser", "sampling"}, true},
		{"local", "", Item{KindServerRequest, "browser", "other"}, false},
		{"local", "", Item{KindMethod, "browser", "vendor/x"}, false},
		{"local", "", Item{"thing", "browser", "x"}, false},
		{"local", "site", Item{KindTool, "browser", "x"}, false},
		{"ada", "", Item{KindTool, "browser", "x"}, false},
		{"", "", Item{KindTool, "browser", "x"}, false},
	} {
		if d := p.Decide(c.principal, c.project, c.item); d.Allowed != c.allowed || d.Grant != nil {
			t.Errorf("%q in %q, %v: %+v", c.principal, c.project, c.item, d)
		}
	}
	if !p.Sees("local", "", "browser") || p.Sees("ada", "", "browser") || p.Sees("local", "site", "browser") {
		t.Error("who sees a provider while nothing is declared is wrong")
	}
	if got, ok := p.Project("local", ""); got != "" || !ok {
		t.Errorf("local's project is %q, %v", got, ok)
	}
	for _, c := range [][2]string{{"local", "site"}, {"ada", ""}} {
		if _, ok := p.Project(c[0], c[1]); ok {
			t.Errorf("%s works in %q", c[0], c[1])
		}
	}
}

// TestNothingDeclaredIsOpenOnly: a policy with a principal and no project, or a
// project and no principal, which loading refuses, lets nobody do anything.
func TestNothingDeclaredIsOpenOnly(t *testing.T) {
	for name, spec := range map[string]Spec{
		"a token":     {Tokens: []StaticToken{{Principal: "ada"}}},
		"a project":   {Projects: []Project{{Name: "site"}}},
		"an issuer's": {Identities: []Identity{{Principal: "ada", OIDC: config.OIDC{Issuer: "i"}}}},
	} {
		p := New(spec)
		if p.Open() || p.Decide("local", "", Item{KindTool, "browser", "x"}).Allowed || p.Sees("local", "", "browser") {
			t.Errorf("%s: open", name)
		}
	}
}

func TestProject(t *testing.T) {
	p := manual()
	for _, c := range []struct {
		principal, asked, want string
		ok                     bool
	}{
		{"ada", "site", "site", true},
		{"ada", "shop", "shop", true},
		{"ada", "", "", false}, // two to choose from
		{"ada", "other", "", false},
		{"ben", "", "site", true},
		{"ben", "shop", "", false},
		{"local", "", "site", true},
		{"cleo", "", "", false},
		{"cleo", "site", "", false},
		{"dan", "site", "", false},
	} {
		got, ok := p.Project(c.principal, c.asked)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s asks for %q: %q, %v", c.principal, c.asked, got, ok)
		}
	}
	if diff := cmp.Diff([]string{"site", "shop"}, p.Projects("ada")); diff != "" {
		t.Error(diff)
	}
	if !p.Sees("ada", "site", "files") || p.Sees("ben", "site", "files") || p.Sees("ada", "shop", "files") || p.Sees("ada", "", "files") {
		t.Error("who sees a provider is wrong")
	}
}

func TestNaming(t *testing.T) {
	p := manual()
	for project, want := range map[string]string{"site": "prefixed 64", "shop": "bare 32", "": "prefixed 64"} {
		names, most := p.Naming(project)
		if got := names + " " + map[int]string{64: "64", 32: "32"}[most]; got != want {
			t.Errorf("%q: %s", project, got)
		}
	}
}

// TestDecideAllocatesNothing: it is asked at each call.
func TestDecideAllocatesNothing(t *testing.T) {
	p := manual()
	if n := testing.AllocsPerRun(100, func() {
		p.Decide("ada", "site", Item{KindTool, "browser", "browser_click"})
		p.Decide("ada", "site", Item{KindTool, "browser", "browser_install"})
		p.Decide("ada", "site", Item{KindTool, "browser", "other"})
		p.Decide("dan", "site", Item{KindTool, "browser", "other"})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestWithout: what passes from one principal to another is nobody's meanwhile, and
// nothing else changes, who is let in included.
func TestWithout(t *testing.T) {
	p := manual()
	moving := p.Without([]string{"browser"})
	click, sum := Item{KindTool, "browser", "browser_click"}, Item{KindTool, "till", "sum"}
	if moving.Decide("ada", "site", click).Allowed || moving.Sees("ada", "site", "browser") || moving.Decide("ada", "site", Item{KindServerRequest, "browser", "roots"}).Allowed {
		t.Error("a provider that passes on is somebody's")
	}
	if !moving.Decide("ada", "shop", sum).Allowed || !moving.Sees("ada", "shop", "till") || len(moving.Tokens()) != len(p.Tokens()) {
		t.Error("others have changed")
	}
	if project, ok := moving.Project("ben", ""); project != "site" || !ok {
		t.Error("who has grants in a project is not there any more")
	}
	if !p.Decide("ada", "site", click).Allowed {
		t.Error("the policy itself has changed")
	}
	open := New(Spec{}).Without([]string{"browser"})
	if !open.Open() || open.Decide("local", "", click).Allowed || !open.Decide("local", "", sum).Allowed {
		t.Error("while nothing is declared")
	}
}
