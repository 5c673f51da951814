//go:build linux

package killtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// both runs a test in each tier.
func both(t *testing.T, test func(t *testing.T, p place, flags ...string)) {
	for _, tier := range tiers {
		t.Run(tier, func(t *testing.T) {
			t.Parallel()
			test(t, newPlace(t, os.Getuid()), "--containment-tier", tier)
		})
	}
}

// instances are the marks that have processes of a role.
func instances(prefix, role string) (marks []string) {
	for _, e := range pick(marked(prefix), role) {
		marks = append(marks, e.mark)
	}
	slices.Sort(marks)
	return marks
}

// A host that is killed leaves nothing, a polite server or a stubborn one; the next
// has one process for each.
func TestC002_HostKilled(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p place, flags ...string) {
		config := p.config(t, "c.hcl", provider{"p", []string{"--life", "5m"}, restarts}, provider{"q", p.stubborn(everything), restarts})
		h := p.serve(t, config, flags...).ready(t, p)
		start := func(h *host) {
			h.echo(t)
			if r := h.await(t, "q", h.call("q_echo", `{}`)); r.Error != nil {
				t.Fatal(r.Error.Message)
			}
		}
		start(h)
		if got := instances(h.id, "server"); len(got) != 2 {
			t.Fatalf("servers: %v", got)
		}
		h.kill(t)
		if !within(orphanLimit, func() bool { return len(twice(h.id)) == 0 }) {
			t.Errorf("left: %v", marked(h.id))
		}
		next := p.serve(t, config, flags...).ready(t, p, h)
		start(next)
		for _, role := range []string{"guard", "plugin", "server"} {
			if got := instances(next.id, role); !slices.Equal(got, []string{next.id + "/p/1", next.id + "/q/1"}) {
				t.Errorf("%s: %v", role, got)
			}
		}
		next.stop(t)
		if left := twice(next.id); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// A start that fails is over, with all its processes, before the next begins.
func TestC006_FailedStartsDoNotPileUp(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p place, flags ...string) {
		const attempts = 5
		port := freePort(t)
		log := p.path("c006.log")
		args := []string{"--mute", "--ignore-term", "--ignore-eof", "--bind", port, "--log", log, "--life", "5m"}
		body := "  restart {\n    intensity = 4\n    backoff = \"10ms\"\n    backoff_max = \"10ms\"\n    cooldown = \"1h\"\n  }\n" +
			"  limits {\n    stop_grace = \"0s\"\n    start_timeout = \"1s\"\n  }\n"
		h := p.serve(t, p.config(t, "c.hcl", provider{"p", args, body}), flags...).ready(t, p)
		text := func() string { all, _ := os.ReadFile(log); return string(all) }
		count := func() int { return strings.Count(text(), `"dir":"start"`) }
		_ = h.call("p_echo", `{}`)
		eventually(t, "five attempts", func() bool {
			if alive := pick(marked(h.id), "server"); len(alive) > 1 {
				t.Errorf("at once: %v", alive)
			}
			if count() < attempts { // a start that failed is tried again when somebody wants it
				_ = h.call("p_echo", `{}`)
			}
			return count() >= attempts
		})
		eventually(t, "the end of the last attempt", func() bool { return len(marked(h.id)) == 0 })
		if strings.Contains(text(), "address in use") {
			t.Error("an attempt found its port taken")
		}
		h.stop(t)
	})
}

// Two hosts with the same programs: what one leaves is ended without the other.
func TestC008_AnotherHostIsUntouched(t *testing.T) {
	t.Parallel()
	for _, states := range [][2]string{{"a", "b"}, {"state", "state"}} {
		both(t, func(t *testing.T, p place, flags ...string) {
			server := []string{"--life", "5m"}
			a := p.serve(t, p.configAt(t, "a.hcl", states[0], provider{"p", server, restarts}), flags...)
			a.await(t, "initialize", a.hello())
			a.echo(t)
			of := func(h *host) (id string) {
				for _, e := range marked("") {
					if e.role == "guard" && readStat(e.pid).parent == h.pid() {
						id, _, _ = strings.Cut(e.mark, "/")
					}
				}
				return id
			}
			a.id = of(a)
			before := marked(a.id)
			config := p.configAt(t, "b.hcl", states[1], provider{"p", server, restarts})
			for range 3 {
				b := p.serve(t, config, flags...)
				b.await(t, "initialize", b.hello())
				b.echo(t)
				b.id = of(b)
				b.kill(t)
				next := p.serve(t, config, flags...)
				next.await(t, "initialize", next.hello())
				if left := twice(b.id); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
				next.stop(t)
			}
			if len(before) != 3 {
				t.Errorf("there were %v", before)
			}
			for _, e := range before {
				if !e.lives() {
					t.Errorf("%v was touched", e)
				}
			}
			a.stop(t)
		})
	}
}

// A host whose client closes its input with a call in flight ends at once, and what
// it started with it.
func TestC012_InputEnds(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p place, flags ...string) {
		args := []string{"--life", "5m", "--log", p.path("c012.log")}
		h := p.serve(t, p.config(t, "c.hcl", provider{"p", args, restarts}, provider{"q", []string{"--life", "5m"}, restarts}), flags...)
		h.ready(t, p)
		h.echo(t)
		h.await(t, "q", h.call("q_echo", `{}`))
		_ = h.call("p_slow", `{"ms":60000}`)
		eventually(t, "the call", func() bool {
			text, _ := os.ReadFile(p.path("c012.log"))
			return strings.Contains(string(text), "60000")
		})
		began := time.Now()
		h.stop(t)
		if d := time.Since(began); d > 2*(500*time.Millisecond+time.Second) {
			t.Errorf("it took %v", d)
		}
		if cpu := h.cmd.ProcessState.UserTime() + h.cmd.ProcessState.SystemTime(); cpu > 2*time.Second { // its whole life
			t.Errorf("it used %v", cpu)
		}
		if left := marked(h.id); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		text, _ := os.ReadFile(p.path("c012.log"))
		if !strings.Contains(string(text), `"dir":"eof"`) && !strings.Contains(string(text), "notifications/cancelled") {
			t.Error("the server heard neither a cancellation nor the end of its input")
		}
	})
}

// 50 starts, of which 10 end by a kill of the plugin, 5 by one of the host, and the
// others as they should.
func TestC110_NoSocketsLeft(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p place, flags ...string) {
		config := p.config(t, "c.hcl", provider{"p", []string{"--life", "5m"}, restarts})
		other := p.serve(t, config, flags...).ready(t, p)
		other.echo(t)
		theirs := sockets(p, other.id)
		if len(theirs) == 0 {
			t.Fatal("a running host has no socket")
		}
		last := other
		for range 5 {
			h := p.serve(t, config, flags...).ready(t, p, other, last)
			for j := range 10 {
				h.echo(t)
				plugin := pick(marked(h.id), "plugin")
				switch {
				case len(plugin) != 1:
					t.Fatalf("plugins: %v", plugin)
				case j == 9: // this one ends with the host
				case j%5 == 0:
					plugin[0].signal(t, syscall.SIGKILL)
				default:
					stop := p.command(drawbridge(), "restart", "p", "--host", h.id)
					if out, err := stop.CombinedOutput(); err != nil {
						t.Fatalf("restart: %v: %s", err, out)
					}
				}
				if j < 9 {
					eventually(t, "its end", func() bool { return len(instance(plugin[0].mark)) == 0 })
				}
			}
			h.kill(t)
			last = h
		}
		end := p.serve(t, config, flags...).ready(t, p, other, last)
		end.echo(t)
		end.stop(t)
		if now := sockets(p, ""); !slices.Equal(now, theirs) {
			t.Errorf("there are %v, of them the other host's %v", now, theirs)
		}
		other.stop(t)
		if now := sockets(p, ""); len(now) > 0 {
			t.Errorf("left: %v", now)
		}
	})
}

// sockets are the files in the folder of a host, or of all.
func sockets(p place, id string) (found []string) {
	_ = filepath.WalkDir(p.path("run/drawbridge"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type()&os.ModeSocket != 0 && (id == "" || strings.Contains(path, id[:12])) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// A terminal's Ctrl-C reaches the host and nobody else; a second one ends the waits.
func TestC114_CtrlC(t *testing.T) {
	t.Parallel()
	for _, twice := range []bool{false, true} {
		t.Run(fmt.Sprintf("twice=%v", twice), func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, p place, flags ...string) { ctrlC(t, p, twice, flags...) })
		})
	}
}

func ctrlC(t *testing.T, p place, again bool, flags ...string) {
	const grace = 4 * time.Second
	body := strings.Replace(restarts, "500ms", grace.String(), 1)
	ms := "500"
	if again {
		ms = "60000"
	}
	config := p.config(t, "c.hcl",
		provider{"p", []string{"--life", "5m", "--log", p.path("c114.log")}, body}, provider{"q", p.stubborn(everything), body})
	h := p.serveOnTerminal(t, config, flags...)
	h.ready(t, p)
	h.echo(t)
	h.await(t, "q", h.call("q_echo", `{}`))
	for _, e := range marked(h.id) {
		if group, _ := unix.Getpgid(e.pid); group == h.pid() {
			t.Errorf("%v is in the host's group", e)
		}
	}
	slow := h.call("p_slow", `{"ms":`+ms+`}`)
	eventually(t, "the call", func() bool {
		text, _ := os.ReadFile(p.path("c114.log"))
		return strings.Contains(string(text), `\"ms\":`+ms)
	})
	began := time.Now()
	h.ctrlC(t)
	if again {
		// Two at once are one: signals do not queue. The host has seen the first when it
		// refuses calls.
		eventually(t, "a refused call", func() bool { return h.await(t, "a late call", h.call("p_echo", `{}`)).Error != nil })
		began = time.Now()
		h.ctrlC(t)
	} else if r := h.await(t, "the call that fits", slow); r.Error != nil {
		t.Errorf("the call that fits: %+v", r.Error)
	}
	if err := h.end(t); err != nil {
		t.Errorf("the host ended with %v", err)
	}
	took := time.Since(began)
	if again && took > 2*time.Second || took > grace+2*2*time.Second { // a second, and two more than the grace, doubled
		t.Errorf("it took %v", took)
	}
	if left := marked(h.id); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	text, _ := os.ReadFile(p.path("c114.log"))
	if strings.Contains(string(text), "interrupt") {
		t.Error("Ctrl-C reached the server")
	}
}
