package containment

import "errors"

// MarkEnv is the environment variable that carries an instance's mark in each of its
// processes. It is a word of the contract with plugins too, as provider.MarkEnv.
const MarkEnv = "DRAWBRIDGE_INSTANCE"

var (
	// errNoProcess is returned for a pid that no process has.
	errNoProcess = errors.New("no such process")
	// errNotIt is returned when a pid turned out to be another process's.
	errNotIt = errors.New("another process has this pid")
)

// is says whether two looks found the same process.
func (p process) is(other process) bool { return p.pid == other.pid && p.start == other.start }

// look is what one walk over the process table found.
type look struct {
	// found are living processes whose mark was wanted.
	found []markedProcess
	// unsure are living processes whose mark cannot be told now, because they are in
	// the middle of an exec.
	unsure []process
	err    error
}

type markedProcess struct {
	process
	mark string
}

// lookFor walks over the process table, for living processes whose mark is wanted
// and whose pid is not in except.
func lookFor(wanted func(mark string) bool, except map[int]bool) look {
	all, err := processes()
	l := look{err: err}
	for _, p := range all {
		if !p.alive() || except[p.pid] {
			continue
		}
		mark, sure := markOf(p.pid)
		switch {
		case !sure:
			l.unsure = append(l.unsure, p)
		case wanted(mark):
			l.found = append(l.found, markedProcess{p, mark})
		}
	}
	return l
}

// nobody says that there is no process with the mark. Where the process table
// cannot be read at all there is nothing to wait for.
func (l look) nobody() bool {
	return len(l.found) == 0 && len(l.unsure) == 0 && (l.err == nil || errors.Is(l.err, ErrUnsupported))
}
