package front

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// Gate says who calls, and where: access.Gate is one. It is asked anew for each
// request, and again while a stream lasts.
type Gate interface {
	// Authenticate says whose bearer token this is. The error says why it is nobody's,
	// without a word of the token; it is for the log, and no client sees it. One with
	// Temporary() true means that it could not be told now.
	Authenticate(ctx context.Context, bearer string) (principal string, err error)
	// Project says in which project a principal works that asks for this one; who asks
	// for "" means the only one. It is false for one that does not exist as for one
	// that the principal is not granted in.
	Project(principal, asked string) (project string, ok bool)
}

// HTTPOptions says who may reach the face over HTTP.
type HTTPOptions struct {
	// Listen is the listener's address, host:port. Its port is the one under which
	// 127.0.0.1, localhost and [::1] are taken for us, and an address of its own that
	// it names.
	Listen string
	// PublicURL is where clients outside of this machine find what stands here at /,
	// "" for nowhere. Its host, with any port, and its origin are allowed.
	PublicURL string
	// AllowedHosts are further names that requests may be for: with a port, that
	// one; without, any.
	AllowedHosts []string
	// AllowedOrigins are further origins that web pages may call from, as browsers
	// spell them (https://app.example:8443).
	AllowedOrigins []string
	Gate           Gate
	// Issuers are whose tokens the gate takes besides those that it keeps itself: where
	// a client may get one. It is asked anew each time; nil means none.
	Issuers func() []string
}

// guard decides who gets in. It holds what HTTPOptions say in the form compared.
type guard struct {
	hosts   map[string]bool // as the Host header has them
	names   map[string]bool // of any port
	origins map[string]bool
	gate    Gate
	issuers func() []string
	public  public
	denials *denials
}

func newGuard(opts HTTPOptions, log *slog.Logger) guard {
	g := guard{
		hosts: map[string]bool{}, names: map[string]bool{}, origins: map[string]bool{},
		gate: opts.Gate, issuers: opts.Issuers, public: newPublic(opts.PublicURL), denials: newDenials(log),
	}
	address, port, _ := net.SplitHostPort(opts.Listen)
	names := []string{"127.0.0.1", "localhost", "[::1]"}
	// A page can make its own name stand for our address, but not an address for it.
	if ip := net.ParseIP(address); ip != nil && !ip.IsUnspecified() {
		if strings.Contains(address, ":") {
			address = "[" + address + "]"
		}
		names = append(names, address)
	}
	for _, name := range names {
		for _, scheme := range []string{"http", "https"} {
			g.allow(scheme, name+":"+port)
		}
	}
	if g.public.host != "" {
		g.allow(g.public.scheme, g.public.host)
		g.names[withoutPort(g.public.host)] = true // a proxy may leave the port out, or put its own
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

// allow lets in what is for a host, and pages that came from it. Clients leave out
// the port that a scheme has anyway.
func (g guard) allow(scheme, host string) {
	usual := map[string]string{"http": ":80", "https": ":443"}[scheme]
	bare := strings.TrimSuffix(host, usual)
	if withoutPort(host) == host {
		host += usual
	}
	g.hosts[host], g.origins[scheme+"://"+host] = true, true
	if bare != host {
		g.hosts[bare], g.origins[scheme+"://"+bare] = true, true
	}
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

// authenticate says who sends a request to which project, by its path and its bearer
// token (RFC 6750). If nobody, it has answered: 401, and 404 for a path at which this
// principal finds nothing, whatever another would.
func (g guard) authenticate(w *reply, r *http.Request) (who party, ok bool) {
	asked, ok := g.public.asked(r.URL.Path)
	if !ok {
		w.text(http.StatusNotFound, nothingHere)
		return party{}, false
	}
	principal, err := g.principal(r)
	if err != nil {
		g.refuse(w, r, asked, err)
		return party{}, false
	}
	project, ok := g.gate.Project(principal, asked)
	if !ok {
		g.denials.note("a request was refused", r, errNoProject, "principal", principal, "project", fmt.Sprintf("%.64q", asked))
		w.text(http.StatusNotFound, nothingHere)
		return party{}, false
	}
	return party{principal, project}, true
}

// nothingHere is the answer to every path but those of projects that the caller is
// granted in: which others there are is not his to know.
const nothingHere = "there is nothing here for you: the endpoint is " + endpoint + "/PROJECT, with a project that you are granted in, or " +
	endpoint + " if that is one"

// Why nobody, or nobody here, sends a request.
var (
	errNoToken   = errors.New("no bearer token")
	errNoProject = errors.New("the principal is granted nothing in such a project, or asked for none and has several")
)

// principal says whose the token of a request is.
func (g guard) principal(r *http.Request) (string, error) {
	given := r.Header["Authorization"]
	if len(given) != 1 {
		return "", errNoToken // of two, a proxy may have checked the other one
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	token = strings.Trim(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", errNoToken
	}
	return g.gate.Authenticate(r.Context(), token)
}

// refuse answers 401, and says where to get a token if anywhere (RFC 9728, section
// 5.1); and 503 when it cannot be told whether the token is good. Why is for the log.
func (g guard) refuse(w *reply, r *http.Request, asked string, why error) {
	g.denials.note("a request was not authenticated", r, why)
	var temporary interface{ Temporary() bool }
	if errors.As(why, &temporary) && temporary.Temporary() {
		w.Header().Set("Retry-After", "5")
		w.text(http.StatusServiceUnavailable, "whose token this is cannot be told now; try again")
		return
	}
	challenge := `Bearer realm="drawbridge"`
	if !errors.Is(why, errNoToken) || r.Header.Get("Authorization") != "" {
		challenge += `, error="invalid_token"`
	}
	if len(g.authorizationServers()) > 0 {
		challenge += `, resource_metadata="` + g.metadataURL(r, asked) + `"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	w.text(http.StatusUnauthorized, "a bearer token is needed: Authorization: Bearer TOKEN")
}

// while makes a writer of a stream that ends when its client would not get it any
// more: when its token is over, or what it was granted in the project.
func (g guard) while(w *reply, r *http.Request, who party) *lease {
	asked, _ := g.public.asked(r.URL.Path)
	return &lease{reply: w, still: func() bool {
		principal, err := g.principal(r)
		if err != nil || principal != who.principal {
			return false
		}
		project, ok := g.gate.Project(principal, asked)
		return ok && project == who.project
	}}
}

// lease is a stream that lasts as long as its client may have it.
type lease struct {
	*reply
	still func() bool
}

// Over says whether the stream is to end, without a word.
func (l *lease) Over() bool { return !l.still() }

// errLeaseOver ends a stream; its client comes again and is told.
var errLeaseOver = errors.New("the client may not have this stream any more")

// Notify implements Writer.
func (l *lease) Notify(p rpc.Payload) error {
	if !l.still() {
		return errLeaseOver
	}
	return l.reply.Notify(p)
}

// Pulse writes a comment; see reply.
func (l *lease) Pulse() error {
	if !l.still() {
		return errLeaseOver
	}
	return l.reply.Pulse()
}

// allowPage lets the web page that sent a request, from an origin that may, read
// the response: without these headers a browser keeps it from the page.
func (g guard) allowPage(h http.Header, r *http.Request) {
	if origin := r.Header.Get("Origin"); origin != "" {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, Drawbridge-Call, WWW-Authenticate")
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
