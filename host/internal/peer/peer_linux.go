package peer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Supported says whether this system tells who a peer is.
const Supported = true

// handle is a pidfd: it names the process for as long as it is open, whatever
// becomes of the pid; -1 where the kernel has none.
type handle struct{ fd int }

func (h handle) close() {
	if h.fd >= 0 {
		_ = unix.Close(h.fd)
	}
}

// identify asks the socket. Linux 6.5 gives a pidfd of the very process that
// connected. Before that one is opened by its pid: a peer that has ended since it
// connected, and whose pid is another's already, is then taken for that other.
func (p *Peer) identify(socket int) error {
	cred, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return fmt.Errorf("who connected: %w", err)
	}
	p.PID, p.UID, p.handle.fd = int(cred.Pid), int(cred.Uid), -1
	if fd, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil {
		p.handle.fd = fd
		return nil
	} else if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EINVAL) {
		return ErrGone
	}
	if fd, err := unix.PidfdOpen(p.PID, 0); err == nil {
		p.handle.fd = fd
	} else if errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	return nil
}

// ended says whether the process has ended; its pid is then no longer its own.
func (p *Peer) ended() bool {
	if p.handle.fd < 0 {
		return false
	}
	poll := []unix.PollFd{{Fd: int32(p.handle.fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(poll, 0)
		if !errors.Is(err, unix.EINTR) {
			return err != nil || n > 0
		}
	}
}

// retries is how often a walk looks again at a process that got another parent
// while it was looked at.
const retries = 8

// lineage walks from pid to the top. A parent is believed when its child has it
// before and after it was read: a pid that is somebody's parent is in use, and one
// whose process has ended is nobody's parent any more.
func lineage(pid int, variable string) ([]Process, error) {
	var line []Process
	self, err := parentOf(pid)
	if err != nil {
		return nil, err
	}
	first, err := look(pid, variable)
	if err != nil {
		return nil, err
	}
	line = append(line, first)
	for tries := 0; self.parent > 0 && len(line) < maxLineage; {
		parent, err := parentOf(self.parent)
		next, errNext := look(self.parent, variable)
		again, errAgain := parentOf(self.pid)
		switch {
		case errAgain != nil || again.start != self.start:
			if len(line) == 1 {
				return nil, ErrGone
			}
			return nil, fmt.Errorf("process %d, from which the peer descends: %w", self.pid, ErrGone)
		case again.parent != self.parent || err != nil:
			if tries++; tries > retries {
				return nil, fmt.Errorf("the parents of process %d do not stand still", self.pid)
			}
			self = again
		default:
			next.Hidden = next.Hidden || errNext != nil
			line = append(line, next)
			self, tries = parent, 0
		}
	}
	return line, nil
}

// entry is what a walk needs of a line of the process table.
type entry struct {
	pid, parent int
	start       uint64 // in clock ticks since the boot
}

// parentOf reads /proc/PID/stat (proc(5)). The name, second and in parentheses, may
// itself hold spaces and parentheses.
func parentOf(pid int) (entry, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return entry{}, ErrGone
	}
	if err != nil {
		return entry{}, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const parent, start = 1, 19 // of those after the name
	if len(fields) <= start {
		return entry{}, fmt.Errorf("process %d: its stat has %d fields", pid, len(fields))
	}
	e := entry{pid: pid}
	var errs [2]error
	e.parent, errs[0] = strconv.Atoi(fields[parent])
	e.start, errs[1] = strconv.ParseUint(fields[start], 10, 64)
	return e, errors.Join(errs[:]...)
}

// maxEnviron is more than the kernel lets a process be started with.
const maxEnviron = 8 << 20

// look reads what a process was started with. The error is ErrGone for one that is
// ending: it has no environment any more.
func look(pid int, variable string) (Process, error) {
	p := Process{PID: pid}
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return p, ErrGone
	}
	if err != nil {
		p.Hidden = true
		return p, nil
	}
	defer f.Close()
	environ, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if errors.Is(err, unix.ESRCH) {
		return p, ErrGone
	}
	if err != nil {
		p.Hidden = true
		return p, nil
	}
	for one := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(one, []byte(variable+"=")); ok && len(value) > 0 {
			p.Mark = string(value)
			break
		}
	}
	return p, nil
}
