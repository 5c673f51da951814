package containment

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// Options of Open.
type Options struct {
	// Require fails Open unless this tier, or a stronger one, works here.
	Require Tier
	// Use holds trees by this tier though a better one works here; empty means the
	// best. It must be at least Require.
	Use Tier
	// Run writes a record of every tree, for the sweep of a later host; nil writes
	// none.
	Run *Run
	// Log hears what no caller can be told; nil means slog.Default().
	Log *slog.Logger
}

// Guarded is the Containment that puts a guard between this process and each tree.
type Guarded struct {
	support Support
	run     *Run
	log     *slog.Logger
}

// Open probes the system, once in the life of this process, and returns the
// containment of the tier that it found. In the subreaper tier this process becomes
// a subreaper: it must start no process in a session of its own other than through
// the containment, for that is how it knows what fell to it from a guard that was
// killed.
func Open(o Options) (*Guarded, error) {
	support, err := Probe()
	if o.Use != "" {
		support, err = ProbeTier(o.Use)
	}
	if err != nil {
		return nil, err
	}
	if err := support.Require(o.Require); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if err := prepareHost(support.Tier); err != nil {
		return nil, err
	}
	return &Guarded{support: support, run: o.Run, log: o.Log}, nil
}

var _ Containment = (*Guarded)(nil)

// Tier is the tier in use, as people read it.
func (g *Guarded) Tier() string { return g.support.String() }

// Support is what the probe found.
func (g *Guarded) Support() Support { return g.support }

// GuardTree is what the trees of a Guarded are.
type GuardTree interface {
	Tree
	// GuardPID is the guard's process id.
	GuardPID() int
	// Terminate sends SIGTERM to every process of the tree, and does not wait.
	Terminate() error
	// Lost says, once Done is closed, that the guard was killed from outside, so
	// that nobody saw the plugin end.
	Lost() bool
}

// Spawn starts a guard, and below it the plugin. The mark in the command's
// environment names the instance: every process below the guard inherits it. The
// tree is a GuardTree, and its Done is exact: the guard, or the kernel, or this
// process has seen the last process of the tree end.
func (g *Guarded) Spawn(c Command) (Tree, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	record, err := g.run.begin(c.mark(), g.support.Tier)
	if err != nil {
		return nil, err
	}
	t, _, err := launch(g.support, c, func() {
		if err := record.remove(); err != nil {
			g.log.Warn("record of a process tree stays", "instance", c.mark(), "error", err)
		}
	})
	if err != nil {
		return nil, err
	}
	if err := record.started(t.GuardPID()); err != nil {
		t.Kill()
		<-t.Done()
		return nil, err
	}
	return t, nil
}

// check finds what would make a tree that cannot be held, or a guard that reads
// something else than was meant.
func (c Command) check() error {
	switch {
	case c.mark() == "":
		return fmt.Errorf("no %s in the environment", MarkEnv)
	case c.Path == "" || len(c.Args) == 0:
		return errors.New("nothing to run")
	case strings.ContainsAny(c.Token, "\r\n"), len(c.Token) >= maxToken:
		return errors.New("the token is no line")
	}
	return nil
}

// mark is the instance's mark; of several in the environment the last.
func (c Command) mark() string {
	for _, variable := range slices.Backward(c.Env) {
		if mark, ok := strings.CutPrefix(variable, MarkEnv+"="); ok {
			return mark
		}
	}
	return ""
}

// environ is the environment with one mark.
func (c Command) environ() []string {
	env := slices.DeleteFunc(slices.Clone(c.Env), func(variable string) bool {
		return strings.HasPrefix(variable, MarkEnv+"=")
	})
	return append(append(env, raceEnv...), MarkEnv+"="+c.mark())
}
