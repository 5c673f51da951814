package crossing

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// twoOfOneProvider starts a host on which ann may call five tools of fake and ben two,
// each with a token that is its name.
func twoOfOneProvider(t *testing.T) (hosttest.Place, hosttest.Host) {
	t.Helper()
	p := hosttest.NewPlace(t)
	grant := func(who, tools, more string) string {
		return fmt.Sprintf("  grant {\n    principals = [%q]\n    provider = \"fake\"\n    tools = %s\n%s  }\n", who, tools, more)
	}
	text := hostBlock(p, "") +
		blocks(t, p, provider{name: "fake", args: []string{"--ledger", p.Path("ledger")}, body: "  session {\n    scope = \"shared\"\n  }\n"}) +
		principal("ann", tokenAttribute("ann")) + principal("ben", tokenAttribute("ben")) +
		"project \"site\" {\n" + grant("ann", `["echo", "inc", "get", "pay", "whoami"]`, "") + grant("ben", `["echo", "p*", "progress"]`, "    except = [\"pay\"]\n") + "}\n"
	return p, p.ServeHTTP(t, p.Write(t, "providers.hcl", text))
}

// TestC077_HiddenToolsOverHTTP: what a principal is not granted does not run under any
// spelling, and is refused as what does not exist. (That each attempt is on record is
// shown with the journal.)
func TestC077_HiddenToolsOverHTTP(t *testing.T) {
	p, h := twoOfOneProvider(t)
	ann, ben := hosttest.DialHTTP(h.URL, "ann"), hosttest.DialHTTP(h.URL, "ben")
	hosttest.Open(t, ann)
	hosttest.Open(t, ben)
	if got := names(t, ann); !slices.Contains(got, "fake_pay") {
		t.Fatalf("ann lists %v", got)
	}
	refusal := func(c *hosttest.HTTP, name string) string {
		t.Helper()
		r := tool(t, c, name, `{"to":"ben"}`)
		if r.Error == nil {
			t.Errorf("%q: %s", name, r.Raw)
		}
		inMessage := encoded(fmt.Sprintf("%q", name)) // a quote of a quote
		return strings.NewReplacer(encoded(name), `"NAME"`, inMessage[1:len(inMessage)-1], "NAME").Replace(string(r.Error))
	}
	want := refusal(ben, "fake_none")
	for _, name := range []string{"fake_pay", "pay", "fake/pay", "fake.pay", "fake-pay", "FAKE_PAY", "fake_Pay", "fake_pay ", " fake_pay", "fake_pay\x00", "fake__pay", "site_fake_pay"} {
		if got := refusal(ben, name); got != want {
			t.Errorf("%q is refused with\n%s\nand what does not exist with\n%s", name, got, want)
		}
	}
	if got := received(t, p, "fake"); len(got) != 0 {
		t.Errorf("the server received %v", got)
	}
	if text, err := os.ReadFile(p.Path("ledger")); err == nil {
		t.Errorf("the ledger: %s", text)
	}
	if r := tool(t, ann, "fake_pay", `{"to":"ann"}`); r.Error != nil {
		t.Errorf("ann pays: %s", r.Error)
	}
}

// TestC078_TwoPrincipalsOverHTTP: each is shown what it may call, and nothing else is
// told from what does not exist.
func TestC078_TwoPrincipalsOverHTTP(t *testing.T) {
	_, h := twoOfOneProvider(t)
	for who, want := range map[string][]string{
		"ann": {"fake_echo", "fake_get", "fake_inc", "fake_pay", "fake_whoami"},
		"ben": {"fake_echo", "fake_progress"},
	} {
		c := hosttest.DialHTTP(h.URL, who)
		hosttest.Open(t, c)
		got := names(t, c)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s lists %v, want %v", who, got, want)
		}
		for _, name := range want {
			if r := tool(t, c, name, `{}`); r.Error != nil {
				t.Errorf("%s calls %s, which it is shown: %s", who, name, r.Error)
			}
		}
	}
	ben := hosttest.DialHTTP(h.URL, "ben")
	hosttest.Open(t, ben)
	hidden, none := tool(t, ben, "fake_inc", `{}`), tool(t, ben, "fake_zzz", `{}`)
	if a, b := strings.ReplaceAll(string(hidden.Error), "fake_inc", "X"), strings.ReplaceAll(string(none.Error), "fake_zzz", "X"); a != b || hidden.Error == nil {
		t.Errorf("a hidden tool is refused with\n%s\nand one that does not exist with\n%s", a, b)
	}
}

// TestTokensOfPrincipalsThatAreRefused: 401 and one answer, whatever is wrong; what it was
// is in the log, and nothing of a token.
func TestTokensOfPrincipalsThatAreRefused(t *testing.T) {
	const good, lapsed = "token-of-ada", "token-of-eve"
	p := hosttest.NewPlace(t)
	h := p.ServeHTTP(t, p.Write(t, "providers.hcl", hostBlock(p, "")+
		blocks(t, p, provider{name: "fake", args: []string{"--tools", "echo"}, body: "session {\n  scope = \"shared\"\n}"})+
		principal("ada", tokenAttribute(good))+principal("eve", tokenAttribute(lapsed)+"\n  expires = \"2020-01-01T00:00:00Z\"")+
		"project \"site\" {\n  grant {\n    principals = [\"ada\", \"eve\"]\n    provider = \"fake\"\n    tools = [\"*\"]\n  }\n}\n"))
	ask := func(token string) (status int, text string) {
		t.Helper()
		c := hosttest.DialHTTP(h.URL, token)
		defer c.Abandon()
		res, err := c.Do(t.Context(), http.MethodPost, hosttest.Envelope(1, "initialize", hosttest.Initialize))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, fmt.Sprint(string(body), res.Header.Get("Www-Authenticate"))
	}
	if status, text := ask(good); status != http.StatusOK {
		t.Fatalf("ada: %d %s", status, text)
	}
	_, want := ask("nobodys-token")
	for token, why := range map[string]string{
		"nobodys-token": access.ErrTokenUnknown.Error(), lapsed: access.ErrTokenExpired.Error(), "a(token}of,no[form": access.ErrTokenSyntax.Error(),
		good + "x": access.ErrTokenUnknown.Error(), good[1:]: access.ErrTokenUnknown.Error(), strings.ToUpper(good): access.ErrTokenUnknown.Error(),
		access.HashOf(good): access.ErrTokenUnknown.Error(),
	} {
		status, text := ask(token)
		if status != http.StatusUnauthorized || text != want {
			t.Errorf("%q: %d %q, want 401 %q", token, status, text, want)
		}
		if strings.Contains(text, why) {
			t.Errorf("%q: the answer says why: %s", token, text)
		}
		eventually(t, "the log says of a token: "+why, func() bool { return strings.Contains(h.Said(), why) })
		if strings.Contains(h.Said(), token) {
			t.Errorf("the log has the token %q", token)
		}
	}
}
