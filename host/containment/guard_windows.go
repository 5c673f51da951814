package containment

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// runGuard puts itself into a job object that dies with its last handle, which it
// alone has, and only then starts the plugin: what a member starts is a member. If
// the guard is killed the system kills the rest. Written to the documentation, and
// not proven by a test on Windows.
func runGuard(o guardOptions) int {
	status := os.NewFile(uintptr(o.status), "status")
	if status == nil {
		return guardMisused
	}
	lifeline := bufio.NewReaderSize(os.Stdin, maxToken)
	token, err := readToken(lifeline)
	if err != nil {
		return guardNothing
	}
	job, err := newJob()
	if err != nil {
		failedNotice(err).send(status)
		return guardFailed
	}
	plugin, hold, err := startInJob(o, token)
	if err != nil {
		failedNotice(err).send(status)
		return guardFailed
	}
	defer hold.Close()
	notice{Event: eventStarted, Pid: plugin.Pid}.send(status)
	ended := make(chan *os.ProcessState, 1)
	go func() {
		state, _ := plugin.Wait()
		ended <- state
	}()
	var state *os.ProcessState
	for said := follow(lifeline); state == nil && said != nil; {
		select {
		case state = <-ended:
		case _, ok := <-said: // there is no SIGTERM here
			if !ok {
				said = nil
			}
		}
	}
	job.empty()
	if state == nil {
		state = <-ended
	}
	code := 1
	if state != nil {
		code = state.ExitCode()
	}
	notice{Event: eventEnded, Code: code}.send(status)
	return code
}

// startInJob starts the plugin. hold is the writing end of its standard input.
func startInJob(o guardOptions, token string) (plugin *os.Process, hold *os.File, err error) {
	stdin, hold, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer stdin.Close()
	if _, err := hold.WriteString(token); err != nil {
		return nil, nil, fmt.Errorf("token: %w", err)
	}
	plugin, err = os.StartProcess(o.path, o.argv, &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{stdin, os.Stdout, os.Stderr},
		Sys: &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP},
	})
	if err != nil {
		return nil, nil, err
	}
	os.Stdout.Close()
	os.Stderr.Close()
	return plugin, hold, nil
}

// job is the job object that this process is in.
type job struct{ handle windows.Handle }

func newJob() (*job, error) {
	handle, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("job object: %w", err)
	}
	j := &job{handle}
	if err := j.limit(windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE); err != nil {
		return nil, err
	}
	if err := windows.AssignProcessToJobObject(handle, windows.CurrentProcess()); err != nil {
		return nil, fmt.Errorf("enter job object: %w", err)
	}
	return j, nil
}

func (j *job) limit(flags uint32) error {
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: flags},
	}
	_, err := windows.SetInformationJobObject(j.handle, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		return fmt.Errorf("limit job object: %w", err)
	}
	return nil
}

// empty ends every member but this process, and returns when there is none.
func (j *job) empty() {
	for pause := killPauseMin; ; pause = min(2*pause, killPauseMax) {
		others, err := j.others()
		if err == nil && len(others) == 0 {
			break
		}
		for _, pid := range others {
			j.terminate(pid)
		}
		time.Sleep(pause)
	}
	_ = j.limit(0) // the exit code is to be ours, not that of a job that is killed
}

// maxMembers is how many members of a job are seen at once; empty comes back for
// more.
const maxMembers = 1024

// others are the pids of the other members.
func (j *job) others() ([]uint32, error) {
	// JOBOBJECT_BASIC_PROCESS_ID_LIST
	var list struct {
		assigned, listed uint32
		pids             [maxMembers]uintptr
	}
	err := windows.QueryInformationJobObject(j.handle, windows.JobObjectBasicProcessIdList,
		uintptr(unsafe.Pointer(&list)), uint32(unsafe.Sizeof(list)), nil)
	if err != nil && err != windows.ERROR_MORE_DATA { //nolint:errorlint // a bare errno, straight from the call
		return nil, err
	}
	var pids []uint32
	for _, pid := range list.pids[:min(list.listed, maxMembers)] {
		pids = append(pids, uint32(pid))
	}
	self := uint32(os.Getpid())
	return slices.DeleteFunc(pids, func(pid uint32) bool { return pid == self }), nil
}

var isProcessInJob = windows.NewLazySystemDLL("kernel32.dll").NewProc("IsProcessInJob")

// terminate ends the process with this pid if it is a member: while it is open its
// pid is nobody else's.
func (j *job) terminate(pid uint32) {
	const access = windows.PROCESS_TERMINATE | windows.PROCESS_QUERY_LIMITED_INFORMATION
	process, err := windows.OpenProcess(access, false, pid)
	if err != nil {
		return
	}
	defer windows.CloseHandle(process)
	var member int32
	ok, _, _ := isProcessInJob.Call(uintptr(process), uintptr(j.handle), uintptr(unsafe.Pointer(&member)))
	if ok != 0 && member != 0 {
		_ = windows.TerminateProcess(process, 1)
	}
}
