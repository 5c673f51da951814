package containment

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// entry is a living process that carries a mark, as the machine's process table
// has it. The tests read the table by themselves, so that they do not believe the
// code that they test.
type entry struct {
	pid         int
	start, mark string
	role        string // argv[0] without its prefix, or "guard"
}

func (e entry) String() string { return fmt.Sprintf("%s (%d)", e.role, e.pid) }

// withMark lists the living processes of a host's instances.
func withMark(host string) []entry {
	var found []entry
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		environ, _ := os.ReadFile(dir + "/environ")
		for variable := range strings.SplitSeq(string(environ), "\x00") {
			mark, ok := strings.CutPrefix(variable, MarkEnv+"=")
			if !ok || !strings.HasPrefix(mark, host+"/") {
				continue
			}
			pid, _ := strconv.Atoi(filepath.Base(dir))
			state, start := stateAndStart(pid)
			if state == "" || state == "Z" || state == "X" {
				continue
			}
			cmdline, _ := os.ReadFile(dir + "/cmdline")
			argv := strings.Split(string(cmdline), "\x00")
			role := strings.TrimPrefix(argv[0], rolePrefix)
			if len(argv) > 1 && argv[1] == GuardCommand {
				role = "guard"
			}
			found = append(found, entry{pid: pid, start: start, mark: mark, role: role})
		}
	}
	return found
}

func stateAndStart(pid int) (state, start string) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", ""
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return fields[0], fields[19]
}

// roles groups the living processes of a host by what they are.
func roles(host string) map[string][]entry {
	by := map[string][]entry{}
	for _, e := range withMark(host) {
		by[e.role] = append(by[e.role], e)
	}
	return by
}

// send signals exactly this process.
func (e entry) send(t *testing.T, sig syscall.Signal) {
	t.Helper()
	held, err := unix.PidfdOpen(e.pid, 0)
	if err != nil {
		t.Fatalf("hold %v: %v", e, err)
	}
	defer unix.Close(held)
	if _, start := stateAndStart(e.pid); start != e.start {
		t.Fatalf("%v is another process now", e)
	}
	if err := unix.PidfdSendSignal(held, sig, nil, 0); err != nil {
		t.Fatalf("signal %v: %v", e, err)
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
