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
	threads                     int
	// kernel is set for a thread of the kernel's own, exiting for a process that has
	// begun to end.
	kernel, exiting bool
	// start is in clock ticks since the boot.
	start uint64
	// envStart and envEnd are where its environment is. Both are 0 in the middle of an
	// exec, and for a process that is not ours to see.
	envStart, envEnd uint64
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
	const state, parent, group, session, flags, threads, start, envStart, envEnd = 0, 1, 2, 3, 6, 17, 19, 47, 48
	if len(fields) <= envEnd {
		return process{}, fmt.Errorf("process %d: short stat", pid)
	}
	var errs []error
	number := func(field int) uint64 {
		n, err := strconv.ParseUint(fields[field], 10, 64)
		errs = append(errs, err)
		return n
	}
	const exiting, kernelThread = 0x00000004, 0x00200000 // PF_EXITING, PF_KTHREAD
	p := process{
		pid: pid, state: fields[state][0],
		parent: int(number(parent)), group: int(number(group)), session: int(number(session)),
		kernel: number(flags)&kernelThread != 0, exiting: number(flags)&exiting != 0, threads: int(number(threads)), start: number(start),
		envStart: number(envStart), envEnd: number(envEnd),
	}
	if err := errors.Join(errs...); err != nil {
		return process{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return p, nil
}

// alive says whether the process is more than an exit code that nobody has
// collected yet. One whose first thread has ended looks like that too, while others
// of its threads live.
func (p process) alive() bool {
	return p.threads > 1 || p.state != 'Z' && p.state != 'X' && p.state != 'x'
}

// leaving says that the process has ended or is about to. It has no environment any
// more, then, to find a mark in.
func (p process) leaving() bool { return !p.alive() || p.exiting }

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
// with, or "", and whether that is sure: in the middle of an exec a process has no
// environment for a moment. Of a process that is not ours to see there is no mark.
func markOf(pid int) (mark string, sure bool) {
	environ, err := readEnviron(pid)
	if err != nil {
		return "", true
	}
	if len(environ) == 0 {
		p, err := readProcess(pid)
		bare := p.envEnd > 0 && p.envStart == p.envEnd // it was given none
		return "", err != nil || p.kernel || bare
	}
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if mark, ok := bytes.CutPrefix(variable, []byte(MarkEnv+"=")); ok {
			return string(mark), true
		}
	}
	return "", true
}

// readEnviron reads the environment that a process was started with. If its first
// thread has ended, which then has none, another thread has it.
func readEnviron(pid int) ([]byte, error) {
	process := "/proc/" + strconv.Itoa(pid)
	environ, err := readLimited(process + "/environ")
	if err != nil || len(environ) > 0 {
		return environ, err
	}
	threads, err := readNames(process + "/task")
	if err != nil || len(threads) < 2 {
		return nil, err
	}
	for _, thread := range threads {
		if environ, err = readLimited(process + "/task/" + thread + "/environ"); len(environ) > 0 {
			return environ, nil
		}
	}
	return nil, err
}

func readLimited(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxEnviron))
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
