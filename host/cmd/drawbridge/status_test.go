package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/host/control"
)

// TestStatusForPeople prints a host on which not all is well.
func TestStatusForPeople(t *testing.T) {
	now := time.Date(2026, 11, 30, 10, 0, 0, 0, time.Local)
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	next := now.Add(6 * time.Second)
	s := control.Status{
		Host: control.HostStatus{ID: "3f2a", PID: 812, Version: "0.1.0", Started: before(3 * time.Hour), Containment: "subreaper"},
		Providers: []control.ProviderStatus{
			{
				Name: "browser", State: "ready", Since: before(3 * time.Hour), Noise: 4,
				Instances: []control.InstanceStatus{{ID: "3f2a/browser/1", GuardPID: 840, PluginPID: 841, CallsInFlight: 1}},
				Exits:     []control.ExitStatus{{Instance: "3f2a/browser/0", Time: before(50 * time.Hour), Code: -1, Signal: 9, Asked: true, Stderr: "a\nbye\n"}},
			},
			{
				Name: "files", State: "backoff", Since: before(2 * time.Second), Restarts: 3, NextStart: &next,
				Reason: `crash loop, 3 restarts in a row: provider "files" (providers.hcl:12): initialize: the server exited with code 3: API_KEY is not set`,
				Exits:  []control.ExitStatus{{Instance: "3f2a/files/4", Time: before(2 * time.Second), Code: 3, Stderr: "API_KEY is not set"}},
			},
			{Name: "given-up", State: "failed", Since: before(time.Minute), Restarts: 5, NextStart: &next, Reason: "why"},
			{Name: "mistaken", State: "failed", Since: before(time.Minute), Reason: "what"},
			{Name: "unused", State: "cold", Since: before(3 * time.Hour)},
		},
	}
	info := control.Info{ID: "3f2a", URL: "http://127.0.0.1:7420/mcp", Config: "/home/you/providers.hcl", StateDir: "/home/you/state", WhyNotMore: `containment "pidns" is not available: operation not permitted`}
	var out strings.Builder
	if err := writeStatus(&out, info, s, now); err != nil {
		t.Fatal(err)
	}
	want := `host 3f2a at http://127.0.0.1:7420/mcp, pid 812, version 0.1.0, up 3h, containment subreaper
no better containment: containment "pidns" is not available: operation not permitted
configuration /home/you/providers.hcl, state /home/you/state

PROVIDER  STATE    FOR  RESTARTS  NOISE  PLUGIN  CALLS  LAST EXIT
browser   ready    3h   0         4      841     1      signal 9 (killed), 2d ago
files     backoff  2s   3         0      -       -      code 3, 2s ago
given-up  failed   1m   5         0      -       -      -
mistaken  failed   1m   0         0      -       -      -
unused    cold     3h   0         0      -       -      -

files: crash loop, 3 restarts in a row: provider "files" (providers.hcl:12): initialize: the server exited with code 3: API_KEY is not set; next start 10:00:06, in 6s

` + "given-up: why; started again by `drawbridge restart given-up`, or by a call after 10:00:06\n" + `
mistaken: what; mend the configuration and start the host again
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("status:\n%s", diff)
	}
	out.Reset()
	if err := writeExits(&out, s.Providers[0]); err != nil {
		t.Fatal(err)
	}
	want = `
ENDED                INSTANCE        HOW                ASKED  LAST LINE
2026-11-28 08:00:00  3f2a/browser/0  signal 9 (killed)  yes    bye
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("exits:\n%s", diff)
	}
	// With the best there is, nothing is missing.
	out.Reset()
	info.WhyNotMore = ""
	if err := writeStatus(&out, info, s, now); err != nil || strings.Contains(out.String(), "no better") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}
