package front

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// HTTPOptions says who may reach the face over HTTP.
type HTTPOptions struct {
	// Listen is the listener's address, host:port. Its port is the one under which
	// 127.0.0.1, localhost and [::1] are taken for us.
	Listen string
	// AllowedHosts are further names that requests may be for: with a port, that
	// one; without, any.
	AllowedHosts []string
	// AllowedOrigins are further origins that web pages may call from, as browsers
	// spell them (https://app.example:8443).
	AllowedOrigins []string
	// Token says whose bearer token this is.
	Token func(token string) (principal string, ok bool)
}

// guard decides who gets in. It holds what HTTPOptions say in the form compared.
type guard struct {
	hosts   map[string]bool // as the Host header has them
	names   map[string]bool // of any port
	origins map[string]bool
	token   func(string) (string, bool)
}

func newGuard(opts HTTPOptions) guard {
	g := guard{hosts: map[string]bool{}, names: map[string]bool{}, origins: map[string]bool{}, token: opts.Token}
	_, port, _ := net.SplitHostPort(opts.Listen)
	for _, name := range []string{"127.0.0.1", "localhost", "[::1]"} {
		at := name + ":" + port
		g.hosts[at] = true
		g.origins["http://"+at], g.origins["https://"+at] = true, true
		if port == "80" || port == "443" { // which clients leave out
			scheme := map[string]string{"80": "http://", "443": "https://"}[port]
			g.hosts[name], g.origins[scheme+name] = true, true
		}
	}
	for _, h := range opts.AllowedHosts {
		h = strings.ToLower(h)
		if withoutPort(h) == h {
			g.names[h] = true
		} else {
			g.hosts[h] = true
		}
	}
	for _, o := range opts.AllowedOrigins {
		g.origins[strings.ToLower(strings.TrimSuffix(o, "/"))] = true
	}
	return g
}

// admits says whether a request is for us and comes from where it may. A web page
// whose name was bound to this address fails the first, any other the second
// (MCP 2025-11-25, basic/transports, "Security Warning").
func (g guard) admits(r *http.Request) bool {
	host := strings.ToLower(r.Host)
	if !g.hosts[host] && !g.names[withoutPort(host)] {
		return false
	}
	origins := r.Header["Origin"]
	return len(origins) == 0 || len(origins) == 1 && g.origins[strings.ToLower(origins[0])]
}

// withoutPort is the host of host:port, with the brackets of an IPv6 address.
func withoutPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		return host[:i]
	}
	return host
}

// authenticate says who sends a request, by its bearer token (RFC 6750). If
// nobody, it has answered 401.
func (g guard) authenticate(w *reply, r *http.Request) (principal string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") && g.token != nil {
		if principal, ok := g.token(strings.TrimSpace(token)); ok {
			return principal, true
		}
	}
	challenge := `Bearer realm="drawbridge"`
	if scheme != "" {
		challenge += `, error="invalid_token"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	w.text(http.StatusUnauthorized, "a bearer token is needed: Authorization: Bearer TOKEN")
	return "", false
}

// allowPage lets the web page that sent a request, from an origin that may, read
// the response: without these headers a browser keeps it from the page.
func (g guard) allowPage(h http.Header, r *http.Request) {
	if origin := r.Header.Get("Origin"); origin != "" {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id")
		h.Add("Vary", "Origin")
	}
}

// preflight answers what a browser asks before it sends a page's request.
func preflight(w *reply, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "POST, GET, DELETE")
	if asked := r.Header.Values("Access-Control-Request-Headers"); len(asked) > 0 {
		h["Access-Control-Allow-Headers"] = slices.Clone(asked)
	}
	h.Set("Access-Control-Max-Age", "600")
	w.extend()
	w.WriteHeader(http.StatusNoContent)
}
