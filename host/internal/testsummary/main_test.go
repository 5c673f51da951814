package main

import (
	"strings"
	"testing"
)

func TestSummarise(t *testing.T) {
	const (
		pass = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
{"Action":"pass","Package":"p","Elapsed":0.2}
`
		fail = `{"Action":"output","Package":"q","Test":"TestB","Output":"the reason\n"}
{"Action":"fail","Package":"q","Test":"TestB"}
{"Action":"output","Package":"q","Output":"FAIL\tq\n"}
{"Action":"fail","Package":"q"}
`
		skip = `{"Action":"output","Package":"p","Test":"TestC","Output":"=== RUN   TestC\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:3: no user namespaces\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"--- SKIP: TestC (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"pass","Package":"p"}
`
		report = `{"Action":"output","Package":"p","Test":"TestE","Output":"    e_test.go:3: \n"}
{"Action":"output","Package":"p","Test":"TestE","Output":"        | tier | rounds |\n"}
{"Action":"output","Package":"p","Test":"TestE","Output":"        chatter |\n"}
{"Action":"pass","Package":"p","Test":"TestE"}
{"Action":"pass","Package":"p"}
`
		build = `{"ImportPath":"r","Action":"build-output","Output":"r.go:1:1: undefined: x\n"}
{"ImportPath":"r","Action":"build-fail"}
{"Action":"fail","Package":"r","FailedBuild":"r"}
`
		// The process ended in the middle of a test.
		crash = `{"Action":"output","Package":"s","Test":"TestD","Output":"panic: here\n"}
{"Action":"fail","Package":"s"}
`
	)
	for _, c := range []struct {
		name, in string
		ok       bool
		want     []string
		not      string
	}{
		{"pass", pass, true, []string{"ok    p", "1 passed, 0 failed, 0 skipped, in 1 packages (0 failed)"}, "chatter"},
		{"fail", pass + fail, false, []string{"the reason", "FAIL  q", "fail  q TestB", "1 passed, 1 failed", "in 2 packages (1 failed)"}, "chatter"},
		{"skip", skip, true, []string{"skip  p TestC: c_test.go:3: no user namespaces", "1 skipped"}, ""},
		{"report", report, true, []string{"| tier | rounds |\n"}, "chatter"},
		{"build", build, false, []string{"undefined: x", "FAIL  r"}, ""},
		{"crash", crash, false, []string{"panic: here", "FAIL  s"}, ""},
		{"nothing", "", false, []string{"0 passed"}, ""},
		{"no event", "go: no such tool\n" + pass, true, []string{"go: no such tool"}, ""},
	} {
		var out strings.Builder
		if ok := summarise(strings.NewReader(c.in), &out); ok != c.ok {
			t.Errorf("%s: all well is %v, want %v", c.name, ok, c.ok)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, out.String())
			}
		}
		if c.not != "" && strings.Contains(out.String(), c.not) {
			t.Errorf("%s: %q in\n%s", c.name, c.not, out.String())
		}
	}
}
