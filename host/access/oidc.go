package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Why the bearer of an issuer's token is nobody. They hold nothing of the token.
var (
	ErrNotJWT       = errors.New("the token is neither one of the host's own nor a JWT of one signature and distinct claims")
	ErrAlgorithm    = errors.New("the token is signed by an algorithm that is not taken: it must be one with a public key")
	ErrIssuer       = errors.New("the token names no issuer that a principal names")
	ErrSignature    = errors.New("the token's signature is not its issuer's")
	ErrExpired      = errors.New("the token has expired, or does not say when it will")
	ErrNotYet       = errors.New("the token is not valid yet")
	ErrAudience     = errors.New("the token is for another audience")
	ErrNobody       = errors.New("the token is its issuer's, and its claims are no principal's")
	ErrSeveral      = errors.New("the token's claims are those of several principals")
	errTokenTooLong = fmt.Errorf("%w: it is longer than %d bytes", ErrNotJWT, maxJWT)
)

const (
	// maxJWT bounds what is parsed of a token that is not yet known to be anyone's.
	// Those of directories that put every group of a user into it have some KiB.
	maxJWT = 32 << 10
	// skew is by how much an issuer's clock may be ahead of ours: a token may begin
	// that much later. An end is an end: who is told earlier by our clock gets a
	// new one.
	skew = time.Minute
)

// signing are the algorithms that are taken: those of a public key, for everyone has
// what the others verify with.
var signing = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// Rule makes the bearer of an issuer's token a principal: one that is meant for
// Audience and whose Claim is Value, or is a list with Value in it.
type Rule struct{ Principal, Issuer, Audience, Claim, Value string }

// OIDC verifies tokens of OpenID Connect issuers, whose keys it finds by discovery
// when the first of their tokens comes. It is safe for concurrent use, and starts no
// goroutine: who needs keys fetches them.
type OIDC struct {
	log   *slog.Logger
	now   func() time.Time
	known atomic.Pointer[trusted]
	apply sync.Mutex
}

// trusted is what OIDC goes by at one time; it does not change.
type trusted struct {
	rules   map[string][]Rule // by issuer
	issuers map[string]*issuer
	names   []string // of the issuers, in order
}

// NewOIDC returns a verifier that knows no issuer.
func NewOIDC(log *slog.Logger) *OIDC {
	o := &OIDC{log: log, now: time.Now}
	o.known.Store(&trusted{})
	return o
}

// Apply replaces the rules. The keys of issuers that remain are kept.
func (o *OIDC) Apply(rules []Rule) {
	o.apply.Lock()
	defer o.apply.Unlock()
	before := o.known.Load()
	next := &trusted{rules: make(map[string][]Rule), issuers: make(map[string]*issuer)}
	for _, r := range rules {
		next.rules[r.Issuer] = append(next.rules[r.Issuer], r)
		if next.issuers[r.Issuer] != nil {
			continue
		}
		one := before.issuers[r.Issuer]
		if one == nil {
			one = newIssuer(r.Issuer, o.log, o.now)
		}
		next.issuers[r.Issuer] = one
		next.names = append(next.names, r.Issuer)
	}
	slices.Sort(next.names)
	o.known.Store(next)
}

// Issuers are whose tokens are taken, in order. The caller does not change the slice.
func (o *OIDC) Issuers() []string { return o.known.Load().names }

// claims are what a token says, by exact names of which none stands twice: what is
// read here must be what its issuer meant.
type claims map[string]jsontext.Value

// issuer is who a token says that it is by, "" for nobody.
func (c claims) issuer() string {
	if all := texts(c["iss"]); len(all) == 1 && c["iss"].Kind() == '"' {
		return all[0]
	}
	return ""
}

// time is a claim that is one, in seconds since 1970; there says whether it is given.
func (c claims) time(name string) (seconds float64, there bool, err error) {
	raw, there := c[name]
	if there && raw.Kind() != '0' {
		return 0, true, ErrNotJWT
	}
	if there && json.Unmarshal(raw, &seconds) != nil {
		return 0, true, ErrNotJWT
	}
	return seconds, there, nil
}

// current says why a token is not in force at a time.
func (c claims) current(at time.Time) error {
	now := float64(at.UnixMilli()) / 1000
	end, there, err := c.time("exp")
	if err != nil {
		return err
	}
	if !there || now >= end {
		return ErrExpired
	}
	begin, there, err := c.time("nbf")
	if err != nil {
		return err
	}
	if there && now+skew.Seconds() < begin {
		return ErrNotYet
	}
	return nil
}

// Verify says whose token this is. It implements Verifier.
func (o *OIDC) Verify(ctx context.Context, bearer string) (principal string, err error) {
	known := o.known.Load()
	c, err := parseClaims(bearer)
	if err != nil {
		return "", err
	}
	from := known.issuers[c.issuer()]
	if from == nil {
		return "", ErrIssuer
	}
	// The claims are its issuer's word from here on. What else is checked depends on
	// the rules, and on our idea of the time.
	signature := &question{of: from}
	verifier := oidc.NewVerifier(from.url, signature, &oidc.Config{
		SupportedSigningAlgs: algorithms, SkipClientIDCheck: true, SkipExpiryCheck: true,
	})
	if _, err := verifier.Verify(ctx, bearer); signature.err != nil {
		return "", signature.err
	} else if err != nil {
		return "", ErrNotJWT // signed, and of a form that OpenID Connect has not
	}
	if err := c.current(o.now()); err != nil {
		return "", err
	}
	return c.principal(known.rules[from.url])
}

// question asks an issuer whether it has signed a token. It keeps the answer, for
// go-oidc passes on no more than its text. It implements oidc.KeySet.
type question struct {
	of  *issuer
	err error
}

func (q *question) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	var payload []byte
	payload, q.err = q.of.verify(ctx, jwt)
	return payload, q.err
}

// algorithms is signing, as go-oidc has it.
var algorithms = func() (out []string) {
	for _, a := range signing {
		out = append(out, string(a))
	}
	return out
}()

// parseClaims reads a token that is not verified yet.
func parseClaims(bearer string) (claims, error) {
	if len(bearer) > maxJWT {
		return nil, errTokenTooLong
	}
	jws, err := jose.ParseSignedCompact(bearer, signing)
	var algorithm *jose.ErrUnexpectedSignatureAlgorithm
	switch {
	case errors.As(err, &algorithm):
		return nil, ErrAlgorithm
	case err != nil || len(jws.Signatures) != 1:
		return nil, ErrNotJWT
	}
	var c claims
	if err := json.Unmarshal(jws.UnsafePayloadWithoutVerification(), &c); err != nil {
		return nil, ErrNotJWT
	}
	return c, nil
}

// principal is the one whose rule the claims meet.
func (c claims) principal(rules []Rule) (string, error) {
	audience := texts(c["aud"])
	found, meant := "", false
	for _, r := range rules {
		if !slices.Contains(audience, r.Audience) {
			continue
		}
		meant = true
		if !slices.Contains(texts(c[r.Claim]), r.Value) || r.Principal == found {
			continue
		}
		if found != "" {
			return "", fmt.Errorf("%w: %s and %s", ErrSeveral, found, r.Principal)
		}
		found = r.Principal
	}
	switch {
	case !meant:
		return "", ErrAudience
	case found == "":
		return "", ErrNobody
	}
	return found, nil
}

// texts are the strings of a claim that is one or a list. What else it may be says
// nothing here.
func texts(v jsontext.Value) []string {
	switch v.Kind() {
	case '"':
		var one string
		if json.Unmarshal(v, &one) == nil {
			return []string{one}
		}
	case '[':
		var all []jsontext.Value
		if json.Unmarshal(v, &all) != nil {
			return nil
		}
		var out []string
		for _, each := range all {
			if each.Kind() == '"' {
				out = append(out, texts(each)...)
			}
		}
		return out
	}
	return nil
}

// unavailable is the error of a token of which it cannot be told now whose it is.
type unavailable struct{ error }

// Temporary says that it may be another time.
func (unavailable) Temporary() bool { return true }

func (u unavailable) Unwrap() error { return u.error }

// short is an error's text, of which another machine may have written most.
func short(err error) string {
	const most = 200
	text := strings.ToValidUTF8(err.Error(), "")
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
