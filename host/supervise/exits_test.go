//go:build unix

package supervise

import (
	"context"
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A plugin that was started in vain has ended too.
func TestExitOfALaunchInVain(t *testing.T) {
	l := newLauncher(t)
	for role, want := range map[string]Exit{
		"exits":   {Code: 3, Stderr: "reading licence\nError: no licence, said [redacted]"},
		"newer":   {Code: -1, Signal: int(syscall.SIGKILL)}, // we ended it
		"missing": {},
	} {
		spec := testSpec(role)
		if role == "missing" {
			spec.Exec = Exec{Name: "x", Path: "/nowhere", SHA256: "00"}
		}
		_, err := l.Launch(t.Context(), spec)
		var f *Failure
		if !errors.As(err, &f) {
			t.Fatalf("%s: %v", role, err)
		}
		if want == (Exit{}) {
			if f.gone != nil {
				t.Errorf("%s: %+v, and nothing ran", role, f.gone)
			}
			continue
		}
		if f.gone == nil || f.gone.Instance == "" || f.gone.Time.IsZero() {
			t.Fatalf("%s: %+v", role, f.gone)
		}
		if got := (Exit{Code: f.gone.Code, Signal: f.gone.Signal, Stderr: f.gone.Stderr}); got.Code != want.Code ||
			got.Signal != want.Signal || want.Stderr != "" && got.Stderr != want.Stderr {
			t.Errorf("%s: %+v, want %+v", role, got, want)
		}
	}
}

func TestUnitRecordsALaunchInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := NewUnit(spec(), func(context.Context, Spec) (*Process, error) {
			return nil, &Failure{Cause: "no", gone: &Exit{Instance: "h/files/1", Code: 3}}
		}, func(context.Context, *Process) (int, error) { return 0, nil }, nil, nil)
		defer u.Stop(t.Context())
		_, _ = u.Get(t.Context())
		if got := state(t, u, Backoff).Exits; len(got) != 1 || got[0].Code != 3 || got[0].Asked {
			t.Errorf("%+v", got)
		}
	})
}

func TestWhoAProcessIs(t *testing.T) {
	before := time.Now()
	p := launch(t, newLauncher(t), "good")
	if got := int(p.plugin.Load()); runtime.GOOS == "linux" && got != p.tree.PID() {
		t.Errorf("the socket is %d's, the plugin is %d", got, p.tree.PID())
	}
	if p.PID() != p.tree.PID() || p.PID() == os.Getpid() || p.GuardPID() != 0 {
		t.Errorf("plugin %d, guard %d", p.PID(), p.GuardPID())
	}
	if p.Started().Before(before) || p.Started().After(time.Now()) {
		t.Errorf("started %v", p.Started())
	}
	startServer(t, p)
	if st := p.Stop(t.Context(), time.Second); p.exit().Signal != st.Signal || p.exit().Stderr != "bye [redacted]" {
		t.Errorf("%+v", p.exit())
	}
}
