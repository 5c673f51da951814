package front

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// wellKnown is where RFC 9728, section 3, has the description of a resource: before
// the path of the resource, so /mcp/site is described below /.well-known/….
const wellKnown = "/.well-known/oauth-protected-resource"

// public is where clients outside of this machine find the face. The zero value
// means: where they say that they have found it.
type public struct {
	scheme, host string
	// prefix is the path that stands before /mcp there, without a slash at its end.
	prefix string
}

func newPublic(address string) public {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return public{}
	}
	return public{scheme: strings.ToLower(u.Scheme), host: strings.ToLower(u.Host), prefix: strings.TrimRight(u.EscapedPath(), "/")}
}

// asked is the project that a path asks for, "" at /mcp; false for every other path.
// A reverse proxy may take the prefix of the public URL away, or not.
func (p public) asked(path string) (project string, ok bool) {
	if rest, cut := strings.CutPrefix(path, p.prefix); cut && p.prefix != "" {
		path = rest
	}
	if path == endpoint {
		return "", true
	}
	project, ok = strings.CutPrefix(path, endpoint+"/")
	return project, ok && project != "" && !strings.Contains(project, "/")
}

// Endpoint is the URL of a project's endpoint, or of /mcp without a project, where
// base is the URL of what stands here at /.
func Endpoint(base, project string) string {
	base = strings.TrimRight(base, "/") + endpoint
	if project == "" {
		return base
	}
	return base + "/" + url.PathEscape(project)
}

// origin is where a request's client has found us.
func (p public) origin(r *http.Request) string {
	if p.host != "" {
		return p.scheme + "://" + p.host
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host // which admits has let pass
}

func (g guard) authorizationServers() []string {
	if g.issuers == nil {
		return nil
	}
	return g.issuers()
}

// metadataURL is where the description of an endpoint stands.
func (g guard) metadataURL(r *http.Request, project string) string {
	return g.public.origin(r) + wellKnown + Endpoint(g.public.prefix, project)
}

// protectedResource says of an endpoint whose tokens it takes (RFC 9728, section 2).
type protectedResource struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	BearerMethods        []string `json:"bearer_methods_supported"`
	Name                 string   `json:"resource_name"`
}

// describe answers a request for the description of an endpoint; false means that it
// was for something else. Anyone may have it, and the description of a project that
// does not exist is like that of one that does. MCP wants an authorization server in
// it (2025-06-18 to 2026-07-28, basic/authorization), so where all tokens are handed
// out by the owner himself there is none.
func (g guard) describe(w *reply, r *http.Request) bool {
	path, ok := strings.CutPrefix(r.URL.Path, wellKnown)
	if !ok || path != "" && path[0] != '/' {
		return false
	}
	servers := g.authorizationServers()
	resource := g.public.origin(r)
	if path != "" && path != "/" {
		project, ok := g.public.asked(path)
		if !ok {
			servers = nil
		}
		resource += Endpoint(g.public.prefix, project)
	}
	switch {
	case len(servers) == 0:
		w.text(http.StatusNotFound, "no authorization server hands out tokens for this")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		w.text(http.StatusMethodNotAllowed, "only GET")
	default:
		_ = w.plain(http.StatusOK, rpc.Bytes(encode(protectedResource{
			Resource: resource, AuthorizationServers: servers, BearerMethods: []string{"header"}, Name: "Drawbridge",
		})))
	}
	return true
}
