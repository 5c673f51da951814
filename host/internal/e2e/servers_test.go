//go:build e2e

package e2e

import (
	"testing"
)

// TestDirect runs the scenarios without a host. If it fails, a server or the
// machine is not as the other tests take it to be.
func TestDirect(t *testing.T) {
	p := newPlace(t)
	p.config(t)
	f := directFace{}
	for _, s := range p.servers(t) {
		f[s.name] = p.direct(t, s)
	}
	listed(t, f)
	everything(t, f)
	filesystem(t, f, p.Path("files"))
	remember(t, f, "Tower-Direct")
	recall(t, f, "Tower-Direct")
	browse(t, f)
}

// TestStdio runs the scenarios through one host over stdio. A second host finds
// what the first one's client stored.
func TestStdio(t *testing.T) {
	p := newPlace(t)
	config := p.config(t)
	first := hostFace{p.ServeStdio(t, config)}
	listed(t, first)
	everything(t, first)
	filesystem(t, first, p.Path("files"))
	browse(t, first)
	remember(t, first, "Tower-Stdio")
	first.c.Close(t)

	second := hostFace{p.ServeStdio(t, config)}
	recall(t, second, "Tower-Stdio")
}

// TestHTTP runs the scenarios through one host over HTTP, with two clients of it.
func TestHTTP(t *testing.T) {
	p := newPlace(t)
	h := p.ServeHTTP(t, p.config(t))
	first, second := hostFace{h.Client(t)}, hostFace{h.Client(t)}
	listed(t, first)
	everything(t, first)
	filesystem(t, first, p.Path("files"))
	browse(t, first)
	remember(t, first, "Tower-HTTP")
	first.c.Close(t)
	recall(t, second, "Tower-HTTP")
	everything(t, second)
}
