package containment

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// guardName is what a guard is called in the process table, instead of the "exe" of
// /proc/self/exe. It has not the host's name in it: who kills all that is called
// drawbridge kills the host, and the guards do their work.
const guardName = "bridge-guard"

func newKeeper(o guardOptions) keeper {
	_ = os.WriteFile("/proc/self/comm", []byte(guardName), 0)
	switch o.tier {
	case TierPIDNS:
		return namespaceInit{dropCaps: o.userns}
	case TierSubreaper:
		return subreaper{}
	default:
		return &processGroup{mark: o.mark}
	}
}

// namespaceInit is a guard that is process 1 of a PID namespace. Whatever is in
// there falls to it, and dies with it, by the kernel's own rule.
type namespaceInit struct{ dropCaps bool }

func (namespaceInit) prepare() (noProc error, err error) {
	if os.Getpid() != 1 {
		return nil, errors.New("not process 1 of a PID namespace")
	}
	return mountProc(), nil
}

// mountProc mounts the namespace's own /proc over the machine's. With the
// machine's, a process that looks for itself by its pid finds a stranger:
// Chromium then adjusts the OOM score of other people's processes.
func mountProc() error {
	// Slave, not private: what we mount stays in here, and what the machine mounts
	// or unmounts later still shows in here. A private copy would keep a drive busy
	// that its user wants to take out.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("make mounts ours: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

func (n namespaceInit) unprivileged() error {
	if !n.dropCaps {
		return nil
	}
	return dropCapabilities()
}

func (namespaceInit) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true}
}

// signal reaches all but process 1 itself, and no fork escapes it: the kernel
// holds off new processes while it walks.
func (namespaceInit) signal(_ int, sig syscall.Signal) { _ = syscall.Kill(-1, sig) }

func (namespaceInit) empty(int) bool { return true }

// guardCaps are what a guard in a user namespace of its own is given: one to
// mount /proc, one to take all of them from the plugin for good.
var guardCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}

// dropCapabilities takes every capability from the calling thread, and from what
// it starts: ambient, bounding, permitted, effective, inheritable. The guard's
// other threads keep theirs. They run nothing foreign, and since the tree has
// fewer capabilities it cannot trace the guard.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) && c > 0 {
			break // above the last that this kernel knows
		}
		if err != nil {
			return fmt.Errorf("drop bounding capability %d: %w", c, err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil { // version 3 reads both words
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// subreaper is a guard to which every orphan below it falls. The death of its host
// must not kill it: that would end the process that cleans up before it has.
type subreaper struct{}

func (subreaper) prepare() (noProc error, err error) {
	return nil, becomeSubreaper()
}

func becomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	return nil
}

func (subreaper) unprivileged() error { return nil }

// attributes ties the plugin to the guard's spawning thread, which lives as long
// as the guard, so that a plugin whose guard is killed dies at once. The session
// of its own is also how the host knows what fell to it; see adopted.
func (subreaper) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

func (subreaper) signal(_ int, sig syscall.Signal) {
	signalDescendants(sig, func(int) bool { return true })
}

func (subreaper) empty(int) bool { return true }
