// Command testsummary reads the events of `go test -json` on standard input and
// prints what a person needs of them: a line for each package as it ends, the
// whole output of what failed, what was skipped and why, the report of a test that
// has one, and one line with the numbers at the end. It exits 1 if anything failed
// or nothing ran.
//
// A report is what a test that passed has said in lines that begin with a bar, as
// the lines of a table do.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if !summarise(os.Stdin, os.Stdout) {
		os.Exit(1)
	}
}

// event is one event of `go test -json`; see `go doc test2json`.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
	FailedBuild                               string
}

// summary counts while events pass.
type summary struct {
	out                     io.Writer
	output                  map[string][]string // of what has not ended yet, by package and test
	builds                  map[string][]string // of what does not compile, by import path
	passed, failed, skipped int
	packages, badPackages   int
	failures, skips         []string
}

// summarise reads events to the end and says whether all is well.
func summarise(in io.Reader, out io.Writer) bool {
	s := &summary{out: out, output: map[string][]string{}, builds: map[string][]string{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		// What is no event comes from the go command itself and is shown as it is.
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Action == "" {
			fmt.Fprintln(out, lines.Text())
			continue
		}
		s.take(e)
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(out, "testsummary:", err)
		return false
	}
	return s.end()
}

func (s *summary) take(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		s.builds[e.ImportPath] = append(s.builds[e.ImportPath], e.Output)
	case "output":
		s.output[key] = append(s.output[key], e.Output)
	case "pass", "skip", "fail":
		lines := s.output[key]
		delete(s.output, key)
		if e.Test == "" {
			s.endPackage(e, lines)
		} else {
			s.endTest(e, lines)
		}
	}
}

func (s *summary) endTest(e event, lines []string) {
	switch e.Action {
	case "pass":
		s.passed++
		s.report(lines)
	case "skip":
		s.skipped++
		s.skips = append(s.skips, e.Package+" "+e.Test+": "+reason(lines))
	case "fail":
		s.failed++
		s.failures = append(s.failures, e.Package+" "+e.Test)
		s.print(lines)
	}
}

func (s *summary) endPackage(e event, lines []string) {
	switch e.Action {
	case "pass":
		s.packages++
		fmt.Fprintf(s.out, "ok    %s  %.1fs\n", e.Package, e.Elapsed)
	case "fail":
		s.packages++
		s.badPackages++
		s.failures = append(s.failures, e.Package)
		s.print(s.builds[e.FailedBuild])
		s.print(lines)
		// A test that the end of its process cut short never ends by itself.
		for key, rest := range s.output {
			if strings.HasPrefix(key, e.Package+" ") {
				s.print(rest)
				delete(s.output, key)
			}
		}
		fmt.Fprintf(s.out, "FAIL  %s  %.1fs\n", e.Package, e.Elapsed)
	}
}

func (s *summary) print(lines []string) {
	for _, line := range lines {
		fmt.Fprint(s.out, line)
	}
}

// report prints the lines of a report.
func (s *summary) report(lines []string) {
	for _, line := range lines {
		if text := strings.TrimLeft(line, " "); strings.HasPrefix(text, "|") {
			fmt.Fprint(s.out, text)
		}
	}
}

// reason is what a skipped test said: its last line that go test did not add.
func reason(lines []string) string {
	said := ""
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = line
		}
	}
	return said
}

func (s *summary) end() bool {
	for _, skip := range s.skips {
		fmt.Fprintln(s.out, "skip ", skip)
	}
	for _, failure := range s.failures {
		fmt.Fprintln(s.out, "fail ", failure)
	}
	fmt.Fprintf(s.out, "go test: %d passed, %d failed, %d skipped, in %d packages (%d failed)\n",
		s.passed, s.failed, s.skipped, s.packages, s.badPackages)
	return s.badPackages == 0 && s.failed == 0 && s.packages > 0
}
