//go:build linux

package crossing

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// filing is a fake server that lists what stands in a file, and declares
// listChanged; add has more of its flags.
func filing(p hosttest.Place, add ...string) provider {
	return provider{name: "fake", args: append([]string{
		"--list-changed", "--tools", "emit,notify,echo", "--tools-file", p.Path("tools.json"),
	}, add...)}
}

// shelve writes the file that a filing server lists: tools that have the
// properties that follow their names.
func shelve(t testing.TB, p hosttest.Place, tools ...string) {
	t.Helper()
	var defs []string
	for _, one := range tools {
		name, properties, _ := strings.Cut(one, " ")
		var members []string
		for property := range strings.FieldsSeq(properties) {
			members = append(members, encoded(property)+":{\"type\":\"string\"}")
		}
		defs = append(defs, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object","properties":{%s}}}`, name, strings.Join(members, ",")))
	}
	// By a new name and a rename, so that the server never reads half of it.
	if err := os.Rename(p.Write(t, "tools.new", "["+strings.Join(defs, ",")+"]"), p.Path("tools.json")); err != nil {
		t.Fatal(err)
	}
}

// catalogs are the files that lists are kept in.
func catalogs(t testing.TB, p hosttest.Place) []string {
	t.Helper()
	files, err := filepath.Glob(p.Path("state/catalog/*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// listMeta is what the host says of a list.
type listMeta struct {
	Revisions map[string]string `json:"drawbridge/revisions"`
	Digests   map[string]string `json:"drawbridge/digests"`
}

func metaOf(t testing.TB, c hosttest.Client) listMeta {
	t.Helper()
	r := c.Request(t, "tools/list", "{}")
	var list struct {
		Meta listMeta `json:"_meta"`
	}
	if err := json.Unmarshal(r.Result, &list); err != nil {
		t.Fatalf("tools/list: %v: %s", err, r.Raw)
	}
	return list.Meta
}

// revisions are those of the list of now, by provider, digests those of its tools.
func revisions(t testing.TB, c hosttest.Client) map[string]string { return metaOf(t, c).Revisions }
func digests(t testing.TB, c hosttest.Client) map[string]string   { return metaOf(t, c).Digests }

// marked are the processes of all instances.
func marked(p hosttest.Place) []hosttest.Process {
	return slices.DeleteFunc(p.Processes(), func(one hosttest.Process) bool { return one.Mark == "" })
}

// TestTheFirstListStartsNoServer: 20 providers of 25 tools each were listed once.
// The next host answers the first list with all of them, in the servers' bytes, and
// nothing was started for it; a call starts its own server and no other.
func TestTheFirstListStartsNoServer(t *testing.T) {
	const count, each = 20, 25
	p := hosttest.NewPlace(t)
	var all []provider
	for n := range count {
		all = append(all, provider{name: fmt.Sprintf("p%02d", n), args: []string{"--tools", "whoami", "--tool-count", fmt.Sprint(each - 1), "--tool-bytes", "200"}})
	}
	path := config(t, p, `list_wait = "60s"`, all...)
	before := setting{}.stdio(t, p, path)
	first := hosttest.Definitions(t, before)
	if len(first) != count*each {
		t.Fatalf("the servers list %d tools", len(first))
	}
	known := revisions(t, before)
	leave(t, before)
	if n := len(catalogs(t, p)); n != count {
		t.Fatalf("%d catalogs are kept", n)
	}

	c := setting{}.stdio(t, p, path)
	if now := revisions(t, c); len(now) != count || !maps.Equal(now, known) {
		t.Errorf("%d revisions, of %d", len(now), len(known))
	}
	second := hosttest.Definitions(t, c)
	if left := marked(p); len(left) != 0 {
		t.Errorf("%d processes of servers and plugins were started for a list", len(left))
	}
	for i := range first {
		if len(second) != len(first) || string(first[i].Raw) != string(second[i].Raw) {
			t.Fatalf("%d tools; the %d. is not what it was", len(second), i+1)
		}
	}
	nonce(t, c, "p07")
	for _, one := range all {
		want := 1
		if one.name == "p07" {
			want = 2
		}
		if got := starts(logged(t, p, one.name)); got != want {
			t.Errorf("%s was started %d times, want %d", one.name, got, want)
		}
	}
	if got := changes(c); len(got) != 0 {
		t.Errorf("a list that is equal was told of %d times", len(got))
	}
}

// TestAListThatDiffersReplacesTheOneOfTheDisk: and the client hears of it, once.
func TestAListThatDiffersReplacesTheOneOfTheDisk(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		shelve(t, p, "a", "b x")
		path := config(t, p, "", filing(p))
		before := open(path)
		names(t, before)
		leave(t, before)
		shelve(t, p, "b x y", "c")
		c := open(path)
		if got := names(t, c); !slices.Contains(got, "fake_a") || len(marked(p)) != 0 {
			t.Errorf("listed from the disk: %v, with %d processes", got, len(marked(p)))
		}
		if r := tool(t, c, "fake_echo", "{}"); r.Error != nil {
			t.Errorf("echo: %s", r.Error)
		}
		eventually(t, "the client is not told", func() bool { return len(changes(c)) > 0 })
		got := names(t, c)
		if slices.Contains(got, "fake_a") || !slices.Contains(got, "fake_b") || !slices.Contains(got, "fake_c") {
			t.Errorf("listed by the server: %v", got)
		}
		if n := len(changes(c)); n != 1 {
			t.Errorf("%d list_changed", n)
		}
		leave(t, c)
		// What is on disk is the last one.
		if got := names(t, open(path)); !slices.Contains(got, "fake_c") || len(marked(p)) != 0 {
			t.Errorf("listed from the disk, later: %v, with %d processes", got, len(marked(p)))
		}
	})
}

// TestAToolThatTheDiskDoesNotKnowIsAskedFor: what is remembered may be of long ago,
// so that a name which is not in it starts the server before it is refused.
func TestAToolThatTheDiskDoesNotKnowIsAskedFor(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		shelve(t, p, "a")
		path := config(t, p, "", filing(p))
		before := open(path)
		names(t, before)
		leave(t, before)
		shelve(t, p, "a", "b")
		c := open(path)
		if r := tool(t, c, "fake_b", "{}"); r.Error != nil {
			t.Errorf("b: %s", r.Error)
		}
		if e := errorOf(t, tool(t, c, "fake_none", "{}")); e.Data.Outcome != "denied" {
			t.Errorf("a tool that there is not: %+v", e)
		}
		if n := starts(logged(t, p, "fake")); n != 2 {
			t.Errorf("the server was started %d times", n-1)
		}
	})
}

// TestC087_TheToolsOfBeforeAreGone: a server that was killed comes back with other
// tools. A client is told of it once; calls by what it was shown before are refused,
// with the new revision; then it lists, and can call what there is.
func TestC087_TheToolsOfBeforeAreGone(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		shelve(t, p, "a", "b x")
		path := config(t, p, "", filing(p))
		c := open(path)
		names(t, c)
		s := awaitStatus(t, p, path, "fake", "ready", isReady)
		shelve(t, p, "b x y", "c")
		signal(t, p, serverOf(t, p, s), syscall.SIGKILL)
		eventually(t, "the client is not told", func() bool { return len(changes(c)) > 0 })
		var told []string
		for name, reason := range map[string]string{"a": "tool_gone", "b": "definition_changed"} {
			r := tool(t, c, "fake_"+name, `{"x":"1"}`)
			var e struct {
				Code int
				Data struct{ Outcome, Reason, Revision string }
			}
			if err := json.Unmarshal(r.Error, &e); err != nil || e.Code != -31002 || e.Data.Outcome != "stale" || e.Data.Reason != reason {
				t.Errorf("%s, by what was listed before: %s", name, r.Raw)
			}
			told = append(told, e.Data.Revision)
		}
		if n := len(received(t, p, "fake")); n != 0 {
			t.Errorf("%d calls reached the server", n)
		}
		if now := revisions(t, c)["fake"]; now == "" || told[0] != now || told[1] != now {
			t.Errorf("the refusals carry the revisions %v, the list %s", told, now)
		}
		got := slices.DeleteFunc(names(t, c), func(name string) bool { return name != "fake_a" && name != "fake_b" && name != "fake_c" })
		if !slices.Equal(got, []string{"fake_b", "fake_c"}) {
			t.Errorf("listed: %v", got)
		}
		if r := tool(t, c, "fake_c", "{}"); r.Error != nil {
			t.Errorf("c: %s", r.Error)
		}
		if n := len(changes(c)); n != 1 {
			t.Errorf("%d list_changed", n)
		}
	})
}

// TestC091_TheDefinitionChangesBetweenListAndCall: before the host can know of it,
// the call passes as what the client was shown; after that it is refused once, and
// shown what there is. A call that names a digest never runs under another.
func TestC091_TheDefinitionChangesBetweenListAndCall(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		shelve(t, p, "pay to")
		c := open(config(t, p, "", filing(p)))
		names(t, c)
		before := digests(t, c)["fake_pay"]
		shelve(t, p, "pay target")
		pay := func(meta string) hosttest.Reply {
			return c.Request(t, "tools/call", `{"name":"fake_pay","arguments":{"to":"x"}`+meta+`}`)
		}
		naming := func(digest string) string { return `,"_meta":{"drawbridge/digest":` + encoded(digest) + `}` }
		if r := pay(""); r.Error != nil { // nothing was announced yet
			t.Errorf("as listed: %s", r.Error)
		}
		if r := tool(t, c, "fake_notify", "{}"); r.Error != nil {
			t.Fatal(string(r.Error))
		}
		// The announcement came before that answer, so that the host has read it.
		for n, meta := range []string{"", naming(before)} {
			if e := errorOf(t, pay(meta)); e.Code != -31002 || e.Data.Reason != "definition_changed" || e.Data.Dispatched {
				t.Errorf("call %d after the change: %+v", n+1, e)
			}
		}
		if n := len(calls(t, p, "pay")); n != 1 {
			t.Errorf("%d calls reached the server", n)
		}
		now := digests(t, c)["fake_pay"]
		if now == before || now == "" {
			t.Errorf("the digest is %q, was %q", now, before)
		}
		for n, meta := range []string{"", naming(now)} {
			if r := pay(meta); r.Error != nil {
				t.Errorf("call %d as it is now: %s", n+1, r.Error)
			}
		}
		if n := len(calls(t, p, "pay")); n != 3 {
			t.Errorf("%d calls reached the server", n)
		}
	})
}

// calls are those of one tool that the filing server received.
func calls(t testing.TB, p hosttest.Place, name string) []fakeserver.Message {
	t.Helper()
	return slices.DeleteFunc(received(t, p, "fake"), func(m fakeserver.Message) bool {
		return !strings.Contains(string(m.Params), `"name":`+encoded(name))
	})
}

// TestC089_ACatalogThatIsNotWholeIsMadeAnew: the file is named, nothing of it is
// listed, and the server is asked.
func TestC089_ACatalogThatIsNotWholeIsMadeAnew(t *testing.T) {
	p := hosttest.NewPlace(t)
	shelve(t, p, "a", "b")
	path := config(t, p, `list_wait = "60s"`, filing(p))
	before := setting{}.stdio(t, p, path)
	want := names(t, before)
	leave(t, before)
	file := catalogs(t, p)[0]
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for what, spoiled := range map[string]string{
		"half":    string(text[:len(text)/2]),
		"changed": strings.Replace(string(text), `"a"`, `"z"`, 1),
		"foreign": `{"mcpServers":{}}`,
		"empty":   "",
	} {
		if err := os.WriteFile(file, []byte(spoiled), 0o600); err != nil {
			t.Fatal(err)
		}
		asked := starts(logged(t, p, "fake"))
		c := setting{}.stdio(t, p, path)
		if got := names(t, c); !slices.Equal(got, want) {
			t.Errorf("%s: listed %v, want %v", what, got, want)
		}
		if got := starts(logged(t, p, "fake")); got != asked+1 {
			t.Errorf("%s: the server was started %d times", what, got-asked)
		}
		says(t, what+": the log", c.Said(), file)
		leave(t, c)
		if again, err := os.ReadFile(file); err != nil || string(again) != string(text) {
			t.Errorf("%s: not made anew: %v", what, err)
		}
	}
}

// TestARotatedSecretIsTheSameServer: another process, and nothing else. Another
// argument is another server, of which nothing is known.
func TestARotatedSecretIsTheSameServer(t *testing.T) {
	p := hosttest.NewPlace(t)
	shelve(t, p, "a")
	write := func(args ...string) string {
		one := filing(p, args...)
		one.config = `env = { TOKEN = env("ROTATED") }`
		return config(t, p, `list_wait = "60s"`, one)
	}
	run := func(path, secret string, generation, started int) {
		t.Helper()
		c := setting{env: []string{"ROTATED=" + secret}}.stdio(t, p, path)
		if got := names(t, c); !slices.Contains(got, "fake_a") {
			t.Errorf("with %s: listed %v", secret, got)
		}
		if s := statusOf(t, p, path).provider(t, "fake"); s.Generation != generation {
			t.Errorf("with %s: generation %d, want %d", secret, s.Generation, generation)
		}
		if got := starts(logged(t, p, "fake")); got != started {
			t.Errorf("with %s: %d starts, want %d", secret, got, started)
		}
		leave(t, c)
	}
	path := write()
	run(path, "the-first-secret", 1, 1)
	run(path, "the-first-secret", 1, 1)
	run(path, "the-second-secret", 2, 1)
	run(path, "the-first-secret", 1, 1)
	run(write("--instructions", "another"), "the-first-secret", 3, 2)
	for _, file := range append(catalogs(t, p), p.Path("state/key")) {
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
}

// TestAKeyThatProtectsNothingStartsNothing: the file is named.
func TestAKeyThatProtectsNothingStartsNothing(t *testing.T) {
	p := hosttest.NewPlace(t)
	shelve(t, p, "a")
	path := config(t, p, "", filing(p))
	leave(t, setting{}.stdio(t, p, path))
	key := p.Path("state/key")
	for what, spoil := range map[string]func() error{
		"open to others": func() error { return os.Chmod(key, 0o644) },
		"no key":         func() error { return os.WriteFile(key, []byte("x"), 0o600) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if _, errs, code := cli(t, p, "serve", "--stdio", "--config", path); code != 1 || !strings.Contains(errs, key) {
			t.Errorf("%s: exit %d: %s", what, code, errs)
		}
		if err := os.Chmod(key, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAStormOfListChangedCostsLittle: 10,000 announcements of one change.
func TestAStormOfListChangedCostsLittle(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		shelve(t, p, "a")
		c := open(config(t, p, "", filing(p)))
		names(t, c)
		lists := func() int { return len(fakeserver.Method(logged(t, p, "fake"), "tools/list")) }
		before := lists()
		shelve(t, p, "b")
		const line = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n"
		storm := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(line, 10000)))
		if r := tool(t, c, "fake_emit", fmt.Sprintf(`{"b64":%q,"answer":true}`, storm)); r.Error != nil {
			t.Fatalf("emit: %s", r.Error)
		}
		eventually(t, "the new list is not there", func() bool { return slices.Contains(names(t, c), "fake_b") })
		if r := tool(t, c, "fake_b", "{}"); r.Error != nil {
			t.Errorf("b: %s", r.Error)
		}
		if n := lists() - before; n > 30 {
			t.Errorf("%d lists were read", n)
		}
		if n := len(changes(c)); n > 1 {
			t.Errorf("%d list_changed", n)
		}
	})
}

// TestC089_AListThatFailsHoldsUpNobody: the list does not wait for a provider whose
// list has failed, be it ever so patient; that one's tools come when it has them,
// and the client is told. Nothing of a list that failed is kept.
func TestC089_AListThatFailsHoldsUpNobody(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		const fails = 10 * time.Second
		c := open(config(t, p, `list_wait = "60s"`,
			provider{name: "one", args: []string{"--tools", "echo"}},
			provider{name: "two", args: []string{"--tools", "echo", "--list-fail-for", fails.String()}, body: limits(`start_timeout = "60s"`)},
		))
		began := time.Now()
		if got := names(t, c); !slices.Equal(got, []string{"one_echo"}) {
			t.Errorf("at first, %v is listed", got)
		}
		first := revisions(t, c)
		if len(first) != 1 || first["one"] == "" {
			t.Errorf("at first, the revisions are %v", first)
		}
		if took := time.Since(began); took > fails {
			t.Errorf("the first list took %s", took)
		}
		if n := len(catalogs(t, p)); n != 1 {
			t.Errorf("%d catalogs are kept, want that of the list which is whole", n)
		}
		eventually(t, "the client is not told", func() bool { return len(changes(c)) == 1 })
		if got := names(t, c); !slices.Equal(got, []string{"one_echo", "two_echo"}) {
			t.Errorf("later, %v is listed", got)
		}
		if now := revisions(t, c); len(now) != 2 || now["two"] == "" || now["one"] != first["one"] {
			t.Errorf("later, the revisions are %v; they were %v", now, first)
		}
		if n := starts(logged(t, p, "two")); n != 1 {
			t.Errorf("the server was started %d times", n)
		}
	})
}
