package containment

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fault is what is done to a tree.
type fault string

const (
	killHost     fault = "host"
	killGuard    fault = "guard"
	killPlugin   fault = "plugin"
	killServer   fault = "server"
	killBoth     fault = "host+guard"
	freezeHost   fault = "guard frozen, host"
	freezeUnkind fault = "guard frozen, Kill"
)

// phase is when it is done.
type phase string

const (
	phaseStart phase = "start" // at a random moment from the guard's birth on
	phaseIdle  phase = "idle"
	phaseStop  phase = "stop" // at a random moment after Kill
)

// faults says which are possible when: what a phase may not have yet, or have no
// more, cannot be killed.
var faults = map[phase][]fault{
	phaseStart: {killHost, killGuard, killBoth},
	phaseIdle:  {killHost, killGuard, killPlugin, killServer, killBoth, freezeHost, freezeUnkind},
	phaseStop:  {killHost, killGuard, killBoth},
}

// rounds is how often each cell of the kill table is tried: once, or as often as
// CONTAINMENT_ROUNDS says.
func rounds(t *testing.T) int {
	text := os.Getenv("CONTAINMENT_ROUNDS")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// No process outlives its host, whoever is killed, whenever, in every tier.
func TestNothingIsLeft(t *testing.T) {
	var table strings.Builder
	for _, uid := range users() {
		for _, tier := range []Tier{TierPIDNS, TierSubreaper, TierPGroup} {
			t.Run(fmt.Sprintf("%s,uid=%d", tier, uid), func(t *testing.T) {
				p := newPlace(t, uid)
				for _, when := range []phase{phaseStart, phaseIdle, phaseStop} {
					for _, what := range faults[when] {
						played, left := 0, 0
						t.Run(fmt.Sprintf("%s,%s", when, what), func(t *testing.T) {
							for i := range rounds(t) {
								left += (&round{t: t, place: p, tier: tier, when: when, what: what, number: i}).play()
								played++
							}
						})
						fmt.Fprintf(&table, "| %-10s | %6d | %-6s | %-20s | %6d | %9d |\n", tier, uid, when, what, played, left)
					}
				}
			})
		}
	}
	t.Logf("\n| %-10s | %6s | %-6s | %-20s | %6s | %9s |\n%s", "tier", "uid", "phase", "victim", "rounds", "survivors", &table)
}

type round struct {
	t     *testing.T
	place *place
	tier  Tier
	when  phase
	what  fault
	// number of the round in its cell: odd ones do the same in another order.
	number int

	host  *testHostProcess
	hydra bool
	guard entry
}

// play plays one round and returns how many processes it left; of those that may
// be left until the next start, how many the next start left.
func (r *round) play() int {
	r.t.Helper()
	// Nothing but a namespace holds what changes its pid when host and guard are gone
	// at once, and a process group does not hold it at all.
	r.hydra = r.tier == TierPIDNS || r.tier == TierSubreaper && r.what != killBoth
	r.host = r.place.host(r.t, func(c *hostConfig) {
		c.Tier = r.tier
		if r.hydra {
			c.Hydra = r.place.hydra
		}
	})
	base := r.prepare()
	r.strike()
	left := r.check(base)
	if len(left) > 0 {
		r.t.Errorf("left: %v", left)
		sweepAway(r.t, r.host.id)
	}
	return len(left)
}

// prepare brings the host to the phase and returns what it counts, if it is idle.
func (r *round) prepare() (base told) {
	if r.when == phaseStart {
		waitFor(r.t, "a guard", func() bool {
			if len(r.host.said) > 0 && !r.findGuard() { // it is done before we looked, or cannot start
				r.host.expect("spawned")
			}
			return r.findGuard()
		})
		pause(40 * time.Millisecond)
		return told{}
	}
	r.host.expect("spawned")
	r.host.wholeTree(r.place, r.hydra)
	if !r.findGuard() {
		r.t.Fatal("there is no guard")
	}
	r.host.command("stat")
	base = r.host.expect("stat")
	if r.when == phaseStop {
		r.host.command("kill")
		pause(5 * time.Millisecond)
	}
	return base
}

func (r *round) findGuard() bool {
	guards := roles(r.host.id)["guard"]
	if len(guards) != 1 {
		return false
	}
	r.guard = guards[0]
	return true
}

// pause waits for a random time, shorter than most.
func pause(most time.Duration) { time.Sleep(rand.N(most)) }

// strike does it.
func (r *round) strike() {
	r.t.Helper()
	one := func(role string) entry {
		found := roles(r.host.id)[role]
		if len(found) != 1 {
			r.t.Fatalf("there are %v", found)
		}
		return found[0]
	}
	switch r.what {
	case killHost:
		r.host.kill()
	case killGuard:
		r.killGuard()
	case killPlugin:
		one("plugin").send(r.t, syscall.SIGKILL)
	case killServer:
		one("server").send(r.t, syscall.SIGKILL)
	case killBoth:
		if r.number%2 == 0 {
			r.killGuard()
			r.host.kill()
		} else {
			_ = r.host.cmd.Process.Kill()
			r.killGuard()
			r.host.kill()
		}
	case freezeHost:
		r.guard.send(r.t, syscall.SIGSTOP)
		r.host.kill()
	case freezeUnkind:
		r.guard.send(r.t, syscall.SIGSTOP)
		r.host.command("kill")
	}
}

// killGuard kills the guard if it is still there.
func (r *round) killGuard() {
	if _, start := stateAndStart(r.guard.pid); start == r.guard.start {
		_ = signalExactly(r.guard.pid, func(now process) bool { return fmt.Sprint(now.start) == r.guard.start }, syscall.SIGKILL)
	}
}

// check says what is left.
func (r *round) check(base told) []entry {
	r.t.Helper()
	switch {
	case r.what == killBoth && r.tier != TierPIDNS:
		// The next start ends what is left.
	case r.what == killHost || r.what == killBoth || r.what == freezeHost:
		if left := r.place.survivors(r.host.id, r.hydra); len(left) > 0 {
			return left
		}
	default:
		return r.checkHost(base)
	}
	next := r.place.host(r.t, func(c *hostConfig) { c.Trees = 0 })
	if len(next.swept.Left) > 0 {
		r.t.Errorf("the next start could not end %v", next.swept.Left)
	}
	left := r.place.survivors(r.host.id, r.hydra)
	if on := r.place.left(r.host.id); len(on) > 0 {
		r.t.Errorf("on disk after the next start: %v", on)
	}
	next.end(r.place)
	return left
}

// checkHost looks at a host that lives on: when it says that a tree is done there
// is nothing left of it, that very moment, nor of the descriptors and goroutines
// that it took.
func (r *round) checkHost(base told) []entry {
	r.t.Helper()
	if r.when == phaseStart {
		return r.checkStarting()
	}
	done := r.host.expect("done")
	left := withMark(r.host.id)
	r.checkDone(done)
	left = append(left, r.place.survivors(r.host.id, r.hydra)...)
	r.host.command("stat")
	stat := r.host.expect("stat")
	if len(stat.Children) > 0 {
		r.t.Errorf("children of the host: %v", stat.Children)
	}
	if stat.Files >= base.Files || stat.Goroutines > base.Goroutines {
		r.t.Errorf("files %d, then %d; goroutines %d, then %d", base.Files, stat.Files, base.Goroutines, stat.Goroutines)
	}
	r.host.end(r.place)
	return left
}

func (r *round) checkDone(done told) {
	r.t.Helper()
	const code, signal = 3, int(syscall.SIGKILL)
	switch {
	case r.what == killServer && done.Exit.Code != code,
		r.what != killServer && done.Exit.Signal != signal,
		r.what == killGuard && r.when == phaseIdle && !done.Lost,
		r.what != killGuard && r.what != freezeUnkind && done.Lost:
		r.t.Errorf("the host tells %+v", done)
	}
}

// checkStarting looks at a host whose guard was killed while it started: the start
// has failed, or the tree has ended.
func (r *round) checkStarting() []entry {
	r.t.Helper()
	var left []entry
	timeout := time.After(limit)
	for {
		select {
		case line, ok := <-r.host.said:
			if !ok {
				return append(left, r.place.survivors(r.host.id, r.hydra)...)
			}
			switch line.Event {
			case "done":
				left = withMark(r.host.id)
				r.host.in.Close()
			case "failed":
				if line.Unsupported {
					r.t.Skip(line.Error)
				}
				left = withMark(r.host.id)
			}
		case <-timeout:
			r.t.Fatal("the host does not notice")
		}
	}
}

// forkHydra forks without exec, thousands of times in a second; 30000 steps at most.
const forkHydra = `n=30000
step() { n=$((n - 1)); [ "$n" -gt 0 ] || exit; echo >> "$1" || exit; step "$1" & }
step "$1"
`

// A process that changes its pid as fast as a shell can is caught by the guard, and
// by the host when the guard is killed.
func TestFastHydraIsCaught(t *testing.T) {
	for _, tier := range []Tier{TierPIDNS, TierSubreaper} {
		for _, what := range []fault{freezeUnkind, killGuard, killHost} {
			t.Run(fmt.Sprintf("%s,%s", tier, what), func(t *testing.T) {
				p := newPlace(t, os.Getuid())
				if err := os.WriteFile(p.hydra, []byte(forkHydra), 0o644); err != nil {
					t.Fatal(err)
				}
				r := &round{t: t, place: p, tier: tier, when: phaseIdle, what: what}
				if left := r.play(); left > 0 {
					t.Errorf("left: %d", left)
				}
				if size(p.log) >= 30000-1 {
					t.Error("the hydra ended by itself")
				}
			})
		}
	}
}

// What fell to the host is told from what the host started itself.
func TestHostsOwnChildrenAreUntouched(t *testing.T) {
	needTier(t, TierSubreaper)
	run := newRun(t)
	g := open(t, TierSubreaper, run)
	own := stranger(t, "")
	tree, _ := spawnRole(t, g, run, "family")
	waitFor(t, "the family", func() bool { return len(withMark(run.ID())) == 3 })
	roles(run.ID())["guard"][0].send(t, syscall.SIGKILL)
	await(t, tree)
	if left := withMark(run.ID()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if !tree.Lost() {
		t.Error("the guard was not killed")
	}
	if !lives(own.Process.Pid) {
		t.Error("a child of the host's own was killed")
	}
	if children := childrenOf(os.Getpid()); len(children) != 1 || children[0] != own.Process.Pid {
		t.Errorf("children: %v", children)
	}
}

// A guard that is frozen when its host dies is woken, also where its host was below
// another subreaper of the same session, so that the kernel's rule about orphaned
// groups does not wake it.
func TestFrozenGuardBelowASubreaper(t *testing.T) {
	if err := becomeSubreaper(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
	for _, tier := range []Tier{TierPIDNS, TierSubreaper, TierPGroup} {
		t.Run(string(tier), func(t *testing.T) {
			r := &round{t: t, place: newPlace(t, os.Getuid()), tier: tier, when: phaseIdle, what: freezeHost}
			if left := r.play(); left > 0 {
				t.Errorf("left: %d", left)
			}
			for _, fallen := range childrenOf(os.Getpid()) {
				_, _ = syscall.Wait4(fallen, nil, 0, nil)
			}
		})
	}
}
