//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// suiteLimit bounds one run of the suite, which takes some seconds.
const suiteLimit = 3 * time.Minute

// TestConformance runs the official suite against the host on HTTP, with the suite's
// fixture server behind it: once as the modern server that it is, and once as a
// server of the older era, so that every era of client meets every era of server.
// What is to come of each scenario stands in testdata/conformance. A check that
// fails and is not listed there fails the test, and so does one that is listed and
// does not fail any more: the lists say what is true.
func TestConformance(t *testing.T) {
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			expected := readExpectations(t, revision)
			newer, older := runSuite(t, revision, false), runSuite(t, revision, true)
			for name, e := range expected {
				e.compare(t, name, "a modern server", newer[name])
				e.ofOlder().compare(t, name, "an older server", older[name])
			}
			for name := range newer {
				if _, ok := expected[name]; !ok {
					t.Errorf("the suite has a scenario %s, of which nothing is expected", name)
				}
			}
			t.Logf("%s: scenarios × results, by the era of the server behind the host\n%s", revision, table(expected, newer, older))
		})
	}
}

// expectation is what is to come of one scenario.
type expectation struct {
	// Fails and Warns are the ids of checks that do not pass, and Why is why.
	Fails []string `json:"fails,omitempty"`
	Warns []string `json:"warns,omitempty"`
	Why   string   `json:"why,omitempty"`
	// Older replaces all this where the server is of the older era.
	Older *expectation `json:"older,omitempty"`
}

func (e expectation) ofOlder() expectation {
	if e.Older != nil {
		return *e.Older
	}
	return e
}

func readExpectations(t *testing.T, revision string) map[string]expectation {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/conformance", revision+".json"))
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var all map[string]expectation
	if err := dec.Decode(&all); err != nil {
		t.Fatal(err)
	}
	for name, e := range all {
		for _, one := range []expectation{e, e.ofOlder()} {
			if (len(one.Fails)+len(one.Warns) > 0) != (one.Why != "") {
				t.Errorf("%s: what does not pass and why go together", name)
			}
		}
	}
	return all
}

// check is one thing that a scenario looked at, as the suite writes it down.
type check struct {
	ID           string `json:"id"`
	Status       string `json:"status"`
	ErrorMessage string `json:"errorMessage"`
}

func (e expectation) compare(t *testing.T, scenario, server string, got []check) {
	t.Helper()
	if got == nil {
		t.Errorf("%s (%s): the suite did not run it", scenario, server)
		return
	}
	for status, want := range map[string][]string{"FAILURE": e.Fails, "WARNING": e.Warns} {
		var found []string
		for _, c := range got {
			if c.Status != status {
				continue
			}
			found = append(found, c.ID)
			if !slices.Contains(want, c.ID) {
				t.Errorf("%s (%s): %s of %s: %s", scenario, server, status, c.ID, c.ErrorMessage)
			}
		}
		for _, id := range want {
			if !slices.Contains(found, id) {
				t.Errorf("%s (%s): no %s of %s any more: take it off the list", scenario, server, status, id)
			}
		}
	}
}

// table says for each scenario how many of its checks passed, in the order of names.
func table(expected map[string]expectation, runs ...map[string][]check) string {
	var names []string
	for name := range expected {
		names = append(names, name)
	}
	slices.Sort(names)
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "scenario\tmodern server\tolder server\tnot yet, because")
	sums := make([]struct{ scenarios, passed, checks int }, len(runs))
	for _, name := range names {
		fmt.Fprint(w, name)
		for i, run := range runs {
			passed, failed := 0, 0
			for _, c := range run[name] {
				switch c.Status {
				case "SUCCESS":
					passed++
				case "FAILURE":
					failed++
				}
			}
			word := "ok"
			if failed > 0 {
				word = "later"
			} else {
				sums[i].scenarios++
			}
			sums[i].passed += passed
			sums[i].checks += passed + failed
			fmt.Fprintf(w, "\t%s %d/%d", word, passed, passed+failed)
		}
		why := expected[name].Why
		if older := expected[name].ofOlder().Why; older != why {
			why = strings.TrimPrefix(why+"; older: "+older, "; ")
		}
		fmt.Fprintf(w, "\t%s\n", why)
	}
	fmt.Fprint(w, "all")
	for _, s := range sums {
		fmt.Fprintf(w, "\t%d/%d, checks %d/%d", s.scenarios, len(names), s.passed, s.checks)
	}
	fmt.Fprintln(w, "\t")
	_ = w.Flush() // to a string
	return out.String()
}

// runSuite runs the scenarios of a revision against a fresh host, and returns
// their checks.
func runSuite(t *testing.T, revision string, older bool) map[string][]check {
	t.Helper()
	p := newPlace(t)
	results := p.Path("results")
	ctx, cancel := context.WithTimeout(t.Context(), suiteLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t, "conformance"), "server",
		"--url", p.serveFixture(t, older), "--requirements", revision, "--output-dir", results)
	cmd.Dir, cmd.Env = p.Dir, p.Env(newerNode(t))
	out, err := cmd.CombinedOutput()
	// It exits 1 when something failed, which is for us to judge.
	if exit := cmd.ProcessState; exit == nil || exit.ExitCode() > 1 || ctx.Err() != nil {
		t.Fatalf("the suite did not run to its end: %v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(results, "*", "checks.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no results: %v\n%s", err, out)
	}
	all := map[string][]check{}
	for _, file := range files {
		m := resultFolder.FindStringSubmatch(filepath.Base(filepath.Dir(file)))
		text, err := os.ReadFile(file)
		checks := []check{}
		if m == nil || err != nil || json.Unmarshal(text, &checks) != nil {
			t.Fatalf("%s is no result of a scenario: %v", file, err)
		}
		all[m[1]] = checks
	}
	return all
}

// resultFolder is the folder of one scenario's results: its name, and the time.
var resultFolder = regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$`)
