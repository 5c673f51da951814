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

// marked lists the living processes whose mark is wanted and whose pid is not in
// except.
func marked(wanted func(mark string) bool, except map[int]bool) []process {
	all, err := processes()
	if err != nil {
		return nil
	}
	var found []process
	for _, p := range all {
		if p.alive() && !except[p.pid] && wanted(markOf(p.pid)) {
			found = append(found, p)
		}
	}
	return found
}
