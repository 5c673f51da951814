package containment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Look says what a Sweep of this state dir would find, and ends, removes and makes
// nothing: in the report Runs are the runs that are dead, Ended the processes that a
// sweep would end, and Left what it would leave alone, as far as that can be told
// without trying. A state dir that is not there has none.
func Look(ctx context.Context, stateDir string) (Report, error) {
	if _, err := os.Stat(filepath.Join(stateDir, runsDir)); errors.Is(err, fs.ErrNotExist) {
		return Report{}, nil
	}
	boot, namespace, err := system()
	if err != nil {
		return Report{}, err
	}
	runs, unlock, err := lockRuns(ctx, stateDir)
	if err != nil {
		return Report{}, err
	}
	defer unlock()
	s := &sweep{dir: runs, boot: boot, namespace: namespace, spare: ancestors(), dry: true}
	defer s.release()
	if err := s.find(); err != nil {
		return s.report, err
	}
	s.lookOnly()
	return s.report, nil
}

// lookOnly is what a sweep does with the dead runs, without doing it.
func (s *sweep) lookOnly() {
	started := map[string]bool{}
	for _, run := range s.dead {
		s.report.Runs = append(s.report.Runs, run.id)
		started[run.id] = len(run.records) > 0
	}
	found := lookFor(func(mark string) bool {
		host, _ := splitMark(mark)
		return started[host]
	}, s.spare)
	for _, p := range found.found {
		s.report.Ended = append(s.report.Ended, Finding{Pid: p.pid, Mark: p.mark, Why: "mark"})
	}
	if found.err != nil && !errors.Is(found.err, ErrUnsupported) {
		s.leave(0, "", fmt.Sprintf("the process table cannot be read: %v", found.err))
	}
}
