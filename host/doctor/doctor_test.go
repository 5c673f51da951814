package doctor

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what is printed into testdata")

// each verdict: facts, and what is found in them by one group. says and remedy are
// parts of the texts.
var verdicts = []struct {
	name, check  string
	facts        Facts
	want         Verdict
	says, remedy string
}{
	{"none found", "config", Facts{Config: &Config{Missing: "no configuration: looked for a"}}, Problem, "no configuration", "drawbridge init"},
	{"mistake", "config", Facts{Config: &Config{Path: "p", Mistakes: []Mistake{{Where: "p:3", Summary: "Bad", Detail: "Do so."}}}}, Problem, "Bad", "Do so."},
	{"mistake without a detail", "config", Facts{Config: &Config{Path: "p", Mistakes: []Mistake{{Summary: "Bad"}}}}, Problem, "Bad", "troubleshoot"},
	{"valid", "config", Facts{Config: &Config{Path: "p", Providers: 3, Disabled: 1}}, OK, "3 providers, 1 of them not enabled", ""},

	{"no tier", "containment", Facts{Containment: &Containment{WhyNot: "refused"}}, Problem, "refused", "containment.md"},
	{"tier required", "containment", Facts{Containment: &Containment{Tier: "subreaper", Required: "pidns", Unmet: true, WhyNot: "refused"}}, Problem, "requires pidns: refused", "allow"},
	{"a weaker tier", "containment", Facts{Containment: &Containment{Tier: "subreaper", WhyNot: "EPERM"}}, Warning, "EPERM", "namespaces"},
	{"the best tier", "containment", Facts{Containment: &Containment{Tier: "pidns", Best: true}}, OK, "strongest", ""},

	{"TMPDIR", "state", Facts{Temp: "it does not exist"}, Problem, "does not exist", "TMPDIR"},
	{"no folder", "state", Facts{State: &State{Dir: "d", Exists: true, Writable: true}}, Problem, "no folder", "state_dir"},
	{"another user's", "state", Facts{State: &State{Dir: "d", Exists: true, Folder: true, Foreign: true}}, Problem, "another user", "state_dir"},
	{"cannot be made", "state", Facts{State: &State{Dir: "d"}}, Problem, "cannot be made", "make it"},
	{"not writable", "state", Facts{State: &State{Dir: "d", Exists: true, Folder: true, Mode: 0o700}}, Problem, "cannot be written", "chmod"},
	{"open to writers", "state", Facts{State: &State{Dir: "d", Exists: true, Folder: true, Writable: true, Mode: 0o720}}, Problem, "0720", "chmod 700 'd'"},
	{"open to readers", "state", Facts{State: &State{Dir: "d", Exists: true, Folder: true, Writable: true, Mode: 0o755}}, Warning, "0755", "chmod 700 'd'"},
	{"to be made", "state", Facts{State: &State{Dir: "d", Writable: true}}, OK, "first start", ""},
	{"private", "state", Facts{State: &State{Dir: "d", Exists: true, Folder: true, Writable: true, Mode: fs.ModeDir | 0o700}}, OK, "yours alone", ""},

	{"plugin gone", "plugins", Facts{Plugins: []Plugin{{Name: "a", Path: "/a", Wrong: "no such file"}}}, Problem, "no such file", "path"},
	{"plugin not approved", "plugins", Facts{Plugins: []Plugin{{Name: "a", Path: "/a", Actual: "1f", Found: true}}}, Problem, "not approved", "drawbridge lock"},
	{"plugin without a checksum", "plugins", Facts{Plugins: []Plugin{{Name: "a", Path: "/a", Actual: "1f"}}}, Problem, "no sha256", `sha256 = "1f"`},
	{"another plugin", "plugins", Facts{Plugins: []Plugin{{Name: "a", Path: "/a", Actual: "1f", Declared: "2f"}}}, Problem, "1f", "who changed it"},
	{"plugin as declared", "plugins", Facts{Plugins: []Plugin{{Name: "a", Path: "/a", Actual: "1f", Declared: "1F"}}}, OK, "checksum", ""},
	{"lock file damaged", "plugins", Facts{Lock: &Lock{Wrong: "not valid"}}, Problem, "not valid", "restore"},
	{"lock file missing", "plugins", Facts{Lock: &Lock{Needed: true}}, Problem, "missing", "drawbridge lock"},
	{"no lock file", "plugins", Facts{Lock: &Lock{}}, OK, "none", ""},
	{"tools not locked", "plugins", Facts{Lock: &Lock{Exists: true, Needed: true, Unapproved: map[string]int{"a": 2}}}, Warning, "2 tools are not in the lock file as listed, and not shown", "drawbridge lock a"},
	{"all locked", "plugins", Facts{Lock: &Lock{Exists: true}}, OK, "has what providers list", ""},

	{"command missing", "commands", Facts{Commands: []Command{{Provider: "a", Name: "x", Wrong: "x is nowhere"}}}, Problem, "nowhere", "PATH"},
	{"path of a command wrong", "commands", Facts{Commands: []Command{{Provider: "a", Name: "./x", Wrong: "./x is not there"}}}, Problem, "not there", "correct the path"},
	{"command found", "commands", Facts{Commands: []Command{{Provider: "a", Name: "x", Path: "/bin/x"}}}, OK, "/bin/x, by this terminal's PATH", ""},
	{"command on its own PATH", "commands", Facts{Commands: []Command{{Provider: "a", Name: "x", Path: "/o/x", OwnPath: true}}}, OK, "PATH in its env", ""},
	{"no node", "commands", Facts{Commands: []Command{{Provider: "a", Name: "npx", Path: "/bin/npx", NeedsNode: true, Npx: "10"}}}, Problem, "needs node", "Node 20"},
	{"ancient node", "commands", Facts{Commands: []Command{{Provider: "a", Name: "npx", Path: "/bin/npx", NeedsNode: true, Node: "v16.2.0"}}}, Problem, "v16.2.0", "Node 20"},
	{"old node", "commands", Facts{Commands: []Command{{Provider: "a", Name: "npx", Path: "/bin/npx", NeedsNode: true, Node: "v18.2.0", Npx: "9.1"}}}, Warning, "npx 9.1", "Node 20"},
	{"node", "commands", Facts{Commands: []Command{{Provider: "a", Name: "npx", Path: "/bin/npx", NeedsNode: true, Node: "v22.2.0", Npx: "10.1"}}}, OK, "v22.2.0", ""},

	{"secret missing", "secrets", Facts{Secrets: &Secrets{Missing: []string{"T"}}}, Problem, `secret("T")`, "drawbridge secret set T"},
	{"secret unusable", "secrets", Facts{Secrets: &Secrets{Unusable: map[string]string{"T": "is damaged"}}}, Problem, "is damaged", "drawbridge secret set T"},
	{"secret unused", "secrets", Facts{Secrets: &Secrets{Unused: []string{"T"}}}, Warning, "T", "secret rm"},
	{"secrets set", "secrets", Facts{Secrets: &Secrets{Present: []string{"T", "U"}}}, OK, "2 secrets set: T, U", ""},
	{"no secrets", "secrets", Facts{Secrets: &Secrets{}}, OK, "none", ""},

	{"no host", "hosts", Facts{}, OK, "no host", ""},
	{"old host", "hosts", Facts{Hosts: []Host{{ID: "a", Same: true, Version: "0.1"}}}, Warning, "0.1", "restart it"},
	{"two hosts", "hosts", Facts{Hosts: []Host{{ID: "a", Same: true, URL: "u", Current: true}, {ID: "b", Same: true, URL: "v", Current: true}}}, Warning, "another one", "end one"},
	{"port free", "hosts", Facts{Listen: &Listen{Address: "x:1"}}, OK, "free", ""},
	{"port ours", "hosts", Facts{Listen: &Listen{Address: "x:1", Busy: true, Holder: "a"}, Hosts: []Host{{ID: "a", Same: true, Current: true}}}, OK, "this configuration", ""},
	{"port of another host", "hosts", Facts{Listen: &Listen{Address: "x:1", Busy: true, Holder: "a"}, Hosts: []Host{{ID: "a", Config: "/o.hcl"}}}, Problem, "/o.hcl", "http.listen"},
	{"port of a stranger", "hosts", Facts{Listen: &Listen{Address: "x:1", Busy: true}}, Problem, "no host of yours", "http.listen"},
	{"port not to be had", "hosts", Facts{Listen: &Listen{Address: "x:1", Wrong: "permission denied"}}, Problem, "permission denied", "1024"},

	{"nothing left", "leftovers", Facts{Leftovers: &Leftovers{}}, OK, "no process", ""},
	{"a record left", "leftovers", Facts{Leftovers: &Leftovers{Runs: 1}}, OK, "removes the record", ""},
	{"a process left", "leftovers", Facts{Leftovers: &Leftovers{Runs: 1, Processes: []Process{{PID: 7, Mark: "m"}}}}, Warning, "process 7", "ends it"},
	{"unsure", "leftovers", Facts{Leftovers: &Leftovers{Unsure: []string{"another PID namespace"}}}, Warning, "another PID", "ps"},
	{"records unreadable", "leftovers", Facts{Leftovers: &Leftovers{Wrong: "EACCES"}}, Warning, "EACCES", "mend"},

	{"failed", "providers", Facts{Starts: []Start{{Provider: "a", Failure: "no"}}}, Problem, "no", "drawbridge logs a"},
	{"cannot work", "providers", Facts{Starts: []Start{{Provider: "a", Fault: true, Failure: "no"}}}, Problem, "no", "mend"},
	{"declared after the host began", "providers", Facts{Starts: []Start{{Provider: "a", Absent: true}}}, Problem, "does not have it", "start it again"},
	{"slow", "providers", Facts{Starts: []Start{{Provider: "a", Took: 40 * time.Second, Known: true, Tools: 1}}}, Warning, "40s", "eager"},
	{"near its limit", "providers", Facts{Starts: []Start{{Provider: "a", Took: 6 * time.Second, Limit: 10 * time.Second, Known: true, Tools: 1}}}, Warning, "6s", "eager"},
	{"empty", "providers", Facts{Starts: []Start{{Provider: "a", Known: true}}}, Warning, "no tool", "except"},
	{"empty and running", "providers", Facts{Starts: []Start{{Provider: "a", Running: true, State: "ready", Known: true}}}, Warning, "ready in the running host", "except"},
	{"running", "providers", Facts{Starts: []Start{{Provider: "a", Running: true, State: "cold"}}}, OK, "cold in the running host", ""},
	{"skipped", "providers", Facts{Starts: []Start{{Provider: "a", Skipped: true, Known: true, Tools: 3}}}, OK, "as asked, 3 tools", ""},
	{"started", "providers", Facts{Starts: []Start{{Provider: "a", Took: 1234 * time.Millisecond, Limit: time.Minute, Known: true, Tools: 1}}}, OK, "started in 1.23s, 1 tool", ""},

	{"names fit", "names", Facts{Projects: []Project{{Tools: []Tool{{Exposed: strings.Repeat("x", 44)}}}}}, OK, "all 1", ""},
	{"names too long for some", "names", Facts{Projects: []Project{{Name: "p", Tools: []Tool{{Exposed: strings.Repeat("x", 45)}}}}}, Warning, "some clients", "name_max = 44"},
	{"names too long for most", "names", Facts{Projects: []Project{{Name: "p", Tools: []Tool{{Exposed: strings.Repeat("x", 53)}}}}}, Warning, "most clients", "name_max = 44"},

	{"cheap", "context", Facts{Projects: []Project{{Tools: []Tool{{Bytes: 401}}}}}, OK, "an estimated 101 tokens", ""},
	{"at the limit", "context", Facts{Projects: []Project{{Tools: []Tool{{Bytes: manyTokens * bytesPerToken}}}}}, OK, "25000 tokens", ""},
	{"dear", "context", Facts{Projects: []Project{{Name: "p", Unlisted: []string{"c"}, Tools: []Tool{{Provider: "a", Bytes: 9}, {Provider: "b", Bytes: manyTokens * bytesPerToken}}}}}, Warning, "not counted, because nothing is known of it yet: c; the most is of b", "except"},
}

func TestEachVerdict(t *testing.T) {
	for _, c := range verdicts {
		t.Run(c.name, func(t *testing.T) {
			var of []Finding
			for _, f := range Examine(c.facts) {
				if f.Check == c.check {
					of = append(of, f)
				}
			}
			i := slices.IndexFunc(of, func(f Finding) bool { return f.Verdict == c.want && strings.Contains(f.Says, c.says) })
			if i < 0 {
				t.Fatalf("none is %s and says %q: %+v", c.want, c.says, of)
			}
			if !strings.Contains(of[i].Remedy, c.remedy) || (of[i].Remedy == "") != (c.want == OK) {
				t.Errorf("the remedy is %q, want one with %q", of[i].Remedy, c.remedy)
			}
			if Worst(of) != c.want {
				t.Errorf("the worst of %+v is %s, want %s", of, Worst(of), c.want)
			}
		})
	}
}

// Every group has each of the verdicts that it can give among the cases above.
func TestEveryGroupIsJudged(t *testing.T) {
	for _, g := range Groups {
		for _, v := range []Verdict{OK, Warning, Problem} {
			if g.Name == "config" && v == Warning || (g.Name == "leftovers" || g.Name == "names" || g.Name == "context") && v == Problem {
				continue // a warning of the file is tested below; the others have no problems
			}
			found := false
			for _, c := range verdicts {
				found = found || c.check == g.Name && c.want == v
			}
			if !found {
				t.Errorf("no case of %s is %s", g.Name, v)
			}
		}
	}
}

func TestWarningsOfAFileDoNotMakeItInvalid(t *testing.T) {
	got := judgeConfig(Facts{Config: &Config{Path: "p", Mistakes: []Mistake{{Where: "p:1", Warning: true, Summary: "Not in force", Detail: "Leave it out."}}}})
	want := []Finding{
		{Subject: "p", Verdict: OK, Says: "found and valid: 0 providers"},
		{Subject: "p:1", Verdict: Warning, Says: "Not in force", Remedy: "Leave it out."},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFilesOfTheStateDirThatAreOpen(t *testing.T) {
	s := &State{Dir: "d", Exists: true, Folder: true, Writable: true, Mode: 0o700, Private: []PrivateFile{{"d/key", 0o600}, {"d/token", 0o644}}}
	got := judgeState(Facts{State: s})
	if len(got) != 2 || got[1].Subject != "d/token" || got[1].Verdict != Problem || !strings.Contains(got[1].Remedy, "chmod 600") {
		t.Errorf("got %+v", got)
	}
}

func TestWorst(t *testing.T) {
	for _, c := range []struct {
		of   []Verdict
		want Verdict
	}{
		{nil, OK}, {[]Verdict{OK}, OK}, {[]Verdict{OK, Warning, OK}, Warning},
		{[]Verdict{Warning, Problem}, Problem}, {[]Verdict{Problem, Warning}, Problem},
	} {
		var all []Finding
		for _, v := range c.of {
			all = append(all, Finding{Verdict: v})
		}
		if got := Worst(all); got != c.want {
			t.Errorf("of %v it is %s, want %s", c.of, got, c.want)
		}
	}
}

// Nothing known is nothing said, and a report for programs has a list all the same.
func TestReportOfNothing(t *testing.T) {
	r := NewReport(Facts{})
	if r.Findings == nil || r.Verdict != OK {
		t.Errorf("got %+v", r)
	}
}

func TestWrite(t *testing.T) {
	r := NewReport(Facts{
		Config:   &Config{Path: "/home/you/providers.hcl", Providers: 2},
		Commands: []Command{{Provider: "files", Name: "npx", Wrong: "npx is in no folder of\nthe PATH"}},
		Projects: []Project{{Name: "work", Tools: []Tool{{Exposed: strings.Repeat("long_", 10), Provider: "files", Bytes: 400}}}},
	})
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "report.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Error(diff)
	}
}
