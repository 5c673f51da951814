package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"
)

// fakeVerifier takes one token.
type fakeVerifier struct{ token, principal string }

var errNotTheirs = errors.New("no token of this issuer")

func (v fakeVerifier) Verify(_ context.Context, bearer string) (string, error) {
	if bearer != v.token {
		return "", errNotTheirs
	}
	return v.principal, nil
}

func gateOf(t *testing.T, now *time.Time, spec Spec) (*Gate, string) {
	t.Helper()
	first, err := LoadOrCreateToken(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	g := NewGate(GateOptions{
		Verifier: func(p *Policy) Verifier {
			for _, i := range p.Identities() {
				return fakeVerifier{"ey.olga", i.Principal}
			}
			return fakeVerifier{"ey.olga", "nobody"}
		},
		Now: func() time.Time { return *now },
	}, New(spec))
	g.TakeFirst(first)
	return g, read(t, first.Path())
}

func TestAuthenticate(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	spec := Spec{
		Tokens: []StaticToken{
			{Principal: "ada", SHA256: sha256.Sum256([]byte("token-of-ada"))},
			{Principal: "ben", SHA256: sha256.Sum256([]byte("token-of-ben")), Expires: now.Add(time.Hour)},
			{Principal: "odd", SHA256: sha256.Sum256([]byte("not a b64token"))},
		},
		Projects: []Project{{Name: "site"}},
	}
	g, firstToken := gateOf(t, &now, spec)
	check := func(bearer, principal string, why error) {
		t.Helper()
		got, err := g.Authenticate(t.Context(), bearer)
		if got != principal || !errors.Is(err, why) {
			t.Errorf("%q is of %q: %v", bearer, got, err)
		}
		if err != nil && bearer != "" && strings.Contains(err.Error(), bearer) {
			t.Errorf("the token is in the error: %v", err)
		}
	}
	check("token-of-ada", "ada", nil)
	check("token-of-ben", "ben", nil)
	check("not a b64token", "odd", nil) // what its owner chose is his business
	check("", "", ErrNoToken)
	check("token-of-adb", "", ErrTokenUnknown)
	check("token-of-ada=", "", ErrTokenUnknown)
	check("token of ada", "", ErrTokenSyntax)
	check("tök", "", ErrTokenSyntax)
	check("=", "", ErrTokenSyntax)
	check(firstToken, "", ErrTokenVoid)
	check("ey.olga", "", ErrTokenUnknown) // nobody here is told by an issuer

	now = now.Add(time.Hour)
	check("token-of-ben", "", ErrTokenExpired)
	check("token-of-ada", "ada", nil)

	spec.Identities = []Identity{{Principal: "olga"}}
	g.Swap(New(spec))
	check("ey.olga", "olga", nil)
	check("ey.other", "", errNotTheirs)
	check("token-of-ada", "ada", nil)
	check("token-of-ben", "", ErrTokenExpired)
	check("ey olga", "", ErrTokenSyntax)

	g.Swap(New(Spec{}))
	check(firstToken, Local, nil)
	check("token-of-ada", "", ErrTokenUnknown)
	check("ey.olga", "", ErrTokenUnknown)
}

// TestAuthenticateWithoutAnything: a gate that was given neither a first token nor a
// verifier takes no token it was not told of.
func TestAuthenticateWithoutAnything(t *testing.T) {
	g := NewGate(GateOptions{}, New(Spec{Identities: []Identity{{Principal: "olga"}}, Projects: []Project{{Name: "site"}}}))
	if who, err := g.Authenticate(t.Context(), "ey.olga"); err == nil {
		t.Errorf("let in as %q", who)
	}
	g.Swap(New(Spec{}))
	if who, err := g.Authenticate(t.Context(), "anything"); err == nil {
		t.Errorf("let in as %q", who)
	}
}

// TestSwap: a question is answered from one policy.
func TestSwap(t *testing.T) {
	now := time.Now()
	g, _ := gateOf(t, &now, Spec{})
	before := g.Policy()
	g.Swap(manual())
	if before == g.Policy() || !before.Open() || g.Policy().Open() {
		t.Error("a swap changes the policy that was, or not the one that is")
	}
	if p, ok := g.Project("ben", ""); p != "site" || !ok {
		t.Errorf("%q, %v", p, ok)
	}
}
