package containment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnsupported is what every UnsupportedError is.
var ErrUnsupported = errors.New("not supported here")

// Tier names a means of holding a process tree. docs/containment.md says what
// each promises.
type Tier string

// The tiers, strongest first.
const (
	// TierPIDNS is a PID namespace whose first process is the guard: the kernel
	// ends all of it with the guard. Linux, as root or with user namespaces.
	TierPIDNS Tier = "pidns"
	// TierSubreaper is a guard to which every orphan below it falls. Any Linux.
	TierSubreaper Tier = "subreaper"
	// TierJob is a Windows job object that is killed when its handle closes.
	TierJob Tier = "job"
	// TierPGroup is a session and process group of its own, and a sweep by mark.
	// macOS and the BSDs.
	TierPGroup Tier = "pgroup"
)

// Support is what a probe found: the tier to use, and why there is no better one.
type Support struct {
	// Tier is the best that works here.
	Tier Tier
	// NoProc is set when the tier is pidns and its own /proc could not be mounted:
	// the tree is held all the same, but sees the pids of the machine, which are
	// not its own.
	NoProc error
	// Refused says why better tiers are not available, strongest first.
	Refused []*UnsupportedError

	// userns is set when pidns needs a user namespace.
	userns bool
}

// String is the tier as status and log show it.
func (s Support) String() string {
	if s.NoProc != nil {
		return string(s.Tier) + " without proc"
	}
	return string(s.Tier)
}

// Why says in one line why no better tier is used, or "".
func (s Support) Why() string {
	var why []string
	for _, refused := range s.Refused {
		why = append(why, refused.Error())
	}
	if s.NoProc != nil {
		why = append(why, fmt.Sprintf("own /proc: %v", s.NoProc))
	}
	return strings.Join(why, "; ")
}

// Require returns an *UnsupportedError unless the tier that works here is want or
// stronger. An empty want asks for nothing.
func (s Support) Require(want Tier) error {
	if want == "" || strength(s.Tier) >= strength(want) && strength(want) > 0 {
		return nil
	}
	for _, refused := range s.Refused {
		if refused.Tier == want {
			return refused
		}
	}
	return &UnsupportedError{Tier: want, Reason: fmt.Errorf("this system has %s", s.Tier)}
}

// strength orders the tiers; 0 is no tier.
func strength(t Tier) int {
	weakest := []Tier{TierPGroup, TierJob, TierSubreaper, TierPIDNS}
	return slices.Index(weakest, t) + 1
}

// UnsupportedError says that a tier does not work here.
type UnsupportedError struct {
	Tier Tier
	// Reason is what the kernel, or the guard that was tried, said.
	Reason error
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("containment %q is not available: %v", string(e.Tier), e.Reason)
}

// Unwrap makes the error an ErrUnsupported, and shows the reason.
func (e *UnsupportedError) Unwrap() []error { return []error{ErrUnsupported, e.Reason} }
