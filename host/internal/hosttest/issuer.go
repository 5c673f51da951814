package hosttest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Issuer is an OpenID Connect issuer on loopback: it shows where its keys are, and
// the keys, and signs whatever a test wants.
type Issuer struct {
	// URL is its name and where it is found.
	URL string

	server *httptest.Server
	mu     sync.Mutex
	keys   []SigningKey
	looks  int
	answer func(w http.ResponseWriter, r *http.Request) bool
	// user is who logs in, asked what clients have asked for.
	user  map[string]any
	asked []url.Values
}

// SigningKey is one that tokens can be signed with.
type SigningKey struct {
	ID        string
	Algorithm jose.SignatureAlgorithm
	Key       crypto.Signer
}

// RSAKey makes a key for RS256, ECKey one for ES256.
func RSAKey(t testing.TB, id string) SigningKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return SigningKey{id, jose.RS256, key}
}

// ECKey makes a key for ES256.
func ECKey(t testing.TB, id string) SigningKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return SigningKey{id, jose.ES256, key}
}

// NewIssuer starts an issuer that shows these keys. The test's end stops it.
func NewIssuer(t testing.TB, keys ...SigningKey) *Issuer {
	t.Helper()
	i := &Issuer{keys: keys}
	i.server = httptest.NewServer(i)
	i.URL = i.server.URL
	t.Cleanup(i.server.Close)
	return i
}

// ServeHTTP serves discovery and keys, and lets whoever comes log in.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	i.mu.Lock()
	keys, answer := i.keys, i.answer
	switch r.URL.Path {
	case "/keys":
		i.looks++
	case "/authorize", "/token":
		i.asked = append(i.asked, r.Form)
	}
	i.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys",
			"authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
			"grant_types_supported": []string{"authorization_code"}, "subject_types_supported": []string{"public"},
			"id_token_signing_alg_values_supported": []string{"RS256", "ES256"}, "authorization_response_iss_parameter_supported": true,
		})
	case "/keys":
		set := jose.JSONWebKeySet{}
		for _, k := range keys {
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.Key.Public(), KeyID: k.ID, Algorithm: string(k.Algorithm), Use: "sig"})
		}
		_ = json.NewEncoder(w).Encode(set)
	case "/authorize":
		back, err := url.Parse(r.Form.Get("redirect_uri"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		back.RawQuery = url.Values{"code": {"c0de"}, "state": {r.Form.Get("state")}, "iss": {i.URL}}.Encode()
		http.Redirect(w, r, back.String(), http.StatusFound)
	case "/token":
		i.mu.Lock()
		user := i.user
		i.mu.Unlock()
		token, err := i.sign(keys[0], user)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 3600})
	default:
		http.NotFound(w, r)
	}
}

// User decides who logs in at the issuer: the claims of the tokens that it hands out.
func (i *Issuer) User(claims map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.user = claims
}

// Asked are the parameters of all requests so far to log in, and for tokens.
func (i *Issuer) Asked() []url.Values {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.asked)
}

// Show replaces the keys that the issuer shows.
func (i *Issuer) Show(keys ...SigningKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// Answer lets f answer requests in place of the issuer, as long as it returns true;
// nil ends that.
func (i *Issuer) Answer(f func(w http.ResponseWriter, r *http.Request) bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = f
}

// Looks is how often somebody has fetched the keys.
func (i *Issuer) Looks() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.looks
}

// Token signs claims by the first key that is shown: those of a token that is good
// for an hour, with what change says; a nil takes a claim out.
func (i *Issuer) Token(t testing.TB, change map[string]any) string {
	t.Helper()
	i.mu.Lock()
	key := i.keys[0]
	i.mu.Unlock()
	return i.TokenBy(t, key, change)
}

// TokenBy is Token with a key of the test's choice.
func (i *Issuer) TokenBy(t testing.TB, key SigningKey, change map[string]any) string {
	t.Helper()
	token, err := i.sign(key, change)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (i *Issuer) sign(key SigningKey, change map[string]any) (string, error) {
	now := time.Now()
	claims := map[string]any{"iss": i.URL, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	for name, value := range change {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	text, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	return sign(key, text)
}

// Sign makes a JWT of any text.
func Sign(t testing.TB, key SigningKey, claims string) string {
	t.Helper()
	token, err := sign(key, []byte(claims))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func sign(key SigningKey, claims []byte) (string, error) {
	opts := (&jose.SignerOptions{}).WithType("JWT")
	if key.ID != "" {
		opts = opts.WithHeader("kid", key.ID)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: key.Algorithm, Key: key.Key}, opts)
	if err != nil {
		return "", err
	}
	jws, err := signer.Sign(claims)
	if err != nil {
		return "", err
	}
	return jws.CompactSerialize()
}
