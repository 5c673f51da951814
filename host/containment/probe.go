package containment

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Probe finds the best tier that works here, by starting a guard with each, best
// first. It does so once in the life of this process.
func Probe() (Support, error) { return probe() }

var probe = sync.OnceValues(func() (Support, error) {
	var refused []*UnsupportedError
	for _, tier := range tiers() {
		support, err := ProbeTier(tier)
		if err == nil {
			support.Refused = refused
			return support, nil
		}
		var unsupported *UnsupportedError
		if !errors.As(err, &unsupported) {
			return Support{}, err
		}
		refused = append(refused, unsupported)
	}
	var why []error
	for _, r := range refused {
		why = append(why, r)
	}
	return Support{}, fmt.Errorf("no process can be contained here: %w", errors.Join(why...))
})

// ProbeTier says whether one tier works here, and tries it once in the life of
// this process. The error is an *UnsupportedError.
func ProbeTier(tier Tier) (Support, error) {
	probed.Lock()
	once, ok := probed.tiers[tier]
	if !ok {
		once = sync.OnceValues(func() (Support, error) { return probeTier(tier) })
		probed.tiers[tier] = once
	}
	probed.Unlock()
	return once()
}

var probed = struct {
	sync.Mutex
	tiers map[Tier]func() (Support, error)
}{tiers: map[Tier]func() (Support, error){}}

func probeTier(tier Tier) (Support, error) {
	variants := variants(tier)
	if len(variants) == 0 {
		return Support{}, &UnsupportedError{Tier: tier, Reason: errors.New("no such tier on this system")}
	}
	var refused []error
	for _, support := range variants {
		found, err := try(support)
		if err == nil {
			return found, nil
		}
		refused = append(refused, err)
	}
	return Support{}, &UnsupportedError{Tier: tier, Reason: errors.Join(refused...)}
}

// probeGrace is guardGrace for a probe. It is long: what a probe says stands for as
// long as this process lives, and a machine under load must not count as one on
// which a tier does not work.
const probeGrace = 30 * time.Second

// try starts a guard with a process that does nothing, kills both, and waits for
// the proof: what a tree of this kind will do, once.
func try(support Support) (Support, error) {
	self, err := executable()
	if err != nil {
		return support, err
	}
	t, started, err := launch(support, Command{
		Path: self, Args: []string{"drawbridge", GuardCommand, "-idle"},
		// A mark of its own: by its mark a process group's guard finds whom to kill.
		Env: []string{MarkEnv + "=" + newID() + "/probe/1"},
	}, func() {})
	if err != nil {
		return support, err
	}
	t.kill(probeGrace)
	select {
	case <-t.Done():
	case <-time.After(2 * probeGrace):
		return support, errors.New("the tree of a probe did not end")
	}
	if t.Lost() {
		return support, errors.New("the guard of a probe did not end its tree")
	}
	if started.NoProc != "" {
		support.NoProc = errors.New(started.NoProc)
	}
	return support, nil
}
