package doctor

import (
	"fmt"
	"strings"
)

func judgeContainment(f Facts) []Finding {
	c := f.Containment
	switch {
	case c == nil:
		return nil
	case c.Tier == "":
		return []Finding{problem("", "no process can be held here: "+c.WhyNot, "see docs/containment.md for what each tier needs")}
	case c.Unmet:
		return []Finding{problem(c.Tier, fmt.Sprintf("the configuration requires %s: %s", c.Required, c.WhyNot),
			"allow what the kernel refuses (docs/containment.md), or take containment { require } out of the host block")}
	case !c.Best:
		return []Finding{warning(c.Tier, "in use; "+c.WhyNot,
			"it holds trees all the same, see docs/containment.md; the stronger tier needs unprivileged user namespaces, or root")}
	}
	return []Finding{ok(c.Tier, "the strongest tier of this system is in use")}
}

// sharedBits are the rights of others than the owner.
const sharedBits = 0o077

func judgeState(f Facts) []Finding {
	var all []Finding
	if f.Temp != "" {
		all = append(all, problem("TMPDIR", f.Temp, "create the folder, or unset TMPDIR: every server would trip over it"))
	}
	s := f.State
	if s == nil {
		return all
	}
	switch {
	case s.Exists && !s.Folder:
		all = append(all, problem(s.Dir, "it is no folder", "move it away, or set state_dir in the host block"))
	case s.Exists && s.Foreign:
		all = append(all, problem(s.Dir, "it belongs to another user", "run drawbridge as that user, or set state_dir to a folder of your own"))
	case !s.Writable && !s.Exists:
		all = append(all, problem(s.Dir, "it is not there and cannot be made", "make it, or set state_dir to a folder that you may write to"))
	case !s.Writable:
		all = append(all, problem(s.Dir, "it cannot be written to, or its disk is full", "chmod u+rwx it, or make room"))
	case !s.Exists:
		all = append(all, ok(s.Dir, "it will be made at the first start"))
	case s.Mode.Perm()&0o022 != 0:
		all = append(all, problem(s.Dir, fmt.Sprintf("others may write to it (mode %04o)", s.Mode.Perm()), "chmod 700 '"+s.Dir+"'"))
	case s.Mode.Perm()&sharedBits != 0:
		all = append(all, warning(s.Dir, fmt.Sprintf("others may look into it (mode %04o)", s.Mode.Perm()), "chmod 700 '"+s.Dir+"'"))
	default:
		all = append(all, ok(s.Dir, "yours alone, and writable"))
	}
	for _, p := range s.Private {
		if p.Mode.Perm()&sharedBits != 0 {
			all = append(all, problem(p.Path, fmt.Sprintf("others may read or write it (mode %04o)", p.Mode.Perm()),
				"chmod 600 '"+p.Path+"'; whoever read it knows what is in it, so consider making a new one"))
		}
	}
	return all
}

func judgeLeftovers(f Facts) []Finding {
	l := f.Leftovers
	switch {
	case l == nil:
		return nil
	case l.Wrong != "":
		return []Finding{warning("", "the records of earlier hosts cannot be read: "+l.Wrong, "mend what is said there; the next start needs them too")}
	}
	var all []Finding
	for _, p := range l.Processes {
		all = append(all, warning(p.Mark, fmt.Sprintf("process %d outlived its host", p.PID), "the next start of a host with this state folder ends it"))
	}
	for _, why := range l.Unsure {
		all = append(all, warning("", why, "look at it with ps; a host leaves alone what it cannot prove to be its own"))
	}
	if len(all) == 0 && l.Runs > 0 {
		return []Finding{ok("", fmt.Sprintf("%s ended without a goodbye and left no process; the next start removes the %s", count(l.Runs, "host"), plural(l.Runs, "record")))}
	}
	if len(all) == 0 {
		return []Finding{ok("", "no process and no record of a dead host")}
	}
	return all
}

func plural(n int, noun string) string {
	return strings.TrimPrefix(count(n, noun), fmt.Sprint(n)+" ")
}
