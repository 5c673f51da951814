package hosttest

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
)

// Proxy is a reverse proxy with TLS in front of a host, as an owner would put one
// there: it keeps the Host header that clients send.
type Proxy struct {
	// Address is where it listens.
	Address string

	authority *Authority
	to        atomic.Pointer[url.URL]
}

// NewProxy starts a proxy under a name; it has nothing behind it until Forward. The
// test's end stops it.
func NewProxy(t testing.TB, a *Authority, name string) *Proxy {
	t.Helper()
	cert, key := a.Issue(t, name)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{authority: a}
	p.to.Store(&url.URL{Scheme: "http", Host: "127.0.0.1:1"})
	transport := &http.Transport{}
	srv := httptest.NewUnstartedServer(&httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(p.to.Load())
		r.SetXForwarded()
		r.Out.Host = r.In.Host
	}})
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	srv.StartTLS()
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		transport.CloseIdleConnections()
	})
	p.Address = srv.Listener.Addr().String()
	return p
}

// Forward lets the proxy pass everything on to what serves a URL's host.
func (p *Proxy) Forward(t testing.TB, address string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p.to.Store(&url.URL{Scheme: u.Scheme, Host: u.Host})
}

// Transport reaches the proxy whatever name a URL has, and trusts its certificate.
func (p *Proxy) Transport() *http.Transport {
	return &http.Transport{
		TLSClientConfig: p.authority.Client(),
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, p.Address)
		},
	}
}
