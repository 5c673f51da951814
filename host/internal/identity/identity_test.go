package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestHostsOfOneDirAgreeOnTheKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	var all sync.WaitGroup
	sums := make([]string, 16)
	for n := range sums {
		all.Go(func() {
			k, err := LoadOrCreateKey(dir)
			if err != nil {
				t.Error(err)
				return
			}
			sums[n] = k.Sum("x", "y")
		})
	}
	all.Wait()
	for _, s := range sums {
		if s != sums[0] || len(s) != 64 {
			t.Fatalf("hosts that start at once have several keys: %v", sums)
		}
	}
	other, err := LoadOrCreateKey(t.TempDir())
	if err != nil || other.Sum("x", "y") == sums[0] {
		t.Errorf("two state dirs have one key, or: %v", err)
	}
	left, _ := os.ReadDir(dir)
	if len(left) != 1 || left[0].Name() != "key" {
		t.Errorf("left in the state dir: %v", left)
	}
	if info, err := os.Stat(filepath.Join(dir, "key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestAKeyThatProtectsNothingIsAnError: it is named, and none is made in its place.
func TestAKeyThatProtectsNothingIsAnError(t *testing.T) {
	good := strings.Repeat("A", 43) + "\n"
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want error
	}{
		"open to others": {good, 0o640, ErrKeyReadable},
		"empty":          {"", 0o600, ErrKeyMalformed},
		"half":           {good[:20], 0o600, ErrKeyMalformed},
		"foreign":        {"not a key at all", 0o600, ErrKeyMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "key")
			if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
				t.Fatal(err)
			}
			_, err := LoadOrCreateKey(dir)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v", err)
			}
			if after, _ := os.ReadFile(path); string(after) != c.text {
				t.Errorf("it was overwritten with %q", after)
			}
		})
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "key"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrCreateKey(dir); !errors.Is(err, ErrKeyReadable) {
		t.Errorf("a folder in the key's place: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir = t.TempDir()
	path := filepath.Join(dir, "key")
	if err := errors.Join(os.WriteFile(path, []byte(good), 0o600), os.Chown(path, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrCreateKey(dir); !errors.Is(err, ErrKeyReadable) || !strings.Contains(err.Error(), "another user") {
		t.Errorf("a key of another user: %v", err)
	}
}

func TestWhatDecidesIdentityAndFingerprint(t *testing.T) {
	k, err := LoadOrCreateKey(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	base := Material{
		Slug: "p", Plugin: "stdio", Code: "v1", BaseDir: "/etc",
		Config: json.RawMessage(`{"token":"one"}`), Masked: json.RawMessage(`{"token":{"masked":true}}`),
		Env: []string{"PATH=/bin", "HOME=/h"},
	}
	with := func(change func(*Material)) Material {
		m := base
		change(&m)
		return m
	}
	for name, c := range map[string]struct {
		m                Material
		identity, finger bool // are they others
	}{
		"the same":          {base, false, false},
		"env in disorder":   {with(func(m *Material) { m.Env = []string{"HOME=/h", "PATH=/bin"} }), false, false},
		"a rotated secret":  {with(func(m *Material) { m.Config = json.RawMessage(`{"token":"two"}`) }), false, true},
		"another PATH":      {with(func(m *Material) { m.Env = []string{"PATH=/usr/bin", "HOME=/h"} }), false, true},
		"another slug":      {with(func(m *Material) { m.Slug = "q" }), true, true},
		"another plugin":    {with(func(m *Material) { m.Plugin = "acme" }), true, true},
		"other code":        {with(func(m *Material) { m.Code = "v2" }), true, true},
		"another folder":    {with(func(m *Material) { m.BaseDir = "/opt" }), true, true},
		"moved between two": {with(func(m *Material) { m.Slug, m.Plugin = "ps", "tdio" }), true, true},
		"another argument": {with(func(m *Material) {
			m.Config, m.Masked = json.RawMessage(`{"token":"one","a":1}`), json.RawMessage(`{"token":{"masked":true},"a":1}`)
		}), true, true},
	} {
		if got := k.Identity(c.m) != k.Identity(base); got != c.identity {
			t.Errorf("%s: another identity: %v", name, got)
		}
		if got := k.Fingerprint(c.m) != k.Fingerprint(base); got != c.finger {
			t.Errorf("%s: another fingerprint: %v", name, got)
		}
	}
	if k.Identity(base) == k.Fingerprint(base) {
		t.Error("identity and fingerprint are one")
	}
}

func TestGenerations(t *testing.T) {
	dir := t.TempDir()
	want := func(slug, fingerprint string, n int) {
		t.Helper()
		if got, err := Generation(dir, slug, fingerprint); err != nil || got != n {
			t.Errorf("%s %s: %d, %v, want %d", slug, fingerprint, got, err, n)
		}
	}
	want("p", "a", 1)
	want("p", "a", 1)
	want("p", "b", 2)
	want("p", "a", 1) // as it was
	want("q", "b", 1)
	for n := 3; n <= 2*keptGenerations; n++ {
		want("p", fmt.Sprint("f", n), n)
	}
	want("p", "a", 2*keptGenerations+1) // forgotten, and no ordinal is given twice
	if known, err := ordinals(filepath.Join(dir, "generations", "p")); err != nil || len(known) != keptGenerations {
		t.Errorf("%d are kept, %v", len(known), err)
	}
}

// TestHostsAgreeOnGenerations: of hosts that start at once each fingerprint gets
// one ordinal, and none is given twice.
func TestHostsAgreeOnGenerations(t *testing.T) {
	dir := t.TempDir()
	const hosts, fingerprints = 8, 5
	got := make([][fingerprints]int, hosts)
	var all sync.WaitGroup
	for h := range hosts {
		all.Go(func() {
			for f := range fingerprints {
				f = (f + h) % fingerprints
				n, err := Generation(dir, "p", fmt.Sprint("f", f))
				if err != nil {
					t.Error(err)
				}
				got[h][f] = n
			}
		})
	}
	all.Wait()
	seen := map[int]bool{}
	for f, n := range got[0] {
		if seen[n] || n < 1 || n > fingerprints {
			t.Errorf("fingerprint %d is generation %d", f, n)
		}
		seen[n] = true
		for h := range got {
			if got[h][f] != n {
				t.Errorf("fingerprint %d is %d to one host and %d to another", f, n, got[h][f])
			}
		}
	}
}

func TestAGenerationThatCannotBeKept(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "generations"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := Generation(dir, "p", "a"); err == nil || n != 0 {
		t.Errorf("%d, %v", n, err)
	}
}
