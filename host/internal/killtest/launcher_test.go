//go:build linux

package killtest

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// A launcher starts the real server and does not pass a signal on. When its provider
// is stopped, alone or with the host, launcher, server and plugin are gone, and of
// another provider nothing was touched.
func TestC001_TheLauncherDies(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p place, flags ...string) {
		const allowed = 2 * (500*time.Millisecond + time.Second) // stop_grace and a second; tests twice
		// The background job of a shell has no input, so it gets the shell's as 3.
		script := fmt.Sprintf("trap : TERM; exec 3<&0; %s --ignore-eof --life 5m <&3 & until wait; do :; done", fake())
		text := fmt.Sprintf("host {\n  state_dir = %q\n}\n", p.path("state"))
		text += fmt.Sprintf("provider \"p\" {\n  plugin = \"stdio\"\n  config {\n    command = \"sh\"\n    args = [\"-c\", %q]\n  }\n%s\n}\n", script, restarts)
		text += fmt.Sprintf("provider \"q\" {\n  plugin = \"stdio\"\n  config {\n    command = %q\n    args = [\"--life\", \"5m\"]\n  }\n%s\n}\n", fake(), restarts)
		config := p.path("c.hcl")
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		h := p.serve(t, config, flags...).ready(t, p)
		h.echo(t)
		if r := h.await(t, "q", h.call("q_echo", `{}`)); r.Error != nil {
			t.Fatal(r.Error.Message)
		}
		before, beside := instance(h.id+"/p/1"), instance(h.id+"/q/1")
		if len(before) != 4 || len(beside) != 3 { // guard, plugin and server, and the launcher
			t.Fatalf("%v, and beside it %v", before, beside)
		}
		if out, err := p.command(drawbridge(), "restart", "p", "--config", config).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, e := range before {
			if e.lives() {
				t.Errorf("after a restart there is %v", e)
			}
		}
		for _, e := range beside {
			if !e.lives() {
				t.Errorf("%v of another provider was touched", e)
			}
		}
		h.echo(t)
		if now := instance(h.id + "/p/2"); len(now) != 4 {
			t.Errorf("anew there is %v", now)
		}
		began := time.Now()
		h.stop(t)
		if took := time.Since(began); took > allowed {
			t.Errorf("the stop took %v", took)
		}
		if left := twice(h.id); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}
