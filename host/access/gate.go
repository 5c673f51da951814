package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"time"
)

// Why a bearer token lets nobody in. This is for the log: whoever presented it is
// told no more than that it is not taken.
var (
	// ErrNoToken: none was presented.
	ErrNoToken = errors.New("no bearer token")
	// ErrTokenSyntax: it has characters that no bearer token has (RFC 6750, section 2.1).
	ErrTokenSyntax = errors.New("malformed bearer token")
	// ErrTokenUnknown: it is nobody's.
	ErrTokenUnknown = errors.New("unknown bearer token")
	// ErrTokenExpired: its time is over.
	ErrTokenExpired = errors.New("bearer token expired")
	// ErrTokenVoid: it is the one of the first start, and principals are declared.
	ErrTokenVoid = errors.New("the token of the first start is void once a principal is declared")
)

// Verifier tells whose token of an identity provider this is.
type Verifier interface {
	Verify(ctx context.Context, bearer string) (principal string, err error)
}

// GateOptions is what a Gate is made of.
type GateOptions struct {
	// Verifier makes what verifies the tokens of a policy's identities. It hears of each
	// policy, also of one that has none. Nil: nobody verifies any, and no such token is
	// taken.
	Verifier func(*Policy) Verifier
	// Now is the clock; nil for the system's.
	Now func() time.Time
}

// Gate tells who calls, and holds the policy in force. Its methods may be called
// concurrently, and never wait for one another but Swap for Swap.
type Gate struct {
	opts  GateOptions
	swaps sync.Mutex
	state atomic.Pointer[gateState]
	first atomic.Pointer[Token]
}

// gateState is swapped whole, so that no token is judged by halves of two policies.
type gateState struct {
	policy   *Policy
	verifier Verifier
}

// NewGate makes a gate with a policy in force.
func NewGate(opts GateOptions, p *Policy) *Gate {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	g := &Gate{opts: opts}
	g.Swap(p)
	return g
}

// Policy is the policy in force.
func (g *Gate) Policy() *Policy { return g.state.Load().policy }

// Swap puts another policy in force. Who calls from then on is judged by it.
func (g *Gate) Swap(p *Policy) {
	g.swaps.Lock()
	defer g.swaps.Unlock()
	next := &gateState{policy: p}
	if g.opts.Verifier != nil {
		next.verifier = g.opts.Verifier(p)
	}
	if len(p.Identities()) == 0 {
		next.verifier = nil
	}
	g.state.Store(next)
}

// TakeFirst has the token of the first start taken while no principal is declared.
func (g *Gate) TakeFirst(t *Token) { g.first.Store(t) }

// Project is Policy.Project of the policy in force.
func (g *Gate) Project(principal, asked string) (project string, ok bool) {
	return g.Policy().Project(principal, asked)
}

// tokenSyntax is b64token of RFC 6750, section 2.1.
var tokenSyntax = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// Authenticate says whose bearer token this is. An error says why it is nobody's,
// for the log alone, and holds nothing of the token.
func (g *Gate) Authenticate(ctx context.Context, bearer string) (principal string, err error) {
	if bearer == "" {
		return "", ErrNoToken
	}
	s := g.state.Load()
	if t, ok := staticOf(s.policy.Tokens(), bearer); ok {
		if !t.Expires.IsZero() && !g.opts.Now().Before(t.Expires) {
			return "", fmt.Errorf("%w: that of %q, on %s", ErrTokenExpired, t.Principal, t.Expires.Format(time.RFC3339))
		}
		return t.Principal, nil
	}
	if first := g.first.Load(); first != nil {
		switch principal, ok := first.Check(bearer); {
		case ok && s.policy.Open():
			return principal, nil
		case ok:
			return "", ErrTokenVoid
		}
	}
	switch {
	case !tokenSyntax.MatchString(bearer):
		return "", ErrTokenSyntax
	case s.verifier != nil:
		return s.verifier.Verify(ctx, bearer)
	}
	return "", ErrTokenUnknown
}

// staticOf finds the token that was presented. It compares hashes, each in the
// same time whatever is in it, and all of them.
func staticOf(tokens []StaticToken, bearer string) (found StaticToken, ok bool) {
	hash := sha256.Sum256([]byte(bearer))
	for _, t := range tokens {
		if subtle.ConstantTimeCompare(hash[:], t.SHA256[:]) == 1 {
			found, ok = t, true
		}
	}
	return found, ok
}
