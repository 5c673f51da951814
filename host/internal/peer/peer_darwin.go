package peer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Supported says whether this system tells who a peer is.
const Supported = true

// handle is nothing: there is no name for a process but its pid here.
type handle struct{}

func (handle) close() {}

// identify asks the socket.
func (p *Peer) identify(socket int) error {
	cred, err := unix.GetsockoptXucred(socket, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return fmt.Errorf("who connected: %w", err)
	}
	pid, err := unix.GetsockoptInt(socket, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	if err != nil {
		return fmt.Errorf("who connected: %w", err)
	}
	p.PID, p.UID = pid, int(cred.Uid)
	return nil
}

func (p *Peer) ended() bool { return errors.Is(unix.Kill(p.PID, 0), unix.ESRCH) }

// lineage walks from pid to the top.
func lineage(pid int, variable string) ([]Process, error) {
	var line []Process
	for pid > 0 && len(line) < maxLineage {
		info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
		if err != nil || int(info.Proc.P_pid) != pid {
			return nil, ErrGone
		}
		line = append(line, look(pid, variable))
		pid = int(info.Eproc.Ppid)
	}
	return line, nil
}

// errNoEnviron says that the system tells nothing of what a process was started with.
var errNoEnviron = errors.New("it has none to be seen")

// look reads what a process was started with: the number of its arguments, the
// path, the arguments and the environment, each ended by a zero (sysctl(3),
// KERN_PROCARGS2).
func look(pid int, variable string) Process {
	p := Process{PID: pid}
	raw, err := unix.SysctlRaw("kern.procargs2", pid)
	if err == nil && len(raw) < 4 {
		err = errNoEnviron
	}
	if err != nil {
		p.Hidden = err
		return p
	}
	for _, one := range bytes.Split(environment(raw), []byte{0}) {
		if value, ok := bytes.CutPrefix(one, []byte(variable+"=")); ok && len(value) > 0 {
			p.Mark = string(value)
			break
		}
	}
	return p
}

// environment is what follows the path and the arguments.
func environment(raw []byte) []byte {
	args := int(binary.LittleEndian.Uint32(raw))
	_, rest, _ := bytes.Cut(raw[4:], []byte{0})
	rest = bytes.TrimLeft(rest, "\x00")
	for range args {
		var more bool
		if _, rest, more = bytes.Cut(rest, []byte{0}); !more {
			return nil
		}
	}
	return rest
}
