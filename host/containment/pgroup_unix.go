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
type processGroup struct{ mark string }

func (processGroup) prepare() (noProc error, err error) { return nil, nil }

func (processGroup) unprivileged() error { return nil }

func (processGroup) attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func (g processGroup) signal(plugin int, sig syscall.Signal) {
	if plugin > 0 { // else the guard was killed before it said whom it had started
		_ = syscall.Kill(-plugin, sig)
	}
	for _, p := range g.strays().found {
		same := func(now process) bool { return now.start == p.start }
		_ = signalExactly(p.pid, same, sig)
	}
}

func (g processGroup) empty(plugin int) bool {
	return groupEmpty(plugin) && g.strays().nobody()
}

// groupEmpty says whether no living process is in a group. Zombies do not count:
// they are init's to collect, which takes its time.
func groupEmpty(group int) bool {
	if group <= 0 || errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
		return true
	}
	all, err := processes()
	return err == nil && !slices.ContainsFunc(all, func(p process) bool { return p.group == group && p.alive() })
}

// strays looks for the processes with the mark, but for the guard itself.
func (g processGroup) strays() look {
	return lookFor(func(mark string) bool { return mark == g.mark }, map[int]bool{os.Getpid(): true})
}
