package containment

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// executable is what this process runs, even if the file has been replaced or
// removed since.
func executable() (string, error) { return "/proc/self/exe", nil }

// guardAttributes are those of a guard. In a process group of its own a terminal's
// signals do not reach it; the session stays the host's, see adopted. When the host
// dies the kernel kills a guard that is process 1, and all below it. Any other guard
// would die before it has cleaned up: it is woken, should somebody have stopped it,
// and reads the end of its lifeline.
func guardAttributes(support Support) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGCONT}
	if support.Tier != TierPIDNS {
		return attr
	}
	attr.Pdeathsig = syscall.SIGKILL
	attr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	if support.userns {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		attr.AmbientCaps = guardCaps
	}
	return attr
}

// onSpawnThread runs f on the thread that forks, and holds that thread until
// release is called. PDEATHSIG is sent when the *thread* that forked ends, and Go
// ends threads as it pleases: a child of any other may be killed while we are
// well. What f does may change the thread's credentials for good.
func onSpawnThread(f func()) (release func()) {
	work, done := holdThread(), make(chan struct{})
	work <- func() {
		defer close(done)
		f()
	}
	<-done
	return releaseThread
}

// prepareHost makes this process fit to hold trees of a tier.
func prepareHost(tier Tier) error {
	if tier == TierSubreaper {
		return becomeSubreaper()
	}
	return nil
}

// pluginPID is the pid, as this process sees it, of the guard's child whose pid the
// guard sees as plugin; 0 if it is gone.
func pluginPID(guard, plugin int) int {
	for _, child := range childrenOf(guard) {
		if innerPID(child) == plugin {
			return child
		}
	}
	return 0
}

// reaping is held while a child of this process is collected or its children are
// listed: the kernel's list of children skips one when another before it goes.
var reaping sync.Mutex

// collect waits for a guard, whose status pipe has ended, and takes it out of the
// process table.
func collect(guard *os.Process) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, guard.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	reaping.Lock()
	defer reaping.Unlock()
	_, _ = guard.Wait()
}

// rescue ends the tree of a guard that was killed, and returns when it is empty.
func rescue(tier Tier, mark string, plugin int) {
	switch tier {
	case TierPIDNS: // the kernel has ended it, before it let us collect the guard
	case TierSubreaper:
		killAdopted()
	default:
		killMarked(mark, plugin)
	}
}

// killAdopted kills and collects what fell to this process, until nothing of it is
// left. Two passes in a row must find nothing.
func killAdopted() {
	pause := killPauseMin
	for clean := 0; clean < 2; {
		picked, collected := killAdoptedOnce()
		if picked == 0 {
			clean++
			continue
		}
		clean = 0
		if collected > 0 {
			pause = killPauseMin
		}
		time.Sleep(pause)
		pause = min(2*pause, killPauseMax)
	}
}

func killAdoptedOnce() (picked, collected int) {
	reaping.Lock()
	defer reaping.Unlock()
	var mine []int
	picked = signalDescendants(syscall.SIGKILL, func(pid int) bool {
		if !adopted(pid) {
			return false
		}
		mine = append(mine, pid)
		return true
	})
	for _, pid := range mine {
		if got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); err == nil && got == pid {
			collected++
		}
	}
	return picked, collected
}

// adopted says whether a child of this process fell to it, rather than being
// started by it. A guard starts its plugin in a new session, and from there no
// process can get back into ours; while what we start stays in ours.
func adopted(pid int) bool {
	own, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	p, err := readProcess(pid)
	return err == nil && p.session != own
}
