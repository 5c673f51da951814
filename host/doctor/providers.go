package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

func judgePlugins(f Facts) []Finding {
	var all []Finding
	for _, p := range f.Plugins {
		switch {
		case p.Wrong != "":
			all = append(all, problem(p.Name, p.Path+": "+p.Wrong, "put the plugin there, or correct its path"))
		case p.Declared == "" && p.Found:
			all = append(all, problem(p.Name, p.Path+" is not approved: the lock file does not have its sha256 "+p.Actual,
				"find out whether it is what you mean to run, then run drawbridge lock"))
		case p.Declared == "":
			all = append(all, problem(p.Name, "no sha256 is declared", fmt.Sprintf("if it is what you mean to run, write sha256 = %q into its block", p.Actual)))
		case !strings.EqualFold(p.Declared, p.Actual):
			all = append(all, problem(p.Name, fmt.Sprintf("%s has the sha256 %s, and %s may run", p.Path, p.Actual, p.Declared),
				"find out who changed it; declare or lock the new checksum only if you did"))
		default:
			all = append(all, ok(p.Name, p.Path+" has the checksum that may run"))
		}
	}
	return append(all, judgeLock(f.Lock)...)
}

func judgeLock(l *Lock) []Finding {
	switch {
	case l == nil:
		return nil
	case l.Wrong != "":
		return []Finding{problem(l.Path, l.Wrong, "restore it, or delete it, run drawbridge lock and review what that writes")}
	case !l.Exists && l.Needed:
		return []Finding{problem(l.Path, "it is missing, and locked = true shows nothing without it", "run drawbridge lock and review what that writes")}
	case !l.Exists:
		return []Finding{ok("lock file", "none, and none is asked for")}
	}
	var all []Finding
	for _, slug := range slices.Sorted(maps.Keys(l.Unapproved)) {
		says := fmt.Sprintf("%s not in the lock file as listed", are(l.Unapproved[slug], "tool"))
		if l.Needed {
			says += ", and not shown"
		}
		all = append(all, warning(slug, says, "see drawbridge plan for what differs; approve it with drawbridge lock "+slug))
	}
	if len(all) == 0 {
		all = append(all, ok(l.Path, "it has what providers list"))
	}
	return all
}

func are(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return count(n, noun) + " are"
}

// Versions of Node that servers from npm need. 20 is what most of them ask for, and
// 18 has the fetch that nearly all use.
const (
	nodeLeast = 18
	nodeUsual = 20
)

func judgeCommands(f Facts) []Finding {
	var all []Finding
	for _, c := range f.Commands {
		whose := "this terminal's PATH"
		if c.OwnPath {
			whose = "the PATH in its env"
		}
		byPath := strings.ContainsAny(c.Name, `/\`)
		switch {
		case c.Path == "" && byPath:
			all = append(all, problem(c.Provider, c.Wrong, "correct the path, which is relative to the folder of the file, or chmod +x what stands there"))
			continue
		case c.Path == "":
			all = append(all, problem(c.Provider, c.Wrong,
				"install it, give its whole path as command, or set PATH in env; a service has another PATH than a terminal"))
			continue
		}
		found := fmt.Sprintf("%s is %s", c.Name, c.Path)
		if !byPath {
			found += ", by " + whose
		}
		all = append(all, ok(c.Provider, found))
		if c.NeedsNode {
			all = append(all, judgeNode(c))
		}
	}
	return all
}

func judgeNode(c Command) Finding {
	major, known := majorOf(c.Node)
	says := "node " + c.Node
	if c.Npx != "" {
		says += ", npx " + c.Npx
	}
	switch {
	case c.Node == "":
		return problem(c.Provider, c.Name+" needs node, and the same PATH has none that runs", "install Node "+strconv.Itoa(nodeUsual)+" or later")
	case known && major < nodeLeast:
		return problem(c.Provider, says+": nearly no server runs with it", "install Node "+strconv.Itoa(nodeUsual)+" or later")
	case known && major < nodeUsual:
		return warning(c.Provider, says+": many servers ask for "+strconv.Itoa(nodeUsual), "install Node "+strconv.Itoa(nodeUsual)+" or later")
	}
	return ok(c.Provider, says)
}

// majorOf is the first number of a version like v20.19.2.
func majorOf(version string) (int, bool) {
	first, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	n, err := strconv.Atoi(first)
	return n, err == nil
}

func judgeSecrets(f Facts) []Finding {
	s := f.Secrets
	if s == nil {
		return nil
	}
	var all []Finding
	for _, name := range s.Missing {
		all = append(all, problem(name, "secret("+strconv.Quote(name)+") is not set", "drawbridge secret set "+name))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Unusable)) {
		all = append(all, problem(name, s.Unusable[name], "set it again with drawbridge secret set "+name))
	}
	if len(s.Unused) > 0 {
		all = append(all, warning("", "set, and named by no provider that was looked at: "+strings.Join(s.Unused, ", "),
			"remove what nothing needs with drawbridge secret rm NAME; another configuration may share the state folder"))
	}
	if len(s.Present) > 0 {
		all = append(all, ok("", count(len(s.Present), "secret")+" set: "+strings.Join(s.Present, ", ")))
	} else if len(all) == 0 {
		all = append(all, ok("", "none is named"))
	}
	return all
}

// slowStart is from where on a client may give up before a lazy provider is there:
// the shortest usual limit of a client is a minute.
const slowStart = 30 * time.Second

func judgeProviders(f Facts) []Finding {
	var all []Finding
	for _, s := range f.Starts {
		all = append(all, judgeStart(s))
	}
	return all
}

func judgeStart(s Start) Finding {
	tools := ""
	if s.Known {
		tools = ", " + count(s.Tools, "tool")
	}
	took := s.Took.Round(10 * time.Millisecond)
	switch {
	case s.Fault:
		return problem(s.Provider, s.Failure, "mend what it names; docs/troubleshoot has the message")
	case s.Absent:
		return problem(s.Provider, "the running host does not have it: it read the configuration before this was in it", "end that host and start it again")
	case s.Failure != "":
		return problem(s.Provider, s.Failure, "drawbridge logs "+s.Provider+" has what its server wrote; docs/troubleshoot has the message")
	case s.Running && s.Known && s.Tools == 0:
		return noTools(s.Provider, s.State+" in the running host")
	case s.Running:
		return ok(s.Provider, s.State+" in the running host, nothing was started"+tools)
	case s.Skipped:
		return ok(s.Provider, "not started, as asked"+tools)
	case s.Known && s.Tools == 0:
		return noTools(s.Provider, fmt.Sprintf("started in %v", took))
	case s.Took > slowStart || s.Limit > 0 && s.Took > s.Limit/2:
		return warning(s.Provider, fmt.Sprintf("started in %v (start_timeout is %v)%s", took, s.Limit, tools),
			"set start = \"eager\" so that no client waits for it; a package that npx fetches at each start is faster installed")
	}
	return ok(s.Provider, fmt.Sprintf("started in %v%s", took, tools))
}

func noTools(provider, how string) Finding {
	return warning(provider, how+", and shows no tool", "look at tools and except in its block, and at drawbridge logs "+provider)
}
