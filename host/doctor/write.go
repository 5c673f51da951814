package doctor

import (
	"fmt"
	"io"
	"strings"
)

// Report is what `doctor --json` prints; programs rely on its form.
type Report struct {
	// Verdict is the worst of the findings.
	Verdict  Verdict   `json:"verdict"`
	Findings []Finding `json:"findings"`
}

// NewReport makes the report of facts.
func NewReport(f Facts) Report {
	all := Examine(f)
	if all == nil {
		all = []Finding{}
	}
	return Report{Verdict: Worst(all), Findings: all}
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
	fmt.Fprintf(&b, "\n%s, %s\n", count(problems, "problem"), count(warnings, "warning"))
	_, err := io.WriteString(w, b.String())
	return err
}

// indented keeps what has several lines below its first.
func indented(s string) string {
	return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n           ")
}
