//go:build linux

package killtest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const markEnv = "DRAWBRIDGE_INSTANCE"

// patience bounds every wait. Nothing waits for it that goes well.
const patience = 60 * time.Second

// entry is a living process that carries a mark, as the machine's process table has
// it: its pid is the one outside of every namespace.
type entry struct {
	pid         int
	start, mark string
	role        string // guard, plugin, server, child, setsid, daemon, hydra
}

func (e entry) String() string { return fmt.Sprintf("%s %d of %s", e.role, e.pid, e.mark) }

// lives says whether exactly this process is there and is no zombie.
func (e entry) lives() bool {
	s := readStat(e.pid)
	return s.start == e.start && !s.dead()
}

// kill signals exactly this process, and says whether it was there.
func (e entry) signal(t *testing.T, sig syscall.Signal) bool {
	t.Helper()
	held, err := unix.PidfdOpen(e.pid, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(held) }()
	if !e.lives() {
		return false
	}
	return unix.PidfdSendSignal(held, sig, nil, 0) == nil
}

// stat is what a test wants of /proc/PID/stat.
type stat struct {
	state, start string
	parent       int
}

func (s stat) dead() bool { return s.state == "" || s.state == "Z" || s.state == "X" }

func readStat(pid int) stat {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	parent, _ := strconv.Atoi(fields[1])
	return stat{state: fields[0], start: fields[19], parent: parent}
}

func pids() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	var found []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			found = append(found, pid)
		}
	}
	return found
}

// strangers are processes without a mark, by pid and start: when they were first seen
// so, and whether they were seen so again much later. The environment is that of the
// last exec: a guard that is between its fork and its exec has none of its own yet.
var strangers = struct {
	sync.Mutex
	since  map[string]time.Time
	surely map[string]bool
}{since: map[string]time.Time{}, surely: map[string]bool{}}

const surelyStranger = 3 * time.Second

// stranger says whether a process was seen without a mark for so long that nobody
// need look at it again.
func stranger(key string) bool {
	strangers.Lock()
	defer strangers.Unlock()
	return strangers.surely[key]
}

// seen notes whether a process has a mark now.
func seen(key, mark string) {
	strangers.Lock()
	defer strangers.Unlock()
	since, known := strangers.since[key]
	switch {
	case mark != "":
		delete(strangers.since, key)
	case !known:
		strangers.since[key] = time.Now()
	case time.Since(since) > surelyStranger:
		strangers.surely[key] = true
	}
}

// marked lists the living processes whose mark begins with prefix.
func marked(prefix string) []entry {
	var found []entry
	for _, pid := range pids() {
		s := readStat(pid)
		if s.dead() {
			continue
		}
		key := fmt.Sprint(pid, " ", s.start)
		if stranger(key) {
			continue
		}
		mark := markOf(pid)
		seen(key, mark)
		if mark == "" || !strings.HasPrefix(mark, prefix) {
			continue
		}
		if again := readStat(pid); again.start != s.start || again.dead() {
			continue
		}
		found = append(found, entry{pid: pid, start: s.start, mark: mark, role: roleOf(pid)})
	}
	return found
}

// instance lists those of one instance.
func instance(mark string) (found []entry) {
	for _, e := range marked(mark) {
		if e.mark == mark { // 1 is the beginning of 10
			found = append(found, e)
		}
	}
	return found
}

func markOf(pid int) string {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if mark, ok := bytes.CutPrefix(variable, []byte(markEnv+"=")); ok {
			return string(mark)
		}
	}
	return ""
}

// roleOf is what a process of a tree is, by its arguments.
func roleOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	args := strings.Split(string(text), "\x00")
	if len(args) > 1 && (args[1] == "guard" || args[1] == "plugin") {
		return args[1]
	}
	kind, role := "", ""
	for i := range len(args) - 1 {
		switch args[i] {
		case "--kind":
			kind = args[i+1]
		case "--role":
			role = args[i+1]
		}
	}
	switch {
	case role == "daemon":
		return "" // on its way to be one
	case kind != "":
		return kind
	}
	return "server"
}

// pick returns those of a role.
func pick(all []entry, role string) (found []entry) {
	for _, e := range all {
		if e.role == role {
			found = append(found, e)
		}
	}
	return found
}

// zombiesBelow are the zombies that a host, its guards and its plugins have not
// collected, by pid and start. What a server does not collect of its own children is
// the server's affair for as long as it lives.
func zombiesBelow(host int) map[string]bool {
	children := map[int][]int{}
	states := map[int]stat{}
	for _, pid := range pids() {
		s := readStat(pid)
		states[pid] = s
		children[s.parent] = append(children[s.parent], pid)
	}
	found := map[string]bool{}
	var walk func(parent int)
	walk = func(parent int) {
		for _, child := range children[parent] {
			if states[child].state == "Z" {
				found[fmt.Sprint(child, " ", states[child].start)] = true
			} else if role := roleOf(child); role == "guard" || role == "plugin" {
				walk(child)
			}
		}
	}
	walk(host)
	return found
}

// descriptors counts the open files of a process.
func descriptors(pid int) int {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	return len(names)
}

// within waits until ok, and says whether that came in time.
func within(limit time.Duration, ok func() bool) bool {
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !within(patience, ok) {
		t.Fatalf("waited in vain for %s", what)
	}
}
