package importer

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// neutral is the neutral form as the golden files have it. Members that are absent
// there are absent or empty.
type neutral struct {
	Inputs    map[string]neutralInput  `json:"inputs,omitempty"`
	Providers map[string]neutralServer `json:"providers"`
	Errors    map[string]string        `json:"errors,omitempty"`
	Exit      int                      `json:"exit"`
}

type neutralInput struct {
	Secret      bool     `json:"secret"`
	Default     string   `json:"default,omitempty"`
	Options     []string `json:"options,omitempty"`
	Unsupported string   `json:"unsupported,omitempty"`
}

type neutralServer struct {
	Transport    string            `json:"transport"`
	Fallback     string            `json:"fallback,omitempty"`
	Command      string            `json:"command,omitempty"`
	Args         []string          `json:"args,omitempty"`
	Env          map[string]string `json:"env,omitempty"`
	UnsetEnv     []string          `json:"unset_env,omitempty"`
	EnvFile      string            `json:"env_file,omitempty"`
	Cwd          string            `json:"cwd,omitempty"`
	URL          string            `json:"url,omitempty"`
	Headers      map[string]string `json:"headers,omitempty"`
	StartTimeout string            `json:"start_timeout,omitempty"`
	CallTimeout  string            `json:"call_timeout,omitempty"`
	ToolsAllow   []string          `json:"tools_allow,omitempty"`
	ToolsDeny    []string          `json:"tools_deny,omitempty"`
	Enabled      bool              `json:"enabled"`
}

// neutralOf gives what was read the form of the golden files.
func neutralOf(im *Import, err error) neutral {
	out := neutral{Providers: map[string]neutralServer{}, Errors: map[string]string{}, Inputs: map[string]neutralInput{}}
	var broken *FileError
	if errors.As(err, &broken) {
		out.Errors["(file)"] = broken.Place()
		out.Exit = 1
		return out
	}
	for id, in := range im.Inputs {
		n := neutralInput{Secret: in.Secret, Options: in.Options, Unsupported: in.Unsupported}
		if in.Default != nil {
			n.Default = *in.Default
		}
		out.Inputs[id] = n
	}
	for _, e := range im.Entries {
		if e.Server == nil {
			out.Errors[e.Source] = e.Error
			out.Exit = 2
			continue
		}
		out.Providers[e.Source] = neutralServerOf(e.Server)
	}
	return out
}

func neutralServerOf(s *Server) neutralServer {
	n := neutralServer{
		Transport: string(s.Transport), Fallback: string(s.Fallback), Command: s.Command.String(),
		Env: pairs(s.Env), UnsetEnv: s.UnsetEnv, EnvFile: s.EnvFile.String(), Cwd: s.Cwd.String(), URL: s.URL.String(), Headers: pairs(s.Headers),
		StartTimeout: s.StartTimeout, CallTimeout: s.CallTimeout, ToolsAllow: s.ToolsAllow, ToolsDeny: s.ToolsDeny, Enabled: s.Enabled,
	}
	for _, arg := range s.Args {
		n.Args = append(n.Args, arg.String())
	}
	return n
}

func pairs(list []Variable) map[string]string {
	out := map[string]string{}
	for _, v := range list {
		out[v.Name] = v.Value.String()
	}
	return out
}

// plain writes a neutral form such that empty and absent look alike.
func plain(t *testing.T, n neutral) string {
	t.Helper()
	for name := range n.Errors {
		if name != "(file)" {
			n.Errors[name] = "…" // its wording is free
		}
	}
	text, err := json.MarshalIndent(n, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// forTests are the options of the tests: a Linux machine whose program has its name.
var forTests = Options{Self: []string{"drawbridge", "/opt/drawbridge/bin/drawbridge"}, Listen: "127.0.0.1:7420", TokenEnv: "DRAWBRIDGE_TOKEN", GOOS: "linux"}

// source reads a file of testdata; the gateway of one of them is this program.
func source(t *testing.T, name string) []byte {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.ReplaceAll(string(src), "GATEWAY_BINARY", "drawbridge"))
}

// files are the clients' files of testdata.
func files(t *testing.T) []string {
	t.Helper()
	goldens, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(goldens) != 21 {
		t.Fatalf("%d golden files, %v", len(goldens), err)
	}
	for i, g := range goldens {
		goldens[i] = strings.TrimSuffix(filepath.Base(g), ".golden")
	}
	return goldens
}

// TestC074_CommentOrBOMThrowsAwayTheFile: a file with comments and one with a byte order
// mark import completely; the one that is broken in the middle gives an error with line
// and column, a code, and nothing of it.
func TestC074_CommentOrBOMThrowsAwayTheFile(t *testing.T) {
	for name, want := range map[string]int{"06-commented.mcp.json": 2, "13-bom-crlf-windows.json": 3} {
		im, err := Read(name, source(t, name), forTests)
		if err != nil {
			t.Fatal(err)
		}
		if servers, failed := im.Counts(); servers != want || failed != 0 {
			t.Errorf("%s: %d servers and %d errors, want %d and none", name, servers, failed, want)
		}
	}
	im, err := Read("23-broken.json", source(t, "23-broken.json"), forTests)
	if im != nil || err == nil || err.Error() != "23-broken.json: line 4, column 32: expected , or }" {
		t.Errorf("the broken one gives %v, %v", im, err)
	}
	report := NewReport()
	var broken *FileError
	if errors.As(err, &broken) {
		report.Add(Unusable(broken))
	}
	if report.Exit != ExitNone {
		t.Errorf("the code is %d", report.Exit)
	}
}

// TestNeutral compares what each file gives, in the neutral form, with the errors and
// the exit code.
func TestNeutral(t *testing.T) {
	for _, name := range files(t) {
		t.Run(name, func(t *testing.T) {
			golden, err := os.ReadFile(filepath.Join("testdata", name+".golden"))
			if err != nil {
				t.Fatal(err)
			}
			var want neutral
			if err := json.Unmarshal(golden, &want); err != nil {
				t.Fatal(err)
			}
			im, err := Read(name, source(t, name), forTests)
			if diff := cmp.Diff(plain(t, want), plain(t, neutralOf(im, err))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
