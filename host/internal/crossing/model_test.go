//go:build linux

package crossing

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
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
const fenceSteps = 400

// fenced is a provider of the model: what its server lists, by tool, and whether the
// host has been told of it.
type fenced struct {
	name  string
	lists map[string]string // tool → version, which stands in its description
	times map[string]int    // tool → how often it changed
	told  bool
	// cold says that no call has reached it since the host was started: whoever starts
	// it reads its list.
	cold bool
	// stateful says that callers are refused when another process has taken over.
	stateful bool
	// sent counts the calls that reached its server.
	sent int
}

// fenceCaller is a client's session, and what it has read: tool → version, "" for gone.
type fenceCaller struct {
	overHTTP
	who, token string
	knows      map[string]string
	// refused is, by tool, how often it had changed when it was refused last.
	refused map[string]int
	// met is the process that it knows of each provider; unsure where it did not learn which.
	met map[string]string
}

const unsure = "?"

// fenceModel drives one host.
type fenceModel struct {
	*testing.T
	p         hosttest.Place
	h         hosttest.Host
	path      string
	random    *rand.Rand
	providers map[string]*fenced
	callers   []*fenceCaller
	// kinds are what each client was shown last, in whichever of its sessions: with it
	// the next session begins, also with another host.
	kinds   map[string]map[string]string
	granted map[string]bool // of ada; ben has everything
	version int

	ran, stale, denied, between, unheard, unavailable, replaced, deaths, stops, kills int
}

// TestModelOfTheFence: servers change and die, hosts are stopped and killed, grants
// come and go, clients list or do not; what a call ran under is what its caller was last
// shown, but for the two windows, which are counted.
func TestModelOfTheFence(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	m := &fenceModel{
		T: t, p: hosttest.NewPlace(t), random: rand.New(rand.NewPCG(seed, 0)),
		providers: map[string]*fenced{}, granted: map[string]bool{}, kinds: map[string]map[string]string{"ada": {}, "ben": {}},
	}
	for _, name := range []string{"before", "change"} {
		m.providers[name] = &fenced{name: name, lists: map[string]string{}, times: map[string]int{}, told: true, cold: true, stateful: name == "change"}
		for _, tool := range []string{"pay", "send"} {
			m.granted[name+"_"+tool] = true
		}
		m.change(m.providers[name])
	}
	m.path = m.write()
	m.h = m.p.ServeHTTP(t, m.path)
	for _, token := range []string{tokenOfAda, tokenOfAda, tokenOfBen} {
		who := map[string]string{tokenOfAda: "ada", tokenOfBen: "ben"}[token]
		m.callers = append(m.callers, &fenceCaller{dialAs(t, m.h, token), who, token, map[string]string{}, map[string]int{}, map[string]string{}})
	}
	for n := range fenceSteps {
		switch n % 100 { // seldom, for it takes long
		case 33:
			m.stops++
			m.restart(m.h.Stop, false)
		case 66:
			m.kills++
			m.restart(m.h.Kill, true)
		default:
			m.step()
		}
	}
	for _, f := range m.providers {
		reached := 0
		for _, call := range received(t, m.p, f.name) {
			if !strings.Contains(string(call.Params), `"notify"`) {
				reached++
			}
		}
		if reached != f.sent {
			t.Errorf("%d calls of %s reached the server, and %d had an answer of its", reached, f.name, f.sent)
		}
	}
	t.Logf("%d steps: %d calls ran, %d were stale, %d denied, %d unavailable", fenceSteps, m.ran, m.stale, m.denied, m.unavailable)
	t.Logf("%d servers were killed, %d hosts stopped and %d killed; %d times a caller was told that a process was replaced", m.deaths, m.stops, m.kills, m.replaced)
	t.Logf("windows: %d calls ran under a definition that changed while they were made (before_call), %d before the server had announced the change (on_change)", m.between, m.unheard)
	if min(m.ran, m.stale, m.denied, m.replaced, m.deaths, m.stops, m.kills) == 0 {
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
	change.body = "session {\n  scope = \"shared\"\n  stateful = true\n}" + often
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
	f.told = f.cold
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
	switch dice := m.random.IntN(57); {
	case dice < 32:
		m.call(c, f, tool, false)
	case dice < 36:
		m.call(c, f, tool, true)
	case dice < 41:
		m.list(c)
	case dice < 48:
		m.change(f)
	case dice < 52:
		m.announce()
	case dice < 55:
		m.killServer(f)
	default:
		name := "change_" + tool
		m.granted[name] = !m.granted[name]
		m.write()
		hangUp(m, m.h.Run, taken)
	}
}

// announce has the server say that its list has changed. Who lets it is ben: he may
// call all of its tools.
func (m *fenceModel) announce() {
	f := m.providers["change"]
	r := m.call0(m.callers[2], f.name+"_notify")
	f.cold = false
	m.process(m.callers[2], f, r)
	f.told = f.told || r.Error == nil
}

func (m *fenceModel) killServer(f *fenced) {
	s := statusOf(m, m.p, m.path).provider(m, f.name)
	if !isReady(s) || len(s.Instances) != 1 {
		return
	}
	m.deaths++
	signal(m, m.p, serverOf(m, m.p, s), syscall.SIGKILL)
	awaitStatus(m, m.p, m.path, f.name, "another one is ready", func(now providerStatus) bool {
		return isReady(now) && len(now.Instances) == 1 && now.Instances[0].ID != s.Instances[0].ID
	})
	f.told = true // it was listed anew
}

// restart ends the host and starts another. Sessions end with it, and with them what
// they met; the clients' next ones begin with what each client was shown last. sudden
// says that a refusal which a client has read may not be on disk.
func (m *fenceModel) restart(end func(testing.TB), sudden bool) {
	for _, c := range m.callers {
		c.Abandon()
	}
	end(m)
	m.h = m.p.ServeHTTP(m, m.path)
	for _, c := range m.callers {
		old := c.Session()
		req, err := http.NewRequestWithContext(m.Context(), http.MethodPost, m.h.URL, strings.NewReader(hosttest.Envelope(1, "tools/list", "{}")))
		if err != nil {
			m.Fatal(err)
		}
		for name, value := range map[string]string{
			"Authorization": "Bearer " + c.token, "Mcp-Session-Id": old, "Mcp-Protocol-Version": "2025-11-25",
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		} {
			req.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			m.Fatal(err)
		}
		if _ = res.Body.Close(); res.StatusCode != http.StatusNotFound {
			m.Errorf("a session of the host before gets HTTP %s", res.Status)
		}
		c.overHTTP = dialAs(m, m.h, c.token)
		kind := m.kinds[c.who]
		maps.DeleteFunc(c.refused, func(name string, _ int) bool { return sudden || c.knows[name] != kind[name] })
		c.knows, c.met = maps.Clone(kind), map[string]string{}
	}
	for _, f := range m.providers {
		f.told, f.cold = true, true
	}
}

// learn notes what a client has read of a tool.
func (m *fenceModel) learn(c *fenceCaller, name, version string) {
	c.knows[name], m.kinds[c.who][name] = version, version
}

func (m *fenceModel) call0(c *fenceCaller, name string) hosttest.Reply {
	return c.Request(m, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{},"_meta":{"drawbridge/report":true}}`, name))
}

// process holds what an answer tells of server processes to what its caller knows.
func (m *fenceModel) process(c *fenceCaller, f *fenced, r hosttest.Reply) {
	met := c.met[f.name]
	if r.Error != nil {
		var e staleness
		if err := json.Unmarshal(r.Error, &e); err != nil {
			m.Fatal(err)
		}
		switch {
		case e.Data.Reason == "instance_replaced":
			if m.replaced++; !f.stateful || met == "" || met == e.Data.Instance {
				m.Fatalf("%s of %s: its caller knows %s: %s", f.name, c.who, met, r.Error)
			}
			c.met[f.name] = e.Data.Instance
		case strings.Contains(e.Message, "another one as well"):
			c.met[f.name] = e.Data.Instance
		case e.Code == -32602 && met == "":
			c.met[f.name] = unsure // it was sent, and the server's error does not tell by whom
		}
		return
	}
	var result struct {
		Meta struct {
			Instance string `json:"drawbridge/instance"`
			Replaced string `json:"drawbridge/replaced"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(r.Result, &result); err != nil || result.Meta.Instance == "" {
		m.Fatalf("%v: %s", err, r.Result)
	}
	is, was := result.Meta.Instance, result.Meta.Replaced
	switch other := met != "" && met != is; {
	case met == unsure:
	case other && f.stateful:
		m.Fatalf("%s of %s ran on %s, and was not told that %s is gone", f.name, c.who, is, met)
	case other && was != met, !other && was != "":
		m.Fatalf("%s of %s ran on %s; its caller knows %q, and the result names %q", f.name, c.who, is, met, was)
	case other:
		m.replaced++
	}
	c.met[f.name] = is
}

func (m *fenceModel) list(c *fenceCaller) {
	var list struct {
		Tools []struct{ Name, Description string }
	}
	if r := c.Request(m, "tools/list", ""); r.Error != nil || json.Unmarshal(r.Result, &list) != nil {
		m.Fatalf("tools/list: %s", r.Error)
	}
	known := maps.Clone(c.knows)
	for _, knows := range []map[string]string{c.knows, m.kinds[c.who]} {
		for name := range knows {
			knows[name] = ""
		}
	}
	for _, t := range list.Tools {
		if _, tool, _ := strings.Cut(t.Name, "_"); tool != "pay" && tool != "send" {
			continue // the host's own, and what lets a server announce a change
		}
		if c.who == "ada" && !m.granted[t.Name] {
			m.Errorf("ada is shown %s", t.Name)
		}
		m.learn(c, t.Name, t.Description)
	}
	// Who was shown something else since may be refused anew: a grant that was taken
	// away and given back, or a host that does not know yet what its server has.
	maps.DeleteFunc(c.refused, func(name string, _ int) bool { return c.knows[name] != known[name] })
}

// bound notes a first use, which binds: to what the host knew, which may be older than
// what ran. What the client was shown in another session stays what it knows.
func (m *fenceModel) bound(c *fenceCaller, f *fenced, name, stamp string, racing bool) {
	if !f.told || racing {
		m.list(c)
		return
	}
	c.knows[name] = stamp
	if _, shown := m.kinds[c.who][name]; !shown {
		m.kinds[c.who][name] = stamp
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
		f.cold = false
		m.change(f)
	}
	r := <-reply
	f.cold = false
	m.process(c, f, r)
	if r.Error == nil {
		m.ran++
		f.sent++
		stamp := shownVersion.FindStringSubmatch(hosttest.ParseResult(m, name, r.Result).Text())
		switch {
		case c.who == "ada" && !m.granted[name], stamp == nil, knows && known == "":
			m.Fatalf("%s of %s ran: %s", name, c.who, r.Result)
		case !knows:
			m.bound(c, f, name, stamp[1], racing)
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
		if e.Data.Reason == "instance_replaced" {
			return
		}
		if n, was := c.refused[name]; was && n == f.times[tool] && !racing {
			m.Fatalf("%s was refused twice, and nothing had changed: %s", name, e.Message)
		}
		m.learn(c, name, "")
		if shown := shownVersion.FindStringSubmatch(e.Message); shown != nil {
			m.learn(c, name, shown[1])
		} else if e.Data.Reason != "tool_gone" {
			m.Fatalf("the refusal of %s does not show: %s", name, e.Message)
		}
		delete(c.refused, name)
		if c.knows[name] == f.lists[tool] {
			c.refused[name] = f.times[tool]
		}
	case -32602: // a tool that went while it was called
		f.sent++
		m.unavailable++
	case -31003: // a server that died
		m.unavailable++
	default:
		m.Fatalf("%s ended with %s", name, r.Error)
	}
}
