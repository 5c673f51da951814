package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Report is what `doctor --json` prints; programs rely on its form.
type Report struct {
	// Verdict is the worst of the findings.
	Verdict  Verdict   `json:"verdict"`
	Findings []Finding `json:"findings"`
	// Unseen are the titles of groups that could not be looked at, because the
	// configuration has mistakes or is not there.
	Unseen []string `json:"unseen,omitempty"`
}

// NewReport makes the report of facts.
func NewReport(f Facts) Report {
	all := Examine(f)
	if all == nil {
		all = []Finding{}
	}
	r := Report{Verdict: Worst(all), Findings: all}
	if f.Config.usable() {
		return r
	}
	for _, g := range Groups {
		if !slices.ContainsFunc(all, func(f Finding) bool { return f.Check == g.Name }) {
			r.Unseen = append(r.Unseen, g.Title)
		}
	}
	return r
}

// Write prints the report for people: a heading for each group that has something to
// say, a line for each finding, the remedy below it, and a last line that counts.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	for _, g := range Groups {
		first := true
		for _, f := range r.Findings {
			if f.Check != g.Name {
				continue
			}
			if first {
				b.WriteString(g.Title + "\n")
				first = false
			}
			says := f.Says
			if f.Subject != "" {
				says = f.Subject + ": " + says
			}
			fmt.Fprintf(&b, "  %-8s %s\n", f.Verdict, indented(says))
			if f.Remedy != "" {
				fmt.Fprintf(&b, "  %-8s %s\n", "", "→ "+indented(f.Remedy))
			}
		}
	}
	problems, warnings := 0, 0
	for _, f := range r.Findings {
		switch f.Verdict {
		case Problem:
			problems++
		case Warning:
			warnings++
		}
	}
	if len(r.Unseen) > 0 {
		fmt.Fprintf(&b, "\nnot looked at without a valid configuration: %s\n", strings.Join(r.Unseen, ", "))
	}
	fmt.Fprintf(&b, "\n%s, %s\n", count(problems, "problem"), count(warnings, "warning"))
	_, err := io.WriteString(w, b.String())
	return err
}

// indented keeps what has several lines below its first.
func indented(s string) string {
	return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n           ")
}
