//go:build linux

package crossing

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// The tokens of the people in these tests.
const (
	tokenOfAda = "token-of-ada"
	tokenOfBen = "token-of-ben"
)

// people declares them.
var people = fmt.Sprintf("principal \"ada\" {\n  token_sha256 = %q\n}\nprincipal \"ben\" {\n  token_sha256 = %q\n}\n",
	access.HashOf(tokenOfAda), access.HashOf(tokenOfBen))

// shared is what a provider's block needs that several are granted.
const shared = "session {\n  scope = \"shared\"\n}"

// grant writes a grant; more is more HCL in it.
func grant(principal, provider, more string) string {
	return fmt.Sprintf("  grant {\n    principals = [%q]\n    provider   = %q\n    %s\n  }\n", principal, provider, more)
}

// project writes a project.
func project(name string, grants ...string) string {
	return fmt.Sprintf("project %q {\n%s}\n", name, strings.Join(grants, ""))
}

// governed writes a configuration with access in it.
func governed(t testing.TB, p hosttest.Place, access string, providers ...provider) string {
	t.Helper()
	return p.Write(t, "providers.hcl", hostBlock(p, "")+people+access+blocks(t, p, providers...))
}

// dialAs opens a session as whoever has a token.
func dialAs(t testing.TB, h hosttest.Host, token string) overHTTP {
	t.Helper()
	h.Token = token
	return dial(t, h)
}

// hangUp sends SIGHUP to a host and waits until its log says what came of it.
func hangUp(t testing.TB, h *hosttest.Run, says string) {
	t.Helper()
	before := strings.Count(h.Said(), says)
	h.Signal(t, syscall.SIGHUP)
	eventually(t, "the log says "+says, func() bool { return strings.Count(h.Said(), says) > before })
}

const (
	taken   = "principals, projects and grants are read anew"
	refused = "the new files are refused"
)

// TestGrantsAreTakenAwayWhileAllRuns: at SIGHUP a caller loses what no grant gives any
// more, in the session that he has; nobody else is told, and the server's process and
// what it holds stay.
func TestGrantsAreTakenAwayWhileAllRuns(t *testing.T) {
	p := hosttest.NewPlace(t)
	fake := provider{name: "fake", args: []string{"--tools", "echo,inc,get,pay", "--ledger", p.Path("ledger")}, body: shared}
	grants := func(ofBen string) string {
		return project("site", grant("ada", "fake", `tools = ["*"]`), grant("ben", "fake", ofBen), grant("local", "fake", `tools = ["inc", "get"]`))
	}
	path := governed(t, p, grants(`tools = ["inc", "pay"]`), fake)
	h := setting{}.http(t, p, path)
	ada, ben := dialAs(t, h, tokenOfAda), dialAs(t, h, tokenOfBen)
	if got := names(t, ada); !slices.Equal(got, []string{"fake_echo", "fake_inc", "fake_get", "fake_pay"}) {
		t.Fatalf("ada sees %v", got)
	}
	if got := names(t, ben); !slices.Equal(got, []string{"fake_inc", "fake_pay"}) {
		t.Fatalf("ben sees %v", got)
	}
	hosttest.CallTool(t, ada, "fake_inc", "{}")
	hosttest.CallTool(t, ben, "fake_inc", "{}")
	hosttest.CallTool(t, ben, "fake_pay", "{}")
	// Whoever gives commands is local.
	if out, errs, code := cli(t, p, "call", "fake", "get", "--config", path); code != 0 || strings.TrimSpace(out) != "2" {
		t.Errorf("exit %d: %q %s", code, out, errs)
	}
	if _, errs, code := cli(t, p, "call", "fake", "echo", "--config", path); code != 1 || !strings.Contains(errs, "no such tool") {
		t.Errorf("local calls what he is not granted: exit %d: %s", code, errs)
	}
	if out, _, code := cli(t, p, "tools", "--config", path); code != 0 || !strings.Contains(out, "fake_get") || strings.Contains(out, "fake_pay") {
		t.Errorf("exit %d: local sees\n%s", code, out)
	}
	toldAda, toldBen := len(changes(ada)), len(changes(ben))

	governed(t, p, grants(`tools = ["inc"]`), fake)
	hangUp(t, h.Run, taken)
	if got := names(t, ben); !slices.Equal(got, []string{"fake_inc"}) {
		t.Errorf("ben still sees %v", got)
	}
	lost := errorOf(t, tool(t, ben, "fake_pay", "{}"))
	never := errorOf(t, tool(t, ben, "fake_xyz", "{}"))
	if lost.Code != -31001 || lost.Data.Outcome != "denied" || strings.ReplaceAll(lost.Message, "pay", "xyz") != never.Message {
		t.Errorf("what ben lost: %+v; what never was: %+v", lost, never)
	}
	eventually(t, "ben is told", func() bool { return len(changes(ben)) == toldBen+1 })
	if n := hosttest.CallTool(t, ben, "fake_inc", "{}").Text(); n != "3" {
		t.Errorf("the counter is at %s: not the process that was", n)
	}
	hosttest.CallTool(t, ada, "fake_pay", "{}")
	if n := len(changes(ada)); n != toldAda {
		t.Errorf("ada, whose view is what it was, was told %d times", n-toldAda)
	}

	// All of it, and ben has nothing; his session goes on to nowhere, and its stream ends.
	stream, err := ben.Do(t.Context(), http.MethodGet, "")
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatal(err, stream)
	}
	governed(t, p, project("site", grant("ada", "fake", `tools = ["*"]`)), fake)
	hangUp(t, h.Run, taken)
	_, err = io.ReadAll(stream.Body)
	_ = stream.Body.Close()
	if err != nil {
		t.Errorf("the stream of who has nothing: %v", err)
	}
	res, err := ben.Do(t.Context(), http.MethodPost, hosttest.Envelope(99, "tools/list", "{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("ben, who has nothing, gets HTTP %s", res.Status)
	}
	ben.Abandon()
	if log := logged(t, p, "fake"); starts(log) != 1 || len(fakeserver.Method(log, "initialize")) != 1 {
		t.Errorf("the server was started %d times", starts(log))
	}
}

// TestFilesThatChangeMoreAreRefused: whole, with the place, and nothing changes.
func TestFilesThatChangeMoreAreRefused(t *testing.T) {
	p := hosttest.NewPlace(t)
	fake := provider{name: "fake", args: []string{"--tools", "echo,inc"}, body: shared}
	both := project("site", grant("ada", "fake", `tools = ["*"]`), grant("ben", "fake", `tools = ["*"]`))
	fewer := project("site", grant("ada", "fake", `tools = ["*"]`), grant("ben", "fake", `tools = ["echo"]`))
	path := governed(t, p, both, fake)
	h := setting{}.http(t, p, path)
	ben := dialAs(t, h, tokenOfBen)
	want := []string{"fake_echo", "fake_inc"}
	if got := names(t, ben); !slices.Equal(got, want) {
		t.Fatalf("ben sees %v", got)
	}
	withBody, withArgs, another := fake, fake, fake
	withBody.body += "\ndescription = \"another\""
	withArgs.args = append(slices.Clone(fake.args), "--stderr", "hello")
	another.name = "more"
	for name, c := range map[string]struct {
		write func()
		says  []string
	}{
		"a provider's attribute":   {func() { governed(t, p, fewer, withBody) }, []string{"provider.fake.description changed", "providers.hcl:"}},
		"a provider's config":      {func() { governed(t, p, fewer, withArgs) }, []string{`The config of provider "fake" changed`}},
		"a provider more":          {func() { governed(t, p, fewer, fake, another) }, []string{"provider.more is new"}},
		"an attribute of host":     {func() { p.Write(t, "providers.hcl", hostBlock(p, "page_size = 5")+people+fewer+blocks(t, p, fake)) }, []string{"host.page_size changed"}},
		"a mistake":                {func() { governed(t, p, project("site", grant("ada", "fak", `tools = ["*"]`)), fake) }, []string{`Did you mean "fake"?`}},
		"a file that is no longer": {func() { p.Write(t, "providers.hcl", "project {") }, []string{"Error:"}},
	} {
		before := len(h.Said())
		c.write()
		hangUp(t, h.Run, refused)
		for _, says := range c.says {
			if said := h.Said()[before:]; !strings.Contains(said, says) {
				t.Errorf("%s: the host does not say %q:\n%s", name, says, said)
			}
		}
		if got := names(t, ben); !slices.Equal(got, want) {
			t.Errorf("%s: ben sees %v", name, got)
		}
	}
	governed(t, p, fewer, fake)
	hangUp(t, h.Run, taken)
	if got := names(t, ben); !slices.Equal(got, want[:1]) {
		t.Errorf("ben sees %v", got)
	}
	if log := logged(t, p, "fake"); starts(log) != 1 {
		t.Errorf("the server was started %d times", starts(log))
	}
}

// TestProvidersDoNotChangeHands: a server's process that has served one caller is not
// another's to look into, while it runs.
func TestProvidersDoNotChangeHands(t *testing.T) {
	p := hosttest.NewPlace(t)
	fake := provider{name: "fake", args: []string{"--tools", "inc"}}
	to := func(who string) string { return project("site", grant(who, "fake", `tools = ["*"]`)) }
	path := governed(t, p, to("ada"), fake)
	h := setting{}.http(t, p, path)
	governed(t, p, to("ben"), fake) // it is cold: nobody has left anything in it
	hangUp(t, h.Run, taken)
	ben := dialAs(t, h, tokenOfBen)
	hosttest.CallTool(t, ben, "fake_inc", "{}")
	governed(t, p, to("ada"), fake)
	hangUp(t, h.Run, refused)
	if !strings.Contains(h.Said(), `Provider "fake" would change hands`) {
		t.Error("the host does not say why")
	}
	governed(t, p, project("site"), fake) // in two steps neither
	hangUp(t, h.Run, taken)
	governed(t, p, to("ada"), fake)
	hangUp(t, h.Run, refused)
	governed(t, p, to("ben"), fake)
	hangUp(t, h.Run, taken)
	if n := hosttest.CallTool(t, ben, "fake_inc", "{}").Text(); n != "2" {
		t.Errorf("the counter is at %s", n)
	}
}

// TestStdioIsLocal: a client on stdio has what grants name local for, in the project
// that it asked for, and loses it in its session.
func TestStdioIsLocal(t *testing.T) {
	p := hosttest.NewPlace(t)
	fake := provider{name: "fake", args: []string{"--tools", "echo,inc,get"}, body: shared}
	two := func(site string) string {
		return project("site", grant("local", "fake", site)) + project("shop", "  # bare\n", grant("local", "fake", `tools = ["get"]`))
	}
	path := governed(t, p, two(`tools = ["*"]
    except = ["echo"]`), fake)
	if _, errs, code := cli(t, p, "serve", "--stdio", "--config", path); code != 1 || !strings.Contains(errs, "site, shop; say which one with --project") {
		t.Errorf("without --project: exit %d: %s", code, errs)
	}
	if _, errs, code := cli(t, p, "serve", "--stdio", "--project", "other", "--config", path); code != 1 || !strings.Contains(errs, `"other"`) {
		t.Errorf("with another: exit %d: %s", code, errs)
	}
	c := setting{flags: []string{"--project", "site"}}.stdio(t, p, path)
	if got := names(t, c); !slices.Equal(got, []string{"fake_inc", "fake_get"}) {
		t.Errorf("local sees %v in site", got)
	}
	hosttest.CallTool(t, c, "fake_inc", "{}")
	if out, errs, code := cli(t, p, "call", "fake", "get", "--project", "shop", "--config", path); code != 0 || strings.TrimSpace(out) != "1" {
		t.Errorf("exit %d: %q %s", code, out, errs)
	}
	if _, errs, code := cli(t, p, "call", "fake", "inc", "--project", "shop", "--config", path); code != 1 {
		t.Errorf("exit %d: %s", code, errs)
	}
	if _, errs, code := cli(t, p, "call", "fake", "get", "--config", path); code != 1 || !strings.Contains(errs, "--project") {
		t.Errorf("exit %d: %s", code, errs)
	}
	told := len(changes(c))
	governed(t, p, two(`tools = ["get"]`), fake)
	hangUp(t, c.host(), taken)
	eventually(t, "local is told", func() bool { return len(changes(c)) == told+1 })
	if got := names(t, c); !slices.Equal(got, []string{"fake_get"}) {
		t.Errorf("local sees %v in site", got)
	}
	if e := errorOf(t, tool(t, c, "fake_inc", "{}")); e.Data.Outcome != "denied" {
		t.Errorf("%+v", e)
	}
	if n := hosttest.CallTool(t, c, "fake_get", "{}").Text(); n != "1" {
		t.Errorf("the counter is at %s", n)
	}
}

// TestFirstTokenIsVoid: once a principal is declared, the token of the first start
// lets nobody in; before, no other does.
func TestFirstTokenIsVoid(t *testing.T) {
	p := hosttest.NewPlace(t)
	fake := provider{name: "fake", args: []string{"--tools", "echo"}, body: shared}
	path := config(t, p, "", fake)
	h := setting{}.http(t, p, path)
	status := func(token string) int {
		c := hosttest.DialHTTP(h.URL, token)
		defer c.Abandon()
		res, err := c.Do(t.Context(), http.MethodPost, hosttest.Envelope(1, "initialize", hosttest.Initialize))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	if got := []int{status(h.Token), status(tokenOfAda)}; !slices.Equal(got, []int{200, 401}) {
		t.Errorf("before: %v", got)
	}
	governed(t, p, project("site", grant("ada", "fake", `tools = ["*"]`)), fake)
	hangUp(t, h.Run, taken)
	if got := []int{status(h.Token), status(tokenOfAda)}; !slices.Equal(got, []int{401, 200}) {
		t.Errorf("after: %v", got)
	}
}

// TestC077_EachAttemptIsOnRecord: whatever the name of a denied tool is spelled like, and
// whatever the call names (the digest that it has, the process that has it, an id of its
// own), it is as if there were none; and the owner can see who tried.
func TestC077_EachAttemptIsOnRecord(t *testing.T) {
	p := hosttest.NewPlace(t)
	fake := provider{name: "fake", args: []string{"--tools", "echo,pay,get", "--ledger", p.Path("ledger")}, body: shared}
	path := governed(t, p, project("site", grant("ada", "fake", `tools = ["*"]`), grant("ben", "fake", `tools = ["*"]
    except = ["pay"]`)), fake)
	h := setting{}.http(t, p, path)
	ada, ben := dialAs(t, h, tokenOfAda), dialAs(t, h, tokenOfBen)
	digest := ""
	for _, d := range hosttest.Definitions(t, ada) {
		if d.Name == "fake_pay" {
			digest = catalog.DigestTool(hosttest.Rename(t, d.Raw, "pay"))
		}
	}
	if digest == "" {
		t.Fatal("ada does not see the tool")
	}
	if got := names(t, ben); slices.Contains(got, "fake_pay") {
		t.Fatalf("ben sees %v", got)
	}
	instance := awaitStatus(t, p, path, "fake", "ready", isReady).Instances[0].ID
	want, attempts := "", []string{}
	for _, name := range []string{
		"fake_no_such", "fake_pay", "pay", "fake/pay", "fake.pay", "fake-pay", "fake__pay", "FAKE_PAY", "Fake_pay", "fake_PAY", " fake_pay", "fake_pay ",
		"fake_pay\u0000", "fake_pa\u0079\u200b", "fake_ｐay", access.HashOf("pay")[:8], "fake_pay_" + access.HashOf("pay")[:8],
	} {
		for _, meta := range []string{
			"{}", fmt.Sprintf(`{"drawbridge/digest":%q}`, digest), fmt.Sprintf(`{"drawbridge/digest":%q,"drawbridge/instance":%q}`, digest, instance),
			`{"drawbridge/instance":"another/fake/1"}`, `{"drawbridge/call_id":"one","drawbridge/report":true}`,
		} {
			attempts = append(attempts, name)
			r := ben.Request(t, "tools/call", fmt.Sprintf(`{"name":%s,"arguments":{},"_meta":%s}`, encoded(name), meta))
			if r.Error == nil {
				t.Errorf("%q ran: %s", name, r.Result)
				continue
			}
			// The name is the caller's own; nothing else may tell the one from the other.
			var e struct {
				Code    int            `json:"code"`
				Message string         `json:"message"`
				Data    map[string]any `json:"data"`
			}
			if err := json.Unmarshal(r.Error, &e); err != nil || e.Data["tool"] != name {
				t.Errorf("%q: %v: %s", name, err, r.Error)
			}
			delete(e.Data, "tool")
			got := fmt.Sprint(e.Code, strings.ReplaceAll(e.Message, fmt.Sprintf("%q", name), "NAME"), e.Data)
			if want == "" {
				want = got
			}
			if got != want {
				t.Errorf("%q is told from what is not there:\n%s\n%s", name, got, want)
			}
		}
	}
	for _, method := range []string{"Tools/call", "TOOLS/CALL", "tools/call ", "tools//call", "tools/\u0441all", "call"} {
		r := ben.Request(t, method, `{"name":"fake_pay","arguments":{}}`)
		if e := errorOf(t, r); e.Code != -32601 {
			t.Errorf("method %q: %s", method, r.Error)
		}
	}
	if log := logged(t, p, "fake"); len(fakeserver.Method(log, "tools/call")) != 0 {
		t.Errorf("the server got %d calls", len(fakeserver.Method(log, "tools/call")))
	}
	if e := errorOf(t, tool(t, ben, "fake_pay", "{}")); e.Code != -31001 || e.Data.Reason != "unknown_tool" || e.Data.Provider != "" || e.Data.Retry != "never" {
		t.Errorf("%+v", e)
	}
	var recorded []string
	for _, r := range denials(t, p) {
		if r.Principal != "ben" || r.Project != "site" || r.Outcome != "denied" || r.Provider != "" || r.Digest != "" {
			t.Errorf("on record: %+v", r)
		}
		recorded = append(recorded, r.Tool)
	}
	if attempts = append(attempts, "fake_pay"); !slices.Equal(recorded, attempts) {
		t.Errorf("on record are %q, tried was %q", recorded, attempts)
	}
}

// denial is a line of the journal, of a call that was never begun.
type denial struct{ Principal, Project, Provider, Tool, Digest, Outcome, Reason string }

// denials reads them from the files of the journal.
func denials(t testing.TB, p hosttest.Place) []denial {
	t.Helper()
	var out []denial
	for line := range strings.Lines(journalOf(t, p)) {
		var l struct{ Call *denial }
		if json.Unmarshal([]byte(line), &l) == nil && l.Call != nil {
			out = append(out, *l.Call)
		}
	}
	return out
}

// TestC101_PagesAreOfOneRevision: while grants are taken away, pages of two views do
// not mix, and no cursor shows what is not the caller's.
func TestC101_PagesAreOfOneRevision(t *testing.T) {
	p := hosttest.NewPlace(t)
	many := func(name string, n int) provider {
		return provider{name: name, args: []string{"--tools", "none", "--tool-count", fmt.Sprint(n)}, body: shared}
	}
	providers := []provider{many("one", 91), many("two", 91), many("tri", 7)}
	all := grant("ada", "one", `tools = ["*"]`) + grant("ada", "two", `tools = ["*"]`)
	bens := grant("ben", "tri", `tools = ["*"]`) + grant("ben", "one", `tools = ["*"]`) + grant("ben", "two", `tools = ["*"]`)
	write := func(access string) string {
		return p.Write(t, "providers.hcl", hostBlock(p, "page_size = 50")+people+access+blocks(t, p, providers...))
	}
	path := write(project("site", all, bens))
	h := setting{}.http(t, p, path)
	ada, ben := dialAs(t, h, tokenOfAda), dialAs(t, h, tokenOfBen)
	if a, b := len(names(t, ada)), len(names(t, ben)); a != 182 || b != 189 {
		t.Fatalf("ada sees %d, ben %d", a, b)
	}
	page := func(c client, cursor string) (names []string, next string, code int) {
		t.Helper()
		params := "{}"
		if cursor != "" {
			params = fmt.Sprintf(`{"cursor":%s}`, encoded(cursor))
		}
		r := c.Request(t, "tools/list", params)
		if r.Error != nil {
			return nil, "", errorOf(t, r).Code
		}
		var list struct {
			Tools      []struct{ Name string } `json:"tools"`
			NextCursor string                  `json:"nextCursor"`
		}
		if err := json.Unmarshal(r.Result, &list); err != nil {
			t.Fatal(err)
		}
		for _, one := range list.Tools {
			names = append(names, one.Name)
		}
		return names, list.NextCursor, 0
	}
	first, cursor, _ := page(ada, "")
	_, cursorOfBen, _ := page(ben, "")
	write(project("site", grant("ada", "two", `tools = ["*"]`), bens))
	hangUp(t, h.Run, taken)
	second, _, code := page(ada, cursor)
	if code == 0 {
		// Page 1's revision to the end, of which nothing is missing.
		if len(first)+len(second) != 100 || slices.Contains(first, second[0]) {
			t.Errorf("pages of %d and %d tools are of two views", len(first), len(second))
		}
	} else if code != -32602 {
		t.Errorf("the second page: error %d", code)
	}
	for _, foreign := range []string{"garbage", cursorOfBen} {
		if got, _, code := page(ada, foreign); code != -32602 {
			t.Errorf("cursor %q: error %d, and %v", foreign, code, got)
		}
	}
	if got := names(t, ada); len(got) != 91 || strings.HasPrefix(got[0], "one_") {
		t.Errorf("ada sees %d", len(got))
	}
}
