package doctor

// Verdict is how one finding is judged.
type Verdict string

// The verdicts. A Problem keeps something from working; a Warning is worth knowing and
// keeps nothing from working now.
const (
	OK      Verdict = "ok"
	Warning Verdict = "warning"
	Problem Verdict = "problem"
)

// Finding is one line of the report.
type Finding struct {
	// Check names the group, of Groups.
	Check string `json:"check"`
	// Subject is what was looked at: a file, a provider, a project; "" where the group
	// says it.
	Subject string  `json:"subject,omitempty"`
	Verdict Verdict `json:"verdict"`
	// Says is what was found, in one sentence without a full stop.
	Says string `json:"says"`
	// Remedy is what to do; "" only with OK.
	Remedy string `json:"remedy,omitempty"`
}

// Group is one thing to look at.
type Group struct {
	// Name is the finding's Check; Title is for people.
	Name, Title string
	judge       func(Facts) []Finding
}

// Groups are all of them, in the order in which a person would look: what comes first
// explains what comes later.
var Groups = []Group{
	{"config", "Configuration", judgeConfig},
	{"containment", "Containment", judgeContainment},
	{"state", "State folder", judgeState},
	{"plugins", "Plugins", judgePlugins},
	{"commands", "Commands", judgeCommands},
	{"secrets", "Secrets", judgeSecrets},
	{"hosts", "Hosts and ports", judgeHosts},
	{"leftovers", "What dead hosts left", judgeLeftovers},
	{"providers", "Providers", judgeProviders},
	{"names", "Names for clients", judgeNames},
	{"context", "Context", judgeContext},
}

// Examine judges facts. What could not be looked at has no finding: without a
// configuration there are no providers to judge.
func Examine(f Facts) []Finding {
	var all []Finding
	for _, g := range Groups {
		for _, one := range g.judge(f) {
			one.Check = g.Name
			all = append(all, one)
		}
	}
	return all
}

// Worst is the worst verdict of findings; OK of none.
func Worst(all []Finding) Verdict {
	worst := OK
	for _, f := range all {
		if f.Verdict == Problem || f.Verdict == Warning && worst == OK {
			worst = f.Verdict
		}
	}
	return worst
}

func ok(subject, says string) Finding { return Finding{Subject: subject, Verdict: OK, Says: says} }

func warning(subject, says, remedy string) Finding {
	return Finding{Subject: subject, Verdict: Warning, Says: says, Remedy: remedy}
}

func problem(subject, says, remedy string) Finding {
	return Finding{Subject: subject, Verdict: Problem, Says: says, Remedy: remedy}
}
