//go:build unix

package containment

import (
	"errors"
	"os"
	"slices"
	"syscall"
)

// processGroup is a guard with no help from the kernel: it kills the plugin's
// process group, and what left the group it looks for by its mark. A process that
// left the group and lost the mark escapes it.
//
// The group's number is the plugin's pid, which is another's one day, once the plugin
// has been reaped and nobody is left in the group. So the group is killed once, as soon
// as the plugin has ended, and again only while somebody is in it who is known. What
// was killed starts nobody any more.
type processGroup struct {
	mark string
	// killed says that the group was killed and looked at, known are who was in it then.
	killed bool
	known  []process
	// over says that nobody of ours is in the group any more, nor will be.
	over bool
}

func (*processGroup) prepare() (noProc error, err error) { return nil, nil }

func (*processGroup) unprivileged() error { return nil }

func (*processGroup) attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func (g *processGroup) signal(plugin int, sig syscall.Signal) {
	if !g.gone(plugin) {
		_ = syscall.Kill(-plugin, sig)
		if sig == syscall.SIGKILL && !g.killed {
			known, err := groupOf(plugin)
			g.killed, g.known = err == nil, known
		}
	}
	for _, p := range g.strays().found {
		_ = signalExactly(p.pid, p.is, sig)
	}
}

func (g *processGroup) empty(plugin int) bool {
	return g.gone(plugin) && g.strays().nobody()
}

// gone says whether nobody of ours is left in the plugin's group. Where the process
// table cannot be read, that is when nobody at all is.
func (g *processGroup) gone(plugin int) bool {
	switch {
	case g.over:
	case plugin <= 0: // the guard was killed before it said whom it had started
		g.over = true
	case errors.Is(syscall.Kill(-plugin, 0), syscall.ESRCH):
		g.over = true
	case g.killed:
		now, err := groupOf(plugin)
		g.over = err == nil && !slices.ContainsFunc(now, g.ours)
	}
	return g.over
}

// ours says whether a process of the group is one that was in it when it was killed, or
// bears the mark.
func (g *processGroup) ours(p process) bool {
	mark, sure := markOf(p.pid)
	return sure && mark == g.mark || slices.ContainsFunc(g.known, p.is)
}

// groupEmpty says whether no living process is in a group.
func groupEmpty(group int) bool {
	if group <= 0 || errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
		return true
	}
	in, err := groupOf(group)
	return err == nil && len(in) == 0
}

// groupOf are the living processes of a group. Zombies do not count: they are init's to
// collect, which takes its time.
func groupOf(group int) ([]process, error) {
	all, err := processes()
	return slices.DeleteFunc(all, func(p process) bool { return p.group != group || !p.alive() }), err
}

// strays looks for the processes with the mark, but for the guard itself.
func (g *processGroup) strays() look {
	return lookFor(func(mark string) bool { return mark == g.mark }, map[int]bool{os.Getpid(): true})
}
