package peer

import (
	"bytes"
	"cmp"
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
			next.Hidden = cmp.Or(next.Hidden, errNext)
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

// statOf is a line of the process table (proc(5)) from the third field on. The name,
// second and in parentheses, may itself hold spaces and parentheses.
func statOf(process string) ([]string, error) {
	text, err := os.ReadFile(process + "/stat")
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])), nil
}

// parentOf reads what a walk needs.
func parentOf(pid int) (entry, error) {
	fields, err := statOf("/proc/" + strconv.Itoa(pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return entry{}, ErrGone
	}
	if err != nil {
		return entry{}, err
	}
	const parent, start = 1, 19
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
	var environ []byte
	environ, p.Hidden = environOf("/proc/" + strconv.Itoa(pid))
	if errors.Is(p.Hidden, fs.ErrNotExist) || errors.Is(p.Hidden, unix.ESRCH) {
		return p, ErrGone
	}
	for one := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(one, []byte(variable+"=")); ok && len(value) > 0 {
			p.Mark = string(value)
			break
		}
	}
	return p, nil
}

// errNoEnviron is for a process that shows no environment and was not started
// without one: it is in the middle of an exec, or of its end.
var errNoEnviron = errors.New("it has none at the moment")

// environOf reads the environment of the process whose folder in /proc this is. A
// process whose first thread has ended shows it in the others alone.
func environOf(process string) ([]byte, error) {
	environ, err := readEnviron(process)
	if err != nil || len(environ) > 0 {
		return environ, err
	}
	threads, err := os.ReadDir(process + "/task")
	if err != nil {
		return nil, err
	}
	for _, thread := range threads {
		if environ, err = readEnviron(process + "/task/" + thread.Name()); err == nil && len(environ) > 0 {
			return environ, nil
		}
	}
	fields, err := statOf(process)
	if err != nil {
		return nil, err
	}
	const start, end = 47, 48 // where the environment lies in memory
	if len(fields) <= end || fields[end] == "0" || fields[start] != fields[end] {
		return nil, errNoEnviron
	}
	return nil, nil // it was given none
}

func readEnviron(dir string) ([]byte, error) {
	f, err := os.Open(dir + "/environ")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxEnviron))
}
