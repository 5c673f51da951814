package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/drawbridge-mcp/drawbridge/host/internal/secretstore"
	"github.com/drawbridge-mcp/drawbridge/plugins/http"
	"github.com/drawbridge-mcp/drawbridge/plugins/stdio"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

var update = flag.Bool("update", false, "write the golden files of HCL")

// target is a configuration in a folder of the test's own, whose state dir is there too.
func target(t *testing.T) Target {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	schemas := map[string]provider.Schema{}
	for name, p := range map[string]provider.Provider{"stdio": stdio.New(), "http": http.New()} {
		d, err := p.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		schemas[name] = d.Config
	}
	file := filepath.Join(dir, "providers.hcl")
	return Target{Config: file, File: file, Schemas: schemas}
}

func (t Target) store() *secretstore.Store {
	return secretstore.In(filepath.Join(filepath.Dir(t.File), "state", "drawbridge"))
}

// importInto reads, merges and applies.
func importInto(t *testing.T, target Target, name string, src []byte) *Merged {
	t.Helper()
	im, err := Read(name, src, forTests)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Merge(im, target)
	if err != nil {
		var bad *TargetError
		if errors.As(err, &bad) {
			t.Fatalf("%v: %v", err, bad.Diags)
		}
		t.Fatal(err)
	}
	if _, _, err := m.Apply(); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestHCL writes what each file gives, and checks what is written against a golden
// file; that all of it was taken; and that a second import changes nothing.
func TestHCL(t *testing.T) {
	for _, name := range files(t) {
		if strings.Contains(name, "broken") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			target := target(t)
			m := importInto(t, target, name, source(t, name))
			for _, r := range m.Results {
				if want := map[bool]Outcome{true: Added, false: Failed}[r.Entry.Server != nil]; r.Outcome != want {
					t.Errorf("%s: %s (%s), want %s", r.Entry.Source, r.Outcome, r.Reason, want)
				}
			}
			got, err := os.ReadFile(target.File)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".hcl")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("HCL (run with -update if it should differ):\n%s", diff)
			}
			again := importInto(t, target, name, source(t, name))
			after, err := os.ReadFile(target.File)
			if err != nil || !bytes.Equal(got, after) {
				t.Errorf("a second import changed the file (%v):\n%s", err, cmp.Diff(string(got), string(after)))
			}
			for _, r := range again.Results {
				if want := map[bool]Outcome{true: Unchanged, false: Failed}[r.Entry.Server != nil]; r.Outcome != want {
					t.Errorf("again: %s: %s (%s), want %s", r.Entry.Source, r.Outcome, r.Reason, want)
				}
			}
			left, err := filepath.Glob(filepath.Join(filepath.Dir(target.File), "*"))
			hidden, _ := filepath.Glob(filepath.Join(filepath.Dir(target.File), ".*"))
			if err != nil || len(hidden) != 0 {
				t.Errorf("left behind: %v %v", left, hidden)
			}
		})
	}
}

// credentialsOf20 are those of 20-literal-secrets.json, as its sidecar looks for them,
// and the password beside them.
var credentialsOf20 = regexp.MustCompile(`EXAMPLE.?(a{5}|b{5}|c{5}|d{4}|e{5}|f{5}|g{4}|h{4}|i{4})|hunter-EXAMPLE`)

// TestNoCredentialOut looks for the credentials of a file in all that an import says or
// writes: they are in the store, with the rights of a secret, and nowhere else.
func TestNoCredentialOut(t *testing.T) {
	target := target(t)
	const name = "20-literal-secrets.json"
	m := importInto(t, target, name, source(t, name))
	if found := len(credentialsOf20.FindAllString(string(source(t, name)), -1)); found != 10 {
		t.Fatalf("the source holds %d credentials, want 10: this test would pass without looking", found)
	}
	report := NewReport()
	report.Add(m.report(t))
	var people bytes.Buffer
	if err := report.Write(&people); err != nil {
		t.Fatal(err)
	}
	programs, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"HCL": string(m.New), "report": people.String(), "JSON": string(programs)} {
		if found := credentialsOf20.FindString(text); found != "" {
			t.Errorf("%s holds %q:\n%s", what, found, text)
		}
	}
	want := map[string]string{
		"a.api-key": "sk-EXAMPLE-aaaaaaaaaaaaaaaaaaaa", "a.token": "EXAMPLE-bbbbbbbbbbbbbbbb", "a.GITHUB_TOKEN": "ghp_EXAMPLEcccccccccccccccccccccccccccc",
		"a.PASSWORD": "hunter-EXAMPLE", "b.url-password": "EXAMPLE-dddd", "b.Authorization": "EXAMPLE-eeeeeeee", "b.X-Api-Key": "EXAMPLE-ffffffff",
		"b.Cookie": "sid=EXAMPLE-gggg", "c.SLACK_TOKEN": "xoxb-EXAMPLE-hhhh", "d.password": "EXAMPLE-iiii",
	}
	entries, err := target.store().List()
	if err != nil || len(entries) != len(want) {
		t.Errorf("the store has %d secrets (%v), want %d", len(entries), err, len(want))
	}
	for name, value := range want {
		got, err := target.store().Get(name)
		if err != nil || string(got) != value {
			t.Errorf("secret %s: %q, %v", name, got, err)
		}
		info, err := os.Stat(filepath.Join(target.store().Dir(), name+".secret"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("secret %s: %v, %v", name, info.Mode(), err)
		}
	}
}

// report is the report of a merge that was applied.
func (m *Merged) report(t *testing.T) FileReport {
	t.Helper()
	im, err := Read("20-literal-secrets.json", source(t, "20-literal-secrets.json"), forTests)
	if err != nil {
		t.Fatal(err)
	}
	return ReportOf(im, m)
}

// TestAnyText writes texts of every kind and reads them back: what cannot be kept is
// refused, and never changed.
func TestAnyText(t *testing.T) {
	target := target(t)
	odd := []rune("$%{}\"\\~'`<>-/ \n\r\t\x01\x7f\u0301\u00e9e\u0345\ufdd0\ufeff\u202e\u2028\U0001f600\ue000\ue001\u1100\u1161")
	text := rapid.StringOf(rapid.OneOf(rapid.SampledFrom(odd), rapid.Rune()))
	rapid.Check(t, func(rt *rapid.T) {
		args := rapid.SliceOfN(text, 1, 4).Draw(rt, "args")
		value := text.Draw(rt, "value")
		description := text.Draw(rt, "description")
		s := Server{Transport: Stdio, Command: literalText("server"), Enabled: true, Env: []Variable{
			{"PLAIN", literalText(value)},
			{"MIXED", append(append(literalText(value), Part{Kind: EnvRef, Value: "X"}), literalText(value)...)},
		}}
		for _, arg := range args {
			s.Args = append(s.Args, literalText(arg))
		}
		e := &Entry{Source: "x", Path: "mcpServers.x", Name: "x", Server: &s, Description: description}
		im := &Import{File: "x.json", Client: Generic, Entries: []*Entry{e}}
		m := &Merged{Target: target}
		block, wrong := m.written(&writer{im: im}, e)
		if wrong != "" {
			rt.Fatalf("%s\n%s", wrong, (&writer{im: im}).block(e))
		}
		if again, _ := m.written(&writer{im: im}, e); again != block {
			rt.Fatalf("written twice it differs:\n%s\n%s", block, again)
		}
	})
}
