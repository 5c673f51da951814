package access

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// clock is a time that a test moves.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time       { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) pass(d time.Duration) { c.ahead.Add(int64(d)) }

const audience = "https://bridge.example/mcp"

// newVerifier makes one that knows three principals of an issuer.
func newVerifier(t *testing.T, i *hosttest.Issuer) (*OIDC, *clock) {
	t.Helper()
	c := new(clock)
	o := NewOIDC(slog.New(slog.DiscardHandler))
	o.now = c.now
	o.Apply([]Rule{
		{"ann", i.URL, audience, "sub", "a1"},
		{"bob", i.URL, audience, "sub", "b2"},
		{"admins", i.URL, "other-audience", "groups", "admin"},
	})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return o, c
}

func TestTokensOfAnIssuerAreThoseOfPrincipals(t *testing.T) {
	for _, key := range []hosttest.SigningKey{hosttest.RSAKey(t, "r"), hosttest.ECKey(t, "e"), hosttest.ECKey(t, "")} {
		i := hosttest.NewIssuer(t, key)
		o, _ := newVerifier(t, i)
		for want, claims := range map[string]map[string]any{
			"ann":    {"sub": "a1", "aud": audience},
			"bob":    {"sub": "b2", "aud": []string{"elsewhere", audience}},
			"admins": {"sub": "c3", "aud": "other-audience", "groups": []any{7, "staff", "admin"}},
		} {
			if got, err := o.Verify(t.Context(), i.Token(t, claims)); got != want || err != nil {
				t.Errorf("%s: %q, %v; want %s", key.Algorithm, got, err, want)
			}
		}
		if n := i.Looks(); n != 1 {
			t.Errorf("%d looks at the keys, want 1", n)
		}
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	shown, foreign := hosttest.RSAKey(t, "shown"), hosttest.RSAKey(t, "shown")
	i := hosttest.NewIssuer(t, shown)
	other := hosttest.NewIssuer(t, foreign)
	o, _ := newVerifier(t, i)
	good := map[string]any{"sub": "a1", "aud": audience}
	with := func(name string, value any) map[string]any {
		out := map[string]any{name: value}
		for k, v := range good {
			if k != name {
				out[k] = v
			}
		}
		return out
	}
	token := i.Token(t, good)
	part := strings.Split(token, ".")
	now := time.Now()
	for name, c := range map[string]struct {
		token string
		want  error
	}{
		"expired":                      {i.Token(t, with("exp", now.Add(-time.Second).Unix())), ErrExpired},
		"without an end":               {i.Token(t, with("exp", nil)), ErrExpired},
		"an end that is no time":       {i.Token(t, with("exp", "never")), ErrNotJWT},
		"begins later":                 {i.Token(t, with("nbf", now.Add(2*skew).Unix())), ErrNotYet},
		"for another audience":         {i.Token(t, with("aud", "https://elsewhere.example")), ErrAudience},
		"for one that begins like it":  {i.Token(t, with("aud", audience+"/")), ErrAudience},
		"for nobody":                   {i.Token(t, with("aud", nil)), ErrAudience},
		"of nobody known":              {i.Token(t, with("sub", "z9")), ErrNobody},
		"of somebody in other letters": {i.Token(t, with("sub", "A1")), ErrNobody},
		"of a number":                  {i.Token(t, with("sub", 1)), ErrNotJWT},
		"another's claim":              {i.Token(t, map[string]any{"aud": audience, "groups": "admin"}), ErrNobody},
		"in another audience":          {i.Token(t, map[string]any{"aud": "other-audience", "sub": "a1"}), ErrNobody},
		"by another issuer":            {other.Token(t, good), ErrIssuer},
		"in the issuer's name":         {other.Token(t, with("iss", i.URL)), ErrSignature},
		"without an issuer":            {i.Token(t, with("iss", nil)), ErrIssuer},
		"an issuer with a slash":       {i.Token(t, with("iss", i.URL+"/")), ErrIssuer},
		"claims changed":               {part[0] + "." + strings.Split(i.Token(t, with("sub", "b2")), ".")[1] + "." + part[2], ErrSignature},
		"signature cut off":            {part[0] + "." + part[1] + ".", ErrSignature},
		"no algorithm":                 {unsigned(good, i.URL), ErrAlgorithm},
		"a secret that is public":      {confused(t, part, shown), ErrAlgorithm},
		"no token":                     {"nonsense", ErrNotJWT},
		"two parts":                    {part[0] + "." + part[1], ErrNotJWT},
		"four parts":                   {token + ".x", ErrNotJWT},
		"as JSON":                      {fmt.Sprintf(`{"protected":%q,"payload":%q,"signature":%q}`, part[0], part[1], part[2]), ErrNotJWT},
		"claims that are none":         {hosttest.Sign(t, shown, "[]"), ErrNotJWT},
		"a claim twice":                {hosttest.Sign(t, shown, `{"iss":"`+i.URL+`","sub":"a1","sub":"b2","aud":"`+audience+`","exp":4102444800}`), ErrNotJWT},
		"a claim in capitals":          {hosttest.Sign(t, shown, `{"iss":"`+i.URL+`","SUB":"a1","AUD":"`+audience+`","exp":4102444800}`), ErrAudience},
		"too long":                     {i.Token(t, with("x", strings.Repeat("x", maxJWT))), ErrNotJWT},
		"empty":                        {"", ErrNotJWT},
	} {
		got, err := o.Verify(t.Context(), c.token)
		if got != "" || !errors.Is(err, c.want) {
			t.Errorf("%s: %q, %v; want %v", name, got, err, c.want)
		}
		if err == nil {
			continue
		}
		for _, secret := range append(strings.Split(c.token, "."), "a1", "z9") {
			if len(secret) > 1 && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the reason %q has %q of the token", name, err, secret)
			}
		}
	}
	if got, err := o.Verify(t.Context(), i.Token(t, with("nbf", now.Add(skew/2).Unix()))); got != "ann" {
		t.Errorf("an issuer whose clock is ahead: %q, %v", got, err)
	}
}

// unsigned is a token of the algorithm "none".
func unsigned(claims map[string]any, issuer string) string {
	text := fmt.Sprintf(`{"iss":%q,"sub":%q,"aud":%q,"exp":4102444800}`, issuer, claims["sub"], claims["aud"])
	return encode64(`{"alg":"none","typ":"JWT"}`) + "." + encode64(text) + "."
}

// confused is a token signed with the public key as a shared secret.
func confused(t *testing.T, part []string, key hosttest.SigningKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Key.Public())
	if err != nil {
		t.Fatal(err)
	}
	text := encode64(`{"alg":"HS256","kid":"shown","typ":"JWT"}`) + "." + part[1]
	mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	mac.Write([]byte(text))
	return text + "." + encode64(string(mac.Sum(nil)))
}

func encode64(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func TestATokenOfSeveralPrincipalsIsNobodys(t *testing.T) {
	i := hosttest.NewIssuer(t, hosttest.ECKey(t, "e"))
	o, _ := newVerifier(t, i)
	o.Apply([]Rule{{"one", i.URL, "a", "sub", "x"}, {"two", i.URL, "a", "groups", "g"}, {"one", i.URL, "a", "groups", "h"}})
	if _, err := o.Verify(t.Context(), i.Token(t, map[string]any{"aud": "a", "sub": "x", "groups": []string{"g"}})); !errors.Is(err, ErrSeveral) {
		t.Errorf("two principals: %v", err)
	}
	if got, err := o.Verify(t.Context(), i.Token(t, map[string]any{"aud": "a", "sub": "x", "groups": []string{"h"}})); got != "one" {
		t.Errorf("one of two rules: %q, %v", got, err)
	}
}

// TestNamesOfKeysCostNoFetches that anyone can make up: the issuer is asked once in a
// while, whatever tokens come, and the tokens of others are not held up.
func TestNamesOfKeysCostNoFetches(t *testing.T) {
	key := hosttest.ECKey(t, "first")
	i := hosttest.NewIssuer(t, key)
	o, c := newVerifier(t, i)
	good := map[string]any{"sub": "a1", "aud": audience}
	if _, err := o.Verify(t.Context(), i.Token(t, good)); err != nil {
		t.Fatal(err)
	}
	looks := i.Looks()
	for n := range 50 {
		stranger := hosttest.ECKey(t, fmt.Sprintf("key-%d", n))
		if _, err := o.Verify(t.Context(), i.TokenBy(t, stranger, good)); !errors.Is(err, ErrSignature) {
			t.Errorf("a key that is not shown: %v", err)
		}
		forged := hosttest.ECKey(t, "first")
		if _, err := o.Verify(t.Context(), i.TokenBy(t, forged, good)); !errors.Is(err, ErrSignature) {
			t.Errorf("a forged token: %v", err)
		}
	}
	if n := i.Looks(); n != looks {
		t.Errorf("made-up keys cost %d looks, want none so soon", n-looks)
	}
	// A key that is new is found, though not at once.
	second := hosttest.ECKey(t, "second")
	i.Show(second, key)
	c.pass(askAgain)
	if got, err := o.Verify(t.Context(), i.Token(t, good)); got != "ann" {
		t.Errorf("a new key: %q, %v", got, err)
	}
	// One that is withdrawn ceases to be taken.
	i.Show(second)
	c.pass(keysFresh)
	withdrawn := func() error {
		_, err := o.Verify(t.Context(), i.TokenBy(t, key, map[string]any{"sub": "a1", "aud": audience, "exp": 4102444800}))
		return err
	}
	if err := withdrawn(); !errors.Is(err, ErrSignature) {
		t.Errorf("a key that was withdrawn: %v", err)
	}
}

func TestAnIssuerThatIsDown(t *testing.T) {
	key := hosttest.ECKey(t, "e")
	i := hosttest.NewIssuer(t, key)
	o, c := newVerifier(t, i)
	down := func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, strings.Repeat("maintenance ", 1<<10), http.StatusBadGateway)
		return true
	}
	good := func() string {
		return i.Token(t, map[string]any{"sub": "a1", "aud": audience, "exp": 4102444800})
	}
	i.Answer(down)
	_, err := o.Verify(t.Context(), good())
	var later interface{ Temporary() bool }
	if !errors.As(err, &later) || !later.Temporary() || !strings.Contains(err.Error(), i.URL) || len(err.Error()) > 500 {
		t.Errorf("an issuer that is down: %v", err)
	}
	i.Answer(nil)
	if _, err := o.Verify(t.Context(), good()); !errors.As(err, &later) {
		t.Errorf("it was asked again at once: %v", err)
	}
	c.pass(retryDown)
	if got, err := o.Verify(t.Context(), good()); got != "ann" {
		t.Errorf("it is up: %q, %v", got, err)
	}
	// Down again: what is known will do for a day.
	i.Answer(down)
	c.pass(keysStale - time.Second)
	if got, err := o.Verify(t.Context(), good()); got != "ann" {
		t.Errorf("keys that are hours old: %q, %v", got, err)
	}
	c.pass(time.Hour)
	if _, err := o.Verify(t.Context(), good()); !errors.As(err, &later) {
		t.Errorf("keys that are too old: %v", err)
	}
}

func TestAnIssuerIsAskedOnceForAll(t *testing.T) {
	i := hosttest.NewIssuer(t, hosttest.ECKey(t, "e"))
	o, _ := newVerifier(t, i)
	token := i.Token(t, map[string]any{"sub": "a1", "aud": audience})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got, err := o.Verify(t.Context(), token); got != "ann" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	all.Wait()
	if n := i.Looks(); n != 1 {
		t.Errorf("%d looks for 20 at once, want 1", n)
	}
	// One that hangs up takes nothing from the others; nor do new rules.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	o.Apply([]Rule{{"eve", i.URL, audience, "sub", "a1"}})
	if got, err := o.Verify(gone, token); got != "eve" || i.Looks() != 1 {
		t.Errorf("after new rules: %q, %v, %d looks", got, err, i.Looks())
	}
	o.Apply(nil)
	if _, err := o.Verify(t.Context(), token); !errors.Is(err, ErrIssuer) || len(o.Issuers()) != 0 {
		t.Errorf("without rules: %v, issuers %v", err, o.Issuers())
	}
}

func TestWhatAnIssuerMayNotAnswer(t *testing.T) {
	i := hosttest.NewIssuer(t, hosttest.ECKey(t, "e"))
	document := func(issuer, keys string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/keys" {
				fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, issuer, keys)
			}
			return r.URL.Path != "/keys"
		}
	}
	keys := func(text string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/keys" {
				_, _ = w.Write([]byte(text))
			}
			return r.URL.Path == "/keys"
		}
	}
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"another's name":     document("https://other.example", i.URL+"/keys"),
		"keys without https": document(i.URL, "http://keys.example/keys"),
		"keys in a file":     document(i.URL, "file:///etc/passwd"),
		"no keys":            document(i.URL, ""),
		"a redirect to anywhere": func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "http://keys.example/", http.StatusFound)
			return true
		},
		"redirects without end": func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
			return true
		},
		"too much":           keys(`{"keys":[` + strings.Repeat(" ", maxDocument) + `]}`),
		"a secret for a key": keys(`{"keys":[{"kty":"oct","kid":"e","k":"c2VjcmV0"}]}`),
		"none":               keys(`{"keys":[]}`),
		"no JSON":            keys(`<html>`),
	} {
		i.Answer(answer)
		o, _ := newVerifier(t, i)
		var later interface{ Temporary() bool }
		if got, err := o.Verify(t.Context(), i.Token(t, map[string]any{"sub": "a1", "aud": audience})); got != "" || !errors.As(err, &later) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for address, want := range map[string]bool{
		"https://login.example": true, "http://login.example": false, "http://127.0.0.1:8080/realm": true, "http://[::1]:80": true,
		"http://localhost": true, "http://localhost.evil.example": false, "ftp://login.example": false,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := safe(req.URL) == nil; got != want {
			t.Errorf("%s is safe: %v, want %v", address, got, want)
		}
	}
}

func FuzzJWT(f *testing.F) {
	f.Add(encode64(`{"alg":"RS256"}`) + "." + encode64(`{"iss":"x","aud":["a"],"exp":1e400}`) + "." + encode64("x"))
	f.Add("..")
	o := NewOIDC(slog.New(slog.DiscardHandler))
	o.Apply([]Rule{{"one", "http://127.0.0.1:1", "a", "sub", "x"}})
	f.Fuzz(func(t *testing.T, token string) {
		if strings.Contains(token, encode64("127.0.0.1")) {
			t.Skip("it would be looked for")
		}
		if got, err := o.Verify(context.Background(), token); err == nil {
			t.Errorf("%q is %s", token, got)
		}
	})
}
