//go:build unix && !linux

package containment

import (
	"os"
	"syscall"
)

func tiers() []Tier { return []Tier{TierPGroup} }

func variants(tier Tier) []Support {
	if tier != TierPGroup {
		return nil
	}
	return []Support{{Tier: tier}}
}

func newKeeper(o guardOptions) keeper { return &processGroup{mark: o.mark} }

func executable() (string, error) { return os.Executable() }

// guardAttributes keep a terminal's signals from the guard.
func guardAttributes(Support) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// onSpawnThread runs f. Only Linux has signals that belong to a thread.
func onSpawnThread(f func()) (release func()) {
	f()
	return func() {}
}

func prepareHost(Tier) error { return nil }

// collect takes a guard out of the process table once it has ended.
func collect(guard *os.Process) { _, _ = guard.Wait() }

// pluginPID is the plugin's pid: there is one table of processes here.
func pluginPID(_, plugin int) int { return plugin }

// rescue ends the tree of a guard that was killed.
func rescue(_ Tier, mark string, plugin int) { killMarked(mark, plugin) }
