//go:build linux

package killtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// orphanLimit is how long after a host's death something of it may still run: five
// seconds, doubled for a machine that runs other tests too.
const orphanLimit = 10 * time.Second

// answerLimit is how long after its server's end a call may wait for its error: a
// second, doubled.
const answerLimit = 2 * time.Second

// everything is what the server starts, everyone but the process that changes its
// pid all the time; hydra is that one.
const (
	everything = "child,setsid,daemon"
	hydra      = everything + ",hydra"
)

// lane plays rounds one after the other in one state dir, which it shares with a
// neighbour: a host that nobody kills.
type lane struct {
	*testing.T
	place
	score *score
	tier  string

	neighbour  *host
	neighbours []entry
	// own is the user's own server: the same command with the same arguments.
	own     *exec.Cmd
	ownTree []entry

	host *host
	tame bool // its server has no hydra
	base base
	runs int // instances that it has had
	dead []string
}

// base is what a host has when it is idle with one instance; nothing before it was.
type base struct {
	descriptors, sockets int
	goroutines           map[string]int
}

// count notes the base of a host that is idle, once.
func (l *lane) count() {
	l.Helper()
	if l.base.descriptors == 0 {
		l.base = base{descriptors(l.host.pid()), len(sockets(l.place, l.host.id)), l.host.goroutines(l.T, l.place)}
	}
}

func newLane(t *testing.T, score *score, tier string, uid int) *lane {
	l := &lane{T: t, place: newPlace(t, uid), score: score, tier: tier}
	for name, children := range map[string]string{"wild.hcl": hydra, "tame.hcl": everything} {
		l.config(t, name, provider{"p", l.stubborn(children), restarts})
	}
	l.own = l.command(fake(), l.stubborn(everything)...)
	in, err := l.own.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	l.own.SysProcAttr.Setpgid = true
	l.own.Env = append(l.own.Env, markEnv+"=") // and no mark of this test's own, were there one
	if err := l.own.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		l.endOwn()
	})
	eventually(t, "the user's own server", func() bool {
		l.ownTree = l.here()
		for _, role := range []string{"server", "child", "setsid", "daemon"} {
			if len(pick(l.ownTree, role)) != 1 {
				return false
			}
		}
		return true
	})

	config := l.config(t, "neighbour.hcl", provider{"p", []string{"--life", "60m"}, restarts})
	l.neighbour = l.serve(t, config, "--containment-tier", tier)
	l.neighbour.ready(t, l.place)
	l.neighbour.echo(t)
	l.neighbours = marked(l.neighbour.id + "/")
	if len(l.neighbours) != 3 {
		t.Fatalf("of the neighbour there are %v", l.neighbours)
	}
	return l
}

// endOwn ends the user's own server and what it started: its children have its
// working directory, and it has ended none of them.
func (l *lane) endOwn() {
	for _, e := range l.here() {
		e.signal(l.T, syscall.SIGKILL)
	}
	_ = l.own.Wait()
}

// here are the processes whose working directory is the lane's.
func (l *lane) here() (found []entry) {
	for _, pid := range pids() {
		if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil && dir == l.dir {
			if role := roleOf(pid); role != "" {
				found = append(found, entry{pid: pid, start: readStat(pid).start, role: role})
			}
		}
	}
	return found
}

// open starts a host.
func (l *lane) open(tame bool) {
	l.Helper()
	config := "wild.hcl"
	if tame {
		config = "tame.hcl"
	}
	before := l.host
	l.host = l.serve(l.T, l.path(config), "--containment-tier", l.tier)
	l.tame, l.base, l.runs = tame, base{}, 0
	l.host.ready(l.T, l.place, l.neighbour, before)
}

// play plays one round and returns how many processes were left.
func (l *lane) play(c cell, number int) int {
	l.Helper()
	if l.host != nil && l.tame != c.both() {
		l.host.stop(l.T)
		l.host = nil
	}
	if l.host == nil {
		l.open(c.both())
	}
	l.shrink()
	var left []entry
	for !l.Failed() {
		var played bool
		if left, played = l.try(c, number); played {
			break
		}
		l.Logf("%+v: nobody was there to be killed", c)
	}
	if len(left) > 0 {
		l.Errorf("left: %v", left)
	}
	l.others()
	return len(left)
}

// shrink empties the server's log, which the hydras fill.
func (l *lane) shrink() { _ = os.Truncate(l.path("server.log"), 0) }

// try plays one round; it does not count if the victims were gone before.
func (l *lane) try(c cell, number int) (left []entry, played bool) {
	l.Helper()
	old, pending := l.prepare(c)
	if !l.strike(c, old, number%2 == 1) {
		if c.phase == "stop" { // it was quicker than we are
			_ = l.host.end(l.T)
			l.open(c.both())
		}
		return nil, false
	}
	struck := time.Now()
	switch {
	case c.hits("host"):
		return l.checkDead(c, struck), true
	case c.phase == "stop":
		if err := l.host.end(l.T); err != nil {
			l.Errorf("%+v: the host ended with %v", c, err)
		}
		left = marked(l.host.id + "/")
		l.reopen(c.both())
		return left, true
	}
	return l.checkLiving(c, old, pending, struck), true
}

// prepare brings the host to the phase. It returns the mark of the instance that is
// to die, and the call that is in flight.
func (l *lane) prepare(c cell) (mark string, pending <-chan reply) {
	l.Helper()
	if c.phase == "start" {
		old := l.cool()
		pending = l.host.call("p_echo", `{}`)
		role := []string{"guard", "plugin", "server"}[rand.N(3)]
		for who := range strings.SplitSeq(c.victim, "+") {
			if who != "host" {
				role = who
			}
		}
		eventually(l.T, "a new "+role, func() bool {
			for _, e := range pick(marked(l.host.id+"/"), role) {
				if !slices.Contains(old, e.mark) {
					mark = e.mark
				}
			}
			return mark != ""
		})
		time.Sleep(rand.N(60 * time.Millisecond))
		return mark, pending
	}
	l.host.echo(l.T)
	mark = l.whole()
	l.count()
	switch c.phase {
	case "call":
		l.shrink()
		pending = l.host.call("p_slow", `{"ms":600000}`)
		eventually(l.T, "the call at the server", func() bool {
			text, _ := os.ReadFile(l.path("server.log"))
			return strings.Contains(string(text), "600000")
		})
	case "stop":
		_ = l.host.in.Close()
		time.Sleep(rand.N(900 * time.Millisecond))
	}
	return mark, pending
}

// whole waits until the instance and all that its server starts are there.
func (l *lane) whole() (mark string) {
	l.Helper()
	want := []string{"guard", "plugin", "server", "child", "setsid", "daemon"}
	if !l.tame {
		want = append(want, "hydra")
	}
	seen := map[string]map[string]bool{}
	eventually(l.T, "a whole tree", func() bool {
		for _, e := range marked(l.host.id + "/") {
			if seen[e.mark] == nil {
				seen[e.mark] = map[string]bool{}
			}
			seen[e.mark][e.role] = true
			if e.role == "server" {
				mark = e.mark
			}
		}
		return !slices.ContainsFunc(want, func(role string) bool { return !seen[mark][role] })
	})
	return mark
}

// marks are the instances that have processes.
func (l *lane) marks() (all []string) {
	for _, e := range marked(l.host.id + "/") {
		if !slices.Contains(all, e.mark) {
			all = append(all, e.mark)
		}
	}
	return all
}

// cool ends the instance that runs, if one does, and returns its mark. Another starts
// by itself, or with the next call.
func (l *lane) cool() (old []string) {
	l.Helper()
	old = l.marks()
	for _, e := range pick(marked(l.host.id+"/"), "plugin") {
		e.signal(l.T, syscall.SIGKILL)
	}
	for _, mark := range old {
		eventually(l.T, "the old instance's end", func() bool { return len(instance(mark)) == 0 })
	}
	return old
}

// strike kills the victims, in the other order if last; false means that one of them
// was not there any more.
func (l *lane) strike(c cell, mark string, last bool) bool {
	l.Helper()
	who := strings.Split(c.victim, "+")
	if last {
		slices.Reverse(who)
	}
	var targets []entry
	all := instance(mark)
	for _, role := range who {
		if role == "host" {
			targets = append(targets, entry{pid: l.host.pid(), start: l.host.start, role: "host"})
			continue
		}
		found := pick(all, role)
		if len(found) != 1 {
			return false
		}
		targets = append(targets, found[0])
	}
	first := targets[0].signal(l.T, syscall.SIGKILL)
	// The second may have died of the first.
	return first && (len(targets) < 2 || targets[1].signal(l.T, syscall.SIGKILL) || true)
}

// checkDead looks at what a dead host has left.
func (l *lane) checkDead(c cell, struck time.Time) []entry {
	l.Helper()
	_ = l.host.end(l.T)
	prefix := l.host.id + "/"
	var left []entry
	if !c.both() {
		gone := within(orphanLimit, func() bool { left = twice(prefix); return len(left) == 0 })
		if gone {
			l.score.took(time.Since(struck))
		}
	}
	found := left
	l.reopen(false)
	if left = twice(prefix); len(left) > 0 {
		l.Errorf("after the next start there is %v", left)
	}
	return append(found, left...)
}

// twice looks two times, some time apart: a process that is between two pids may
// have no environment to be seen.
func twice(prefix string) []entry {
	found := marked(prefix)
	time.Sleep(20 * time.Millisecond)
	return append(found, marked(prefix)...)
}

// reopen starts the next host, and looks at what is on disk of the last.
func (l *lane) reopen(tame bool) {
	l.Helper()
	l.dead = append(l.dead, l.host.id)
	l.open(tame)
	for _, id := range l.place.runs() {
		if id != l.host.id && id != l.neighbour.id {
			l.Errorf("the run %s is still there", id)
		}
	}
	sockets, _ := filepath.Glob(l.path("run/drawbridge/*"))
	for _, path := range sockets {
		if of := filepath.Base(path)[:12]; of != l.host.id[:12] && of != l.neighbour.id[:12] {
			l.Errorf("%s is still there", path)
		}
	}
}

// checkLiving looks at a host that lives on: its call ends, and when the next
// instance has its first process the last one has none. Afterwards the host has no
// more descriptors, sockets, goroutines and zombies than before.
func (l *lane) checkLiving(c cell, old string, pending <-chan reply, struck time.Time) (left []entry) {
	l.Helper()
	if pending != nil {
		r := l.host.await(l.T, "the call in flight", pending)
		switch {
		case c.phase == "start": // its instance was not ready: it may have been answered by the next
		case r.Error == nil || !r.Error.Data.Dispatched:
			l.Errorf("the call in flight was answered with %s %+v", r.Result, r.Error)
		default:
			l.score.answered(time.Since(struck))
			if took := time.Since(struck); took > answerLimit {
				l.Errorf("the call in flight ended after %v", took)
			}
		}
	}
	answered := make(chan struct{})
	go func() { // whose errors the echo below repeats
		defer close(answered)
		select {
		case <-l.host.call("p_echo", `{}`):
		case <-l.host.ended:
		case <-time.After(patience):
		}
	}()
	eventually(l.T, "the next instance", func() bool {
		return slices.ContainsFunc(l.marks(), func(mark string) bool { return mark != old })
	})
	left = instance(old)
	<-answered
	l.host.echo(l.T)
	left = append(left, instance(old)...)
	l.runs++
	l.count()
	if now := 0; !within(orphanLimit, func() bool { now = descriptors(l.host.pid()); return now <= l.base.descriptors }) {
		l.Errorf("the host had %d descriptors, and has %d", l.base.descriptors, now)
	}
	if now := sockets(l.place, l.host.id); len(now) > l.base.sockets {
		l.Errorf("the host had %d sockets, and has %v", l.base.sockets, now)
	}
	if more := l.host.gained(l.T, l.place, l.base.goroutines); len(more) > 0 {
		l.Errorf("the host has more goroutines: %q", more)
	}
	l.noZombies()
	return append(left, instance(old)...)
}

// noZombies waits until those that are there now have been collected.
func (l *lane) noZombies() {
	l.Helper()
	these := zombiesBelow(l.host.pid())
	if !within(orphanLimit, func() bool {
		now := zombiesBelow(l.host.pid())
		for z := range these {
			if !now[z] {
				delete(these, z)
			}
		}
		return len(these) == 0
	}) {
		l.Errorf("zombies: %v", these)
	}
}

// others looks whether those whom nobody killed are as they were.
func (l *lane) others() {
	l.Helper()
	for _, e := range l.ownTree {
		if !e.lives() {
			l.Errorf("%v was touched, the user's own", e)
		}
	}
	if said(l.host, "left a process alone") { // there are no records here but of what hosts started
		l.Errorf("a start took what a dead host had left for another's:\n%s", l.host.stderr())
	}
	if !l.neighbour.lives() {
		l.Error("another host on the same state dir was touched")
	}
	for _, e := range l.neighbours {
		if !e.lives() {
			l.Errorf("%v was touched, of another host on the same state dir", e)
		}
	}
}

// finish stops what runs, and compares the goroutines of a host that has had many
// instances with those of the neighbour, which has had one.
func (l *lane) finish() {
	l.Helper()
	if l.host.lives() {
		l.host.echo(l.T)
		for range 5 {
			l.cool()
			l.host.echo(l.T)
		}
		if more := l.host.gained(l.T, l.place, l.neighbour.goroutines(l.T, l.place)); len(more) > 0 {
			l.Errorf("of a host that has had one instance, and of one that has had %d more, goroutines: %q", l.runs+5, more)
		}
		l.host.stop(l.T)
		l.neighbour.stop(l.T)
	}
	for _, id := range append(l.dead, l.host.id, l.neighbour.id) {
		if !within(orphanLimit, func() bool { return len(twice(id+"/")) == 0 }) {
			l.Errorf("left: %v", marked(id+"/"))
		}
	}
}
