package front_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/front"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
)

// What no grant gives is as if it were not there. Random grants, catalogs and
// spellings of names are put to a whole face (front, broker, access and catalog, over
// fake servers), and judged by an oracle that knows nothing of host/access:
//
//   - nothing runs that the oracle denies, and no provider is started of which the
//     caller is granted nothing;
//   - nothing that is listed is refused;
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
	slugs      = []string{"a", "ab", "b-c"}
	principals = []string{"ada", "ben", "local"}
	toolNames  = []string{
		"pay", "Pay", "pay_all", "a_pay", "ab_pay", "pa y", "päy", "pa/y", "a/pay", "_", "*", "pay*", "get", "p", "search_tools",
		"pay" + strings.Repeat("_long", 20), "ｐay", "pay\u200b", "pay\n",
	}
	patterns = append([]string{"*", "p*", "*y", "*a*", "pay_*", "**", "g*t", "P*", "*_*"}, toolNames...)
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
	out := []string{"nothing", "a_nothing", ""}
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

// stage is a whole face over a scene.
type stage struct {
	*scene
	store *catalog.Store
	// post sends one message and returns what came of it.
	post  func(t testing.TB, body string) string
	close func()

	mu sync.Mutex // guards started, and makes one start of several
	// ran are the calls that reached servers, as provider and tool; started are the
	// providers whose servers were started.
	ran, started []string
}

// asCaller is a gate in which the token says who it is, and the path where.
type asCaller struct{ policy *access.Policy }

func (g asCaller) Authenticate(_ context.Context, bearer string) (string, error) { return bearer, nil }
func (g asCaller) Project(principal, asked string) (string, bool) {
	return g.policy.Project(principal, asked)
}

// spec is the scene as files would say it.
func (s *scene) spec() access.Spec {
	spec := access.Spec{Names: "prefixed", NameMax: 64, Tokens: []access.StaticToken{{Principal: "ada"}, {Principal: "ben"}}}
	for _, name := range slices.Sorted(maps.Keys(s.projects)) {
		p := access.Project{Name: name, Names: s.names[name]}
		for _, g := range s.projects[name] {
			p.Grants = append(p.Grants, &access.Grant{Project: name, Principals: g.principals, Provider: g.provider, Tools: g.tools, Except: g.except})
		}
		spec.Projects = append(spec.Projects, p)
	}
	return spec
}

// play opens the face of a scene to a caller: over HTTP, or for local on stdio.
func (s *scene) play(t testing.TB, principal, project string, onStdio bool) *stage {
	out := &stage{scene: s}
	var declared []catalog.Provider
	var providers []broker.Provider
	for _, slug := range slugs {
		declared = append(declared, catalog.Provider{Slug: slug, Tools: s.exposes[slug].tools, Except: s.exposes[slug].except})
		providers = append(providers, broker.Provider{Slug: slug, Label: slug, CallTimeoutMax: time.Minute})
	}
	out.store = catalog.New(catalog.Options{Names: "prefixed", NameMax: 64}, declared)
	policy := access.New(s.spec())
	b := broker.New(broker.Options{
		Sessions: out, Catalog: out.store, Policy: func() *access.Policy { return policy }, Providers: providers, ListWait: time.Minute,
	})
	face := front.New(front.Options{Broker: b, Version: "1", Project: project})
	out.close = func() { face.Close(context.WithoutCancel(t.Context())) }
	if !onStdio {
		handler := face.Handler(front.HTTPOptions{Listen: "127.0.0.1:1", Gate: asCaller{policy}})
		out.post = (&overHTTP{handler: handler, principal: principal, project: project}).post
		return out
	}
	in, toHost := io.Pipe()
	fromHost, stdout := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- face.ServeStdio(context.WithoutCancel(t.Context()), in, stdout) }()
	out.post = onPipes{toHost, bufio.NewReader(fromHost)}.post
	out.close = func() {
		_ = toHost.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		face.Close(context.WithoutCancel(t.Context()))
	}
	return out
}

// Get starts the server of a provider, which lists its tools.
func (st *stage) Get(_ context.Context, slug string) (broker.Instance, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !slices.Contains(st.started, slug) {
		st.started = append(st.started, slug)
		defs := []json.RawMessage{}
		for _, name := range st.tools[slug] {
			quoted, err := json.Marshal(name)
			if err != nil {
				return nil, err
			}
			defs = append(defs, json.RawMessage(`{"name":`+string(quoted)+`,"inputSchema":{"type":"object"}}`))
		}
		if err := st.store.Put(slug, slug+"/1", defs); err != nil {
			return nil, err
		}
	}
	return instance{st, slug}, nil
}

// Warm starts a server for a list; several may be started at once.
func (st *stage) Warm(ctx context.Context, slug string) error {
	_, err := st.Get(ctx, slug)
	return err
}

func (st *stage) State(string) (session.State, bool) { return session.State{}, true }
func (st *stage) SetLogLevel(string)                 {}

// Logging is declared by each server that is there, and not known of the others.
func (st *stage) Logging(of func(string) bool) (declared, unknown bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, slug := range slugs {
		there := slices.Contains(st.started, slug)
		declared, unknown = declared || there && of(slug), unknown || !there && of(slug)
	}
	return declared, unknown
}

// instance is a server that does what it is asked.
type instance struct {
	st   *stage
	slug string
}

func (i instance) Mark() string                                           { return i.slug + "/1" }
func (i instance) Current(context.Context, time.Duration) (uint64, error) { return 1, nil }
func (i instance) Epoch() uint64                                          { return 1 }
func (i instance) Announces() bool                                        { return true }

func (i instance) Do(_ context.Context, c session.Call) (*rpc.Message, error) {
	edit := c.Request.Edit()
	c.Edit(edit)
	var sent bytes.Buffer
	if _, err := edit.Payload().WriteTo(&sent); err != nil {
		return nil, err
	}
	if c.Begin != nil {
		if err := c.Begin(); err != nil {
			return nil, err
		}
	}
	var call struct{ Params struct{ Name string } }
	if err := json.Unmarshal(sent.Bytes(), &call); err != nil {
		return nil, err
	}
	i.st.ran = append(i.st.ran, i.slug+"\x00"+call.Params.Name)
	return rpc.Parse(rpc.FromServer, []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"ran"}]}}`))
}

// overHTTP is a client with a session.
type overHTTP struct {
	handler                     http.Handler
	principal, project, session string
}

func (c *overHTTP) post(t testing.TB, body string) string {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:1/mcp/"+c.project, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+c.principal)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
		r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	if id := w.Header().Get("Mcp-Session-Id"); id != "" && c.session == "" {
		c.session = id
	}
	return fmt.Sprint(w.Code, " ", w.Body)
}

// onPipes is the client on stdio.
type onPipes struct {
	in  io.Writer
	out *bufio.Reader
}

func (c onPipes) post(t testing.TB, body string) string {
	if _, err := io.WriteString(c.in, body+"\n"); err != nil {
		t.Fatal(err)
	}
	for strings.Contains(body, `"id"`) {
		line, err := c.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"id"`) { // and no notice
			return "200 " + line
		}
	}
	return ""
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
func act(t *testing.T, data []byte) {
	c := &choices{data}
	principal, project := pick(c, principals...), pick(c, "one", "two")
	s := imagine(c)
	if s.actFor(t, c, principal, project); t.Failed() {
		t.Logf("%+v", *s)
	}
}

func (s *scene) actFor(t *testing.T, c *choices, principal, project string) {
	onStdio := principal == access.Local && c.below(2) == 1
	whole, bare := s.play(t, principal, project, onStdio), s.without(principal, project).play(t, principal, project, onStdio)
	defer whole.close()
	defer bare.close()
	hello := `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`
	if got := both(t, whole, bare, principal, project, request(1, "initialize", hello)); strings.HasPrefix(got, "404") {
		return // nothing in this project is granted to him
	}
	both(t, whole, bare, principal, project, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
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
		if len(whole.ran) == before && !strings.Contains(got, `"code":-31001`) {
			t.Errorf("%s in %s: %q neither ran nor was denied: %s", principal, project, name, got)
		}
	}
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
		if len(whole.ran) != before+1 {
			t.Errorf("%s in %s: %q is listed and refused: %s", principal, project, tool.Name, got)
		}
		names = append(names, tool.Name)
	}
	return names
}

// FuzzGrants gets numbers, of which scenes are made: bytes would be minimised, which
// takes all the time there is where goroutines make the coverage waver.
func FuzzGrants(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { act(t, randomBytes(seed)) })
}

// TestGrantsAgainstOracle is FuzzGrants with the same scenes at each run.
func TestGrantsAgainstOracle(t *testing.T) {
	for seed := range uint64(300) {
		if act(t, randomBytes(1000+seed)); t.Failed() {
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
