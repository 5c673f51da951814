package hosttest

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
)

// Proxy is a reverse proxy with TLS in front of a host, as an owner would put one
// there: it keeps the Host header that clients send.
type Proxy struct {
	// Address is where it listens.
	Address string

	authority *Authority
}

// NewProxy starts a proxy under a name to what listens at target, host:port. The
// test's end stops it.
func NewProxy(t testing.TB, a *Authority, name, target string) *Proxy {
	t.Helper()
	cert, key := a.Issue(t, name)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	to := &url.URL{Scheme: "http", Host: target}
	transport := &http.Transport{}
	srv := httptest.NewUnstartedServer(&httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
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
	return &Proxy{srv.Listener.Addr().String(), a}
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
