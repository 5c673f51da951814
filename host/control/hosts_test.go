package control

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// dead leaves what a host leaves that was killed.
func dead(t *testing.T, dir, id string) Info {
	t.Helper()
	info := Info{ID: id, PID: 1, Started: time.Now()}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: info.socket(dir), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := info.write(dir); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return info
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestC110_SocketsOfTheDead: a host that starts removes them, and touches no other's.
func TestC110_SocketsOfTheDead(t *testing.T) {
	h := newHouse(t)
	gone := dead(t, h.dir, strings.Repeat("cd", 16))
	living := Info{ID: strings.Repeat("ef", 16), Started: time.Now()}
	l, err := net.Listen("unix", living.socket(h.dir))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := living.write(h.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "other.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.serve()
	got := names(t, h.dir)
	id := h.control.opts.Info.ID
	want := []string{id + ".json", id + ".sock", living.ID + ".json", living.ID + ".sock", "other.json"}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v without what was %s's", got, want, gone.ID)
	}
	for _, name := range []string{id + ".json", id + ".sock"} {
		if info, err := os.Stat(filepath.Join(h.dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestHosts(t *testing.T) {
	h := newHouse(t)
	c := h.serve()
	dead(t, h.dir, strings.Repeat("cd", 16))
	second := newHouse(t)
	second.control.opts.Info.ID, second.control.opts.Info.Started = strings.Repeat("01", 16), time.Now().Add(-100*365*24*time.Hour)
	second.serve()
	dirs := []string{h.dir, second.dir, filepath.Join(h.dir, "none")}
	found, err := Hosts(t.Context(), dirs, nil)
	if err != nil || len(found) != 2 {
		t.Fatalf("%v, %v", found, err)
	}
	if found[0].Info().ID != second.control.opts.Info.ID || found[1].Info() != c.Info() {
		t.Errorf("%+v, %+v", found[0].Info(), found[1].Info())
	}
	one, err := Hosts(t.Context(), dirs, func(i Info) bool { return i.ID == c.Info().ID })
	if err != nil || len(one) != 1 || one[0].Info() != c.Info() {
		t.Errorf("%v, %v", one, err)
	}
	if s, err := found[1].Status(t.Context()); err != nil || s.Host.ID != c.Info().ID {
		t.Errorf("%+v, %v", s, err)
	}
	if line := c.Info().Line(); !strings.Contains(line, "http://127.0.0.1:1/mcp") || !strings.Contains(line, "/etc/p.hcl") {
		t.Errorf("%s", line)
	}
}
