package broker

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
)

// The model: servers that change their definitions, announce it or not, die and are
// declared anew; callers that list, call by what they know, name digests, lose
// answers and come again; a policy that is swapped, and a host that is started
// again. What a caller knows is what it has read, and nothing else: that is what a
// call that ran must have run under.

// modelSteps is how many actions the model test does at least.
const modelSteps = 10_000

// tally counts what the model test saw, over all its runs.
type tally struct {
	steps, ran, first, named, stale, denied, lost int
	// between counts the calls that ran under another definition because it changed
	// after the re-read (before_call), unheard those for which the host could not have
	// known yet (on_change).
	between, unheard int
}

// modelServer is a provider's server and the host's instance of it.
type modelServer struct {
	m         *model
	slug      string
	provider  Provider
	announces bool
	// defs is what the server lists now, by name; readOnly its tools without effect.
	defs     map[string]int
	identity int
	marks    int
	up       bool
	// listed is what the host has read; suspect that a change was announced since.
	listed   map[string]int
	listedAt int
	suspect  bool
	epoch    uint64
	// unsaid: the server has changed and the announcement is on its way.
	unsaid bool
	// calls are those that reached it.
	calls []string // digests that it listed then, "" for a tool that it did not
	// during is run once, between the next re-read and the call.
	during func()
}

func (s *modelServer) Mark() string { return fmt.Sprintf("host/%s/%d", s.slug, s.marks) }

func (s *modelServer) definition(name string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"name":%q,"x":%d,"annotations":{"readOnlyHint":%v}}`, name, s.defs[name], name == "look"))
}

func (s *modelServer) digest(name string) string {
	if _, there := s.defs[name]; !there {
		return ""
	}
	return catalog.DigestTool(s.definition(name))
}

// list is the host reading what the server lists.
func (s *modelServer) list() {
	var raw []json.RawMessage
	for _, name := range slices.Sorted(maps.Keys(s.defs)) {
		raw = append(raw, s.definition(name))
	}
	s.epoch++
	if err := s.m.store.Put(s.slug, s.Mark(), raw); err != nil {
		panic(err)
	}
	s.listed, s.listedAt, s.suspect = maps.Clone(s.defs), s.m.tally.steps, false
	s.epoch++
}

func (s *modelServer) hear() {
	if s.unsaid && s.up {
		s.unsaid, s.suspect = false, true
		s.epoch += 2
	}
}

func (s *modelServer) Current(_ context.Context, age time.Duration) (uint64, error) {
	if s.suspect || age >= 0 && s.m.tally.steps-s.listedAt >= int(age) {
		s.list()
	}
	epoch := s.epoch
	if during := s.during; during != nil {
		s.during = nil
		during()
	}
	return epoch, nil
}

func (s *modelServer) Epoch() uint64   { return s.epoch }
func (s *modelServer) Announces() bool { return s.announces }

var errGone = errors.New("the server has ended")

func (s *modelServer) Do(_ context.Context, c session.Call) (*rpc.Message, error) {
	if err := c.Begin(); err != nil {
		return nil, err
	}
	e := c.Request.Edit()
	c.Edit(e)
	sent, err := e.Payload().Append(nil)
	if err != nil {
		return nil, err
	}
	m, err := rpc.Parse(rpc.FromClient, sent)
	if err != nil {
		return nil, err
	}
	name, _ := m.GetString("params", "name")
	s.calls = append(s.calls, s.digest(name))
	return rpc.Parse(rpc.FromServer, []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`))
}

// modelCaller is a client: what it knows of the tools is what it has read.
type modelCaller struct {
	Caller
	lists bool // it lists when it feels like it
	knows map[string]modelTool
	met   map[string]string // its last instance of each provider
	// refused is, by tool, the world's version of the tool when it was refused last.
	refused map[string]string
}

// modelTool is what is known of a tool: a digest, or, with "", that it is gone.
type modelTool struct {
	identity int
	digest   string
}

type model struct {
	*testing.T
	rt      *rapid.T
	dir     string
	store   *catalog.Store
	broker  *Broker
	policy  *access.Policy
	granted map[string]bool // provider/tool that ann has; bob has everything
	servers map[string]*modelServer
	callers []*modelCaller
	kinds   map[string]map[string]modelTool // what each kind of client was shown last
	mets    map[string]map[string]string    // and the instances of those without a session
	nextID  int
	tally   *tally
}

func (m *model) Get(_ context.Context, slug string) (Instance, error) {
	s := m.servers[slug]
	if !s.up {
		s.up, s.unsaid = true, false
		s.marks++
		s.list()
	}
	return s, nil
}

func (m *model) Warm(ctx context.Context, slug string) error {
	_, err := m.Get(ctx, slug)
	return err
}

func (m *model) State(slug string) (session.State, bool) {
	if s := m.servers[slug]; s.up {
		return session.State{Instance: s.Mark()}, true
	}
	return session.State{}, true
}

func (m *model) SetLogLevel(string)                     {}
func (m *model) Logging(func(string) bool) (bool, bool) { return false, false }

var modelTools = []string{"pay", "send", "look"}

func newModel(t *testing.T, rt *rapid.T, n *tally) *model {
	m := &model{T: t, rt: rt, dir: t.TempDir(), servers: map[string]*modelServer{}, kinds: map[string]map[string]modelTool{}, mets: map[string]map[string]string{}, granted: map[string]bool{}, tally: n}
	for slug, p := range map[string]Provider{
		"before": {BeforeCall: true}, "change": {}, "quiet": {RefreshInterval: 5}, "state": {Stateful: true}, "must": {BeforeCall: true, Required: true},
	} {
		p.Slug = slug
		m.servers[slug] = &modelServer{m: m, slug: slug, provider: p, announces: slug != "quiet", defs: map[string]int{"pay": 1, "look": 1}}
		for _, tool := range modelTools {
			m.granted[slug+"/"+tool] = true
		}
	}
	m.swap()
	m.start()
	return m
}

// swap puts a policy of what is granted into force.
func (m *model) swap() {
	project := access.Project{Name: "p"}
	for slug := range m.servers {
		var tools []string
		for _, tool := range modelTools {
			if m.granted[slug+"/"+tool] {
				tools = append(tools, tool)
			}
		}
		project.Grants = append(project.Grants,
			&access.Grant{Project: "p", Principals: []string{"ann"}, Provider: slug, Tools: tools},
			&access.Grant{Project: "p", Principals: []string{"bob"}, Provider: slug, Tools: []string{"*"}})
	}
	m.policy = access.New(access.Spec{Names: catalog.NamesPrefixed, Projects: []access.Project{project}})
}

// start is a host that starts: it knows of callers what is on the disk.
func (m *model) start() {
	var providers []Provider
	for _, s := range m.servers {
		s.up = false
		providers = append(providers, s.provider)
	}
	m.store = catalog.New(catalog.Options{}, m.declared())
	m.broker = New(Options{
		Sessions: m, Catalog: m.store, Policy: func() *access.Policy { return m.policy }, Providers: providers,
		ListWait: time.Second, ShownDir: m.dir, Logger: slog.New(slog.NewTextHandler(logWriter{m.T}, nil)),
	})
	m.callers = nil
	for _, who := range []struct {
		principal, client, session string
		lists                      bool
	}{
		{"ann", "one", "s1", true}, {"ann", "one", "s2", true}, {"ann", "never", "s3", false},
		{"bob", "one", "s4", true}, {"bob", "stateless", "", true}, {"ann", "mute", "", false},
	} {
		if who.session != "" {
			m.nextID++
			who.session += fmt.Sprint("-", m.nextID)
		}
		c := m.caller(Caller{Principal: who.principal, Project: "p", Session: who.session, Client: Client{Name: who.client}}, who.lists)
		m.broker.Capabilities(c.Caller) // it initializes
		m.callers = append(m.callers, c)
	}
}

type logWriter struct{ t *testing.T }

func (w logWriter) Write(p []byte) (int, error) {
	w.t.Errorf("the broker says: %s", p)
	return len(p), nil
}

func (m *model) declared() []catalog.Provider {
	var out []catalog.Provider
	for slug, s := range m.servers {
		out = append(out, catalog.Provider{Slug: slug, Tools: []string{"*"}, Identity: fmt.Sprint(s.identity)})
	}
	return out
}

// caller is one that comes: it counts as knowing what its kind was shown.
func (m *model) caller(c Caller, lists bool) *modelCaller {
	kind := c.Principal + "/" + c.Client.Name
	if m.kinds[kind] == nil {
		m.kinds[kind] = map[string]modelTool{}
	}
	if m.mets[kind] == nil {
		m.mets[kind] = map[string]string{}
	}
	knows, met := m.kinds[kind], m.mets[kind] // without a session they are one
	if c.Session != "" {
		knows, met = maps.Clone(knows), map[string]string{}
	}
	return &modelCaller{Caller: c, lists: lists, knows: knows, met: met, refused: map[string]string{}}
}

func (m *model) learn(c *modelCaller, exposed string, t modelTool) {
	c.knows[exposed] = t
	m.kinds[c.Principal+"/"+c.Client.Name][exposed] = t
}

func (m *model) may(c *modelCaller, slug, tool string) bool {
	return c.Principal == "bob" || m.granted[slug+"/"+tool]
}

// list is a caller that lists, and reads the answer unless it is lost.
func (m *model) list(c *modelCaller, lost bool) {
	m.broker.Prepare(context.Background(), c.Caller)
	v := m.broker.View(c.Caller)
	size := rapid.SampledFrom([]int{2, 100}).Draw(m.rt, "page size")
	for from := 0; from == 0 || from < len(v.Tools()); from += size {
		to := min(from+size, len(v.Tools()))
		undo := m.broker.Shown(c.Caller, v, from, to)
		if lost {
			undo()
			return
		}
	}
	seen := map[string]bool{}
	for _, t := range v.Tools() {
		if !m.may(c, t.Provider, t.Name) {
			m.rt.Fatalf("%s is shown %s, which is not granted", c.Principal, t.Exposed)
		}
		seen[t.Exposed] = true
		m.learn(c, t.Exposed, modelTool{m.servers[t.Provider].identity, t.Digest})
	}
	for _, knows := range []map[string]modelTool{c.knows, m.kinds[c.Principal+"/"+c.Client.Name]} {
		for exposed, t := range knows {
			if slug, _, _ := strings.Cut(exposed, "_"); !seen[exposed] && v.Known(slug) {
				knows[exposed] = modelTool{identity: t.identity}
			}
		}
	}
}

// change is a server that changes what it lists, and may say so at once.
func (m *model) change(s *modelServer) {
	tool := rapid.SampledFrom(modelTools).Draw(m.rt, "tool")
	if _, there := s.defs[tool]; there && rapid.Bool().Draw(m.rt, "goes") {
		delete(s.defs, tool)
	} else {
		s.defs[tool] = rapid.IntRange(1, 3).Draw(m.rt, "version") // it may be an old one
	}
	if s.announces && s.up {
		s.unsaid = true
	}
}

func (m *model) server() *modelServer {
	return m.servers[rapid.SampledFrom(slices.Sorted(maps.Keys(m.servers))).Draw(m.rt, "provider")]
}

func (m *model) someone() *modelCaller { return rapid.SampledFrom(m.callers).Draw(m.rt, "caller") }

func (m *model) actions() map[string]func(*rapid.T) {
	step := func(f func()) func(*rapid.T) {
		return func(rt *rapid.T) {
			m.rt = rt
			m.tally.steps++
			f()
		}
	}
	call := step(func() {
		naming := rapid.SampledFrom([]string{"", "", "", "", "what it knows", "what is there", "nonsense"}).Draw(m.rt, "naming")
		s := m.server()
		if rapid.IntRange(0, 3).Draw(m.rt, "disturb") == 0 {
			s.during = func() {
				m.change(s)
				if rapid.Bool().Draw(m.rt, "heard") {
					s.hear()
				}
			}
		}
		m.call(m.someone(), s, rapid.SampledFrom(modelTools).Draw(m.rt, "tool"), naming, rapid.IntRange(0, 9).Draw(m.rt, "lost") == 0)
	})
	return map[string]func(*rapid.T){
		"call": call, "call again": call, "and again": call,
		"list": step(func() {
			if c := m.someone(); c.lists {
				m.list(c, rapid.IntRange(0, 4).Draw(m.rt, "lost") == 0)
			}
		}),
		"change": step(func() { m.change(m.server()) }),
		"hear":   step(func() { m.server().hear() }),
		"reread": step(func() {
			if s := m.server(); s.suspect && s.up {
				s.list()
			}
		}),
		"die": step(func() { s := m.server(); s.up, s.unsaid, s.suspect = false, false, false }),
		"declare anew": step(func() {
			s := m.server()
			s.identity++
			s.up, s.unsaid, s.suspect = false, false, false
			m.store.Apply(m.declared())
		}),
		"grant": step(func() {
			key := m.server().slug + "/" + rapid.SampledFrom(modelTools).Draw(m.rt, "tool")
			m.granted[key] = !m.granted[key]
			m.swap()
		}),
		"new session": step(func() {
			i := rapid.IntRange(0, len(m.callers)-1).Draw(m.rt, "caller")
			if c := m.callers[i]; c.Session != "" {
				m.broker.Forget(c.Session)
				m.nextID++
				c.Session = fmt.Sprint("new-", m.nextID)
				m.callers[i] = m.caller(c.Caller, c.lists)
				m.broker.Capabilities(c.Caller)
			}
		}),
		"restart": step(func() {
			if rapid.IntRange(0, 4).Draw(m.rt, "really") == 0 {
				m.start()
			}
		}),
	}
}

// TestModel holds the fence to what it promises, in random order.
func TestModel(t *testing.T) {
	// Runs long enough that most calls are not the first ones.
	steps := flag.Lookup("rapid.steps")
	before := steps.Value.String()
	if err := steps.Value.Set("150"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = steps.Value.Set(before) }()
	var n tally
	for n.steps < modelSteps && !t.Failed() {
		rapid.Check(t, func(rt *rapid.T) {
			rt.Repeat(newModel(t, rt, &n).actions())
		})
	}
	t.Logf("%d steps: %d calls ran (%d named a digest, %d were a first use), %d were stale (%d of those refusals were lost), %d denied",
		n.steps, n.ran, n.named, n.first, n.stale, n.lost, n.denied)
	t.Logf("windows: %d calls ran under a definition that changed between the re-read and the call (before_call), %d before the host had heard of the change (on_change)",
		n.between, n.unheard)
	if !t.Failed() && min(n.ran, n.named, n.first, n.stale, n.denied, n.lost, n.between, n.unheard) == 0 {
		t.Errorf("something never happened: %+v", n)
	}
}
