package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/front"
)

// serveHTTP listens, says so, and serves until ctx is done.
func (h *host) serveHTTP(ctx context.Context, p process) error {
	token, err := access.LoadOrCreateToken(h.cfg.Host.StateDir)
	if err != nil {
		return err
	}
	h.gate.TakeFirst(token)
	secured, err := h.certificate()
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", h.cfg.Host.HTTP.Listen)
	if err != nil {
		return fmt.Errorf("%w; stop what listens there, or set another address as host.http.listen", err)
	}
	server := front.HTTPServer(h.front.Handler(front.HTTPOptions{
		Listen:         listener.Addr().String(),
		PublicURL:      h.cfg.Host.HTTP.PublicURL,
		AllowedHosts:   h.cfg.Host.HTTP.AllowedHosts,
		AllowedOrigins: h.cfg.Host.HTTP.AllowedOrigins,
		Gate:           h.gate,
		Issuers:        h.issuers,
	}), h.log)
	server.TLSConfig = secured
	base := reachedAt(listener.Addr(), secured != nil)
	if err := h.takeCommands(ctx, front.Endpoint(base, "")); err != nil {
		_ = listener.Close()
		return err
	}
	h.sayReady(p.out, base, token.Path())
	served := make(chan error, 1)
	go func() {
		if secured != nil {
			served <- server.ServeTLS(listener, "", "")
		} else {
			served <- server.Serve(listener)
		}
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	h.closeFace(p.hurry)      //nolint:contextcheck // hurry ends the waits of a stop, ctx began it
	h.hangUp(p.hurry, server) //nolint:contextcheck // the same
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// certificate is what to serve with, nil for none.
func (h *host) certificate() (*tls.Config, error) {
	http := h.cfg.Host.HTTP
	if http.TLSCert == "" && http.TLSKey == "" {
		return nil, nil
	}
	c, err := front.LoadCertificate(http.TLSCert, http.TLSKey, h.log)
	if err != nil {
		return nil, err
	}
	return c.Config(), nil
}

// reachedAt is the URL of a listener for clients on this machine.
func reachedAt(address net.Addr, secured bool) string {
	scheme := "http://"
	if secured {
		scheme = "https://"
	}
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("%slocalhost:%d", scheme, tcp.Port)
	}
	return scheme + address.String()
}

// sayReady prints one line with the URL and one with where tokens are; then, where
// it says more, the URL for clients elsewhere and those of the projects.
func (h *host) sayReady(out io.Writer, base, token string) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, "drawbridge: "+format+"\n", args...) }
	say("ready at %s", front.Endpoint(base, ""))
	if h.gate.Policy().Open() {
		say("the token is in %s", token)
	} else {
		say("principals are declared in %s, each with a token of its own", h.cfg.Path)
	}
	if public := h.cfg.Host.HTTP.PublicURL; public != "" {
		base = public
		say("published at %s", front.Endpoint(base, ""))
	}
	for _, project := range h.cfg.Projects {
		say("project %s is at %s", project.Name, front.Endpoint(base, project.Name))
	}
}

// rulesOf are what makes bearers of issuers' tokens principals.
func rulesOf(p *access.Policy) (out []access.Rule) {
	for _, i := range p.Identities() {
		out = append(out, access.Rule{Principal: i.Principal, Issuer: i.Issuer, Audience: i.Audience, Claim: i.Claim, Value: i.Value})
	}
	return out
}

// newGate makes the gate of a configuration, and what verifies issuers' tokens for it.
// It keeps the keys of issuers when another policy comes into force.
func (h *host) newGate(cfg *config.Config) {
	h.identities = access.NewOIDC(h.log)
	h.gate = access.NewGate(access.GateOptions{Verifier: func(p *access.Policy) access.Verifier {
		h.identities.Apply(rulesOf(p))
		return h.identities
	}}, access.New(access.From(cfg)))
}

// issuers are those whose tokens are taken by the policy in force.
func (h *host) issuers() []string {
	if len(h.gate.Policy().Identities()) == 0 {
		return nil
	}
	return h.identities.Issuers()
}

// responseGrace is for responses that are complete to reach their clients.
const responseGrace = time.Second

// hangUp ends the connections of a face that is closed: its requests have ended, but
// the end of a response is written after its handler has returned.
func (h *host) hangUp(hurry context.Context, server *http.Server) {
	ctx, cancel := context.WithTimeout(h.stopping(hurry), responseGrace)
	defer cancel()
	_ = server.Shutdown(ctx)
	_ = server.Close() // what is open now is idle, or hangs
}
