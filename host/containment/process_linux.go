package containment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is a line of the process table. A pid says who is meant only together
// with the time of its start: pids are used again.
type process struct {
	pid, parent, group, session int
	state                       byte
	// start is in clock ticks since the boot.
	start uint64
}

// readProcess reads one line of the process table.
func readProcess(pid int) (process, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			return process{}, errNoProcess
		}
		return process{}, err
	}
	return parseStat(pid, stat)
}

// parseStat reads the text of /proc/PID/stat (proc(5)). The name, second and in
// parentheses, may itself hold spaces and parentheses.
func parseStat(pid int, stat []byte) (process, error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return process{}, fmt.Errorf("process %d: unreadable stat", pid)
	}
	// From the third field on, which is field 0 here.
	fields := strings.Fields(string(stat[end+1:]))
	const state, parent, group, session, start = 0, 1, 2, 3, 19
	if len(fields) <= start {
		return process{}, fmt.Errorf("process %d: short stat", pid)
	}
	p := process{pid: pid, state: fields[state][0]}
	var errs [4]error
	p.parent, errs[0] = strconv.Atoi(fields[parent])
	p.group, errs[1] = strconv.Atoi(fields[group])
	p.session, errs[2] = strconv.Atoi(fields[session])
	p.start, errs[3] = strconv.ParseUint(fields[start], 10, 64)
	if err := errors.Join(errs[:]...); err != nil {
		return process{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return p, nil
}

// alive says whether the process is more than an exit code that nobody has
// collected yet.
func (p process) alive() bool { return p.state != 'Z' && p.state != 'X' && p.state != 'x' }

// processes is the process table. What ends while it is read may be missing.
func processes() ([]process, error) {
	names, err := readNames("/proc")
	if err != nil {
		return nil, err
	}
	var all []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

// readNames lists a directory, unsorted and without a look at each entry.
func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// maxEnviron is more than the kernel lets a process be started with.
const maxEnviron = 8 << 20

// markOf is the instance's mark in the environment that a process was started
// with, or "". Of processes that are not ours to see there is none.
func markOf(pid int) string {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return ""
	}
	defer f.Close()
	environ, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil {
		return ""
	}
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if mark, ok := bytes.CutPrefix(variable, []byte(MarkEnv+"=")); ok {
			return string(mark)
		}
	}
	return ""
}

// childrenOf lists the children of a process, whichever of its threads they
// belong to.
func childrenOf(pid int) []int {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := readNames(tasks)
	if err != nil {
		return nil
	}
	var children []int
	for _, thread := range threads {
		list, err := os.ReadFile(tasks + "/" + thread + "/children")
		if err != nil {
			if _, there := os.Stat(tasks + "/" + thread); there == nil {
				return childrenByParent(pid) // a kernel without CONFIG_PROC_CHILDREN
			}
			continue
		}
		for field := range strings.FieldsSeq(string(list)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// childrenByParent is childrenOf by way of the whole process table.
func childrenByParent(pid int) []int {
	all, err := processes()
	if err != nil {
		return nil
	}
	var children []int
	for _, p := range all {
		if p.parent == pid {
			children = append(children, p.pid)
		}
	}
	return children
}

// signalDescendants sends sig to those children of this process that pick accepts
// and to all below them, and returns how many children it picked. Nothing may reap
// those children meanwhile.
func signalDescendants(sig syscall.Signal, pick func(pid int) bool) int {
	self, picked := os.Getpid(), 0
	for _, child := range childrenOf(self) {
		if !pick(child) {
			continue
		}
		picked++
		below := childrenOf(child)
		_ = syscall.Kill(child, sig)
		signalBelow(self, child, below, sig)
	}
	return picked
}

// signalBelow goes on from parent to its children. Those we do not reap, so each
// is held by a pidfd and looked at again before it is signalled: its parent is
// still parent, or it has just fallen to us.
func signalBelow(self, parent int, children []int, sig syscall.Signal) {
	for _, child := range children {
		below := childrenOf(child)
		is := func(p process) bool { return p.parent == parent || p.parent == self }
		if signalExactly(child, is, sig) == nil {
			signalBelow(self, child, below, sig)
		}
	}
}

// signalExactly signals the process with this pid if it is the one that is meant,
// and no other, even if it ends and its pid is used again between the two.
func signalExactly(pid int, is func(process) bool, sig syscall.Signal) error {
	held, err := unix.PidfdOpen(pid, 0)
	switch {
	case err == nil:
		defer func() { _ = unix.Close(held) }()
	case errors.Is(err, unix.ESRCH):
		return errNoProcess
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // Linux before 5.3; a filter that does not know it
		held = -1
	default:
		return fmt.Errorf("hold process %d: %w", pid, err)
	}
	p, err := readProcess(pid)
	if err != nil {
		return err
	}
	if !is(p) {
		return errNotIt
	}
	if held < 0 {
		err = syscall.Kill(pid, sig)
	} else {
		err = unix.PidfdSendSignal(held, sig, nil, 0)
	}
	if errors.Is(err, syscall.ESRCH) {
		return errNoProcess
	}
	return err
}

// system names this boot and this view of the process table: a pid of another
// boot, or of another PID namespace, is nobody's.
func system() (boot, namespace string, err error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", "", fmt.Errorf("boot id: %w", err)
	}
	namespace, err = os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", "", fmt.Errorf("pid namespace: %w", err)
	}
	return strings.TrimSpace(string(id)), namespace, nil
}

// innerPID is a process's pid in the innermost PID namespace that it is in.
func innerPID(pid int) int {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if pids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			each := strings.Fields(pids)
			inner, _ := strconv.Atoi(each[len(each)-1])
			return inner
		}
	}
	return pid // a kernel without PID namespaces
}
