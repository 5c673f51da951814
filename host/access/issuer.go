package access

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

const (
	// fetchTimeout bounds one look at an issuer; the request whose token needs the
	// keys waits for it.
	fetchTimeout = 5 * time.Second
	// keysFresh is for how long keys are used before they are fetched again, which is
	// when a key that the issuer has withdrawn ceases to be taken. With an issuer that
	// cannot be reached, they are used until they are keysStale old.
	keysFresh = time.Hour
	keysStale = 24 * time.Hour
	// askAgain is how long after a look the next may be, whatever names of keys tokens
	// bring: anyone can write one. An issuer that could not be reached is asked
	// earlier.
	askAgain  = 30 * time.Second
	retryDown = 5 * time.Second
	// maxDocument bounds what an issuer may answer with.
	maxDocument  = 1 << 20
	maxRedirects = 3
)

// errPlain is an address at which anyone in between could put keys of his own.
var errPlain = errors.New("keys come over https only, or over http from this machine")

// errNoKey is a signature by a key that is not among those known. Another look at the
// issuer may bring it.
var errNoKey = fmt.Errorf("%w: it is by a key that the issuer does not show", ErrSignature)

// issuer has the keys of one issuer.
type issuer struct {
	url    string
	log    *slog.Logger
	now    func() time.Time
	client *http.Client
	keys   atomic.Pointer[keySet]

	// turn holds one token: who has it may look at the issuer, and use what follows.
	turn   chan struct{}
	next   time.Time // before which there is no other look
	failed error     // of the last look
}

// keySet are the keys of one look at an issuer.
type keySet struct {
	keys []jose.JSONWebKey
	at   time.Time
}

func newIssuer(address string, log *slog.Logger, now func() time.Time) *issuer {
	i := &issuer{url: address, log: log, now: now, turn: make(chan struct{}, 1)}
	i.client = &http.Client{
		Transport: bounded{http.DefaultTransport},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return fmt.Errorf("more than %d redirects", maxRedirects)
			}
			return safe(req.URL)
		},
	}
	return i
}

// bounded is a transport whose responses end with an error where they are too large.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = http.MaxBytesReader(nil, res.Body, maxDocument)
	}
	return res, err
}

// safe says whether what comes from an address is what stands there.
func safe(u *url.URL) error {
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if u.Scheme == "https" || u.Scheme == "http" && local {
		return nil
	}
	return errPlain
}

// verify returns a token's claims if a key of the issuer has signed them.
func (i *issuer) verify(ctx context.Context, jwt string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(jwt, signing)
	if err != nil {
		return nil, ErrNotJWT
	}
	have := i.keys.Load()
	age := keysStale
	if have != nil {
		age = i.now().Sub(have.at)
	}
	if age < keysStale {
		if age >= keysFresh {
			have = i.refresh(ctx, have)
		}
		if payload, err := have.verify(jws); !errors.Is(err, errNoKey) {
			return payload, err
		}
	}
	if have, err = i.fetch(ctx, have); err != nil {
		return nil, err
	}
	return have.verify(jws)
}

// verify tries the key that a token names; all where it names none. What a named key
// does not verify is forged, and worth no look at the issuer.
func (s *keySet) verify(jws *jose.JSONWebSignature) ([]byte, error) {
	kid := jws.Signatures[0].Header.KeyID
	err := errNoKey
	for _, key := range s.keys {
		if kid != "" && key.KeyID != kid {
			continue
		}
		payload, wrong := jws.Verify(key.Key)
		if wrong == nil {
			return payload, nil
		}
		if kid != "" {
			err = ErrSignature
		}
	}
	return nil, err
}

// refresh fetches keys that are old, if nobody else does so at the moment. Those there
// are will do where it goes wrong.
func (i *issuer) refresh(ctx context.Context, have *keySet) *keySet {
	select {
	case i.turn <- struct{}{}:
		defer func() { <-i.turn }()
	default:
		return have
	}
	if newer, err := i.look(ctx, have); err == nil {
		return newer
	}
	return have
}

// fetch returns keys other than have, or have where there was a look at the issuer
// just now that brought no others. It waits for a look that is under way.
func (i *issuer) fetch(ctx context.Context, have *keySet) (*keySet, error) {
	select {
	case i.turn <- struct{}{}:
		defer func() { <-i.turn }()
	case <-ctx.Done():
		return nil, unavailable{fmt.Errorf("the keys of %s were waited for: %w", i.url, ctx.Err())}
	}
	newer, err := i.look(ctx, have)
	if err != nil {
		return nil, unavailable{fmt.Errorf("the keys of %s are not to be had: %w", i.url, err)}
	}
	return newer, nil
}

// look fetches the keys, unless somebody else just did. Whoever calls it has the turn.
func (i *issuer) look(ctx context.Context, have *keySet) (*keySet, error) {
	if newer := i.keys.Load(); newer != have {
		return newer, nil
	}
	if i.now().Before(i.next) {
		if i.failed == nil {
			return have, nil
		}
		return nil, i.failed
	}
	// Who asked may go away meanwhile; the look is everyone's.
	ctx, cancel := context.WithTimeout(oidc.ClientContext(context.WithoutCancel(ctx), i.client), fetchTimeout)
	defer cancel()
	keys, err := i.discover(ctx)
	if err != nil {
		err = errors.New(short(err))
		if i.failed == nil {
			i.log.Warn("an issuer's keys cannot be fetched", "issuer", i.url, "why", err)
		}
		i.failed, i.next = err, i.now().Add(retryDown)
		return nil, err
	}
	if i.failed != nil {
		i.log.Info("an issuer's keys can be fetched again", "issuer", i.url)
	}
	newer := &keySet{keys: keys, at: i.now()}
	i.failed, i.next = nil, newer.at.Add(askAgain)
	i.keys.Store(newer)
	return newer, nil
}

// discover asks the issuer where its keys are, and gets them
// (OpenID Connect Discovery 1.0, section 4).
func (i *issuer) discover(ctx context.Context) ([]jose.JSONWebKey, error) {
	address, err := url.Parse(i.url)
	if err != nil {
		return nil, err
	}
	if err := safe(address); err != nil {
		return nil, err
	}
	provider, err := oidc.NewProvider(ctx, i.url)
	if err != nil {
		return nil, err
	}
	var document struct {
		JWKS string `json:"jwks_uri"`
	}
	if err := provider.Claims(&document); err != nil {
		return nil, err
	}
	if address, err = url.Parse(document.JWKS); err != nil {
		return nil, err
	}
	if err := safe(address); err != nil {
		return nil, fmt.Errorf("jwks_uri: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, document.JWKS, nil)
	if err != nil {
		return nil, err
	}
	res, err := i.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("jwks_uri: %s", res.Status)
	}
	return publicKeys(body)
}

// publicKeys are the keys of a JWKS document that signatures can be verified with. Of
// what kind others are is not for us to judge: an issuer may have them for others.
func publicKeys(document []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(document, &set); err != nil {
		return nil, fmt.Errorf("jwks_uri: %w", err)
	}
	var out []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if err := key.UnmarshalJSON(raw); err != nil || key.Use == "enc" {
			continue
		}
		switch key.Key.(type) {
		case *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey:
			out = append(out, key)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("jwks_uri: there is no public key in it")
	}
	return out, nil
}
