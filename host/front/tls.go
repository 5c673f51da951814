package front

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// certificateLook is how often the files of a certificate are looked at, at most, when
// clients connect.
const certificateLook = time.Second

// Certificate is one in files. Who renews it replaces the files: the next client gets
// the new one, and those connected keep what they have. While the two files do not fit
// each other, as in the middle of that, the old one is served. It is safe for
// concurrent use and starts no goroutine.
type Certificate struct {
	cert, key string
	log       *slog.Logger
	current   atomic.Pointer[tls.Certificate]

	mu     sync.Mutex // guards what follows
	looked time.Time
	seen   [2]fs.FileInfo // of the files, as they were last read
}

// LoadCertificate reads a certificate and its key, in PEM.
func LoadCertificate(cert, key string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, log: log}
	info, err := c.stat()
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	if info[1].Mode().Perm()&0o004 != 0 {
		log.Warn("everyone on this machine can read the key of the certificate; run chmod 600 on it", "key", key)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("tls: %s with %s: %w", cert, key, err)
	}
	c.current.Store(&pair)
	c.seen, c.looked = info, time.Now()
	return c, nil
}

// Config is what a listener needs to serve with the certificate.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c.look()
			return c.current.Load(), nil
		},
	}
}

// look reads the files if they have changed. Whoever comes while another does so is
// served with the old certificate.
func (c *Certificate) look() {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= certificateLook {
		c.looked = now
		c.reload()
	}
}

func (c *Certificate) reload() {
	info, err := c.stat()
	if err == nil && same(info[0], c.seen[0]) && same(info[1], c.seen[1]) {
		return
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.LoadX509KeyPair(c.cert, c.key)
	}
	if err != nil {
		if c.seen != info { // told once for each state of the files
			c.log.Warn("the certificate has changed and cannot be used; the old one is still served", "why", err)
		}
		c.seen = info
		return
	}
	c.seen = info
	c.current.Store(&pair)
	c.log.Info("the certificate was renewed", "until", pair.Leaf.NotAfter)
}

// stat looks at the two files; one that is not there is nil.
func (c *Certificate) stat() (info [2]fs.FileInfo, err error) {
	cert, certErr := os.Stat(c.cert)
	key, keyErr := os.Stat(c.key)
	if err := errors.Join(certErr, keyErr); err != nil {
		return info, err
	}
	return [2]fs.FileInfo{cert, key}, nil
}

// same says whether a file is as it was.
func same(a, b fs.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
