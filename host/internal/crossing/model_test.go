//go:build linux

package crossing

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// fenceSteps is how many actions TestModelOfTheFence does. The broker's own model
// does more; this one shows that the parts between a client and a server keep it.
const fenceSteps = 300

// fenced is a provider of the model: what its server lists, by tool, and whether the
// host has been told of it.
type fenced struct {
	name  string
	lists map[string]string // tool → version, which stands in its description
	times map[string]int    // tool → how often it changed
	told  bool
}

// fenceCaller is a client, and what it has read: tool → version, "" for gone.
type fenceCaller struct {
	overHTTP
	who   string
	knows map[string]string
	// refused is, by tool, how often it had changed when it was refused last.
	refused map[string]int
}

// fenceModel drives one host.
type fenceModel struct {
	*testing.T
	p         hosttest.Place
	h         hosttest.Host
	path      string
	random    *rand.Rand
	providers map[string]*fenced
	callers   []*fenceCaller
	granted   map[string]bool // of ada; ben has everything
	version   int

	ran, stale, denied, between, unheard, unavailable int
}

// TestModelOfTheFence: servers change and die, grants come and go, clients list or do
// not; what a call ran under is what its caller was last shown, but for the two
// windows, which are counted.
func TestModelOfTheFence(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	m := &fenceModel{
		T: t, p: hosttest.NewPlace(t), random: rand.New(rand.NewPCG(seed, 0)),
		providers: map[string]*fenced{}, granted: map[string]bool{},
	}
	for _, name := range []string{"before", "change"} {
		m.providers[name] = &fenced{name: name, lists: map[string]string{}, times: map[string]int{}}
		for _, tool := range []string{"pay", "send"} {
			m.granted[name+"_"+tool] = true
		}
		m.change(m.providers[name])
	}
	m.path = m.write()
	m.h = m.p.ServeHTTP(t, m.path)
	for _, token := range []string{tokenOfAda, tokenOfAda, tokenOfBen} {
		who := map[string]string{tokenOfAda: "ada", tokenOfBen: "ben"}[token]
		m.callers = append(m.callers, &fenceCaller{dialAs(t, m.h, token), who, map[string]string{}, map[string]int{}})
	}
	for range fenceSteps {
		m.step()
	}
	t.Logf("%d steps: %d calls ran, %d were stale, %d denied, %d unavailable", fenceSteps, m.ran, m.stale, m.denied, m.unavailable)
	t.Logf("windows: %d calls ran under a definition that changed while they were made (before_call), %d before the server had announced the change (on_change)", m.between, m.unheard)
	if m.ran == 0 || m.stale == 0 || m.denied == 0 {
		t.Error("something never happened")
	}
}

func (m *fenceModel) write() string {
	var tools []string
	for name, is := range m.granted {
		if provider, tool, _ := strings.Cut(name, "_"); is && provider == "change" {
			tools = append(tools, encoded(tool))
		}
	}
	slices.Sort(tools)
	server := func(name string, flags ...string) provider {
		return provider{name: name, args: append([]string{"--stamp", "--tools", "notify", "--tools-file", m.p.Path(name + ".json")}, flags...)}
	}
	const often = "\nrestart {\n    intensity = 1000\n    backoff = \"100ms\"\n    backoff_max = \"100ms\"\n  }\n"
	before, change := server("before"), server("change", "--list-changed")
	before.body = shared + "\nrecheck = \"before_call\"" + often
	change.body = shared + often
	return governed(m, m.p, project("site",
		grant("ada", "before", `tools = ["pay", "send"]`), grant("ada", "change", "tools = ["+strings.Join(tools, ", ")+"]"),
		grant("ben", "before", `tools = ["*"]`), grant("ben", "change", `tools = ["*"]`),
	), before, change)
}

// change lets a server list something else from now on, and says nothing of it.
func (m *fenceModel) change(f *fenced) {
	tool := []string{"pay", "send"}[m.random.IntN(2)]
	if _, there := f.lists[tool]; there && m.random.IntN(3) == 0 {
		delete(f.lists, tool)
	} else {
		m.version++
		f.lists[tool] = fmt.Sprint("v", m.version)
	}
	f.told = false
	f.times[tool]++
	defs := []string{}
	for _, name := range slices.Sorted(maps.Keys(f.lists)) {
		defs = append(defs, fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, name, f.lists[name]))
	}
	if err := os.Rename(m.p.Write(m, f.name+".new", "["+strings.Join(defs, ",")+"]"), m.p.Path(f.name+".json")); err != nil {
		m.Fatal(err)
	}
}

func (m *fenceModel) step() {
	f := m.providers[[]string{"before", "change"}[m.random.IntN(2)]]
	c := m.callers[m.random.IntN(len(m.callers))]
	tool := []string{"pay", "send"}[m.random.IntN(2)]
	switch dice := m.random.IntN(40); {
	case dice < 22:
		m.call(c, f, tool, false)
	case dice < 25:
		m.call(c, f, tool, true)
	case dice < 29:
		m.list(c)
	case dice < 34:
		m.change(f)
	case dice < 37:
		// Who lets the server announce it is ben: he may call all of its tools.
		if r := m.call0(m.callers[2], "change_notify"); r.Error == nil {
			m.providers["change"].told = true
		}
	case dice < 38:
		if s := statusOf(m, m.p, m.path).provider(m, f.name); isReady(s) && len(s.Instances) == 1 {
			signal(m, m.p, serverOf(m, m.p, s), syscall.SIGKILL)
			awaitStatus(m, m.p, m.path, f.name, "another one is ready", func(now providerStatus) bool {
				return isReady(now) && len(now.Instances) == 1 && now.Instances[0].ID != s.Instances[0].ID
			})
			f.told = true // it was listed anew
		}
	case dice < 39:
		name := "change_" + tool
		m.granted[name] = !m.granted[name]
		m.write()
		hangUp(m, m.h.Run, taken)
	}
}

func (m *fenceModel) call0(c *fenceCaller, name string) hosttest.Reply {
	return c.Request(m, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{}}`, name))
}

func (m *fenceModel) list(c *fenceCaller) {
	var list struct {
		Tools []struct{ Name, Description string }
	}
	if r := c.Request(m, "tools/list", ""); r.Error != nil || json.Unmarshal(r.Result, &list) != nil {
		m.Fatalf("tools/list: %s", r.Error)
	}
	for name := range c.knows {
		c.knows[name] = ""
	}
	for _, t := range list.Tools {
		if _, tool, _ := strings.Cut(t.Name, "_"); tool != "pay" && tool != "send" {
			continue // the host's own, and what lets a server announce a change
		}
		if c.who == "ada" && !m.granted[t.Name] {
			m.Errorf("ada is shown %s", t.Name)
		}
		c.knows[t.Name] = t.Description
	}
}

var shownVersion = regexp.MustCompile(`"description":"(v\d+)"`)

// call is one call, and what must be true of it. With racing, the server changes at
// the same time.
func (m *fenceModel) call(c *fenceCaller, f *fenced, tool string, racing bool) {
	name := f.name + "_" + tool
	known, knows := c.knows[name]
	before := f.lists[tool]
	reply := make(chan hosttest.Reply, 1)
	go func() { reply <- m.call0(c, name) }()
	if racing {
		m.change(f)
	}
	r := <-reply
	if r.Error == nil {
		m.ran++
		stamp := shownVersion.FindStringSubmatch(hosttest.ParseResult(m, name, r.Result).Text())
		switch {
		case c.who == "ada" && !m.granted[name], stamp == nil, knows && known == "":
			m.Fatalf("%s of %s ran: %s", name, c.who, r.Result)
		case !knows:
			if c.knows[name] = stamp[1]; !f.told || racing {
				delete(c.knows, name) // it was bound to what the host knew, which may be older
				m.list(c)
			}
		case stamp[1] == known:
		case racing && f.name == "before":
			m.between++
		case f.name == "change" && !f.told:
			m.unheard++
		default:
			m.Fatalf("%s ran as %s, its caller knows %s", name, stamp[1], known)
		}
		return
	}
	var e staleness
	if err := json.Unmarshal(r.Error, &e); err != nil {
		m.Fatal(err)
	}
	switch e.Code {
	case -31001:
		if m.denied++; (c.who == "ben" || m.granted[name]) && before != "" && f.lists[tool] == before && (f.told || f.name == "before") && known != "" {
			m.Fatalf("%s is there and granted to %s, and was denied", name, c.who)
		}
	case -31002:
		m.stale++
		if n, was := c.refused[name]; was && n == f.times[tool] && !racing {
			m.Fatalf("%s was refused twice, and nothing had changed: %s", name, e.Message)
		}
		c.knows[name] = ""
		if shown := shownVersion.FindStringSubmatch(e.Message); shown != nil {
			c.knows[name] = shown[1]
		} else if e.Data.Reason != "tool_gone" {
			m.Fatalf("the refusal of %s does not show: %s", name, e.Message)
		}
		delete(c.refused, name)
		if c.knows[name] == f.lists[tool] {
			c.refused[name] = f.times[tool]
		}
	case -31003, -32602: // a server that died; a tool that went while it was called
		m.unavailable++
	default:
		m.Fatalf("%s ended with %s", name, r.Error)
	}
}
