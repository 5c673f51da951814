package containment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

const (
	// sweepLimit bounds the killing by mark. A process that keeps changing its pid
	// can outrun any walk over the process table.
	sweepLimit = 5 * time.Second
	// sweepGuard is how long a guard whose host died may still take to do its work,
	// before the sweep does it.
	sweepGuard = 500 * time.Millisecond
	sweepPause = 2 * time.Millisecond
)

// Report says what a sweep found.
type Report struct {
	// Runs are the ids of the runs that had ended without their Close.
	Runs []string
	// Ended are the processes that were killed.
	Ended []Finding
	// Left are those that a record led to and that were not touched, and records
	// that lead nowhere, each with the reason.
	Left []Finding
}

// Finding is one process, or one record, that a sweep looked at.
type Finding struct {
	Pid  int // 0 for a record
	Mark string
	Why  string
}

// Sweep ends what runs that are dead have left behind in this state dir: first the
// guards that their records name, then every process that carries their mark, until
// a pass over the process table finds none; then their records and what they owned elsewhere. A run
// is dead if its lock could be taken. Whatever does not match in boot, PID
// namespace, time of start and mark is left alone and reported.
//
// An error means that the state dir could not be read; what could not be ended is
// in the report, and its run is kept for the next sweep.
func Sweep(ctx context.Context, stateDir string) (Report, error) {
	boot, namespace, err := system()
	if err != nil {
		return Report{}, err
	}
	runs, unlock, err := lockRuns(ctx, stateDir)
	if err != nil {
		return Report{}, err
	}
	defer unlock()
	s := &sweep{dir: runs, boot: boot, namespace: namespace, spare: ancestors()}
	defer s.release()
	if err := s.find(); err != nil {
		return s.report, err
	}
	for _, run := range s.dead {
		for _, r := range run.records {
			s.endGuard(r)
		}
	}
	s.endMarked(ctx)
	var errs []error
	for _, run := range s.dead {
		s.report.Runs = append(s.report.Runs, run.id)
		if !run.keep {
			errs = append(errs, run.remove())
		}
	}
	return s.report, errors.Join(errs...)
}

// sweep is a sweep under way; it holds runs.lock and the lock of each dead run.
type sweep struct {
	dir             string
	boot, namespace string
	dead            []*deadRun
	// spare are this process and those it descends from: a host that runs below
	// another host's server must not end itself.
	spare  map[int]bool
	report Report
	// dry says that nothing is removed or ended.
	dry bool
}

type deadRun struct {
	id, dir string
	lock    *flock.Flock
	owned   []string
	records []record // of this boot and PID namespace
	keep    bool
}

// find locks the runs that are dead and reads their records.
func (s *sweep) find() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	ids := map[string]bool{}
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasSuffix(name, lockSuffix+newSuffix) {
			if s.dry {
				continue
			}
			// Nobody creates a run while we hold runs.lock.
			if err := removeIfThere(filepath.Join(s.dir, name)); err != nil {
				return err
			}
			continue
		}
		if id := strings.TrimSuffix(name, lockSuffix); isID(id) {
			ids[id] = true
		}
	}
	for id := range ids {
		run := &deadRun{id: id, dir: filepath.Join(s.dir, id)}
		dead, err := run.dead()
		if err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
		if dead {
			s.dead = append(s.dead, run)
			s.read(run)
		}
	}
	return nil
}

// dead takes the run's lock, if nobody has it. A directory without a lock is a run
// that never began; with neither, it has just been closed.
func (r *deadRun) dead() (bool, error) {
	r.lock = flock.New(r.dir+lockSuffix, flock.SetFlag(os.O_RDONLY))
	locked, err := r.lock.TryLock()
	if errors.Is(err, os.ErrNotExist) {
		_, err = os.Stat(r.dir)
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	return locked, err
}

func isID(name string) bool {
	return len(name) == 32 && strings.Trim(name, "0123456789abcdef") == ""
}

// read reads what a dead run has left on disk.
func (s *sweep) read(run *deadRun) {
	if text, err := os.ReadFile(filepath.Join(run.dir, runFile)); err == nil {
		var info runInfo
		if json.Unmarshal(text, &info) == nil && info.ID == run.id {
			run.owned = info.Owned
		}
	}
	paths, _ := filepath.Glob(filepath.Join(run.dir, recordsGlob))
	for _, path := range paths {
		if filepath.Base(path) == runFile {
			continue
		}
		var r record
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		host, _ := splitMark(r.Mark)
		switch {
		case err != nil:
			s.leave(0, "", fmt.Sprintf("record %s: %v", path, err))
		case r.Host != run.id || host != run.id:
			s.leave(0, r.Mark, fmt.Sprintf("record %s: of another run", path))
		case r.Boot != s.boot:
			// Nothing outlives the machine.
		case r.Namespace != s.namespace:
			s.leave(0, r.Mark, "its processes are in another PID namespace, "+r.Namespace)
			run.keep = true
		default:
			run.records = append(run.records, r)
		}
	}
}

func (s *sweep) leave(pid int, mark, why string) {
	s.report.Left = append(s.report.Left, Finding{Pid: pid, Mark: mark, Why: why})
}

// endGuard ends the guard that a record names. With its host it lost its lifeline,
// so it is at work or frozen: it is woken, given a moment, and then killed.
func (s *sweep) endGuard(r record) {
	if r.GuardPid <= 0 || s.spare[r.GuardPid] {
		return
	}
	p, err := readProcess(r.GuardPid)
	switch {
	case err != nil || !p.alive():
		return
	case p.start != r.GuardStart:
		s.leave(p.pid, r.Mark, "the recorded pid is another process's now: it started at another time")
		return
	case !carries(p.pid, r.Mark):
		if now, err := readProcess(p.pid); err != nil || now.start != p.start || now.leaving() {
			return // it is the guard, and needs no more help
		}
		s.leave(p.pid, r.Mark, "the process with the recorded pid does not carry the mark")
		return
	}
	is := func(now process) bool { return now.start == r.GuardStart && carries(now.pid, r.Mark) }
	for _, sig := range []syscall.Signal{sigContinue, syscall.SIGKILL} {
		if err := signalExactly(p.pid, is, sig); err != nil {
			return // it has ended, or is swept by its mark
		}
		if ended(p, sweepGuard) {
			break
		}
	}
	s.report.Ended = append(s.report.Ended, Finding{Pid: p.pid, Mark: r.Mark, Why: "guard"})
}

func carries(pid int, mark string) bool {
	has, _ := markOf(pid)
	return has == mark
}

// ended waits for a process to end, and says whether it did.
func ended(p process, limit time.Duration) bool {
	for deadline := time.Now().Add(limit); ; time.Sleep(sweepPause) {
		now, err := readProcess(p.pid)
		if err != nil || now.start != p.start || !now.alive() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// endMarked kills what carries the mark of a dead run, until a pass finds nobody.
func (s *sweep) endMarked(ctx context.Context) {
	runs := map[string]*deadRun{}
	for _, run := range s.dead {
		if len(run.records) > 0 { // else there was nothing to start it
			runs[run.id] = run
		}
	}
	if len(runs) == 0 {
		return
	}
	wanted := func(mark string) bool {
		host, _ := splitMark(mark)
		return runs[host] != nil
	}
	type known struct {
		pid   int
		start uint64
	}
	seen := map[known]bool{}
	for deadline := time.Now().Add(sweepLimit); ; time.Sleep(sweepPause) {
		l := lookFor(wanted, s.spare)
		if l.nobody() {
			return
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			s.giveUp(l, runs)
			return
		}
		for _, p := range l.found {
			is := func(now process) bool { return now.start == p.start && carries(now.pid, p.mark) }
			switch err := signalExactly(p.pid, is, syscall.SIGKILL); {
			case err == nil && !seen[known{p.pid, p.start}]:
				seen[known{p.pid, p.start}] = true
				s.report.Ended = append(s.report.Ended, Finding{Pid: p.pid, Mark: p.mark, Why: "mark"})
			case errors.Is(err, os.ErrPermission):
				host, _ := splitMark(p.mark)
				s.spare[p.pid], runs[host].keep = true, true
				s.leave(p.pid, p.mark, err.Error())
			}
		}
	}
}

// giveUp reports what a sweep could not end, and keeps its run for the next.
func (s *sweep) giveUp(l look, runs map[string]*deadRun) {
	for _, p := range l.found {
		host, _ := splitMark(p.mark)
		runs[host].keep = true
		s.leave(p.pid, p.mark, "it was still there, or there again, when the sweep ended")
	}
	for _, p := range l.unsure {
		s.leave(p.pid, "", "it was in the middle of an exec when the sweep ended, so that its mark could not be read")
	}
	if l.err != nil {
		for _, run := range runs {
			run.keep = true
		}
		s.leave(0, "", fmt.Sprintf("the process table cannot be read: %v", l.err))
	}
}

// remove takes a dead run off the disk; its lock last.
func (r *deadRun) remove() error {
	return errors.Join(removeOwned(r.owned, r.id), os.RemoveAll(r.dir), removeIfThere(r.dir+lockSuffix))
}

func (s *sweep) release() {
	for _, run := range s.dead {
		_ = run.lock.Close()
	}
}

// ancestors are this process and those it descends from.
func ancestors() map[int]bool {
	found := map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !found[pid]; {
		found[pid] = true
		p, err := readProcess(pid)
		if err != nil {
			break
		}
		pid = p.parent
	}
	return found
}
