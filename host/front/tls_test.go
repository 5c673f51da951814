package front

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// certificateFiles writes a certificate and its key where a test keeps them.
func certificateFiles(t *testing.T, dir string, cert, key []byte) (certFile, keyFile string) {
	t.Helper()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, text := range map[string][]byte{certFile: cert, keyFile: key} {
		if err := os.WriteFile(file+".new", text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil { // as those do who renew certificates
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// TestTheFaceBehindTLS serves sessions, streams and large bodies over HTTP/1.1 and
// HTTP/2 with a certificate of its own.
func TestTheFaceBehindTLS(t *testing.T) {
	authority := hosttest.NewAuthority(t)
	cert, key := authority.Issue(t, "127.0.0.1")
	certFile, keyFile := certificateFiles(t, t.TempDir(), cert, key)
	loaded, err := LoadCertificate(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b := newFakeBroker("echo", "say")
	front := newServer(t, b)
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = HTTPServer(front.Handler(HTTPOptions{Listen: srv.Listener.Addr().String(), Gate: newFakeGate()}), slog.New(slog.DiscardHandler))
	srv.Config.TLSConfig = loaded.Config()
	served := make(chan error, 1)
	go func() { served <- srv.Config.ServeTLS(srv.Listener, "", "") }()
	t.Cleanup(func() {
		front.Close(t.Context())
		_ = srv.Config.Close()
		<-served
	})
	for _, modernHTTP := range []bool{false, true} {
		transport := &http.Transport{TLSClientConfig: authority.Client(), ForceAttemptHTTP2: modernHTTP}
		s := &site{Server: &httptest.Server{URL: "https://" + srv.Listener.Addr().String()}, t: t, front: front, client: &http.Client{Transport: transport}}
		id := s.open()
		stream := s.listen(http.MethodGet, "", "Mcp-Session-Id", id)
		large := strings.Repeat("x", 4<<20)
		r := s.post(call("1", "echo", `{"a":"`+large+`"}`, ""), "Mcp-Session-Id", id)
		if m := r.last(t); len(m.Result) < len(large) || r.ProtoMajor == 2 != modernHTTP {
			t.Errorf("%s: %.200s", r.Proto, m.text)
		}
		r = s.post(call("2", "say", `{"say":[`+fmt.Sprintf(serverProgress, "1")+`]}`, `"progressToken":7`), "Mcp-Session-Id", id)
		if len(r.events) != 2 {
			t.Errorf("%s: progress and result: %s", r.Proto, r.body)
		}
		b.changes(front)
		if m := stream.next(); m.Method != "notifications/tools/list_changed" {
			t.Errorf("%s: on the stream: %s", r.Proto, m.text)
		}
		stream.close()
		transport.CloseIdleConnections()
	}
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		config := authority.Client()
		config.MinVersion, config.MaxVersion = version, version
		conn, err := tls.Dial("tcp", srv.Listener.Addr().String(), config)
		if (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}

func TestACertificateIsRenewed(t *testing.T) {
	authority := hosttest.NewAuthority(t)
	dir := t.TempDir()
	first, firstKey := authority.Issue(t, "first.example")
	second, secondKey := authority.Issue(t, "second.example")
	certFile, keyFile := certificateFiles(t, dir, first, firstKey)
	var log said
	c, err := LoadCertificate(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	serves := func() string {
		c.mu.Lock()
		c.looked = time.Time{} // as if it were a while later
		c.mu.Unlock()
		got, err := c.Config().GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return got.Leaf.Subject.CommonName
	}
	if got := serves(); got != "first.example" {
		t.Errorf("at first: %s", got)
	}
	certificateFiles(t, dir, second, firstKey) // half of a renewal
	for range 3 {
		if got := serves(); got != "first.example" {
			t.Errorf("in the middle: %s", got)
		}
	}
	if n := strings.Count(log.String(), "cannot be used"); n != 1 {
		t.Errorf("told %d times that it cannot be used, want once: %s", n, log.String())
	}
	certificateFiles(t, dir, second, secondKey)
	if got := serves(); got != "second.example" {
		t.Errorf("in the end: %s", got)
	}
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got := serves(); got != "second.example" {
			t.Errorf("without its key's file: %s", got)
		}
	}
	certificateFiles(t, dir, first, firstKey)
	if got := serves(); got != "first.example" {
		t.Errorf("there again: %s", got)
	}
}

func TestACertificateThatIsNoneIsRefused(t *testing.T) {
	authority := hosttest.NewAuthority(t)
	one, oneKey := authority.Issue(t, "one.example")
	_, otherKey := authority.Issue(t, "other.example")
	for name, c := range map[string]struct{ cert, key []byte }{
		"another's key": {one, otherKey},
		"no PEM":        {[]byte("x"), oneKey},
		"no key":        {one, one},
	} {
		certFile, keyFile := certificateFiles(t, t.TempDir(), c.cert, c.key)
		if _, err := LoadCertificate(certFile, keyFile, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), certFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := LoadCertificate("/nowhere/cert.pem", "/nowhere/key.pem", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "/nowhere/key.pem") {
		t.Errorf("no files: %v", err)
	}
	var log bytes.Buffer
	certFile, keyFile := certificateFiles(t, t.TempDir(), one, oneKey)
	if err := os.Chmod(keyFile, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadCertificate(certFile, keyFile, slog.New(slog.NewTextHandler(io.Writer(&log), nil))); err != nil || !strings.Contains(log.String(), "chmod 600") {
		t.Errorf("a key that all can read: %v, %s", err, log.String())
	}
}
