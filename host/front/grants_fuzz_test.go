package front_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/front"
)

// What no grant gives is as if it were not there. Random grants, catalogs and
// spellings of names are put to a whole face (front, broker, access and catalog, over
// fake servers), and judged by an oracle that knows nothing of host/access:
//
//   - nothing runs that the oracle denies, and no provider is started of which the
//     caller is granted nothing;
//   - nothing that is listed is refused;
//   - the host's own tool and resources are there for who is granted anything, and for
//     nobody else; they run no server, and give each principal what is his;
//   - every answer, lists too, is byte for byte that of a host whose servers have
//     nothing but what the oracle gives this caller.

// rule is a grant, as the oracle knows it.
type rule struct {
	principals    []string
	provider      string
	tools, except []string
}

// scene is one configuration and its servers.
type scene struct {
	exposes  map[string]rule     // by provider: what it shows to anyone
	tools    map[string][]string // by provider: what its server lists
	projects map[string][]rule
	names    map[string]string // by project: prefixed, bare, or "" as the host's
}

// The oracle.

func (s *scene) allows(principal, project, provider, tool string) bool {
	like := func(patterns []string) bool {
		for _, p := range patterns {
			pattern := strings.ReplaceAll(regexp.QuoteMeta(p), `\*`, `(?s:.*)`)
			if regexp.MustCompile(`\A` + pattern + `\z`).MatchString(tool) {
				return true
			}
		}
		return false
	}
	granted := false
	for _, g := range s.projects[project] {
		if g.provider == provider && slices.Contains(g.principals, principal) {
			if like(g.except) {
				return false
			}
			granted = granted || like(g.tools)
		}
	}
	return granted && like(s.exposes[provider].tools) && !like(s.exposes[provider].except)
}

func (s *scene) concerns(principal, project, provider string) bool {
	return slices.ContainsFunc(s.projects[project], func(g rule) bool {
		return g.provider == provider && slices.Contains(g.principals, principal)
	})
}

// reads says whether a caller may have artifacts: a grant names him for a provider.
func (s *scene) reads(principal, project string) bool {
	return slices.ContainsFunc(slugs, func(slug string) bool { return s.concerns(principal, project, slug) })
}

// choices makes decisions of bytes; when they are used up, the first choice each time.
type choices struct{ data []byte }

func (c *choices) below(n int) int {
	if len(c.data) == 0 || n <= 1 {
		return 0
	}
	b := c.data[0]
	c.data = c.data[1:]
	return int(b) % n
}

func pick[T any](c *choices, from ...T) T { return from[c.below(len(from))] }

func (c *choices) some(from []string, most int) []string {
	out := []string{}
	for range c.below(most + 1) {
		out = append(out, pick(c, from...))
	}
	return out
}

var (
	slugs      = []string{"a", "ab", "b-c", "read"}
	principals = []string{"ada", "ben", "local"}
	toolNames  = []string{
		"pay", "Pay", "pay_all", "a_pay", "ab_pay", "pa y", "päy", "pa/y", "a/pay", "_", "*", "pay*", "get", "p", "search_tools",
		"pay" + strings.Repeat("_long", 20), "ｐay", "pay\u200b", "pay\n", "artifact", front.ReadArtifact,
	}
	patterns = append([]string{"*", "p*", "*y", "*a*", "pay_*", "**", "g*t", "P*", "*_*", "read*", "*artifact"}, toolNames...)
)

// imagine makes a scene. A server's names are distinct: what doubles do is the
// catalog's matter.
func imagine(c *choices) *scene {
	s := &scene{exposes: map[string]rule{}, tools: map[string][]string{}, projects: map[string][]rule{}, names: map[string]string{}}
	for _, slug := range slugs {
		tools := c.some(toolNames, 6)
		slices.Sort(tools)
		s.tools[slug] = slices.Compact(tools)
		s.exposes[slug] = rule{tools: pick(c, []string{"*"}, []string{"*"}, c.some(patterns, 3)), except: pick(c, nil, nil, c.some(patterns, 1))}
	}
	for _, project := range []string{"one", "two"} {
		s.names[project] = pick(c, "", "prefixed", "bare")
		for range 1 + c.below(5) {
			s.projects[project] = append(s.projects[project], rule{
				principals: pick(c, principals[:1], principals[1:2], principals[2:], principals[:2], principals), provider: pick(c, slugs...),
				tools: c.some(patterns, 3), except: pick(c, nil, nil, c.some(patterns, 2)),
			})
		}
	}
	return s
}

// without is the scene whose servers have nothing but what the oracle gives a caller.
func (s *scene) without(principal, project string) *scene {
	out := *s
	out.tools = map[string][]string{}
	for slug, tools := range s.tools {
		for _, tool := range tools {
			if s.allows(principal, project, slug, tool) {
				out.tools[slug] = append(out.tools[slug], tool)
			}
		}
	}
	return &out
}

// spellings are names that may or may not be those of tools.
func (s *scene) spellings(c *choices) []string {
	out := []string{"nothing", "a_nothing", "", front.ReadArtifact, front.ReadArtifact, front.ReadArtifact}
	for _, slug := range slugs {
		for _, tool := range toolNames {
			out = append(out, catalog.Exposed(slug, tool, 64), slug+"_"+tool, slug+"/"+tool)
		}
	}
	out = append(out, toolNames...)
	some := make([]string, 0, 12)
	for range cap(some) {
		name := out[(c.below(256)+256*c.below(2))%len(out)]
		switch c.below(9) {
		case 1:
			name = strings.ToUpper(name)
		case 2:
			name += " "
		case 3:
			name = strings.ReplaceAll(name, "_", "-")
		case 4:
			name += "_"
		case 5:
			name = strings.ToLower(name)
		}
		some = append(some, name)
	}
	return some
}

// both puts one message to a host and to one that has nothing which is not granted.
func both(t *testing.T, whole, bare *stage, principal, project, body string) string {
	t.Helper()
	got, want := whole.post(t, body), bare.post(t, body)
	if got != want {
		t.Errorf("%s in %s: %s\nshows what is not granted:\n%s\n%s", principal, project, body, got, want)
	}
	return got
}

func request(id int, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
}

// act plays a scene for one caller.
func act(t *testing.T, g *gallery, data []byte) {
	c := &choices{data}
	principal, project := pick(c, principals...), pick(c, "one", "two")
	s := imagine(c)
	if s.actFor(t, c, g, principal, project); t.Failed() {
		t.Logf("%+v", *s)
	}
}

func (s *scene) actFor(t *testing.T, c *choices, g *gallery, principal, project string) {
	way := how{gallery: g}
	if principal == access.Local {
		way.onStdio, way.modern = c.below(3) > 0, c.below(2) == 1
		way.modern = way.modern && way.onStdio
	}
	whole, bare := s.play(t, principal, project, way), s.without(principal, project).play(t, principal, project, way)
	defer whole.close()
	defer bare.close()
	if !way.modern {
		hello := `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`
		if got := both(t, whole, bare, principal, project, request(1, "initialize", hello)); strings.HasPrefix(got, "404") {
			return // nothing in this project is granted to him
		}
		both(t, whole, bare, principal, project, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	names := s.spellings(c)
	if c.below(2) == 0 { // some call before they list
		names = append(names, s.list(t, whole, bare, principal, project)...)
	} else {
		defer s.list(t, whole, bare, principal, project)
	}
	for i, name := range names {
		before := len(whole.ran)
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		got := both(t, whole, bare, principal, project, request(i+10, "tools/call", `{"name":`+string(quoted)+`,"arguments":{}}`))
		if name == front.ReadArtifact && s.reads(principal, project) {
			if len(whole.ran) != before || strings.Contains(got, `"error":`) {
				t.Errorf("%s in %s: the host's own tool: %s", principal, project, got)
			}
			continue
		}
		if len(whole.ran) == before && !strings.Contains(got, `"code":-31001`) {
			t.Errorf("%s in %s: %q neither ran nor was denied: %s", principal, project, name, got)
		}
	}
	s.artifacts(t, whole, bare, g, principal, project)
	for _, one := range whole.ran {
		if provider, tool, _ := strings.Cut(one, "\x00"); !s.allows(principal, project, provider, tool) {
			t.Errorf("%s in %s: %q of %s ran", principal, project, tool, provider)
		}
	}
	for _, slug := range whole.started {
		if !s.concerns(principal, project, slug) {
			t.Errorf("%s in %s: the server of %s was started", principal, project, slug)
		}
	}
}

// artifacts reads them, by the host's tool and as resources: one's own, and no other.
func (s *scene) artifacts(t *testing.T, whole, bare *stage, g *gallery, principal, project string) {
	list := both(t, whole, bare, principal, project, request(3, "resources/list", "{}"))
	for owner, uri := range g.uri {
		shown := strings.Contains(list, uri)
		if own := owner == principal && s.reads(principal, project); shown != own {
			t.Errorf("%s in %s is shown the artifact of %s: %v", principal, project, owner, shown)
		}
		for method, params := range map[string]string{
			"resources/read": `{"uri":"` + uri + `"}`,
			"tools/call":     `{"name":"` + front.ReadArtifact + `","arguments":{"uri":"` + uri + `"}}`,
		} {
			before := len(whole.ran)
			got := both(t, whole, bare, principal, project, request(4, method, params))
			read := strings.Contains(got, "the text of "+owner)
			if own := owner == principal && s.reads(principal, project); read != own || len(whole.ran) != before {
				t.Errorf("%s in %s, %s of the artifact of %s: %s", principal, project, method, owner, got)
			}
		}
	}
	if !s.reads(principal, project) && !strings.Contains(list, `"code":-32601`) {
		t.Errorf("%s in %s, who is granted nothing: %s", principal, project, list)
	}
}

// list lists the tools and calls each of them.
func (s *scene) list(t *testing.T, whole, bare *stage, principal, project string) []string {
	got := both(t, whole, bare, principal, project, request(2, "tools/list", "{}"))
	var answer struct {
		Result struct{ Tools []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(got[len("200 "):]), &answer); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	var names []string
	for i, tool := range answer.Result.Tools {
		before := len(whole.ran)
		quoted, err := json.Marshal(tool.Name)
		if err != nil {
			t.Fatal(err)
		}
		got := both(t, whole, bare, principal, project, request(1000+i, "tools/call", `{"name":`+string(quoted)+`,"arguments":{}}`))
		want := before + 1
		if tool.Name == front.ReadArtifact {
			want = before
		}
		if len(whole.ran) != want || strings.Contains(got, `"error":`) {
			t.Errorf("%s in %s: %q is listed and refused: %s", principal, project, tool.Name, got)
		}
		names = append(names, tool.Name)
	}
	if at := slices.Index(names, front.ReadArtifact); (at >= 0) != s.reads(principal, project) || at >= 0 && at != len(names)-1 {
		t.Errorf("%s in %s: the host's own tool is the %d. of %q", principal, project, at+1, names)
	}
	return names
}

// FuzzGrants gets numbers, of which scenes are made: bytes would be minimised, which
// takes all the time there is where goroutines make the coverage waver.
func FuzzGrants(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	g := newGallery(f)
	f.Fuzz(func(t *testing.T, seed uint64) { act(t, g, randomBytes(seed)) })
}

// TestGrantsAgainstOracle is FuzzGrants with the same scenes at each run.
func TestGrantsAgainstOracle(t *testing.T) {
	g := newGallery(t)
	for seed := range uint64(300) {
		if act(t, g, randomBytes(1000+seed)); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func randomBytes(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 7))
	out := make([]byte, 300)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}
