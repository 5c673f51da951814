//go:build unix

package supervise

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/shared/checksum"
)

// scripted is a script that leaves a trace and becomes the plugin of a role. It is
// two files, of which the second says which plugin.
type scripted struct {
	dir, ran string
	exec     Exec
}

func newScripted(t *testing.T, role string) *scripted {
	t.Helper()
	s := &scripted{dir: t.TempDir()}
	s.ran = filepath.Join(s.dir, "ran")
	s.write(t, "start.sh", fmt.Sprintf("echo ran >> %q\n. %q\nexec \"$plugin\"\n", s.ran, filepath.Join(s.dir, "which.sh")))
	s.write(t, "which.sh", fmt.Sprintf("plugin=%q\n", copyPlugin(t, role)))
	s.exec = Exec{
		Name: "acme", Command: "sh", Args: []string{filepath.Join(s.dir, "start.sh")},
		Files: []checksum.Named{{Name: "start.sh", Path: filepath.Join(s.dir, "start.sh")}, {Name: "which.sh", Path: filepath.Join(s.dir, "which.sh")}},
	}
	s.exec.SHA256 = s.sum(t)
	return s
}

func (s *scripted) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *scripted) sum(t *testing.T) string {
	t.Helper()
	sum, err := checksum.Files(s.exec.Files)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// runs is how often the script was run.
func (s *scripted) runs() int {
	text, _ := os.ReadFile(s.ran)
	return strings.Count(string(text), "ran\n")
}

func (s *scripted) launch(t *testing.T, l *Launcher) (*Process, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	spec := testSpec("")
	spec.Exec = s.exec
	p, err := l.Launch(ctx, spec)
	if p != nil {
		t.Cleanup(func() {
			now, cancel := context.WithCancel(context.Background())
			cancel()
			p.Stop(now, 0)
		})
	}
	return p, err
}

func TestScriptRuns(t *testing.T) {
	l := newLauncher(t)
	s := newScripted(t, "good")
	s.exec.SHA256 = strings.ToUpper(s.exec.SHA256)
	for n := range 2 {
		p, err := s.launch(t, l)
		if err != nil {
			t.Fatal(err)
		}
		startServer(t, p)
		p.Stop(t.Context(), 0)
		if s.runs() != n+1 {
			t.Errorf("after %d starts the script has run %d times", n+1, s.runs())
		}
	}
	spec := testSpec("")
	spec.Exec = s.exec
	if is, err := l.Describe(t.Context(), spec); err != nil || is.Name != "good" {
		t.Errorf("it is %+v, %v", is, err)
	}
}

// The files of a script are read at each start; whichever has changed, nothing of it
// runs, and both checksums are named.
func TestScriptThatHasChangedDoesNotRun(t *testing.T) {
	l := newLauncher(t)
	s := newScripted(t, "good")
	if _, err := s.launch(t, l); err != nil {
		t.Fatal(err)
	}
	before, starts := s.runs(), l.count["files"]
	for _, name := range []string{"start.sh", "which.sh"} {
		text, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		s.write(t, name, string(text)+"#\n")
		_, err = s.launch(t, l)
		if err == nil || !strings.Contains(err.Error(), s.exec.SHA256) || !strings.Contains(err.Error(), s.sum(t)) {
			t.Errorf("%s has changed: %v", name, err)
		}
		s.write(t, name, string(text))
	}
	if err := os.Remove(filepath.Join(s.dir, "which.sh")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.launch(t, l); err == nil || !strings.Contains(err.Error(), "which.sh does not exist") {
		t.Errorf("a file is gone: %v", err)
	}
	if s.runs() != before || l.count["files"] != starts {
		t.Errorf("it has run %d times, %d starts", s.runs()-before, l.count["files"]-starts)
	}
}

// What changes while the script starts was perhaps read, and perhaps not: the plugin
// is not used.
func TestScriptThatChangesWhileItStartsIsNotUsed(t *testing.T) {
	l := newLauncher(t)
	s := newScripted(t, "good")
	s.write(t, "which.sh", fmt.Sprintf("echo \"# $$\" >> %q\nplugin=%q\n", filepath.Join(s.dir, "which.sh"), copyPlugin(t, "good")))
	s.exec.SHA256 = s.sum(t)
	p, err := s.launch(t, l)
	if p != nil || err == nil || !strings.Contains(err.Error(), s.exec.SHA256) || !strings.Contains(err.Error(), s.sum(t)) {
		t.Errorf("%v", err)
	}
	if s.runs() != 1 {
		t.Errorf("it has run %d times", s.runs())
	}
}

func TestScriptsThatCannotBeRun(t *testing.T) {
	l := newLauncher(t)
	for name, c := range map[string]struct {
		change func(*testing.T, *scripted)
		says   []string
	}{
		"no checksum": {func(_ *testing.T, s *scripted) { s.exec.SHA256 = "" }, []string{"start.sh", "which.sh", "no declared sha256; it is "}},
		"no files":    {func(_ *testing.T, s *scripted) { s.exec.Files = nil }, []string{"no declared files"}},
		"no such command": {func(_ *testing.T, s *scripted) { s.exec.Command = "no-such-command" },
			[]string{"no-such-command, which is to run the plugin, is in no folder of PATH: /"}},
		"no command at the path": {func(_ *testing.T, s *scripted) { s.exec.Command = filepath.Join(s.dir, "none") }, []string{"none, which is to run the plugin, does not exist"}},
		"not executable":         {func(_ *testing.T, s *scripted) { s.exec.Command = filepath.Join(s.dir, "start.sh") }, []string{"start.sh, which is to run the plugin, is not executable", "-rw-------"}},
		"it fails": {func(t *testing.T, s *scripted) {
			s.write(t, "which.sh", "echo s3cret-value is wrong >&2; exit 7\n")
			s.exec.SHA256 = s.sum(t)
		}, []string{"the script", "exited with code 7 before its handshake: [redacted] is wrong"}},
		"a folder among the files": {func(_ *testing.T, s *scripted) { s.exec.Files[1].Path = s.dir }, []string{"not a regular file"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t, "good")
			c.change(t, s)
			p, err := s.launch(t, l)
			if p != nil || err == nil {
				t.Fatal("it runs")
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("it does not say %q: %v", part, err)
				}
			}
		})
	}
}

// A plugin that is being asked who it is does not keep others longer than they like.
func TestDescribeWaitsNoLongerThanItsContext(t *testing.T) {
	l := newLauncher(t)
	spec := testSpec("sleeps")
	first, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := l.Describe(first, spec)
		ended <- err
	}()
	value, _ := l.describe.LoadOrStore(spec.Exec.key(), &description{asking: make(chan struct{}, 1)})
	asked, ok := value.(*description)
	if !ok {
		t.Fatalf("%T", value)
	}
	for end := time.Now().Add(limit); len(asked.asking) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the first does not ask")
		}
	}
	second, cancelSecond := context.WithCancel(t.Context())
	cancelSecond()
	if _, err := l.Describe(second, spec); err == nil || !strings.Contains(err.Error(), "took too long") {
		t.Errorf("the second: %v", err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the first was answered")
	}
}
