//go:build linux

package killtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

// crowdRounds is how often three hosts are started and killed at once.
func crowdRounds() int {
	if os.Getenv("CI") != "" || os.Getenv("KILLTEST_ROUNDS") != "" {
		return 50
	}
	return 10
}

// Three hosts that start, sweep and are killed at once in one state dir end nobody
// who lives: not each other's trees, and not those of a fourth.
func TestCrowdOnOneStateDir(t *testing.T) {
	both(t, func(t *testing.T, p place, flags ...string) {
		const crowd = 3
		config := p.config(t, "c.hcl", provider{"p", []string{"--life", "20m"}, restarts})
		stays := p.serve(t, config, flags...).ready(t, p)
		stays.echo(t)
		staying := marked(stays.id)
		var last []*host
		for round := range crowdRounds() {
			var hosts [crowd]*host
			var greeted, answered [crowd]<-chan reply
			for i := range hosts {
				hosts[i] = p.serve(t, config, flags...)
				greeted[i] = hosts[i].hello()
				answered[i] = hosts[i].call("p_echo", `{}`)
			}
			// One or two die at a random moment; whoever lives gets its answer from an
			// instance that is its first, which nobody has swept.
			victims := 1 + rand.N(crowd-1)
			time.Sleep(rand.N(300 * time.Millisecond))
			for i := range victims {
				hosts[i].kill(t)
			}
			for i := victims; i < crowd; i++ {
				hosts[i].await(t, "initialize", greeted[i])
				if r := hosts[i].await(t, "echo", answered[i]); r.Error != nil {
					t.Errorf("round %d: a living host answers %s", round, r.Error.Message)
				}
				hosts[i].echo(t)
				if text := hosts[i].stderr(); strings.Contains(text, "is not running") {
					t.Errorf("round %d: an instance of a living host ended:\n%s", round, text)
				}
				if n := first(hosts[i]); n != 3 {
					t.Errorf("round %d: of a living host's first instance there are %d processes", round, n)
				}
			}
			for i := victims; i < crowd; i++ {
				hosts[i].kill(t)
			}
			last = append(last, hosts[:]...)
			for _, e := range staying {
				if !e.lives() {
					t.Fatalf("round %d: %v was touched", round, e)
				}
			}
			if t.Failed() {
				return
			}
		}
		end := p.serve(t, config, flags...)
		end.await(t, "initialize", end.hello())
		if !within(orphanLimit, func() bool { return len(everyone(p, stays.id)) == 0 }) {
			t.Errorf("left of %d hosts: %v", len(last), everyone(p, stays.id))
		}
		if runs := p.runs(); len(runs) != 2 {
			t.Errorf("runs: %v", runs)
		}
		end.stop(t)
		stays.stop(t)
	})
}

// first counts the processes of a host's first instance, by the guard that is its child.
func first(h *host) int {
	for _, e := range marked("") {
		if e.role == "guard" && strings.HasSuffix(e.mark, "/p/1") && readStat(e.pid).parent == h.pid() {
			return len(instance(e.mark))
		}
	}
	return 0
}

// everyone lists the marked processes in a place, other than those of one host.
func everyone(p place, but string) (found []entry) {
	for _, e := range marked("") {
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", e.pid))
		if strings.Contains(string(environ), p.dir) && !strings.HasPrefix(e.mark, but) {
			found = append(found, e)
		}
	}
	return found
}
