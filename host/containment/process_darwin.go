package containment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is a line of the process table. A pid says who is meant only together
// with the time of its start: pids are used again.
type process struct {
	pid, parent, group int
	zombie             bool
	// start is in microseconds since 1970.
	start uint64
}

func (p process) alive() bool { return !p.zombie }

func (p process) leaving() bool { return p.zombie }

// zombieState is SZOMB of sys/proc.h.
const zombieState = 5

func fromKinfo(k *unix.KinfoProc) process {
	started := k.Proc.P_starttime
	return process{
		pid:    int(k.Proc.P_pid),
		parent: int(k.Eproc.Ppid),
		group:  int(k.Eproc.Pgid),
		zombie: k.Proc.P_stat == zombieState,
		start:  uint64(started.Sec)*1e6 + uint64(started.Usec),
	}
}

func readProcess(pid int) (process, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return process{}, errNoProcess
	}
	return fromKinfo(k), nil
}

// processes is the process table.
func processes() ([]process, error) {
	table, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	all := make([]process, len(table))
	for i := range table {
		all[i] = fromKinfo(&table[i])
	}
	return all, nil
}

// markOf is the instance's mark in the environment that a process was started
// with, or "", and whether that is sure. KERN_PROCARGS2 holds the number of arguments, the path, padding,
// the arguments and the environment, each ended by a zero.
func markOf(pid int) (mark string, sure bool) {
	raw, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil || len(raw) < 4 {
		return "", true
	}
	arguments := int(binary.NativeEndian.Uint32(raw))
	_, rest, _ := bytes.Cut(raw[4:], []byte{0})
	rest = bytes.TrimLeft(rest, "\x00")
	for range arguments {
		_, rest, _ = bytes.Cut(rest, []byte{0})
	}
	for variable := range bytes.SplitSeq(rest, []byte{0}) {
		if mark, ok := bytes.CutPrefix(variable, []byte(MarkEnv+"=")); ok {
			return string(mark), true
		}
	}
	return "", true
}

// signalExactly signals the process with this pid if it is the one that is meant.
// Nothing here holds a pid between the two.
func signalExactly(pid int, is func(process) bool, sig syscall.Signal) error {
	p, err := readProcess(pid)
	if err != nil {
		return err
	}
	if !is(p) {
		return errNotIt
	}
	err = syscall.Kill(pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return errNoProcess
	}
	return err
}

// system names this boot and this view of the process table.
func system() (boot, namespace string, err error) {
	boot, err = unix.Sysctl("kern.bootsessionuuid")
	return boot, "", err
}
